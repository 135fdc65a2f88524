"""Connections that the settings give: from the file, another file or the environment; errors name keys, not secrets."""

import asyncio
from pathlib import Path

import pytest

from recapito.connections.configured import read_configured
from recapito.connections.encryption import SecretBox
from recapito.connections.keyring import Keyring
from recapito.domain.connections.connection import AccountKey, AzureService, Connection, DefaultCredential
from recapito.domain.connections.parse_storage import azurite
from recapito.errors import Conflict, SettingsError
from recapito.settings import settings
from recapito.stores.memory import MemoryLog

GROUP = "/subscriptions/s/resourceGroups/g/providers"
ACCOUNT = f"{GROUP}/Microsoft.Storage/storageAccounts/orders1"
APP = f"{GROUP}/Microsoft.Web/sites/shop"
SECRET = "Y2FuYXJ5Y2FuYXJ5"
STRING = f"AccountName=orders1;AccountKey={SECRET}"


def read(text: str, tmp_path: Path, environment: dict[str, str] | None = None) -> dict[str, Connection]:
    """The connections of a settings file with this text."""
    file = tmp_path / "recapito.toml"
    file.write_text(text)
    chosen = settings.load(file, environment or {})
    assert SECRET not in repr(chosen)
    return read_configured(chosen.connection.resources, environment or {})


def table(*lines: str, id: str = ACCOUNT) -> str:
    return "\n".join(("[[connection.resources]]", f"resource_id = '{id}'", *lines, ""))


def test_a_secret_may_lie_elsewhere(tmp_path: Path) -> None:
    """A connection string is the same in the file, in another file, and in the environment."""
    (tmp_path / "secret").write_text(f"{STRING}\n")
    wanted = AccountKey("orders1", SECRET)
    for line in (
        f"connection_string = '{STRING}'",
        f"connection_string = {{ file = '{tmp_path / 'secret'}' }}",
        "connection_string = { env = 'ORDERS' }",
    ):
        found = read(table(line), tmp_path, {"ORDERS": STRING})
        assert found[ACCOUNT.lower()].credential == wanted, line
    whole = f'[{{"resource_id": "{ACCOUNT}", "connection_string": "{STRING}"}}]'
    (given,) = settings.load(environment={"RECAPITO_CONNECTION_RESOURCES": whole}).connection.resources
    assert read_configured([given], {})[ACCOUNT.lower()].credential == wanted


def test_every_way(tmp_path: Path) -> None:
    """Each way that the command line has, the settings have."""
    sas = f"https://orders1.blob.core.windows.net/?sv=1&ss=b&se=2100-01-01T00:00:00Z&sig={SECRET}"
    found = read(table(f"sas_url = '{sas}'"), tmp_path)
    assert found[ACCOUNT.lower()].endpoints == {AzureService.BLOB: "https://orders1.blob.core.windows.net"}
    found = read(table(f"host_url = 'http://localhost:7071?code={SECRET}'", id=APP), tmp_path)
    assert found[APP.lower()].endpoints == {AzureService.FUNCTION: "http://localhost:7071"}
    lines = ("default_credential = true", "endpoints = { blob = 'https://orders1.example' }")
    found = read(table(*lines), tmp_path)
    assert found[ACCOUNT.lower()].credential == DefaultCredential()
    assert read(table("azurite = true"), tmp_path)[ACCOUNT.lower()] == azurite(ACCOUNT)


@pytest.mark.parametrize(
    ("lines", "says"),
    [
        ([], "connection.resources[0]: give one of"),
        (["azurite = true", f"connection_string = '{STRING}'"], "connection.resources[0]: give one of"),
        ([f"connection_string = 'AccountKey={SECRET}'"], "connection.resources[0].connection_string: The connection"),
        ([f"connection_string = 'AccountName=other;AccountKey={SECRET}'"], "not to 'orders1'"),
        ([f"sas_url = 'https://orders1.blob.core.windows.net/?sv={SECRET}'"], "connection.resources[0].sas_url: "),
        ([f"host_url = 'http://h?code={SECRET}'"], "connection.resources[0].resource_id: "),
        (["connection_string = { env = 'NOWHERE' }"], "connection_string.env: the variable NOWHERE is not set"),
        (["connection_string = { file = '/no/such' }"], "connection_string.file: /no/such: No such file"),
        (["connection_string = { file = '/dev/null' }"], "connection_string.file: /dev/null is empty"),
        (["connection_string = { file = 'a', env = 'b' }"], "connection_string: either file or env"),
        (["azurite = true", "endpoints = { blob = 'https://a' }"], "connection.resources[0].endpoints: "),
        ([f"password = '{SECRET}'"], "unknown field password"),
        ([f"azurite = '{SECRET}'"], "connection.resources[0].azurite"),
    ],
)
def test_what_is_wrong_is_named(lines: list[str], says: str, tmp_path: Path) -> None:
    """The error names the key, and never repeats what is secret."""
    with pytest.raises(SettingsError) as caught:
        read(table(*lines), tmp_path)
    assert says in str(caught.value) and SECRET not in str(caught.value)


def test_one_resource_is_given_once(tmp_path: Path) -> None:
    """Two tables for one resource are a mistake, whatever the case of its id."""
    with pytest.raises(SettingsError, match=r"\[1\].resource_id: .* twice"):
        read(table("azurite = true") + table("azurite = true", id=ACCOUNT.replace("/g/", "/G/")), tmp_path)


def test_a_given_connection_is_found_and_not_kept() -> None:
    """It is listed as given, wins over one that was set before, and can be neither set nor removed by command."""

    async def story() -> None:
        log, secret_box, given = MemoryLog(), SecretBox.in_memory(), azurite(ACCOUNT)
        before = Keyring(log, secret_box)
        await before.set(Connection(resource_id=ACCOUNT, endpoints={}, credential=AccountKey("orders1", SECRET)), 0)
        keyring = Keyring(log, secret_box, given={given.key: given})
        assert await keyring.find(f"{ACCOUNT}/blobServices/default/containers/dead") == given
        (listed,) = await keyring.list()
        assert (listed.resource_id, listed.given) == (ACCOUNT, True)
        with pytest.raises(Conflict, match=r"connection\.resources"):
            await keyring.set(given, 0)
        with pytest.raises(Conflict):
            await keyring.remove(ACCOUNT.upper())
        assert [each.given for each in await before.list()] == [False]

    asyncio.run(story())
