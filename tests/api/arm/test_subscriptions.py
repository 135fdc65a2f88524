"""Event subscriptions over ARM: two names for one object, defaults, secrets, ranges and what is not built yet."""

from typing import Any

import pytest

from recapito.domain import limits
from recapito.domain.filters.filter import Filter
from recapito.domain.resources.subscription import Batching, DeadLetterDirectory, RetryPolicy
from tests.api.arm.subscription_body import body
from tests.api.client import NESTED, SCOPE, TOPIC, World, run, webhook
from tests.kit.arm_errors import refused

DESTINATION = "properties.destination.properties"


def shown(form: str, state: str = "Succeeded") -> dict[str, Any]:
    kind = (
        "Microsoft.EventGrid/eventSubscriptions" if form == SCOPE else "Microsoft.EventGrid/topics/eventSubscriptions"
    )
    return {
        "id": f"{form}/mine",
        "name": "mine",
        "type": kind,
        "properties": {
            "topic": TOPIC,
            "provisioningState": state,
            "destination": {
                "endpointType": "WebHook",
                "properties": {
                    "endpointBaseUrl": "https://example.com/hook",
                    "maxEventsPerBatch": 1,
                    "preferredBatchSizeInKilobytes": 64,
                },
            },
            "deliveryWithResourceIdentity": None,
            "filter": {
                "subjectBeginsWith": "",
                "subjectEndsWith": "",
                "includedEventTypes": None,
                "isSubjectCaseSensitive": False,
                "enableAdvancedFilteringOnArrays": False,
                "advancedFilters": [],
            },
            "labels": None,
            "expirationTimeUtc": None,
            "eventDeliverySchema": "EventGridSchema",
            "retryPolicy": {"maxDeliveryAttempts": 30, "eventTimeToLiveInMinutes": 1440},
            "deadLetterDestination": None,
            "deadLetterWithResourceIdentity": None,
        },
        "systemData": {
            "createdAt": "2023-11-14T22:13:20.0000000Z",
            "lastModifiedAt": "2023-11-14T22:13:20.0000000Z",
        },
    }


@pytest.mark.parametrize("form", [NESTED, SCOPE])
def test_one_object_under_two_names(form: str) -> None:
    """A subscription put under one name is found under both, each with its own id and type, every default filled in."""

    async def test(world: World) -> None:
        await world.topic()
        made = await world.arm("PUT", f"{form}/mine", body())
        assert (made.status, made.json) == (201, shown(form, "Creating"))
        assert (made.headers["retry-after"], made.headers["etag"]) == ("0", '"1"')
        for name in (NESTED, SCOPE):
            assert (await world.arm("GET", f"{name}/mine")).json == shown(name)
            assert (await world.arm("GET", name)).json == {"value": [shown(name)]}

    run(test)


def test_the_query_of_the_endpoint_is_never_shown() -> None:
    """The URL's query may be a secret: neither the answers nor an error repeats it."""

    async def test(world: World) -> None:
        await world.topic()
        answers = [
            await world.arm("PUT", f"{NESTED}/mine", body()),
            await world.arm("GET", f"{NESTED}/mine"),
            await world.arm("GET", NESTED),
            await world.arm("PUT", f"{NESTED}/mine", {"properties": {"destination": webhook("ftp://h/?code=secret")}}),
        ]
        assert all(b"secret" not in answer.body for answer in answers)

    run(test)


def test_everything_that_can_be_set() -> None:
    """Batching, retry policy, dead letters, filter and labels arrive in the subscription and are shown again."""

    async def test(world: World) -> None:
        await world.topic()
        made = await world.subscription(
            destination=webhook(maxEventsPerBatch=5000, preferredBatchSizeInKilobytes=1024),
            retryPolicy={"maxDeliveryAttempts": 1, "eventTimeToLiveInMinutes": 1},
            deadLetterDestination={"endpointType": "Directory", "properties": {"name": "orders"}},
            filter={
                "includedEventTypes": ["A", "B"],
                "subjectBeginsWith": "/a",
                "subjectEndsWith": ".jpg",
                "isSubjectCaseSensitive": True,
                "enableAdvancedFilteringOnArrays": True,
                "advancedFilters": [],
            },
            labels=["x", "y"],
            eventDeliverySchema="EventGridSchema",
        )
        assert made.destination.url == "https://example.com/hook?code=secret"
        assert made.batching == Batching(5000, 1024)
        assert made.retry_policy == RetryPolicy(1, 1)
        assert made.dead_letter == DeadLetterDirectory("orders")
        assert made.filter == Filter(("A", "B"), "/a", ".jpg", True, arrays=True)
        properties = (await world.arm("GET", f"{NESTED}/mine")).json["properties"]
        assert properties["destination"]["properties"]["maxEventsPerBatch"] == 5000
        assert properties["destination"]["properties"]["preferredBatchSizeInKilobytes"] == 1024
        assert properties["retryPolicy"] == {"maxDeliveryAttempts": 1, "eventTimeToLiveInMinutes": 1}
        assert properties["deadLetterDestination"] == {"endpointType": "Directory", "properties": {"name": "orders"}}
        assert properties["filter"]["includedEventTypes"] == ["A", "B"]
        assert properties["labels"] == ["x", "y"]

    run(test)


