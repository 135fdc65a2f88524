"""Estates on a server in memory: applied, applied again, changed, pruned, exported and made anew; refused whole."""

import asyncio
from contextlib import suppress
from typing import Any

import jsonschema_rs
import pytest
from msgspec import UNSET
from msgspec.structs import replace

from recapito.api.estate.expansion import Expander
from recapito.api.estate.export import as_estate, as_template, walk_all
from recapito.api.estate.manager import EstateManager, Report
from recapito.api.estate.schema import estate_schema
from recapito.domain.estate.document import read_document, write_document
from recapito.domain.estate.estate import NO_SUBSCRIPTION, fill_in, is_template
from recapito.domain.filters.filter import TAKE_NONE
from recapito.domain.resources.destination import DESTINATION_KINDS
from recapito.domain.resources.subscription import FilterSince, Subscription
from recapito.domain.resources.topic import TopicKind
from recapito.domain.templates.evaluator import Surroundings
from recapito.domain.templates.faults import DocumentFault
from recapito.stores.memory import MemoryLog
from tests.api.estate.whole import KEY, NEWER, OLDER, STORE, WHOLE
from tests.intake.doubles import StillClock, make_resources
from tests.kit.estates import make_estate, new_estate

URL = "http://here"
PLACE = Surroundings(NO_SUBSCRIPTION, "shop", "local")
HOOK = "properties: {destination: {endpointType: WebHook, properties: {endpointUrl: 'http://x'}}}"
QUEUE = f"destination: {{endpointType: StorageQueue, properties: {{resourceId: {STORE}, queueName: waiting}}}}"
OPTIONS = "topics: [{name: fine, subscriptions: [{name: sub, endpoint: 'http://x', options:"


async def apply(estate: EstateManager, text: str, prune: bool = False) -> Report:
    resources = (await Expander(estate.state, URL).expand(read_document(text).data, {}, PLACE)).resources
    return await estate.apply(resources, prune)


async def steps(estate: EstateManager, text: str, prune: bool = False) -> list[str]:
    """The steps of a plan, for people."""
    resources = (await Expander(estate.state, URL).expand(read_document(text).data, {}, PLACE)).resources
    report = Report(await estate.plan(resources, prune)).show()
    return [" ".join([step["action"], step["resource"], *step.get("changed", [])]) for step in report["steps"]]


async def exported(estate: EstateManager, secrets: bool) -> dict[str, Any]:
    return as_estate([one async for one in walk_all(estate.parts, URL)], secrets)


async def refused(estate: EstateManager, text: str) -> tuple[str, str | None]:
    before = await exported(estate, secrets=True)
    with pytest.raises(DocumentFault) as caught:
        await apply(estate, text)
    assert await exported(estate, secrets=True) == before
    return caught.value.message, caught.value.target


def test_round_trip() -> None:
    """An estate with every kind of resource, exported and applied to an empty server, gives an equal server."""

    async def run() -> None:
        first, second = new_estate(StillClock()), new_estate(StillClock())
        report = await apply(first, WHOLE)
        assert not report.failed
        document = await exported(first, secrets=True)
        text = write_document(document)
        await apply(second, text)
        assert await exported(second, secrets=True) == document
        assert await steps(second, text) == []
        assert await steps(second, WHOLE) == []

    asyncio.run(run())


def test_the_export_is_the_file() -> None:
    """An export has all that the file says, and nothing that is a default."""

    async def run() -> None:
        estate = new_estate(StillClock())
        await apply(estate, WHOLE)
        wanted, found = read_document(WHOLE).data, await exported(estate, secrets=True)
        for section in wanted:
            assert found[section] == wanted[section], section

    asyncio.run(run())


def test_twice_changes_nothing() -> None:
    """Applying a file again finds nothing to do: no resource gets another version."""

    async def run() -> None:
        estate = new_estate(StillClock())
        assert (await apply(estate, WHOLE)).counts()["create"] == 17
        topic = await estate.parts.topics.find("orders")
        again = await apply(estate, WHOLE)
        assert again.counts() == {"create": 0, "update": 0, "keep": 17, "delete": 0, "failed": 0}
        assert await estate.parts.topics.find("orders") == topic

    asyncio.run(run())


