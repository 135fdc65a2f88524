"""Connections: every form of them, what is wrong with a wrong one, and that their secrets do not show."""

from collections.abc import Callable
from functools import partial

import msgspec
import pytest
from rich.pretty import pretty_repr

from recapito.domain.connections.connection import (
    AccountKey,
    AzureService,
    Connection,
    DefaultCredential,
    SharedAccess,
    check_unexpired,
)
from recapito.domain.connections.parse_storage import (
    AZURITE_ACCOUNT,
    azurite,
    from_connection_string,
    from_default_credential,
    from_sas_url,
)
from recapito.domain.instant import SECOND
from recapito.domain.resources.resource_id import container_id, queue_id
from recapito.errors import InvalidInput

ACCOUNT = "/subscriptions/s/resourceGroups/g/providers/Microsoft.Storage/storageAccounts/orders1"
DEAD, WORK = container_id(ACCOUNT, "dead"), queue_id(ACCOUNT, "todo")
CANARY = "Y2FuYXJ5Y2FuYXJ5"  # base64, so that it may stand for a key
SAS = f"sv=2024-11-04&ss=bq&srt=sco&sp=rwac&se=2030-01-31T12%3A00%3A00Z&sig={CANARY}%3D"
IN_2030 = 1_896_091_200 * SECOND
BLOB, QUEUE = AzureService.BLOB, AzureService.QUEUE
CLOUD = {BLOB: "https://orders1.blob.core.windows.net", QUEUE: "https://orders1.queue.core.windows.net"}
LOCAL = {BLOB: "http://127.0.0.1:10000/devstoreaccount1", QUEUE: "http://127.0.0.1:10001/devstoreaccount1"}


STRINGS = {
    f"DefaultEndpointsProtocol=https;AccountName=orders1;AccountKey={CANARY};EndpointSuffix=core.windows.net": CLOUD,
    f" accountname=orders1 ; AccountKey={CANARY} ;": CLOUD,
    f"AccountName=orders1;AccountKey={CANARY};EndpointSuffix=core.chinacloudapi.cn": {
        BLOB: "https://orders1.blob.core.chinacloudapi.cn",
        QUEUE: "https://orders1.queue.core.chinacloudapi.cn",
    },
    f"AccountName=other;AccountKey={CANARY};BlobEndpoint=http://azurite:10000/other": {
        BLOB: "http://azurite:10000/other"
    },
    f"QueueEndpoint=https://[::1]:9001;SharedAccessSignature={SAS}": {QUEUE: "https://[::1]:9001"},
    f"BlobEndpoint=https://orders1.blob.core.windows.net/;SharedAccessSignature=?{SAS}": {BLOB: CLOUD[BLOB]},
}


@pytest.mark.parametrize(("text", "endpoints"), STRINGS.items())
def test_connection_strings(text: str, endpoints: dict[AzureService, str]) -> None:
    """A storage account's connection string, in every order and spelling that Azure's own clients take."""
    connection = from_connection_string(ACCOUNT, text)
    assert connection.endpoints == endpoints
    assert connection.credential in (
        AccountKey("orders1", CANARY),
        AccountKey("other", CANARY),
        SharedAccess(SAS),
    )


@pytest.mark.parametrize(
    ("resource_id", "url", "endpoints"),
    [
        (ACCOUNT, f"https://orders1.blob.core.windows.net/?{SAS}", CLOUD),
        (ACCOUNT, f"https://orders1.queue.core.windows.net?{SAS.replace('ss=bq', 'ss=q')}", {QUEUE: CLOUD[QUEUE]}),
        (DEAD, f"https://orders1.blob.core.windows.net/dead?sr=c&sig={CANARY}", {BLOB: CLOUD[BLOB]}),
        (DEAD, f"https://orders1.blob.core.windows.net?{SAS}", {BLOB: CLOUD[BLOB]}),
        (WORK, f"http://127.0.0.1:10001/devstoreaccount1/todo?sig={CANARY}", {QUEUE: LOCAL[QUEUE]}),
        (ACCOUNT, f"{LOCAL[QUEUE]}?{SAS.replace('ss=bq', 'ss=q')}", {QUEUE: LOCAL[QUEUE]}),
    ],
)
def test_sas_urls(resource_id: str, url: str, endpoints: dict[AzureService, str]) -> None:
    """A SAS URL of an account, a container or a queue, in the cloud and on an emulator."""
    connection = from_sas_url(resource_id, url)
    assert connection.resource_id == resource_id
    assert connection.endpoints == endpoints
    assert isinstance(connection.credential, SharedAccess)


