"""Templates: parameters, variables, copies, conditions, children, dependencies, outputs; and what is refused whole."""

import json
from typing import Any

import pytest

from recapito.domain import limits
from recapito.domain.templates.evaluator import LIST_KEYS, REFERENCE, Known, Surroundings
from recapito.domain.templates.faults import DocumentFault, ReferenceNeeded
from recapito.domain.templates.json_with_comments import to_json
from recapito.domain.templates.template import Declared, Template

PLACE = Surroundings("sub-1", "shop", "local", public_url="http://here")
GROUP = "/subscriptions/sub-1/resourceGroups/shop"
GRID = f"{GROUP}/providers/Microsoft.EventGrid"
TOPIC = "Microsoft.EventGrid/topics"


def a_topic(name: str = "orders", **more: Any) -> dict[str, Any]:
    return {"type": TOPIC, "apiVersion": "2022-06-15", "name": name, **more}


def template(*resources: Any, given: dict[str, Any] | None = None, known: Known | None = None, **more: Any) -> Template:
    values = {name: {"value": value} for name, value in (given or {}).items()}
    return Template({"resources": list(resources), **more}, values, PLACE, known or {})


def ids(made: Template) -> list[str]:
    return [declared.id.removeprefix(f"{GRID}/") for declared in made.resources()]


def refused(*resources: Any, **more: Any) -> tuple[str, str | None]:
    with pytest.raises(DocumentFault) as caught:
        template(*resources, **more).resources()
    return caught.value.message, caught.value.target


def test_parameters_and_variables() -> None:
    """Given values go before defaults, which may be expressions; variables see both."""
    made = template(
        a_topic("[variables('name')]", tags={"[[x": "[parameters('Size')]"}),
        parameters={
            "prefix": {"type": "string", "allowedValues": ["a", "b"]},
            "size": {"type": "int", "defaultValue": "[length(parameters('prefix'))]", "minValue": 1},
            "none": {"type": "object", "nullable": True},
        },
        variables={"name": "[format('{0}-{1}', parameters('prefix'), variables('end'))]", "end": "[toLower('X')]"},
        given={"prefix": "a"},
    )
    assert made.resources() == [Declared(f"{GRID}/topics/a-x", {"tags": {"[[x": 1}}, "resources[0]")]


def test_copies() -> None:
    """A resource, a property, a variable and an output can be copied; indexes are found by the name of their loop."""
    made = template(
        a_topic("[format('t-{0}', copyIndex(1))]", copy={"name": "all", "count": 2}),
        {
            "type": f"{TOPIC}/eventSubscriptions",
            "name": "[concat('t-1/', variables('names')[copyIndex('each')])]",
            "copy": {"name": "each", "count": "[length(variables('names'))]"},
            "dependsOn": ["all"],
            "properties": {"copy": [{"name": "labels", "count": 2, "input": "[copyIndex('labels', 5)]"}]},
        },
        variables={"copy": [{"name": "names", "count": 2, "input": "[concat('s', copyIndex('names'))]"}]},
        outputs={"names": {"type": "array", "copy": {"count": 2, "input": "[variables('names')[copyIndex()]]"}}},
    )
    subscriptions = ["topics/t-1/eventSubscriptions/s0", "topics/t-1/eventSubscriptions/s1"]
    assert ids(made) == ["topics/t-1", "topics/t-2", *subscriptions]
    assert made.resources()[2].body == {"properties": {"labels": [5, 6]}}
    assert made.outputs() == {"names": {"type": "Array", "value": ["s0", "s1"]}}


def test_conditions() -> None:
    """A resource whose condition is false is left out, and others may still depend on it."""
    made = template(
        a_topic("there", dependsOn=[f"{GRID}/topics/away"]),
        a_topic("away", condition="[not(true())]"),
        outputs={"no": {"type": "string", "condition": False, "value": "[unknown()]"}},
    )
    assert ids(made) == ["topics/there"]
    assert made.outputs() == {}


def test_children_scopes_and_symbolic_names() -> None:
    """All the ways in which templates name a subscription give its id."""
    child = {"type": "eventSubscriptions", "name": "nested", "properties": {}}
    old = {"type": f"{TOPIC}/providers/eventSubscriptions", "name": "orders/Microsoft.EventGrid/old", "properties": {}}
    scoped = {"type": "Microsoft.EventGrid/eventSubscriptions", "name": "scoped", "scope": f"{TOPIC}/orders"}
    whole = {**scoped, "name": "whole", "scope": "[resourceId('Microsoft.EventGrid/topics', 'orders')]"}
    made = template(a_topic(resources=[child]), old, scoped, whole)
    extension = "topics/orders/providers/Microsoft.EventGrid/eventSubscriptions"
    assert ids(made)[1:] == [
        "topics/orders/eventSubscriptions/nested",
        f"{extension}/old",
        f"{extension}/scoped",
        f"{extension}/whole",
    ]
    symbolic = Template(
        {
            "languageVersion": "2.0",
            "resources": {
                "topic": a_topic(),
                "other": {**a_topic("other"), "existing": True},
                "sub": {"type": f"{TOPIC}/eventSubscriptions", "name": "orders/s", "dependsOn": ["topic", "other"]},
                "group": {"type": "Microsoft.Resources/resourceGroups", "name": "more"},
            },
        },
        {},
        PLACE,
        {},
    )
    assert symbolic.ids == [
        f"{GRID}/topics/orders",
        f"{GRID}/topics/orders/eventSubscriptions/s",
        "/subscriptions/sub-1/resourceGroups/more",
    ]