def test_changes_are_found() -> None:
    """A plan names the properties that change, a rotated key included, and the file's own change alone is made."""

    async def run() -> None:
        estate = new_estate(StillClock())
        await apply(estate, WHOLE)
        text = WHOLE.replace("labels: [red, green]", "labels: [red]").replace("kind: BlobStorage", "kind: StorageV2")
        text = text.replace(f"key1: {KEY}", "key1: QUJDREVGR0hJSktMTU5PUA==", 1)
        assert await steps(estate, text) == [
            "update storage account store kind",
            "update topic orders keys.key1",
            "update subscription orders/everything labels",
        ]
        await apply(estate, text)
        topic = await estate.parts.topics.find("orders")
        assert topic is not None and (topic.key1, topic.key2) == ("QUJDREVGR0hJSktMTU5PUA==", KEY)

    asyncio.run(run())


async def subscription(estate: EstateManager, topic: str = "fine", name: str = "sub") -> Subscription:
    found = await estate.parts.topics.find(topic)
    assert found is not None
    return await estate.parts.subscriptions.get(found, name)


def test_options() -> None:
    """Options of the file are the whole of them; a file without options, as a template, leaves those of the server."""

    async def run() -> None:
        estate = new_estate(StillClock())
        both = f"{OPTIONS} {{maxRequests: 4, signingSecrets: [{NEWER}]}}}}]}}]"
        await apply(estate, both)
        made = await subscription(estate)
        assert await steps(estate, both) == []
        assert await steps(estate, f"{OPTIONS} null}}]}}]") == []
        rotated = f"{OPTIONS} {{eventsPerSecond: 9, signingSecrets: [{OLDER}, {NEWER}]}}}}]}}]"
        names = "options.signingSecrets options.maxRequests options.eventsPerSecond"
        assert await steps(estate, rotated) == [f"update subscription fine/sub {names}"]
        await apply(estate, rotated)
        assert await steps(estate, rotated) == []
        changed = await subscription(estate)
        assert changed.id == made.id and (changed.options.max_requests, len(changed.options.signing)) == (0, 2)
        await estate.parts.options.retry_now(made.id)
        await apply(estate, f"{OPTIONS} {{}}}}]}}]")
        options = (await subscription(estate)).options
        assert (options.signing, options.events_per_second) == ((), 0) and options.retry_asked_at

    asyncio.run(run())


def test_no_event_before_its_signature() -> None:
    """A new subscription takes no event before its secrets are stored; a failure in between is mended by the next run.

    The log matches a segment by the filter in force at its position, so the order of the two records decides.
    """

    async def run() -> None:
        log, clock, text = MemoryLog(), StillClock(), f"{OPTIONS} {{signingSecrets: [{NEWER}]}}}}]}}]"
        estate = make_estate(log, *make_resources(log, clock), clock)
        await apply(estate, text)
        first, second = (await subscription(estate)).filters
        assert first.filter == TAKE_NONE and second.position == first.position + 1

        half = replace(await subscription(estate), filters=(FilterSince(0, TAKE_NONE),), own_options=UNSET)
        await log.put_subscription(half)
        assert await steps(estate, text) == ["update subscription fine/sub filter options.signingSecrets"]
        assert not (await apply(estate, text)).failed and await steps(estate, text) == []

    asyncio.run(run())


def test_prune() -> None:
    """Without --prune nothing is deleted; with it, everything goes that the file neither names nor needs."""

    async def run() -> None:
        estate = new_estate(StillClock())
        await apply(estate, WHOLE)
        small = "resourceGroup: shop\ntopics: [{name: orders, inputSchema: CustomEventSchema, location: there}]\n"
        small += "domains: [{name: many, subscriptions: [{name: outer, endpoint: 'https://example.com/c'}]}]\n"
        assert not [step for step in await steps(estate, small) if step.startswith("delete")]
        report = await apply(estate, small, prune=True)
        assert not report.failed
        left = await exported(estate, secrets=False)
        assert set(left) == {"resourceGroup", "resourceGroups", "topics", "domains"}
        assert "subscriptions" not in left["topics"][0]
        assert "topics" not in left["domains"][0] and len(left["domains"][0]["subscriptions"]) == 1
        assert await steps(estate, small, prune=True) == []

    asyncio.run(run())


def test_secrets_stay_inside() -> None:
    """An export without secrets has variables in their places; with these set, it makes the same server."""

    async def run() -> None:
        estate = new_estate(StillClock())
        await apply(estate, WHOLE)
        document = await exported(estate, secrets=False)
        text = write_document(document)
        for secret in ("hush", "code=secret", "SharedAccessKey=", KEY, NEWER, OLDER):
            assert secret not in text
        values = {
            "ORDERS_EVERYTHING_URL": "https://example.com/hook?code=secret",
            "ORDERS_EVERYTHING_X_SECRET": "hush",
            "ORDERS_EVERYTHING_SIGNING_SECRET": NEWER,
            "ORDERS_EVERYTHING_FORMER_SIGNING_SECRET": OLDER,
            "BUS_CONNECTION": read_document(WHOLE).data["connections"][0]["connectionString"],
        }
        asked: list[str] = []

        def read(source: str, name: str, path: str) -> str:
            asked.append(name)
            return values[name]

        filled = write_document(fill_in(document, read))
        assert sorted(asked) == sorted(values)
        assert await steps(estate, filled) == []

    asyncio.run(run())


