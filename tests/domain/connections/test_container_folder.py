"""Folders of blob containers by their URLs, and the connection to each."""

import pytest

from recapito.domain.connections.connection import AccountKey, Connection, DefaultCredential, SharedAccess
from recapito.domain.connections.container_folder import ContainerFolder, connection_to, parse_container_folder
from recapito.domain.connections.parse_storage import AZURITE_KEY, from_connection_string
from recapito.domain.resources.resource_id import container_id
from recapito.errors import InvalidInput

KEY = "bm90IGEgcmVhbCBrZXk="
CLOUD = "https://safe.blob.core.windows.net"
AZURITE = "http://127.0.0.1:10000/devstoreaccount1"
ACCOUNT = "/subscriptions/s-1/resourceGroups/shop/providers/Microsoft.Storage/storageAccounts/safe"


@pytest.mark.parametrize(
    ("url", "folder"),
    [
        (f"{CLOUD}/backups", ContainerFolder(CLOUD, "safe", "backups")),
        (f"{CLOUD}/backups/a/b/", ContainerFolder(CLOUD, "safe", "backups", "a/b")),
        (f"{CLOUD}/backups/to%20day", ContainerFolder(CLOUD, "safe", "backups", "to day")),
        (f"{AZURITE}/backups/today", ContainerFolder(AZURITE, "devstoreaccount1", "backups", "today")),
        (
            f"{CLOUD}/backups/today?sp=cwl&sig=hidden",
            ContainerFolder(CLOUD, "safe", "backups", "today", SharedAccess("sp=cwl&sig=hidden")),
        ),
    ],
)
def test_a_url_names_a_folder(url: str, folder: ContainerFolder) -> None:
    """The account stands in the host or first in the path; a signature is kept apart and never shown."""
    parsed = parse_container_folder(url)
    assert parsed == folder
    assert "hidden" not in parsed.url + repr(parsed)
    assert parsed.path_of("log.db") == (f"{folder.name}/log.db" if folder.name else "log.db")


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("ftp://safe/backups", "must start with http"),
        (f"{CLOUD}?sig=hidden", "must be https://ACCOUNT"),
        (AZURITE, "must be https://ACCOUNT"),
        ("https://safe.queue.core.windows.net/backups", "must be https://ACCOUNT"),
        (f"{CLOUD}/Backups", "'Backups' in the place of the container"),
        (f"{CLOUD}/b", "'b' in the place of the container"),
        (f"{CLOUD}/backups/../other", "a folder that cannot be one"),
        (f"{CLOUD}/backups/a%2Fb", "a folder that cannot be one"),
        (f"{CLOUD}/backups?sp=hidden", "has no 'sig'"),
        ("https://me:hidden@safe.blob.core.windows.net/backups", "user name or a password"),
    ],
)
def test_any_other_url_is_refused(url: str, why: str) -> None:
    """The refusal has the right form, and no part of a secret."""
    with pytest.raises(InvalidInput, match=why) as caught:
        parse_container_folder(url)
    assert "hidden" not in caught.value.message


def test_the_nearest_credential_is_used() -> None:
    """A signature in the URL, then the container's connection, then its account's, then one's own identity."""
    whole = from_connection_string(ACCOUNT, f"AccountName=safe;AccountKey={KEY}")
    signed = f"BlobEndpoint={CLOUD};SharedAccessSignature=sig=part"
    part = from_connection_string(container_id(ACCOUNT, "backups"), signed)
    elsewhere = from_connection_string(container_id(ACCOUNT, "other"), signed)
    queues = from_connection_string(ACCOUNT, f"AccountName=safe;AccountKey={KEY};QueueEndpoint={CLOUD}")

    def credential(url: str, *known: Connection) -> object:
        found = connection_to(parse_container_folder(url), known)
        assert list(found.endpoints) == ["blob"]
        return found.credential

    plain = f"{CLOUD}/backups/today"
    assert credential(f"{plain}?sig=own", part, whole) == SharedAccess("sig=own")
    assert credential(plain, part, whole) == credential(plain, whole, part) == SharedAccess("sig=part")
    assert credential(plain, elsewhere, queues, whole) == AccountKey("safe", KEY)
    assert credential(plain, elsewhere, queues) == DefaultCredential()
    assert credential(f"{AZURITE}/backups", whole) == AccountKey("devstoreaccount1", AZURITE_KEY)
    with pytest.raises(InvalidInput, match=r"no key to http://10\.0\.0\.5:10000/safe/backups"):
        credential("http://10.0.0.5:10000/safe/backups", whole)
