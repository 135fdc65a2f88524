"""The text of estate files: values as JSON's users expect them, lines for paths, and bounds."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recapito.domain import limits
from recapito.domain.estate.document import read_document, write_document
from recapito.domain.templates.faults import DocumentFault

TEXTS = st.text(
    st.characters(blacklist_categories=("Cs", "Cc"), blacklist_characters="\x85\u2028\u2029\ufeff"), max_size=20
)
NUMBERS = st.integers(-(10**12), 10**12) | st.floats(-1e6, 1e6).map(lambda value: round(value, 3))
LEAVES = st.none() | st.booleans() | NUMBERS | TEXTS | st.sampled_from(["yes", "on", "1e3", "2026-01-01", "~", "0x1F"])
DATA = st.dictionaries(
    TEXTS, st.recursive(LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3))
).filter(bool)


def refused(text: str) -> tuple[str, str | None]:
    with pytest.raises(DocumentFault) as caught:
        read_document(text)
    return caught.value.message, caught.value.target


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a: yes\nb: on\nc: no", {"a": "yes", "b": "on", "c": "no"}),
        ("a: 2026-01-01\nb: 12:30:45", {"a": "2026-01-01", "b": "12:30:45"}),
        ("a: true\nb: FALSE\nc: ~\nd:\ne: null", {"a": True, "b": False, "c": None, "d": None, "e": None}),
        ("a: 1\nb: -2.5\nc: '3'\nd: 007\ne: 0x1F\nf: 1e3",
         {"a": 1, "b": -2.5, "c": "3", "d": "007", "e": "0x1F", "f": 1000.0}),
        ("a: |\n  x\n  y\n", {"a": "x\ny\n"}),
        ("a: &one {b: 1}\nc: *one", {"a": {"b": 1}, "c": {"b": 1}}),
        ('{\n\t"a": 1, // one\n\t"b": [true,],\n}', {"a": 1, "b": [True]}),
    ],
)  # fmt: skip
def test_values(text: str, expected: Any) -> None:
    """Only JSON's words are words; dates, octal numbers and yes are texts; JSON may have comments and tabs."""
    assert read_document(text).data == expected


@settings(max_examples=40)
@given(DATA)
def test_round_trip(data: dict[str, Any]) -> None:
    """Whatever is written is read as the same."""
    assert read_document(write_document(data)).data == data


def test_lines() -> None:
    """Each path has its line; a path that is not there has that of the closest one around it."""
    text = "topics:\n  - name: a\n    subscriptions:\n      - name: b\n        endpoint: http://x\n        filter: {}\n"
    document = read_document(text)
    here = "topics[0].subscriptions[0]"
    for path, line in {
        "topics": 1,
        "topics[0].name": 2,
        f"{here}.name": 4,
        f"{here}.destination.properties.endpointUrl": 5,
        f"{here}.filter.includedEventTypes[3]": 6,
        f"{here}.labels": 4,
        "nothing": 1,
        "line 7": 7,
    }.items():
        assert document.line(path) == line, path


@pytest.mark.parametrize(
    ("text", "said", "line"),
    [
        ("a: 1\nb: [1,\n", "is not YAML", "line 3"),
        ("a: 1\nb: 2\na: 3", "The key 'a' is there twice", "line 3"),
        ("? [1]\n: 2", "a key that is no text", "line 1"),
        ("a:\n\t- 1", "indented by a tab", "line 2"),
        ("a: 1\n---\nb: 2", "expected a single document in the stream, but found another", "line 2"),
        ("a: &x [*x]", "nested more than", "line 1"),
        ("", "is empty", ""),
        ("a: \x07", "is not YAML", None),
    ],
)
def test_refused(text: str, said: str, line: str | None) -> None:
    """A text that is wrong is refused with its line."""
    message, target = refused(text)
    assert said in message
    assert line is None or target == line


def test_bounds() -> None:
    """Size, depth and the number of values are bounded; aliases do not get around that."""
    assert "larger than" in refused("a: " + "x" * limits.ESTATE_BYTES)[0]
    assert "nested" in refused("[" * 70 + "]" * 70)[0]
    laughs = "a: &a [x,x,x,x,x,x,x,x,x,x]\n"
    for one, other in zip("bcdefg", "abcdef", strict=True):
        laughs += f"{one}: &{one} [{','.join([f'*{other}'] * 10)}]\n"
    assert "values" in refused(laughs)[0]
