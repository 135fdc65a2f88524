"""The keyring: connections are kept sealed, found without regard to case, and never shown again."""

import asyncio
import stat
from pathlib import Path

import pytest

from recapito.connections.encryption import KEY_BYTES, SecretBox
from recapito.connections.keyring import KIND, Keyring
from recapito.domain.connections.connection import Connection
from recapito.domain.connections.parse_storage import azurite, from_connection_string, from_sas_url
from recapito.domain.resources.resource_id import container_id, queue_id
from recapito.errors import InvalidInput, NotFound, SettingsError
from recapito.stores.memory import MemoryDisk, MemoryLog
from recapito.stores.sqlite import SqliteLog

ACCOUNT = "/subscriptions/s/resourceGroups/g/providers/Microsoft.Storage/storageAccounts/orders1"
DEAD = container_id(ACCOUNT, "dead")
CANARY = "Y2FuYXJ5Y2FuYXJ5"
SAS = from_sas_url(DEAD, f"https://orders1.blob.core.windows.net/dead?sig={CANARY}&se=2030-01-31")
KEY = from_connection_string(ACCOUNT, f"AccountName=orders1;AccountKey={CANARY}")
KEY_FILE = "connection.key"
NOW = 1_800_000_000_000_000_000


def keyring(secret_box: SecretBox | None = None) -> Keyring:
    """An empty keyring in memory."""
    return Keyring(MemoryLog(MemoryDisk()), secret_box or SecretBox.in_memory())


async def filled(ring: Keyring, *connections: Connection) -> Keyring:
    for connection in connections:
        await ring.set(connection, NOW)
    return ring


def test_what_was_set_is_found() -> None:
    """A connection is found by its resource id, however that is spelt; setting it again replaces it."""

    async def main() -> None:
        ring = await filled(keyring(), azurite(ACCOUNT), KEY)
        assert await ring.get(ACCOUNT.upper()) == KEY
        assert await ring.get(DEAD) is None

    asyncio.run(main())


def test_a_part_has_its_own_or_its_accounts() -> None:
    """A container is reached by a connection of its own, if it has one, else by its account's."""

    async def main() -> None:
        ring = await filled(keyring(), KEY, SAS)
        assert await ring.find(DEAD) == SAS
        assert await ring.find(container_id(ACCOUNT, "other")) == await ring.find(queue_id(ACCOUNT, "dead")) == KEY
        assert await ring.find(ACCOUNT.replace("orders1", "orders2")) is None

    asyncio.run(main())


def test_the_list_has_no_secrets() -> None:
    """A list shows where each connection leads, by what and until when; what was removed is not in it."""

    async def main() -> None:
        ring = await filled(keyring(), KEY, SAS)
        listed = await ring.list()
        assert [(one.resource_id, one.kind, one.problem) for one in listed] == [
            (ACCOUNT, "account key", None),
            (DEAD, "shared access signature", None),
        ]
        assert listed[1].expires_at == SAS.expires_at
        assert CANARY not in repr(listed)
        await ring.remove(ACCOUNT.upper())
        assert [one.resource_id for one in await ring.list()] == [DEAD]
        with pytest.raises(NotFound, match="orders1"):
            await ring.remove(ACCOUNT)

    asyncio.run(main())


def test_an_ended_connection_is_refused() -> None:
    """A connection that has ended already is not kept."""

    async def main() -> None:
        ring = keyring()
        with pytest.raises(InvalidInput, match="ended"):
            await ring.set(SAS, NOW * 2)
        assert await ring.list() == []

    asyncio.run(main())


def test_no_secret_on_the_disk(tmp_path: Path) -> None:
    """The secret is in no file of the data directory; the key is in a file that only its owner can read."""

    async def main() -> None:
        log = SqliteLog.open(tmp_path, threaded=False)
        await filled(Keyring(log, SecretBox.in_file(tmp_path / KEY_FILE)), KEY, SAS)
        stored = await log.document(KIND, KEY.key)
        assert stored is not None and CANARY.encode() not in stored
        again = Keyring(log, SecretBox.in_file(tmp_path / KEY_FILE))
        assert await again.get(ACCOUNT) == KEY
        await log.close()

    asyncio.run(main())
    assert not [file.name for file in tmp_path.iterdir() if CANARY.encode() in file.read_bytes()]
    assert stat.S_IMODE((tmp_path / KEY_FILE).stat().st_mode) == 0o600
    assert (tmp_path / KEY_FILE).stat().st_size == KEY_BYTES


