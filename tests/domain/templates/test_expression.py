"""Expressions: what they are, what they give, and what is refused."""

import pytest

from recapito.domain import limits
from recapito.domain.templates.evaluator import Evaluator, Surroundings
from recapito.domain.templates.expression import NotAnExpression, escape, is_expression, parse, plain_text
from recapito.domain.templates.faults import DocumentFault

PLACE = Surroundings("sub-1", "shop", "local", tenant="tenant-1", deployment="first", public_url="http://here")
GROUP = "/subscriptions/sub-1/resourceGroups/shop"


def value(text: str) -> object:
    return Evaluator(PLACE, {}).value(text, "here")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("plain", "plain"),
        ("[[not one]", "[not one]"),
        ("[concat('a', 'b''c', 1, true())]", "ab'c1True"),
        ("[concat(createArray(1), createArray('x'))]", [1, "x"]),
        ("[format('{0}-{1:D3}-{{x}}', 'a', 7)]", "a-007-{x}"),
        ("[format('{0:X2}{0:x}|{1:N0}|{2,4}', 10, 1234, 'r')]", "0Aa|1,234|   r"),
        ("[if(equals(1, 1), 'yes', div(1, 0))]", "yes"),
        ("[if(not(bool('true')), 1, 2)]", 2),
        ("[union(createObject('a', 1, 'b', createObject('x', 1)), createObject('b', createObject('y', 2)))]",
         {"a": 1, "b": {"x": 1, "y": 2}}),
        ("[union(createArray(1, 2), createArray(2, 3))]", [1, 2, 3]),
        ("[intersection(createArray(1, 2), createArray(2, 3))]", [2]),
        ("[split('a,b;c', createArray(',', ';'))]", ["a", "b", "c"]),
        ("[split('a,b', ',')[1]]", "b"),
        ("[toUpper(substring('abcdef', 1, 3))]", "BCD"),
        ("[first(skip(take(createArray(1, 2, 3), 2), 1))]", 2),
        ("[last('abc')]", "c"),
        ("[length(range(3, 4))]", 4),
        ("[add(2, mul(3, sub(5, 1)))]", 14),
        ("[div(-7, 2)]", -3),
        ("[mod(-7, 2)]", -1),
        ("[max(createArray(1, 5, 2))]", 5),
        ("[min(4, 2)]", 2),
        ("[json('{\"a\": [1]}').A[0]]", 1),
        ("[contains(createObject('Key', 1), 'key')]", True),
        ("[contains(createArray('a', 'b'), 'b')]", True),
        ("[empty(createArray())]", True),
        ("[coalesce(null(), 'x')]", "x"),
        ("[and(true(), less(1, 2), greaterOrEquals(2, 2), or(false(), true()))]", True),
        ("[startsWith('Hello', 'he')]", True),
        ("[endsWith('Hello', 'LO')]", True),
        ("[indexOf('hello', 'L')]", 2),
        ("[replace('a-b-c', '-', '+')]", "a+b+c"),
        ("[padLeft(7, 3, '0')]", "007"),
        ("[trim('  x ')]", "x"),
        ("[join(createArray('a', 'b'), '/')]", "a/b"),
        ("[string(createObject('a', 1))]", '{"a":1}'),
        ("[base64ToString(base64('hé'))]", "hé"),
        ("[uriComponent('a/b c')]", "a%2Fb%20c"),
        ("[uri('http://h/a/', 'b')]", "http://h/a/b"),
        ("[int('12')]", 12),
        ("[items(createObject('b', 2, 'a', 1))[0].key]", "a"),
        ("[resourceGroup().location]", "local"),
        ("[subscription().subscriptionId]", "sub-1"),
        ("[tenant().tenantId]", "tenant-1"),
        ("[deployment().name]", "first"),
        ("[resourceId('Microsoft.EventGrid/topics', 'a')]", f"{GROUP}/providers/Microsoft.EventGrid/topics/a"),
        ("[resourceId('other', 'Microsoft.EventGrid/domains/topics', 'd', 't')]",
         "/subscriptions/sub-1/resourceGroups/other/providers/Microsoft.EventGrid/domains/d/topics/t"),
        ("[resourceId('s2', 'g2', 'A.B/c', 'n')]", "/subscriptions/s2/resourceGroups/g2/providers/A.B/c/n"),
        ("[subscriptionResourceId('A.B/c', 'n')]", "/subscriptions/sub-1/providers/A.B/c/n"),
        ("[extensionResourceId(resourceGroup().id, 'A.B/c', 'n')]", f"{GROUP}/providers/A.B/c/n"),
    ],
)  # fmt: skip
def test_values(text: str, expected: object) -> None:
    """Each function gives what ARM's documentation says."""
    assert value(text) == expected


