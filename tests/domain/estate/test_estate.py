"""An estate's own shape: sections, places, shorthands and secrets; and what is refused, by its path."""

from typing import Any

import pytest

from recapito.domain.estate.document import read_document
from recapito.domain.estate.estate import fill_in, is_template, resources_of
from recapito.domain.templates.faults import DocumentFault

LOCAL = "/subscriptions/00000000-0000-0000-0000-000000000000/resourceGroups/local/providers"
STORE = "/subscriptions/s/resourceGroups/g/providers/Microsoft.Storage/storageAccounts/store"


def bodies(text: str) -> dict[str, Any]:
    return {declared.id: declared.body for declared in resources_of(read_document(text).data)}


def test_every_section() -> None:
    """Each section gives resources under ARM's ids; keys that the file does not know are properties."""
    made = bodies(
        f"""
location: here
resourceGroups: [{{name: shop, tags: {{env: prod}}}}]
storageAccounts: [{{name: store, resourceGroup: shop}}]
connections: [{{resourceId: {STORE}, azurite: true}}]
topics:
  - plain
  - name: orders
    azureSubscription: other
    resourceGroup: shop
    location: there
    inputSchema: CloudEventSchemaV1_0
    keys: {{key1: a}}
    subscriptions: [{{name: hook, endpoint: 'http://x', labels: [l]}}]
domains: [{{name: many, topics: [one, {{name: two, subscriptions: [{{name: s, destination: {{}}}}]}}]}}]
systemTopics: [{{name: system, source: {STORE}}}]
"""
    )
    grid, zero = f"{LOCAL}/Microsoft.EventGrid", LOCAL.partition("/resourceGroups")[0]
    shop = "/subscriptions/other/resourceGroups/shop/providers/Microsoft.EventGrid"
    hook = {"endpointType": "WebHook", "properties": {"endpointUrl": "http://x"}}
    assert made == {
        f"{zero}/resourceGroups/shop": {"tags": {"env": "prod"}},
        f"{zero}/resourceGroups/shop/providers/Microsoft.Storage/storageAccounts/store": {"location": "here"},
        f"/connections{STORE}": {"azurite": True},
        f"{grid}/topics/plain": {"location": "here"},
        f"{shop}/topics/orders": {
            "location": "there",
            "keys": {"key1": "a"},
            "properties": {"inputSchema": "CloudEventSchemaV1_0"},
        },
        f"{shop}/topics/orders/eventSubscriptions/hook": {"properties": {"labels": ["l"], "destination": hook}},
        f"{grid}/domains/many": {"location": "here"},
        f"{grid}/domains/many/topics/one": {},
        f"{grid}/domains/many/topics/two": {},
        f"{grid}/domains/many/topics/two/eventSubscriptions/s": {"properties": {"destination": {}}},
        f"{grid}/systemTopics/system": {"location": "here", "properties": {"source": STORE}},
    }


def test_secrets() -> None:
    """Secrets are filled in by their source and name; tags that look alike stay."""
    asked = []

    def read(source: str, name: str, path: str) -> str:
        asked.append((source, name, path))
        return f"<{name}>"

    data = {"topics": [{"tags": {"env": "prod"}, "keys": {"key1": {"env": "K"}, "key2": {"file": "k.txt"}}}]}
    filled = fill_in(data, read)
    assert filled == {"topics": [{"tags": {"env": "prod"}, "keys": {"key1": "<K>", "key2": "<k.txt>"}}]}
    assert asked == [("env", "K", "topics[0].keys.key1"), ("file", "k.txt", "topics[0].keys.key2")]


def test_templates_are_told_apart() -> None:
    """A document with resources is a template."""
    assert is_template({"resources": []}) and not is_template({"topics": []}) and not is_template([])


@pytest.mark.parametrize(
    ("text", "said", "target"),
    [
        ("[]", "has sections", ""),
        ("topicz: []", "Did you mean 'topics'?", "topicz"),
        ("subscriptions: []", "inside of its topic", "subscriptions"),
        ("topics: {a: 1}", "must be a list", "topics"),
        ("topics: [[1]]", "must have a name", "topics[0]"),
        ("topics: [{nam: a}]", "is required", "topics[0].name"),
        ("topics: [{name: a/b}]", "has no slash", "topics[0].name"),
        ("topics: [{name: 12}]", "put it in quotes", "topics[0].name"),
        ("topics: [abc, ABC]", "there twice, first at topics[0]", "topics[1]"),
        ("topics: [{name: abc, subscriptions: [{name: s}, {name: S}]}]", "there twice", "topics[0].subscriptions[1]"),
        ("topics: [{name: abc, subscriptions: [{name: s, endpoint: x, destination: {}}]}]", "exclude each other",
         "topics[0].subscriptions[0].endpoint"),
        ("resourceGroups: [{name: g, locaton: x}]", "Did you mean 'location'?", "resourceGroups[0].locaton"),
        ("connections: [{resourceId: x}]", "not the id of an Azure resource", "connections[0].resourceId"),
        ("connections: [{resourceId: x, sasurl: y}]", "Did you mean 'sasUrl'?", "connections[0].sasurl"),
    ],
)  # fmt: skip
def test_refused(text: str, said: str, target: str) -> None:
    """Each fault names the path of the key."""
    with pytest.raises(DocumentFault) as caught:
        bodies(text)
    assert said in caught.value.message
    assert caught.value.target == target