def test_templates() -> None:
    """An export as a template deploys to an empty server, with its secrets as parameters."""

    async def run() -> None:
        first, second = new_estate(StillClock()), new_estate(StillClock())
        await apply(first, WHOLE)
        document = as_template([one async for one in walk_all(first.parts, URL)], NO_SUBSCRIPTION, "shop")
        assert set(document["parameters"]) == {"ordersEverythingUrl", "ordersEverythingXSecret"}
        given = {
            "ordersEverythingUrl": {"value": "https://example.com/hook?code=secret"},
            "ordersEverythingXSecret": {"value": "hush"},
        }
        resources = (await Expander(second.state, URL).expand(document, given, PLACE)).resources
        connections = WHOLE.partition("connections:")[2].partition("topics:")[0]
        await apply(second, f"connections:{connections}")
        assert not (await second.apply(resources)).failed
        one, two = await exported(first, secrets=False), await exported(second, secrets=False)
        del one["resourceGroups"], two["resourceGroups"]
        del one["topics"][0]["subscriptions"][0]["options"], one["storageAccounts"][0]["subscriptions"][0]["options"]
        assert one == two

    asyncio.run(run())


def destinations() -> str:
    """An estate with a subscription for every kind of destination, and the connections that they need."""
    provider = f"/subscriptions/{NO_SUBSCRIPTION}/resourceGroups/shop/providers"
    relay, hubs = f"{provider}/Microsoft.Relay/namespaces/relay", f"{provider}/Microsoft.EventHub/namespaces/hubs"
    bus, function = f"{provider}/Microsoft.ServiceBus/namespaces/bus", f"{provider}/Microsoft.Web/sites/app"
    grid = f"{provider}/Microsoft.EventGrid/topics/cloud"
    shared = "SharedAccessKeyName=p;SharedAccessKey=a2V5"
    ids = {
        "AzureFunction": f"{function}/functions/charge",
        "EventGrid": grid,
        "EventHub": f"{hubs}/eventhubs/hub",
        "HybridConnection": f"{relay}/hybridConnections/listener",
        "ServiceBusQueue": f"{bus}/queues/q",
        "ServiceBusTopic": f"{bus}/topics/t",
        "StorageQueue": STORE,
    }
    connections = [
        {"resourceId": function, "hostUrl": "http://localhost:7071"},
        {"resourceId": grid, "connectionString": f"Endpoint=https://cloud.example/api/events;SharedAccessKey={KEY}"},
        {"resourceId": hubs, "connectionString": f"Endpoint=sb://hubs.servicebus.windows.net/;{shared}"},
        {"resourceId": relay, "connectionString": f"Endpoint=sb://relay.servicebus.windows.net/;{shared}"},
        {"resourceId": bus, "connectionString": f"Endpoint=sb://bus.servicebus.windows.net/;{shared}"},
        {"resourceId": STORE, "azurite": True},
    ]
    subscriptions: list[dict[str, Any]] = [{"name": "to-webhook", "endpoint": "https://example.com/"}]
    for kind, id in ids.items():
        properties = {"resourceId": id, **({"queueName": "waiting"} if kind == "StorageQueue" else {})}
        destination = {"endpointType": kind, "properties": properties}
        subscriptions.append({"name": f"to-{kind.lower()}", "destination": destination})
    assert {"WebHook", *ids} == {row.endpoint_type for row in DESTINATION_KINDS.values()}
    account = {"name": "store", "kind": "StorageV2", "sku": {"name": "Standard_LRS"}}
    return write_document(
        {
            "resourceGroup": "shop",
            "storageAccounts": [account],
            "connections": connections,
            "topics": [{"name": "orders", "subscriptions": subscriptions}],
        }
    )