def test_another_process_reads_what_was_set(tmp_path: Path) -> None:
    """Dispatch, with a reader of its own and no right to write, finds what intake has set meanwhile."""

    async def main() -> None:
        log = SqliteLog.open(tmp_path, threaded=False)
        reader = SqliteLog.open_reader(tmp_path)
        dispatch = Keyring(reader, SecretBox.in_file(tmp_path / KEY_FILE))
        assert await dispatch.find(DEAD) is None
        await filled(Keyring(log, SecretBox.in_file(tmp_path / KEY_FILE)), KEY)
        assert await dispatch.find(DEAD) == KEY
        await reader.close()
        await log.close()

    asyncio.run(main())


def test_a_sealed_connection_can_not_be_moved() -> None:
    """A secret of one resource is not decrypted for another, nor when a byte of it was changed."""

    async def main() -> None:
        log = MemoryLog(MemoryDisk())
        ring = await filled(Keyring(log, SecretBox.in_memory()), KEY)
        stored = await log.document(KIND, KEY.key) or b""
        other = KEY.key.replace("orders1", "orders2")
        for moved in (stored, stored[:-1], stored[:-1] + bytes([stored[-1] ^ 1]), b"", b"\x02" + stored[1:]):
            await log.put_document(KIND, other, moved)
            with pytest.raises(SettingsError, match="orders2: put the old key back, or set the connection again"):
                await ring.get(other)
        assert [one.problem is None for one in await ring.list()] == [True, False]

    asyncio.run(main())


def test_a_lost_key() -> None:
    """With another key the list still names what there is, and says what is wrong with it."""

    async def main() -> None:
        log = MemoryLog(MemoryDisk())
        await filled(Keyring(log, SecretBox.in_memory()), KEY)
        (listed,) = await Keyring(log, SecretBox.in_memory()).list()
        assert (listed.resource_id, listed.kind) == (ACCOUNT.lower(), "unknown")
        assert "put the old key back" in (listed.problem or "")

    asyncio.run(main())


@pytest.mark.parametrize(
    ("content", "mode", "why"),
    [(None, 0, "is missing"), (b"short", 0o600, "32 bytes, this has 5"), (b"k" * 32, 0o640, "chmod 600")],
)
def test_a_bad_key_file(tmp_path: Path, content: bytes | None, mode: int, why: str) -> None:
    """A key file that is missing, cut or open to others is refused, naming it and the remedy."""
    file = tmp_path / KEY_FILE
    if content is not None:
        file.write_bytes(content)
        file.chmod(mode)
    with pytest.raises(SettingsError, match=why) as caught:
        SecretBox.in_file(file).decrypt(b"\x01" + bytes(40), "x")
    assert str(file) in str(caught.value)


def test_two_makers_agree_on_one_key(tmp_path: Path) -> None:
    """The second maker takes the key that is there, and nothing else is left in the directory."""
    one, two = SecretBox.in_file(tmp_path / KEY_FILE), SecretBox.in_file(tmp_path / KEY_FILE)
    assert two.decrypt(one.encrypt(b"a", "x"), "x") == one.decrypt(two.encrypt(b"a", "x"), "x") == b"a"
    assert [file.name for file in tmp_path.iterdir()] == [KEY_FILE]


def test_an_azurite_stands_for_what_has_no_connection() -> None:
    """Where the server is told so, storage without a connection of its own is an Azurite, and nothing else is."""

    async def main() -> None:
        ring = Keyring(MemoryLog(MemoryDisk()), SecretBox.in_memory(), azurite=True)
        assert await ring.find(DEAD) == azurite(ACCOUNT)
        await filled(ring, KEY)
        assert await ring.find(DEAD) == KEY
        assert await ring.find("/subscriptions/s/resourceGroups/g/providers/Microsoft.Web/sites/a") is None

    asyncio.run(main())