def test_unique_strings() -> None:
    """They are thirteen letters and digits, the same for the same arguments and other ones for others."""
    one, same, other = value("[uniqueString('a')]"), value("[uniqueString('a')]"), value("[uniqueString('a', 'b')]")
    assert one == same != other
    assert isinstance(one, str) and len(one) == 13 and one.isalnum() and one == one.lower()
    assert value("[guid('a', 'b')]") == value("[guid('a', 'b')]") != value("[guid('a', 'c')]")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[tolowr('A')]", "tolowr() is not known. Did you mean 'tolower'?"),
        ("[newGuid()]", "another value each time"),
        ("[concat('a']", "cannot be read: the end is not expected there, but ','"),
        ("[concat('a') x]", "'x' is not expected there"),
        ("['a' + 'b']", "'+' is not expected"),
        ("[if(1, 2, 3)]", "must be true or false"),
        ("[if(true(), 2)]", "takes a condition and two values"),
        ("[toLower(1)]", "tolower() fails: a text is needed, not a number."),
        ("[toLower()]", "its arguments do not fit"),
        ("[div(1, 0)]", "divides by zero"),
        ("[createArray(1)[3]]", "has 1 items, so there is none at 3"),
        ("[createObject('name', 1).nam]", "no member 'nam'. Did you mean 'name'?"),
        ("[copyIndex()]", "outside of its copy"),
        ("[parameters('x')]", "There is no parameter 'x'. The template has none."),
        ("[resourceId('topics', 'x')]", "needs a type"),
        ("[resourceId('Microsoft.EventGrid/topics')]", "has 1 parts"),
        ("[reference('nothing')]", "no resource of the template"),
        ("[substring('abc', 2, 9)]", "outside of the text"),
        ("[padLeft('a', 999999999)]", "above"),
        ("[range(0, 999999999)]", "items at most"),
        ("[json('{')]", "json() fails"),
        ("[format('{1}', 1)]", "there is no value for {1}"),
        ("[format('{0:Q}', 1)]", "the form 'Q' is not built"),
    ],
)
def test_faults(text: str, said: str) -> None:
    """An expression that cannot be evaluated is a fault at its place, with a hint."""
    with pytest.raises(DocumentFault) as caught:
        value(text)
    assert said in caught.value.message
    assert caught.value.target == "here"


def test_growth_is_bounded() -> None:
    """Neither depth nor length nor doubling gets past the limits."""
    deep = "[" + "concat(" * 40 + "'a'" + ")" * 40 + "]"
    with pytest.raises(NotAnExpression, match="nested more than"):
        parse(deep)
    with pytest.raises(NotAnExpression, match="longer than"):
        parse("['" + "a" * limits.EXPRESSION_CHARS + "']")
    evaluator = Evaluator(PLACE, {})
    doubled = {f"v{n}": f"[concat(variables('v{n - 1}'), variables('v{n - 1}'))]" for n in range(1, 60)}
    evaluator.variables = {"v0": "0123456789", **doubled}
    with pytest.raises(DocumentFault, match="makes a text above"):
        evaluator.value("[variables('v59')]", "here")


def test_brackets() -> None:
    """A text that begins with a bracket can be written, and is not taken for an expression."""
    assert is_expression("[a()]") and not is_expression("[[a()]") and not is_expression("[a()] ")
    for text in ("[a()]", "plain", "[", "[["):
        assert plain_text(escape(text)) == text
        assert not is_expression(escape(text))