def test_every_kind_of_destination() -> None:
    """Estate file, export and template make the same subscription for each kind, and a second run changes nothing."""

    async def run() -> None:
        first, second, third = new_estate(StillClock()), new_estate(StillClock()), new_estate(StillClock())
        text = destinations()
        assert not (await apply(first, text)).failed and await steps(first, text) == []
        document = await exported(first, secrets=True)
        await apply(second, write_document(document))
        assert await exported(second, secrets=True) == document and await steps(second, text) == []
        template = as_template([one async for one in walk_all(first.parts, URL)], NO_SUBSCRIPTION, "shop")
        await apply(third, write_document({"connections": document["connections"]}))
        resources = (await Expander(third.state, URL).expand(template, {}, PLACE)).resources
        assert not (await third.apply(resources)).failed
        remade = await exported(third, secrets=True)
        assert remade["topics"][0]["subscriptions"] == document["topics"][0]["subscriptions"]
        assert len(remade["topics"][0]["subscriptions"]) == len(DESTINATION_KINDS)

    asyncio.run(run())


@pytest.mark.parametrize(
    ("text", "said", "target"),
    [
        ("topics: [{name: fine}, {name: x}]", "must be 3 to 50", "topics[1].name"),
        ("topics: [fine, {name: typo, inputSchem: x}]", "Did you mean 'inputSchema'?", "topics[1].inputSchem"),
        ("topics: [{name: fine, subscription: []}]", "Did you mean 'subscriptions'?", "topics[0].subscription"),
        ("topics: [{name: fine, subscriptions: [{name: sub, endpont: x}]}]", "Did you mean 'endpoint'?",
         "topics[0].subscriptions[0].endpont"),
        ("topics: [{name: fine, subscriptions: [{name: sub, filter: {advancedFilter: []}}]}]",
         "Did you mean 'advancedFilters'?", "topics[0].subscriptions[0].filter.advancedFilter"),
        ("topics: [{name: fine, keys: {key1: {evn: KEY}}}]", "{env: NAME} or {file: PATH}", "topics[0].keys.key1"),
        ("topics: [fine, {name: typo, inputSchema: Nothing}]", "must be one of", "topics[1].inputSchema"),
        ("topics: [{name: fine, subscriptions: [{name: sub, endpoint: 'ftp://x'}]}]", "URL",
         "topics[0].subscriptions[0].destination.properties.endpointUrl"),
        ("topics: [{name: fine, subscriptions: [{name: sub}]}]", "'destination' is required",
         "topics[0].subscriptions[0].destination"),
        ("topics: [{name: fine, keys: {key1: short}}]", "in base64", "topics[0].keys.key1"),
        ("topics: [{name: fine, keys: {key3: x}}]", "may have key1 and key2", "topics[0].keys"),
        (f"systemTopics: [{{name: sys, source: {STORE}, keys: {{key1: {KEY}}}}}]", "no keys", "systemTopics[0].keys"),
        ("topics: [{name: fine, tags: {recapito-profile: '1999'}}]", "1999", "topics[0].tags.recapito-profile"),
        ("resources: [{type: Microsoft.Web/sites, name: x}]", "'Microsoft.Web/sites' is not a type that is served",
         "resources[0].type"),
        ("resources: [{type: Microsoft.EventGrid/topic, name: x}]", "Did you mean 'Microsoft.EventGrid/topics'?",
         "resources[0].type"),
        ("resources: [{type: Microsoft.EventGrid/eventSubscriptions, name: sub}]", "no events of that scope",
         "resources[0].scope"),
        (f"resources: [{{type: Microsoft.EventGrid/topics/eventSubscriptions, name: gone/sub, {HOOK}}}]",
         "could not be found", "resources[0]"),
        (f"connections: [{{resourceId: {STORE}, sasUrl: 'https://x'}}]", "shared access signature",
         "connections[0].connection"),
        (f"topics: [{{name: fine, subscriptions: [{{name: sub, {QUEUE}}}]}}]", "There is no connection",
         "topics[0].subscriptions[0].destination.properties.resourceId"),
        (f"{OPTIONS} {{maxRequest: 4}}}}]}}]", "not a known", "topics[0].subscriptions[0].options.maxRequest"),
        (f"{OPTIONS} {{maxRequests: 65}}}}]}}]", "1 and 64", "topics[0].subscriptions[0].options.maxRequests"),
        (f"{OPTIONS} {{eventsPerSecond: 0}}}}]}}]", "between", "topics[0].subscriptions[0].options.eventsPerSecond"),
        (f"{OPTIONS} {{signingSecrets: [{NEWER}, hush]}}}}]}}]", "'whsec_' and",
         "topics[0].subscriptions[0].options.signingSecrets[1]"),
        (f"{OPTIONS} {{signingSecrets: [a, b, c]}}}}]}}]", "the one in use, and its former",
         "topics[0].subscriptions[0].options.signingSecrets"),
        (f"connections: [{{resourceId: {STORE}, azurite: true}}]\ntopics: [{{name: fine, subscriptions: [{{name: sub,"
         f" options: {{signingSecrets: [{NEWER}]}}, {QUEUE}}}]}}]", "Only requests to a webhook are signed",
         "topics[0].subscriptions[0].options.signingSecrets"),
    ],
)  # fmt: skip
def test_refused_whole(text: str, said: str, target: str) -> None:
    """A document that is wrong anywhere changes nothing, and its fault names the key."""

    async def run() -> None:
        message, path = await refused(new_estate(StillClock()), text)
        assert said in message
        assert path == target

    asyncio.run(run())


