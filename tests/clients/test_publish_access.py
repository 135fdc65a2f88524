"""Microsoft's clients publish and manage with keys, SAS tokens and, over TLS, bearer tokens of our own issuer."""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.parse import urlencode

import pytest
from azure.core.credentials import AzureKeyCredential, AzureSasCredential
from azure.core.exceptions import ClientAuthenticationError, HttpResponseError
from azure.eventgrid import EventGridEvent, EventGridPublisherClient, generate_sas
from azure.identity import ClientSecretCredential
from azure.mgmt.eventgrid import EventGridManagementClient

from recapito.domain.access.roles import hash_secret
from recapito.identity import certificate
from recapito.identity.server_identity import Development
from tests.system.machine import GROUP, VERSION, Server, events, server

SUBSCRIPTION = "00000000-0000-0000-0000-000000000000"
PRINCIPALS = [
    {"client_id": "reader", "secret": "a-secret-of-the-reader", "roles": ["Reader"]},
    {"client_id": "sender", "secret_sha256": hash_secret("a-secret-of-the-sender"), "roles": ["EventGrid Data Sender"]},
]


def event(id: str = "one") -> EventGridEvent:
    return EventGridEvent(subject="s", event_type="T", data={}, data_version="1", id=id)


def endpoint(recapito: Server) -> str:
    return f"{recapito.url}/topics/demo/api/events"


def development(recapito: Server) -> Development:
    """The principal that the server prints at start; it is read where it is kept."""
    return Development(**json.loads((recapito.data / "identity" / "development.json").read_bytes()))


def credential(recapito: Server, secret: str | None = None) -> ClientSecretCredential:
    """azure-identity, pointed at our issuer."""
    who = development(recapito)
    return ClientSecretCredential(
        who.tenant,
        who.client_id,
        secret or who.client_secret,
        authority=recapito.url,
        disable_instance_discovery=True,
    )


def check_journal(recapito: Server, *secrets: str) -> None:
    """No line of the journal has one of these in it."""
    text = "".join(recapito.journal)
    assert not [secret for secret in secrets if secret in text]


def test_keys_and_sas_tokens(tmp_path: Path) -> None:
    """The SDK publishes with a key and with the tokens it makes, for our endpoint and for Event Grid's host name."""
    with server(tmp_path, "--memory") as recapito:
        url, later = endpoint(recapito), datetime.now(UTC) + timedelta(hours=1)
        naive = later.replace(tzinfo=None)
        tokens = [
            generate_sas(url, recapito.key, later),
            generate_sas(url, recapito.key, naive),
            generate_sas("https://demo.local-1.eventgrid.azure.net/api/events", recapito.key, later),
        ]
        for known in (AzureKeyCredential(recapito.key), *map(AzureSasCredential, tokens)):
            with EventGridPublisherClient(url, known) as client:
                client.send(event())
                client.send([event(str(n)) for n in range(10)])
        for wrong in (
            generate_sas(url, recapito.key, datetime.now(UTC) - timedelta(seconds=5)),
            generate_sas(url.replace("demo", "other"), recapito.key, later),
            tokens[0][:-4] + ("E%3D" if tokens[0][-4] == "A" else "A%3D"),
        ):
            with (
                EventGridPublisherClient(url, AzureSasCredential(wrong)) as client,
                pytest.raises(ClientAuthenticationError),
            ):
                client.send(event())
        check_journal(recapito, recapito.key, *tokens)


def test_a_regenerated_key_cuts_off_the_sdk(tmp_path: Path) -> None:
    """A client whose SAS token was just accepted is refused after the key was regenerated."""
    with server(tmp_path, "--memory") as recapito:
        token = generate_sas(endpoint(recapito), recapito.key, datetime.now(UTC) + timedelta(hours=1))
        with EventGridPublisherClient(endpoint(recapito), AzureSasCredential(token)) as client:
            client.send(event())
            recapito.call("POST", f"{GROUP}/topics/demo/regenerateKey?{VERSION}", {"keyName": "key1"})
            with pytest.raises(ClientAuthenticationError):
                client.send(event())


