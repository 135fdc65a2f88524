"""A connection by the server's own identity, on a real Azurite that checks tokens, over TLS."""

import asyncio
import datetime
import time
from collections.abc import Iterator
from ipaddress import ip_address
from pathlib import Path

import jwt
import pytest
from azure.core.credentials import AccessToken
from azure.identity import CredentialUnavailableError
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from recapito.azure.access import AzureAccess
from recapito.azure.storage_clients import StorageClients
from recapito.contracts.vault import VaultUnavailable
from recapito.domain.access.egress import Egress
from recapito.domain.connections.connection import STORAGE_SERVICES
from recapito.domain.connections.parse_storage import from_default_credential
from recapito.domain.delivery.outcome import Outcome, Result, answered
from recapito.senders.storage_queue import StorageQueueSender
from recapito.vaults.blob import BlobVault
from tests.azurite.place import ACCOUNT, known, new_container, new_queue
from tests.azurite.server import Azurite, running
from tests.senders.receiver import batch, names

pytestmark = pytest.mark.xdist_group("azurite")
TENANT = "https://sts.windows.net/ab1f708d-50f6-404c-a006-d71b2ac7a606/"


class Identity:
    """A credential as azure-identity's are: tokens of an issuer, or none to be had."""

    def __init__(self, issuer: str | None) -> None:
        self._issuer = issuer
        self.scopes: list[str] = []
        self.closed = False

    async def get_token(self, *scopes: str, **options: object) -> AccessToken:
        self.scopes += scopes
        if self._issuer is None:
            raise CredentialUnavailableError("there is nobody here")
        now = int(time.time())
        claims = {"aud": "https://storage.azure.com", "iss": self._issuer, "iat": now, "nbf": now - 9, "exp": now + 999}
        return AccessToken(jwt.encode(claims, "any key will do for the emulator", "HS256"), now + 999)

    async def close(self) -> None:
        self.closed = True

    async def __aenter__(self) -> "Identity":
        return self

    async def __aexit__(self, *raised: object) -> None:
        await self.close()


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    """The files of a certificate for this machine, and of its key."""
    directory: Path = tmp_path_factory.mktemp("tls")
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "azurite")])
    now = datetime.datetime.now(datetime.UTC)
    made = (
        x509.CertificateBuilder(name, name, key.public_key(), 1, now, now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    encoding = serialization.Encoding.PEM
    (directory / "cert.pem").write_bytes(made.public_bytes(encoding))
    plain = serialization.NoEncryption()
    (directory / "key.pem").write_bytes(key.private_bytes(encoding, serialization.PrivateFormat.PKCS8, plain))
    return str(directory / "cert.pem"), str(directory / "key.pem")


@pytest.fixture(scope="module")
def guarded(certificate: tuple[str, str]) -> Iterator[Azurite]:
    """An Azurite that speaks TLS and takes tokens."""
    with running(None, "--oauth", "basic", "--cert", certificate[0], "--key", certificate[1]) as it:
        yield it


def reaching(azurite: Azurite, identity: Identity, ca_file: str | None) -> StorageClients:
    """A way by this identity; its authority is trusted by the file alone."""
    connection = from_default_credential(ACCOUNT, {service: azurite.url(service) for service in STORAGE_SERVICES})
    return StorageClients(AzureAccess(known(connection), names(), Egress.LOCAL, ca_file, credential=lambda: identity))


async def sent(reach: StorageClients, azurite: Azurite, trusted: str) -> Outcome:
    """The answer to a message to a new queue."""
    queue = await asyncio.to_thread(new_queue, azurite, 60, connection_verify=trusted)
    sender = StorageQueueSender(reach)
    told: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
    sender.send(queue, batch(), told.set_result)
    outcome = await told
    await sender.close()
    return outcome


def test_an_identity_is_enough(guarded: Azurite, certificate: tuple[str, str]) -> None:
    """Blobs and messages are written with a token for storage; the credential is made once, and closed."""
    identity = Identity(TENANT)

    async def main() -> None:
        reach = reaching(guarded, identity, certificate[0])
        container = await asyncio.to_thread(new_container, guarded, connection_verify=certificate[0])
        await BlobVault(reach).write(container, "a.json", b"[]")
        assert await sent(reach, guarded, certificate[0]) == answered(200)
        await reach.close()

    asyncio.run(main())
    assert set(identity.scopes) == {"https://storage.azure.com/.default"}
    assert identity.closed


@pytest.mark.parametrize(("issuer", "why"), [("https://else.where/", "key or signature"), (None, "no identity")])
def test_an_identity_that_is_not_accepted(
    guarded: Azurite, certificate: tuple[str, str], issuer: str | None, why: str
) -> None:
    """A token that the service refuses, or an identity that is not there, is Unauthorized with its remedy."""

    async def main() -> Outcome:
        reach = reaching(guarded, Identity(issuer), certificate[0])
        outcome = await sent(reach, guarded, certificate[0])
        await reach.close()
        return outcome

    outcome = asyncio.run(main())
    assert (outcome.result, outcome.status) == (Result.UNAUTHORIZED, 401)
    assert why in outcome.detail and f"recapito connection set {ACCOUNT}" in outcome.detail


def test_a_certificate_that_is_not_trusted(guarded: Azurite, certificate: tuple[str, str]) -> None:
    """Without its authority in the file of those that are trusted, nothing is sent, no token either."""
    identity = Identity(TENANT)

    async def main() -> None:
        reach = reaching(guarded, identity, None)
        container = await asyncio.to_thread(new_container, guarded, connection_verify=certificate[0])
        with pytest.raises(VaultUnavailable, match="certificate"):
            await BlobVault(reach).write(container, "a.json", b"[]")
        await reach.close()

    asyncio.run(main())