def test_the_default_credential() -> None:
    """Who has an identity needs no secret, only an endpoint, which must be https."""
    assert from_default_credential(ACCOUNT.upper()).endpoints == CLOUD
    own = from_default_credential(ACCOUNT, {BLOB: "https://blobs.example:8443/"})
    assert own.endpoints == {BLOB: "https://blobs.example:8443"}
    assert own.credential == DefaultCredential()
    with pytest.raises(InvalidInput, match="https://"):
        from_default_credential(ACCOUNT, {BLOB: "http://127.0.0.1:10000/a"})


def test_azurite() -> None:
    """One word connects any account to the Azurite of this machine; the connection string's word for it does too."""
    connection = azurite(ACCOUNT)
    assert connection.endpoints == LOCAL
    assert connection.kind == "account key"
    assert from_connection_string(ACCOUNT, "UseDevelopmentStorage=true") == connection
    assert AZURITE_ACCOUNT in connection.endpoints[BLOB]


WRONG_STRINGS = {
    "": "neither AccountName",
    "orders1": "Name=Value",
    f"Endpoint=sb://x/;SharedAccessKeyName=a;SharedAccessKey={CANARY}": "not that of a storage account",
    f"AccountName=orders1;AccountName=orders1;AccountKey={CANARY}": "AccountName twice",
    "AccountName=orders1": "either AccountKey or SharedAccessSignature",
    f"AccountName=orders1;AccountKey={CANARY};SharedAccessSignature={SAS}": "either AccountKey or",
    f"AccountName=orders1;AccountKey={CANARY}!": "not base64",
    f"AccountName=orders2;AccountKey={CANARY}": "to the account 'orders2', not to 'orders1'",
    f"AccountName=Orders_1;AccountKey={CANARY}": "3 to 24 lower-case",
    f"BlobEndpoint=https://x;AccountKey={CANARY}": "no AccountName",
    f"AccountName=orders1;AccountKey={CANARY};BlobEndpoint=ftp://x": "BlobEndpoint must start with http",
    f"AccountName=orders1;AccountKey={CANARY};QueueEndpoint=https://x/a/b": "QueueEndpoint must be a URL without",
    f"AccountName=orders1;AccountKey={CANARY};BlobEndpoint=https://x/?{SAS}": "BlobEndpoint must be a URL without",
    f"AccountName=orders1;AccountKey={CANARY};DefaultEndpointsProtocol=gopher": "must start with http",
    f"BlobEndpoint=https://x;SharedAccessSignature=sv=1&se={CANARY}": "no 'sig'",
    f"BlobEndpoint=https://x;SharedAccessSignature=sig={CANARY}&se=soon": "'se', is not a time",
    f"AccountName=orders1;AccountKey={CANARY * 1000}": "longer than 4096",
}


@pytest.mark.parametrize(("text", "why"), WRONG_STRINGS.items(), ids=WRONG_STRINGS.values())
def test_wrong_connection_strings(text: str, why: str) -> None:
    """A wrong connection string is refused with what is wrong in it, and without its secret."""
    with pytest.raises(InvalidInput, match=why) as caught:
        from_connection_string(ACCOUNT, text)
    assert CANARY not in caught.value.message and caught.value.target == "connection"