def test_too_fast_is_told_to_wait(tmp_path: Path) -> None:
    """The SDK sees 429, and comes through when the time that it is told has passed."""
    slow = {"RECAPITO_PUBLISH_EVENTS_PER_SECOND": "5"}
    with (
        server(tmp_path, "--memory", "--clock", "manual", environment=slow) as recapito,
        EventGridPublisherClient(endpoint(recapito), AzureKeyCredential(recapito.key), retry_total=0) as client,
    ):
        client.send([event(str(n)) for n in range(10)])
        with pytest.raises(HttpResponseError) as refused:
            client.send(event())
        assert refused.value.status_code == 429
        assert refused.value.response is not None
        wait = int(refused.value.response.headers["Retry-After"])
        recapito.call("POST", "/clock/advance", {"seconds": wait})
        client.send(event())


@pytest.fixture
def trusting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The one variable that `recapito tls` prints for the Azure SDKs."""
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(tmp_path / "tls" / "bundle.pem"))


@pytest.mark.usefixtures("trusting")
def test_bearer_tokens_over_tls(tmp_path: Path) -> None:
    """azure-identity gets a token of the development principal; with it the SDKs publish and manage, and no secret
    is in the journal.
    """
    with server(tmp_path, "--tls") as recapito:
        assert recapito.url == f"https://localhost:{recapito.port}"
        known = credential(recapito)
        with EventGridPublisherClient(endpoint(recapito), known) as client:
            for n in range(3):
                client.send(event(str(n)))
        with EventGridPublisherClient(endpoint(recapito), AzureKeyCredential(recapito.key)) as client:
            client.send(event("by key"))
        with EventGridManagementClient(
            known,
            SUBSCRIPTION,
            base_url=recapito.url,
            credential_scopes=[f"{recapito.url}/.default"],
        ) as manager:
            assert [topic.name for topic in manager.topics.list_by_subscription()] == ["demo"]
        with (
            EventGridPublisherClient(endpoint(recapito), credential(recapito, "x")) as client,
            pytest.raises(ClientAuthenticationError, match="AADSTS7000215"),
        ):
            client.send(event())
        token = known.get_token("https://eventgrid.azure.net/.default").token
        check_journal(recapito, recapito.key, token, development(recapito).client_secret)


@pytest.mark.usefixtures("trusting")
def test_a_token_of_before_a_restart_is_good(tmp_path: Path) -> None:
    """The signing key, the certificate and the principal survive the server."""
    with server(tmp_path, "--tls") as recapito:
        port, who = recapito.port, development(recapito)
        token = credential(recapito).get_token("https://management.azure.com/.default").token
    with server(tmp_path, "--tls", port=port) as recapito:
        assert development(recapito) == who
        path = f"{GROUP}/topics/demo?{VERSION}"
        assert recapito.request("GET", path, Authorization=f"Bearer {token}")[0] == 200
        assert recapito.request("GET", path, Authorization=f"Bearer {token}x")[0] == 401


def test_a_certificate_of_ones_own(tmp_path: Path) -> None:
    """The files that were given are served, and files that do not fit stop the start with their name."""
    ours = certificate.prepare(tmp_path / "data" / "tls", ["localhost", "127.0.0.1"], datetime.now(UTC))
    other = certificate.prepare(tmp_path / "other", ["localhost"], datetime.now(UTC))
    with server(
        tmp_path / "data", "--tls-cert", str(ours.certificate), "--tls-key", str(ours.key), "--memory"
    ) as recapito:
        assert recapito.url.startswith("https://localhost:")
        assert recapito.publish("one") == 200
    flags = f"--port 0 --data {tmp_path / 'data'} --tls-cert {ours.certificate} --tls-key {other.key}".split()
    refused = subprocess.run(
        [sys.executable, "-m", "recapito", "serve", "--memory", *flags],
        capture_output=True,
        text=True,
        timeout=30,
    )
    assert refused.returncode == 78
    assert "is not the key of the certificate" in refused.stderr and "Traceback" not in refused.stderr


def token_of(recapito: Server, tenant: str, client: str, secret: str, resource: str) -> str:
    """A token, as any OAuth client gets it."""
    form = {"grant_type": "client_credentials", "client_id": client, "client_secret": secret, "resource": resource}
    kind = "application/x-www-form-urlencoded"
    status, body = recapito.request("POST", f"/{tenant}/oauth2/token", urlencode(form).encode(), Content_Type=kind)
    assert status == 200, body
    found: str = json.loads(body)["access_token"]
    return found


@contextmanager
def open_server(data: Path) -> Iterator[Server]:
    """A server that other machines can reach, with principals of its settings."""
    environment = {
        "RECAPITO_IDENTITY_TENANT": "contoso",
        "RECAPITO_IDENTITY_PRINCIPALS": json.dumps(PRINCIPALS),
    }
    with server(data, "--host", "0.0.0.0", "--tls", environment=environment) as recapito:
        yield recapito


def test_off_loopback_management_needs_a_token(tmp_path: Path) -> None:
    """A server that others can reach has no development principal, and demands a token for management."""
    with open_server(tmp_path) as recapito:
        topic = f"{GROUP}/topics/demo?{VERSION}"
        assert recapito.request("GET", topic)[0] == 401
        assert recapito.request("GET", "/clock")[0] == 401
        assert recapito.request("GET", "/metrics")[0] == 401
        assert recapito.request("GET", "/readyz")[0] == 200
        management = "https://management.azure.com/"
        reader = token_of(recapito, "contoso", "reader", "a-secret-of-the-reader", management)
        assert recapito.request("GET", topic, Authorization=f"Bearer {reader}")[0] == 200
        assert recapito.request("PUT", topic, b"{}", Authorization=f"Bearer {reader}")[0] == 403
        data = "https://eventgrid.azure.net"
        sender = token_of(recapito, "contoso", "sender", "a-secret-of-the-sender", data)
        path = "/topics/demo/api/events"
        for _ in range(3):
            assert recapito.request("POST", path, events("one"), Authorization=f"Bearer {sender}")[0] == 200
            assert recapito.request("POST", path, events("one"), Authorization=f"Bearer {reader}")[0] == 401
        made = development(recapito)
        refused = {"grant_type": "client_credentials", "client_id": made.client_id, "resource": data}
        refused["client_secret"] = made.client_secret
        assert recapito.request("POST", "/contoso/oauth2/token", urlencode(refused).encode())[0] == 401
        check_journal(recapito, "a-secret-of", reader, sender)


def test_another_issuer(tmp_path: Path) -> None:
    """One server believes the tokens that another issues: its keys are fetched, its roles are mapped."""
    with server(tmp_path / "issuer") as issuer:
        who = development(issuer)
        settings = {
            "RECAPITO_IDENTITY_ISSUER": f"{issuer.url}/{who.tenant}/v2.0",
            "RECAPITO_IDENTITY_AUDIENCE": "https://eventgrid.azure.net",
            "RECAPITO_IDENTITY_ROLE_NAMES": json.dumps({"Contributor": "Reader"}),
        }
        token = token_of(issuer, who.tenant, who.client_id, who.client_secret, "https://eventgrid.azure.net")
        with server(tmp_path / "data", environment=settings) as recapito:
            topic, headers = f"{GROUP}/topics/demo?{VERSION}", {"Authorization": f"Bearer {token}"}
            assert recapito.request("GET", topic, **headers)[0] == 200
            assert recapito.request("PUT", topic, b"{}", **headers)[0] == 403
            assert recapito.request("POST", "/topics/demo/api/events", events("one"), **headers)[0] == 200
            own = token_of(issuer, who.tenant, who.client_id, who.client_secret, "https://management.azure.com")
            assert recapito.request("GET", topic, Authorization=f"Bearer {own}")[0] == 401
            assert recapito.request("POST", f"/{who.tenant}/oauth2/token", b"")[0] == 404


@pytest.mark.usefixtures("trusting")
def test_a_moved_clock_ends_no_clients_token(tmp_path: Path) -> None:
    """Clients keep a token for an hour of their own time; moving a manual clock by days does not end it."""
    with (
        server(tmp_path, "--tls", "--clock", "manual") as recapito,
        EventGridPublisherClient(endpoint(recapito), credential(recapito)) as client,
    ):
        client.send(event("before"))
        recapito.call("POST", "/clock/advance", {"seconds": 3 * 86_400})
        client.send(event("after"))


def test_in_memory_no_identity_is_kept(tmp_path: Path) -> None:
    """With --memory nothing of the identity is written."""
    with server(tmp_path, "--memory") as recapito:
        assert recapito.request("GET", "/common/discovery/keys")[0] == 200
    assert not (tmp_path / "identity").exists()