@pytest.mark.parametrize(
    ("sent", "batching", "events", "kilobytes"),
    [
        ({}, Batching(), 1, 64),
        ({"maxEventsPerBatch": 1}, Batching(1), 1, 64),
        ({"preferredBatchSizeInKilobytes": 4}, Batching(None, 4), 5000, 4),
        ({"maxEventsPerBatch": 10}, Batching(10), 10, 64),
        ({"maxEventsPerBatch": None, "preferredBatchSizeInKilobytes": None}, Batching(), 1, 64),
    ],
)
def test_batching_is_on_only_when_asked_for(sent: Any, batching: Batching, events: int, kilobytes: int) -> None:
    """Each of the two settings alone turns batching on, with the other's default (spec A8)."""

    async def test(world: World) -> None:
        await world.topic()
        made = await world.subscription(destination=webhook(**sent))
        assert made.batching == batching
        properties = (await world.arm("GET", f"{NESTED}/mine")).json["properties"]["destination"]["properties"]
        assert (properties["maxEventsPerBatch"], properties["preferredBatchSizeInKilobytes"]) == (events, kilobytes)

    run(test)


@pytest.mark.parametrize("types", [None, [], ["All"], ["all", "A"]])
def test_no_event_types_are_all_of_them(types: Any) -> None:
    """Null, an empty list and the literal All take every event type."""

    async def test(world: World) -> None:
        await world.topic()
        assert (await world.subscription(filter={"includedEventTypes": types})).filter.takes_all

    run(test)


def test_what_was_shown_can_be_put_again() -> None:
    """A shown subscription with its URL filled in is a body that can be put, under any profile."""

    async def test(world: World) -> None:
        await world.topic(tags={"recapito-profile": "2019-05"})
        await world.subscription()
        again = (await world.arm("GET", f"{SCOPE}/mine")).json
        again["properties"]["destination"]["properties"]["endpointUrl"] = "https://example.com/hook"
        assert (await world.arm("PUT", f"{SCOPE}/mine", again)).status == 201

    run(test)


@pytest.mark.parametrize("form", [NESTED, SCOPE])
def test_delete(form: str) -> None:
    """DELETE answers 200, and 204 when there is nothing to delete, be it the subscription or the topic."""

    async def test(world: World) -> None:
        await world.topic()
        await world.subscription()
        assert [(await world.arm("DELETE", f"{form}/mine")).status for _ in range(2)] == [200, 204]
        refused(await world.arm("GET", f"{form}/mine"), 404, "ResourceNotFound")
        await world.arm("DELETE", TOPIC)
        assert (await world.arm("DELETE", f"{form}/mine")).status == 204

    run(test)


def test_without_a_topic() -> None:
    """On a topic that is not there everything is 404, and so it is in a group that is not there."""

    async def test(world: World) -> None:
        refused(await world.arm("PUT", f"{NESTED}/mine", body()), 404, "ResourceGroupNotFound")
        await world.topic()
        await world.arm("DELETE", TOPIC)
        for method, path in (("PUT", f"{NESTED}/mine"), ("GET", f"{SCOPE}/mine"), ("GET", NESTED)):
            refused(await world.arm(method, path, body()), 404, "ParentResourceNotFound")

    run(test)