@pytest.mark.parametrize(
    ("resource_id", "url", "why"),
    [
        (ACCOUNT, "https://orders1.blob.core.windows.net/", "no 'sig'"),
        (ACCOUNT, f"orders1?sig={CANARY}", "The SAS URL must start with http"),
        (ACCOUNT, f"https://orders2.blob.core.windows.net/?{SAS}", "'orders2', not to 'orders1'"),
        (ACCOUNT, f"https://orders1.blob.core.windows.net/dead?{SAS}", "is for 'dead' only"),
        (DEAD, f"https://orders1.blob.core.windows.net/alive?{SAS}", "not that of 'dead'"),
        (DEAD, f"https://orders1.blob.core.windows.net/dead/a.json?{SAS}", "not that of 'dead'"),
        (ACCOUNT, f"http://127.0.0.1:10000/devstoreaccount1?{SAS}", "does not tell its service"),
        (ACCOUNT, f"https://user:{CANARY}@orders1.blob.core.windows.net/?{SAS}", "user name"),
    ],
)
def test_wrong_sas_urls(resource_id: str, url: str, why: str) -> None:
    """A wrong SAS URL is refused with what is wrong in it, and without its secret."""
    with pytest.raises(InvalidInput, match=why) as caught:
        from_sas_url(resource_id, url)
    assert CANARY not in caught.value.message


GROUP = "/subscriptions/s/resourceGroups/g/providers"
BUS, APP = f"{GROUP}/Microsoft.ServiceBus/namespaces/bus", f"{GROUP}/Microsoft.Web/sites/app"
RELAY = f"{GROUP}/Microsoft.Relay/namespaces/relay"


@pytest.mark.parametrize(
    ("make", "id", "says"),
    [
        (azurite, f"{GROUP}/Microsoft.Sql/servers/a", "/a cannot be connected. Connections exist for storage accounts"),
        (azurite, f"{ACCOUNT}/blobServices/default", "/default cannot be connected. Connections exist for storage"),
        (
            azurite,
            BUS,
            f"An Azurite connects storage accounts, .*: recapito connection set {BUS} --connection-string -",
        ),
        (from_default_credential, RELAY, f"A default credential connects .*set {RELAY} --connection-string -"),
        (from_default_credential, f"{APP}/functions/OnOrder", f"A default credential .*set {APP} --host-url -"),
        (partial(from_sas_url, url="x"), BUS, f"A SAS URL connects .* and {BUS} is none of these"),
        (partial(from_connection_string, text="x"), APP, f"A connection string connects .*set {APP} --host-url -"),
    ],
)
def test_the_wrong_way(make: Callable[[str], Connection], id: str, says: str) -> None:
    """The error has the command that connects a resource of another kind, or the kinds that can be connected."""
    with pytest.raises(InvalidInput, match=says) as caught:
        make(id)
    assert caught.value.target == "resourceId"


def test_an_ended_signature() -> None:
    """A signature that has ended is refused, with its end and a word about clocks; another is not."""
    connection = from_sas_url(ACCOUNT, f"https://orders1.blob.core.windows.net/?{SAS}")
    assert connection.expires_at == IN_2030
    check_unexpired(connection, IN_2030 - 1)
    with pytest.raises(InvalidInput, match=r"2030-01-31T12:00:00.*clock"):
        check_unexpired(connection, IN_2030)
    check_unexpired(azurite(ACCOUNT), IN_2030)


@pytest.mark.parametrize(
    "connection",
    [
        from_connection_string(ACCOUNT, f"AccountName=orders1;AccountKey={CANARY}"),
        from_sas_url(ACCOUNT, f"https://orders1.blob.core.windows.net/?{SAS}"),
    ],
)
def test_secrets_do_not_show(connection: Connection) -> None:
    """Neither a repr nor a pretty traceback shows a secret; what is stored comes back whole."""
    for shown in (repr(connection), pretty_repr(connection), repr(connection.credential), pretty_repr([connection])):
        assert CANARY not in shown
    assert pretty_repr(connection.credential).count(CANARY) == 0
    assert msgspec.json.decode(msgspec.json.encode(connection), type=Connection) == connection
