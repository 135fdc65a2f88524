"""`recapito connection` against a running server."""

import pytest

from tests.cli.terminal import ok, recapito
from tests.system.machine import Server

ACCOUNT = "/subscriptions/s/resourceGroups/g/providers/Microsoft.Storage/storageAccounts/pictures"
SECRET = "c2VjcmV0LWtleQ=="
STRING = f"AccountName=pictures;AccountKey={SECRET}"


def test_set_list_remove(live: Server) -> None:
    """A connection is set, from standard input too, listed without its secret, and removed; then it is not found."""
    said = recapito("connection", "set", ACCOUNT, "--connection-string", "-", stdin=STRING.encode())
    assert (said.code, said.json["kind"]) == (0, "account key")
    listed = recapito("connection", "list")
    assert [one["resourceId"] for one in listed.json] == [ACCOUNT]
    assert SECRET not in said.out + said.err + listed.out
    assert ok("connection", "set", ACCOUNT, "--azurite")["endpoints"]["blob"].startswith("http://127.0.0.1:10000")
    ok("connection", "remove", ACCOUNT.upper())
    assert recapito("connection", "remove", ACCOUNT).code == 3


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        ((ACCOUNT,), 2, "give one of"),
        ((ACCOUNT, "--azurite", "--default-credential"), 2, "give one of"),
        (("pictures", "--azurite"), 2, "not the id of an Azure resource; one looks like /subscriptions/"),
        ((ACCOUNT, "--connection-string", "-"), 2, "standard input is empty"),
        ((ACCOUNT, "--connection-string", "hello"), 1, "not that of a storage account"),
    ],
)
def test_wrong_words(live: Server, words: tuple[str, ...], code: int, says: str) -> None:
    """Whatever is wrong is said in a line."""
    said = recapito("connection", "set", *words)
    assert said.code == code
    assert says in " ".join(said.err.split())