def test_pages() -> None:
    """A list goes page by page along nextLink; a token that no list has given is refused."""

    async def test(world: World) -> None:
        await world.topic()
        for n in range(5):
            await world.subscription(f"sub-{n}")
        first = (await world.arm("GET", f"{SCOPE}?$top=3")).json
        second = (await world.call("GET", first["nextLink"].removeprefix("http://127.0.0.1:8585"))).json
        names = [one["name"] for one in first["value"] + second["value"]]
        assert names == [f"sub-{n}" for n in range(5)]
        assert "nextLink" not in second
        for token in ("x", "-1", "9" * 30):
            refused(await world.arm("GET", f"{SCOPE}?$skiptoken={token}"), 400, "InvalidRequest", "$skiptoken")

    run(test)


RANGES = [
    ("maxDeliveryAttempts", limits.ATTEMPTS),
    ("eventTimeToLiveInMinutes", limits.TTL_MINUTES),
    ("maxEventsPerBatch", limits.BATCH_EVENTS),
    ("preferredBatchSizeInKilobytes", limits.BATCH_KILOBYTES),
]


def setting(field: str, value: Any) -> tuple[dict[str, Any], str]:
    """A body with this setting, and the path of it."""
    if field in ("maxDeliveryAttempts", "eventTimeToLiveInMinutes"):
        return body(retryPolicy={field: value}), f"properties.retryPolicy.{field}"
    return body(destination=webhook(**{field: value})), f"{DESTINATION}.{field}"


@pytest.mark.parametrize(("field", "allowed"), RANGES)
def test_ranges(field: str, allowed: tuple[int, int]) -> None:
    """Both ends are taken; one beyond each, and far beyond, is 400 with the path and the range."""

    async def test(world: World) -> None:
        await world.topic()
        for value in allowed:
            assert (await world.arm("PUT", f"{NESTED}/mine", setting(field, value)[0])).status == 201
        for value in (allowed[0] - 1, allowed[1] + 1, -(10**30), 10**30):
            sent, target = setting(field, value)
            said = refused(await world.arm("PUT", f"{NESTED}/mine", sent), 400, "InvalidRequest", target)
            assert f"between {allowed[0]} and {allowed[1]}" in said

    run(test)


@pytest.mark.parametrize("field", [field for field, _ in RANGES])
@pytest.mark.parametrize("value", ["10", 1.5, True, [], {}])
def test_wrong_types_of_numbers(field: str, value: Any) -> None:
    """A number that is no integer is 400 with its path."""

    async def test(world: World) -> None:
        await world.topic()
        sent, target = setting(field, value)
        refused(await world.arm("PUT", f"{NESTED}/mine", sent), 400, "InvalidRequest", target)

    run(test)


@pytest.mark.parametrize(
    ("sent", "target"),
    [
        ({}, "properties"),
        ({"properties": None}, "properties"),
        ({"properties": {}}, "properties.destination"),
        ({**body(), "colour": 1}, "colour"),
        (body(colour=1), "properties.colour"),
        (body(destination={}), "properties.destination.endpointType"),
        (body(destination={"endpointType": "Pigeon"}), "properties.destination.endpointType"),
        (body(destination={"endpointType": "WebHook"}), f"{DESTINATION}.endpointUrl"),
        (body(destination={"endpointType": "WebHook", "properties": None}), DESTINATION),
        (body(destination={"endpointType": "WebHook", "properties": {}}), f"{DESTINATION}.endpointUrl"),
        (body(destination=webhook(colour=1)), f"{DESTINATION}.colour"),
        (body(destination=webhook(7)), f"{DESTINATION}.endpointUrl"),
        (body(filter=[]), "properties.filter"),
        (body(filter={"colour": 1}), "properties.filter.colour"),
        (body(filter={"includedEventTypes": "A"}), "properties.filter.includedEventTypes"),
        (body(filter={"includedEventTypes": ["A", 1]}), "properties.filter.includedEventTypes[1]"),
        (body(filter={"includedEventTypes": [""]}), "properties.filter.includedEventTypes"),
        (body(filter={"includedEventTypes": ["A"] * 1001}), "properties.filter.includedEventTypes"),
        (body(filter={"subjectBeginsWith": 1}), "properties.filter.subjectBeginsWith"),
        (body(filter={"subjectBeginsWith": "x" * 513}), "properties.filter.subjectBeginsWith"),
        (body(filter={"subjectEndsWith": "x" * 513}), "properties.filter.subjectEndsWith"),
        (body(filter={"isSubjectCaseSensitive": "yes"}), "properties.filter.isSubjectCaseSensitive"),
        (body(labels="x"), "properties.labels"),
        (body(labels=["x"] * 101), "properties.labels"),
        (body(labels=["x" * 257]), "properties.labels"),
        (body(retryPolicy=[]), "properties.retryPolicy"),
        (body(eventDeliverySchema="Klingon"), "properties.eventDeliverySchema"),
        (body(deadLetterDestination={}), "properties.deadLetterDestination.endpointType"),
        (body(deadLetterDestination={"endpointType": "Bin"}), "properties.deadLetterDestination.endpointType"),
        (body(deadLetterDestination={"endpointType": "Directory"}), "properties.deadLetterDestination.properties.name"),
    ],
)
def test_bad_fields(sent: Any, target: str) -> None:
    """Unknown, missing and wrong fields are 400 with their path; nothing is made."""

    async def test(world: World) -> None:
        topic = await world.topic()
        refused(await world.arm("PUT", f"{NESTED}/mine", sent), 400, "InvalidRequest", target)
        assert await world.log.subscription(topic.id, "mine") is None

    run(test)