def test_refused_for_what_exists() -> None:
    """The rehearsal sees stored resources: what cannot change is refused before anything is made."""

    async def run() -> None:
        estate = new_estate(StillClock())
        await apply(estate, WHOLE)
        moved = WHOLE.partition("systemTopics:")[2].replace("storageAccounts/store", "storageAccounts/other")
        message, target = await refused(estate, f"resourceGroup: shop\ntopics: [first]\nsystemTopics:{moved}")
        assert "cannot change" in message and target == "systemTopics[0].source"
        message, target = await refused(estate, "topics: [first, orders]")
        assert "another resource group" in message and target == "topics[1].name"
        assert await estate.parts.topics.find("first", TopicKind.CUSTOM) is None

    asyncio.run(run())


def test_the_schema_fits() -> None:
    """Editors' schema takes the estate with every kind of resource and its export, and refuses a typo."""

    async def run() -> None:
        validator = jsonschema_rs.validator_for(estate_schema())
        estate = new_estate(StillClock())
        await apply(estate, WHOLE)
        for document in (read_document(WHOLE).data, await exported(estate, False), await exported(estate, True)):
            assert [error.message for error in validator.iter_errors(document)] == []
        assert not validator.is_valid({"topics": [{"name": "orders", "inputSchem": "x"}]})
        assert not validator.is_valid({"topicz": []})
        assert validator.is_valid({"topics": ["orders", {"name": "more", "keys": {"key1": {"env": "KEY"}}}]})

    asyncio.run(run())


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The paths of all values inside of a value."""
    members = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path] + [inner for key, member in members for inner in places(member, (*path, key))]


def spoiled(value: Any, path: tuple[Any, ...], new: Any) -> Any:
    """The value with another one at a path."""
    if not path:
        return new
    key, *rest = path
    copy = dict(value) if isinstance(value, dict) else list(value)
    copy[key] = spoiled(value[key], tuple(rest), new)
    return copy


RICH = {
    "parameters": {"p": {"type": "int", "defaultValue": 2, "minValue": 1, "maxValue": 3, "allowedValues": [2]}},
    "variables": {"v": "[parameters('p')]", "copy": [{"name": "w", "count": 2, "input": "[copyIndex('w')]"}]},
    "resources": [
        {
            "type": "Microsoft.EventGrid/topics",
            "name": "[concat('topic-', copyIndex())]",
            "copy": {"name": "loop", "count": "[parameters('p')]"},
            "condition": True,
            "tags": {"copy": [{"name": "x", "count": 1, "input": "y"}]},
            "resources": [{"type": "eventSubscriptions", "name": "sub", "properties": {"destination": {}}}],
        },
        {"type": "Microsoft.EventGrid/eventSubscriptions", "name": "sub", "scope": "a/b/c", "dependsOn": ["loop"]},
    ],
    "outputs": {"o": {"type": "array", "copy": {"count": 2, "input": "[variables('w')[copyIndex()]]"}}},
}
SPOILS: list[Any] = [
    *(None, True, -1, 10**9, 1.5, "", "x", "[", "[x()]", "[variables('v')]", "[reference('sub')]", [], [1], ["x"], {}),
    *({"x": 1}, {"copy": [1]}, {"name": 1}, {"env": "x"}),
]


@pytest.mark.parametrize(("whole", "spoils"), [(RICH, SPOILS), (read_document(WHOLE).data, SPOILS[::4])])
def test_whatever_is_in_a_document(whole: Any, spoils: list[Any]) -> None:
    """A value of any kind in any place of a document is taken or refused with a fault, never a defect."""

    async def run(document: Any) -> None:
        estate = new_estate(StillClock())
        expander = Expander(estate.state, URL)
        with suppress(DocumentFault):
            await estate.plan((await expander.expand(document, {}, PLACE)).resources)
        if is_template(document):
            with suppress(DocumentFault):
                await expander.outputs(document, {}, PLACE)

    async def run_all() -> None:
        for place in places(whole):
            for new in spoils:
                await run(spoiled(whole, place, new))

    asyncio.run(run_all())
