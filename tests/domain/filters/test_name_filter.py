"""The `$filter` of lists: what it takes, what it means, and that nothing else gets through."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recapito.domain import limits
from recapito.domain.filters.name_filter import parse
from recapito.errors import InvalidInput

NAMES = ["orders", "Orders-2", "returns", "o'clock"]


@pytest.mark.parametrize(
    ("text", "passing"),
    [
        ("", NAMES),
        ("  ", NAMES),
        ("contains(name,'ORDER')", ["orders", "Orders-2"]),
        ("contains(namE, 'r')", ["orders", "Orders-2", "returns"]),
        ("name eq 'ORDERS'", ["orders"]),
        ("name ne 'orders'", ["Orders-2", "returns", "o'clock"]),
        ("name eq 'o''clock'", ["o'clock"]),
        ("not name eq 'orders'", ["Orders-2", "returns", "o'clock"]),
        ("not not name eq 'orders'", ["orders"]),
        ("contains(name, 'order') and name ne 'orders'", ["Orders-2"]),
        ("name eq 'orders' or name eq 'returns'", ["orders", "returns"]),
        ("name eq 'returns' or contains(name,'o') and name ne 'orders'", ["Orders-2", "returns", "o'clock"]),
        ("(name eq 'returns' or contains(name,'o')) and name ne 'orders'", ["Orders-2", "returns", "o'clock"]),
        ("not (name eq 'orders' or name eq 'returns')", ["Orders-2", "o'clock"]),
        ("not name eq 'orders' and not name eq 'returns'", ["Orders-2", "o'clock"]),
        ("NAME EQ 'orders' OR name eq 'returns'", ["orders", "returns"]),
        ("name eq 'a and b'", []),
    ],
)
def test_what_passes(text: str, passing: list[str]) -> None:
    """Each form means what OData says, names compared without case."""
    takes = parse(text)
    assert [name for name in NAMES if takes(name)] == passing


@pytest.mark.parametrize(
    "text",
    [
        "name",
        "name eq",
        "name eq orders",
        "name eq 'orders",
        "name gt 'a'",
        "colour eq 'red'",
        "contains(name)",
        "contains(name,'a'",
        "contains('a',name)",
        "(name eq 'a'",
        "name eq 'a')",
        "name eq 'a' name eq 'b'",
        "and",
        "not",
        "'a'",
        "name eq 'a' & name eq 'b'",
        "(" * 100,
        "not " * 500 + "name eq 'a'",
        "name eq '" + "a" * limits.LIST_FILTER_CHARS + "'",
    ],
)
def test_what_can_not_be_understood(text: str) -> None:
    """Anything else is the caller's error, and names the parameter."""
    with pytest.raises(InvalidInput) as caught:
        parse(text)
    assert caught.value.target == "$filter"


WORDS = st.sampled_from(
    ["name", "eq", "ne", "and", "or", "not", "contains", "(", ")", ",", "'a'", "''", "x", "\0", "é"]
)


@given(st.lists(WORDS, max_size=200).map(" ".join))
def test_no_text_breaks_the_parser(text: str) -> None:
    """Whatever is sent, there is a filter or an error of the caller's."""
    try:
        takes = parse(text)
    except InvalidInput:
        return
    assert takes("a") in (True, False)