@pytest.mark.parametrize(
    "name",
    ["", "ab", "x" * 64, "Orders", "-orders", "orders-", "a_b", "..", "../x", "a/b", "or\nders", "orders\n", "ab\0c"],
)
def test_bad_directories(name: str) -> None:
    """A dead-letter directory is a plain name, so that nothing outside is ever written."""

    async def test(world: World) -> None:
        await world.topic()
        sent = body(deadLetterDestination={"endpointType": "Directory", "properties": {"name": name}})
        target = "properties.deadLetterDestination.properties.name"
        refused(await world.arm("PUT", f"{NESTED}/mine", sent), 400, "InvalidRequest", target)

    run(test)


@pytest.mark.parametrize("name", ["abc", "x" * 63, "my-orders-1"])
def test_good_directories(name: str) -> None:
    """Names of 3 to 63 characters are taken."""

    async def test(world: World) -> None:
        await world.topic()
        place = {"endpointType": "Directory", "properties": {"name": name}}
        assert (await world.subscription(deadLetterDestination=place)).dead_letter == DeadLetterDirectory(name)

    run(test)


@pytest.mark.parametrize(
    ("sent", "target"),
    [
        *(
            (
                body(destination={"endpointType": kind, "properties": {"resourceId": "/x"}}),
                "properties.destination.endpointType",
            )
            for kind in ("MonitorAlert",)
        ),
    ],
)
def test_what_is_not_built_is_refused_and_not_ignored(sent: Any, target: str) -> None:
    """A part of Event Grid that is not there yet is refused by name."""

    async def test(world: World) -> None:
        await world.topic()
        said = refused(await world.arm("PUT", f"{NESTED}/mine", sent), 400, "NotSupported", target)
        assert "not supported yet by this version of Recapito" in said

    run(test)


@pytest.mark.parametrize(
    "url",
    ["ftp://x.example/", "https://u:p@x.example/", "http://169.254.169.254/", "https://x.example/\r\nX: 1", "x" * 3000],
)
def test_bad_endpoints(url: str) -> None:
    """An endpoint that could not be dialled, or that would smuggle a header, is 400 with its path."""

    async def test(world: World) -> None:
        await world.topic()
        answer = await world.arm("PUT", f"{NESTED}/mine", body(destination=webhook(url)))
        refused(answer, 400, "InvalidEndpoint", f"{DESTINATION}.endpointUrl")

    run(test)


def test_batching_under_a_profile_that_has_none() -> None:
    """400 names the field by its path, and the profile."""

    async def test(world: World) -> None:
        await world.topic(tags={"recapito-profile": "2019-07"})
        answer = await world.arm("PUT", f"{NESTED}/mine", body(destination=webhook(maxEventsPerBatch=10)))
        assert "2019-07" in refused(answer, 400, "InvalidRequest", f"{DESTINATION}.maxEventsPerBatch")

    run(test)


@pytest.mark.parametrize("name", ["ab", "x" * 65, "a_b", "a\r\nb"])
def test_bad_names(name: str) -> None:
    """The name becomes a header and a folder: only letters, digits and hyphens."""

    async def test(world: World) -> None:
        await world.topic()
        refused(await world.arm("PUT", f"{NESTED}/{name}", body()), 400, "InvalidRequest", "name")

    run(test)