def test_references() -> None:
    """A resource of the template is foreseen; the state and the keys of others are asked for, then known."""
    url = "[reference(resourceId('Microsoft.EventGrid/topics', 'orders')).endpoint]"
    hook = {"type": f"{TOPIC}/eventSubscriptions", "name": "orders/s", "properties": {"url": url}}
    assert template(a_topic(), hook).resources()[1].body["properties"] == {
        "url": "http://here/topics/orders/api/events"
    }
    elsewhere = {**hook, "properties": {"key": "[listKeys(resourceId('Microsoft.EventGrid/topics', 'old'), '1').key1]"}}
    id = f"{GRID}/topics/old"
    with pytest.raises(ReferenceNeeded) as caught:
        template(a_topic(), elsewhere).resources()
    assert (caught.value.resource_id, caught.value.verb) == (id, LIST_KEYS)
    known = {(LIST_KEYS, id.lower()): {"key1": "k"}}
    assert template(a_topic(), elsewhere, known=known).resources()[1].body == {"properties": {"key": "k"}}
    state = {(REFERENCE, f"{GRID}/topics/orders".lower()): {"location": "here", "properties": {"endpoint": "e"}}}
    outputs = {
        "end": {"type": "string", "value": "[reference('orders').endpoint]"},
        "all": {"type": "string", "value": "[reference('orders', '2022-06-15', 'Full').location]"},
        "hidden": {"type": "secureString", "value": "[reference('orders').endpoint]"},
    }
    assert template(a_topic(), known=state, outputs=outputs).outputs() == {
        "end": {"type": "String", "value": "e"},
        "all": {"type": "String", "value": "here"},
        "hidden": {"type": "SecureString"},
    }


@pytest.mark.parametrize(
    ("resources", "more", "said", "target"),
    [
        ([a_topic()], {"resorces": []}, "Did you mean 'resources'?", "resorces"),
        ([a_topic(propertys={})], {}, "Did you mean 'properties'?", "resources[0].propertys"),
        ([a_topic(), a_topic("ORDERS")], {}, "there twice, first at resources[0]", "resources[1]"),
        ([a_topic(dependsOn=["nobody"])], {}, "not a resource of this document", "resources[0].dependsOn[0]"),
        ([a_topic("a", dependsOn=["b"]), a_topic("b", dependsOn=["a"])], {},
         "depends on itself: a → b → a", "resources[0].dependsOn"),
        ([a_topic("a", tags="[map(createArray(1), 2)]")], {}, "map() is not built", "resources[0].tags"),
        ([a_topic("[variables('a')]")], {"variables": {"a": "[variables('b')]", "b": "[variables('a')]"}},
         "needs itself: variables.a → variables.b → variables.a", "variables.a"),
        ([a_topic(tags="[reference('orders').tags]")], {}, "needs itself", "resources[0]"),
        ([a_topic("[parameters('x')]")], {"parameters": {"x": {"type": "string"}}}, "has no value", "parameters.x"),
        ([], {"parameters": {"x": {"type": "strin"}}, "given": {"x": "1"}}, "Did you mean 'string'?",
         "parameters.x.type"),
        ([], {"parameters": {"x": {"type": "int"}}, "given": {"x": "1"}}, "must be of type int", "parameters.x"),
        ([], {"parameters": {"x": {"type": "int", "maxValue": 1}}, "given": {"x": 2}}, "not within", "parameters.x"),
        ([], {"parameters": {"name": {"type": "int"}}, "given": {"nam": 2}}, "Did you mean 'name'?", "parameters.nam"),
        ([a_topic(condition="yes")], {}, "must be true or false", "resources[0].condition"),
        ([a_topic(copy={"name": "x", "count": 10**6})], {}, "a number from 0 to", "resources[0].copy.count"),
        ([a_topic("a/b")], {}, "its name must have as many", "resources[0].name"),
        ([a_topic(1)], {}, "must be a text", "resources[0].name"),
        ([a_topic(properties={"a": [{"b": "[nothing()]"}]})], {}, "is not known", "resources[0].properties.a[0].b"),
        (["x"], {}, "must be a resource", "resources[0]"),
        ([], {"functions": [{}]}, "not built", "functions"),
    ],
)  # fmt: skip
def test_refused(resources: list[Any], more: dict[str, Any], said: str, target: str) -> None:
    """Each fault names the path of the key, and says what is wrong."""
    message, path = refused(*resources, **more)
    assert said in message
    assert path == target


@pytest.mark.parametrize(
    ("value", "said"), [("plain", "'parameters.x' must be an object with a value."), ({"reference": {}}, "key vault")]
)
def test_a_parameter_without_a_value(value: Any, said: str) -> None:
    """A file of parameters has an object for each; a reference to a key vault is not built."""
    document = {"resources": [], "parameters": {"x": {"type": "string"}}}
    with pytest.raises(DocumentFault) as caught:
        Template(document, {"x": value}, PLACE, {}).resources()
    assert said in caught.value.message


def test_resources_are_bounded() -> None:
    """Copies in a template cannot make more resources than a template may have."""
    half = {"count": limits.TEMPLATE_RESOURCES // 2 + 1}
    loops = [a_topic(f"[concat('{one}', copyIndex())]", copy={"name": one, **half}) for one in "ab"]
    assert "resources at most" in refused(*loops)[0]


def test_json_with_comments() -> None:
    """Comments, names without quotes, last commas and texts over several lines become JSON; texts stay as they are."""
    text = '{ // one\n a: "x // y", /* two\n */ "b": [1, 2, /* 3 */ ],\n "c": "p\nq",\n}'
    made = to_json(text)
    assert made.count("\n") == text.count("\n") - 1
    assert json.loads(made) == {"a": "x // y", "b": [1, 2], "c": "p\nq"}
