"""The names of Azure resources."""

import pytest

from recapito.domain.resources.resource_id import (
    BLOB_CONTAINER,
    QUEUE,
    STORAGE_ACCOUNT,
    container_id,
    parse_resource_id,
    queue_id,
)
from recapito.errors import InvalidInput

ACCOUNT = "/subscriptions/s-1/resourceGroups/Shop/providers/Microsoft.Storage/storageAccounts/Orders1"


def test_parts_of_an_id() -> None:
    """An id gives its kind in lower case, its names as they are, and a key without regard to case."""
    found = parse_resource_id(ACCOUNT)
    assert found.kind == STORAGE_ACCOUNT
    assert found.names == ("Orders1",)
    assert found.name == "Orders1"
    assert found.key == parse_resource_id(ACCOUNT.upper() + "/").key


@pytest.mark.parametrize(
    ("text", "kind"), [(container_id(ACCOUNT, "dead"), BLOB_CONTAINER), (queue_id(ACCOUNT, "todo"), QUEUE)]
)
def test_parts_of_an_account(text: str, kind: str) -> None:
    """A container and a queue are parts of their account."""
    found = parse_resource_id(text)
    assert found.kind == kind
    assert found.top == parse_resource_id(ACCOUNT)
    assert found.top.top == found.top


@pytest.mark.parametrize(
    "text",
    [
        *(
            "",
            "orders1",
            ACCOUNT[1:],
            f"https://x{ACCOUNT}",
            f"{ACCOUNT}/blobServices",
            f"{ACCOUNT}?a=b",
            f"{ACCOUNT}#",
        ),
        *(ACCOUNT.replace("s-1", ""), ACCOUNT.replace("Shop", "a b"), ACCOUNT.replace("Shop", "a%2fb"), ACCOUNT + "\n"),
        *(ACCOUNT.rpartition("/")[0], ACCOUNT + "x" * 2000, "/subscriptions/s/resourceGroups/g"),
    ],
)
def test_what_is_no_id(text: str) -> None:
    """Anything else is refused, naming the field and showing what an id looks like."""
    with pytest.raises(InvalidInput, match=r"Microsoft\.Storage/storageAccounts") as caught:
        parse_resource_id(text, "properties.resourceId")
    assert caught.value.target == "properties.resourceId"
