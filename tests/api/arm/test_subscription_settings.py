"""The settings of a subscription over ARM: schemas, filters, delivery attributes, expiry, PATCH, secrets."""

from typing import Any

import pytest

from recapito.domain import limits
from recapito.domain.events.schema import DeliverySchema, InputSchema
from recapito.domain.events.schema_table import INPUT_SCHEMAS
from recapito.domain.filters.filter import Condition, Operator
from recapito.domain.instant import HOUR
from recapito.domain.resources.subscription import DeadLetterBlobs, DynamicAttribute, StaticAttribute
from tests.api.arm.doubles import everywhere
from tests.api.arm.subscription_body import body
from tests.api.client import NESTED, SCOPE, World, run, webhook
from tests.kit.arm_errors import refused

WITHIN = "properties.destination.properties"
MAPPINGS = "deliveryAttributeMappings"
FILTERS = "properties.filter.advancedFilters"
ACCOUNT = "/subscriptions/s/resourceGroups/g/providers/Microsoft.Storage/storageAccounts/myaccount"


@pytest.mark.parametrize("schema", list(InputSchema))
@pytest.mark.parametrize("wanted", [None, *DeliverySchema])
def test_the_delivery_schema_follows_the_matrix(schema: InputSchema, wanted: DeliverySchema | None) -> None:
    """A schema that a topic's events convert to is taken and shown; any other is 400 and names both schemas."""

    async def test(world: World) -> None:
        await world.topic(properties={"inputSchema": schema.value})
        sent = body() if wanted is None else body(eventDeliverySchema=wanted.value.lower())
        answer = await world.arm("PUT", f"{NESTED}/mine", sent)
        if wanted is None or wanted in INPUT_SCHEMAS[schema].conversions:
            made = (await world.arm("GET", f"{NESTED}/mine")).json["properties"]
            assert made["eventDeliverySchema"] == (wanted or next(iter(INPUT_SCHEMAS[schema].conversions))).value
        else:
            said = refused(answer, 400, "InvalidRequest", "properties.eventDeliverySchema")
            assert schema.value in said
            assert wanted.value in said

    run(test)


SAMPLES: dict[Operator, dict[str, Any]] = {
    Operator.NUMBER_IN: {"values": [1, 2.5]},
    Operator.NUMBER_NOT_IN: {"values": [1]},
    Operator.NUMBER_LESS_THAN: {"value": 5},
    Operator.NUMBER_GREATER_THAN: {"value": 5.5},
    Operator.NUMBER_LESS_THAN_OR_EQUALS: {"value": -1},
    Operator.NUMBER_GREATER_THAN_OR_EQUALS: {"value": 0},
    Operator.NUMBER_IN_RANGE: {"values": [[1, 2], [3.5, 4.5]]},
    Operator.NUMBER_NOT_IN_RANGE: {"values": [[1, 1]]},
    Operator.BOOL_EQUALS: {"value": False},
    Operator.STRING_CONTAINS: {"values": ["a", ""]},
    Operator.STRING_NOT_CONTAINS: {"values": ["a"]},
    Operator.STRING_BEGINS_WITH: {"values": ["a"]},
    Operator.STRING_NOT_BEGINS_WITH: {"values": ["a"]},
    Operator.STRING_ENDS_WITH: {"values": ["a"]},
    Operator.STRING_NOT_ENDS_WITH: {"values": ["a"]},
    Operator.STRING_IN: {"values": ["a"]},
    Operator.STRING_NOT_IN: {"values": ["x" * 512]},
    Operator.IS_NULL_OR_UNDEFINED: {},
    Operator.IS_NOT_NULL: {},
}


def advanced(*filters: Any, **more: Any) -> dict[str, Any]:
    return body(filter={"advancedFilters": list(filters), **more})


def test_every_operator() -> None:
    """All nineteen operators are taken together and shown back as they were sent."""

    async def test(world: World) -> None:
        await world.topic()
        assert set(SAMPLES) == set(Operator)
        sent = [{"operatorType": op.value, "key": "data.k", **operand} for op, operand in SAMPLES.items()]
        assert (await world.arm("PUT", f"{NESTED}/mine", advanced(*sent))).status == 201
        shown = (await world.arm("GET", f"{SCOPE}/mine")).json["properties"]["filter"]
        assert shown["advancedFilters"] == sent

    run(test)


@pytest.mark.parametrize(
    "filters",
    [
        {"AdvancedFilters": [{"Operator": "stringin", "Key": "data.k", "Values": ["a"]}]},
        {"advancedfilters": [{"OPERATORTYPE": "StringIn", "KEY": "data.k", "VALUES": ["a"]}]},
    ],
)
def test_spellings_of_filters(filters: Any) -> None:
    """Property names compare without case, and the oldest clients' `operator` is taken."""

    async def test(world: World) -> None:
        await world.topic()
        made = await world.subscription(Filter={"EnableAdvancedFilteringOnArrays": True, **filters})
        assert made.filter.conditions == (Condition(Operator.STRING_IN, "data.k", ("a",)),)
        assert made.filter.arrays

    run(test)


MANY = [{"operatorType": "IsNotNull", "key": "data.k"}]


@pytest.mark.parametrize(
    ("filter", "target"),
    [
        ({"key": "k"}, "[0].operatorType"),
        ({"operatorType": "Sometimes", "key": "k"}, "[0].operatorType"),
        ({"operatorType": "NumberIn", "values": [1]}, "[0].key"),
        ({"operatorType": "NumberIn", "key": "", "values": [1]}, "[0].key"),
        ({"operatorType": "NumberIn", "key": "k" * 513, "values": [1]}, "[0].key"),
        ({"operatorType": "NumberIn", "key": "k"}, "[0].values"),
        ({"operatorType": "NumberIn", "key": "k", "values": []}, "[0].values"),
        ({"operatorType": "NumberIn", "key": "k", "value": 1}, "[0].values"),
        ({"operatorType": "NumberIn", "key": "k", "values": [1, "2"]}, "[0].values[1]"),
        ({"operatorType": "NumberIn", "key": "k", "values": [True]}, "[0].values[0]"),
        ({"operatorType": "NumberIn", "key": "k", "values": [10**400]}, "[0].values[0]"),
        ({"operatorType": "NumberLessThan", "key": "k", "values": [1]}, "[0].value"),
        ({"operatorType": "NumberLessThan", "key": "k", "value": "1"}, "[0].value"),
        ({"operatorType": "NumberInRange", "key": "k", "values": [1, 2]}, "[0].values[0]"),
        ({"operatorType": "NumberInRange", "key": "k", "values": [[2, 1]]}, "[0].values[0]"),
        ({"operatorType": "NumberInRange", "key": "k", "values": [[1, 2, 3]]}, "[0].values[0]"),
        ({"operatorType": "BoolEquals", "key": "k", "value": 1}, "[0].value"),
        ({"operatorType": "StringIn", "key": "k", "values": [1]}, "[0].values[0]"),
        ({"operatorType": "StringIn", "key": "k", "values": ["x" * 513]}, "[0].values[0]"),
        ({"operatorType": "StringIn", "key": "k", "values": ["x"] * 26}, ""),
        ({"operatorType": "IsNotNull", "key": "k", "value": 1}, "[0]"),
        ({"operatorType": "IsNotNull", "key": "k", "colour": 1}, "[0].colour"),
    ],
)
def test_bad_filters(filter: Any, target: str) -> None:
    """An advanced filter that cannot be is 400 with its place in the list."""

    async def test(world: World) -> None:
        await world.topic()
        refused(await world.arm("PUT", f"{NESTED}/mine", advanced(filter)), 400, "InvalidRequest", FILTERS + target)

    run(test)


def test_limits_of_filters() -> None:
    """25 filters and 25 values in all are taken, one more of either is not; a huge integer is taken as a double."""

    async def test(world: World) -> None:
        await world.topic()
        values = {"operatorType": "NumberIn", "key": "k", "values": [10**30, *range(24)]}
        assert (await world.arm("PUT", f"{NESTED}/mine", advanced(values, *MANY * 24))).status == 201
        assert (await world.arm("GET", f"{NESTED}/mine")).status == 200
        refused(await world.arm("PUT", f"{NESTED}/mine", advanced(*MANY * 26)), 400, "InvalidRequest", FILTERS)
        one = {"operatorType": "NumberLessThan", "key": "k", "value": 1}
        refused(await world.arm("PUT", f"{NESTED}/mine", advanced(values, one)), 400, "InvalidRequest", FILTERS)

    run(test)


SECRET = {"name": "X-Key", "type": "Static", "properties": {"value": "hunter2", "isSecret": True}}
PLAIN = {"name": "x-plain", "type": "Static", "properties": {"value": "plain", "isSecret": False}}
DYNAMIC = {"name": "x-dynamic", "type": "Dynamic", "properties": {"sourceField": "data.k"}}


@pytest.mark.parametrize("form", [NESTED, SCOPE])
def test_delivery_attributes(form: str) -> None:
    """They are stored; a secret is shown as null, and in full only by getDeliveryAttributes."""

    async def test(world: World) -> None:
        await world.topic()
        made = await world.subscription(destination=webhook(deliveryAttributeMappings=[SECRET, PLAIN, DYNAMIC]))
        assert made.attributes == (
            StaticAttribute("X-Key", "hunter2", True),
            StaticAttribute("x-plain", "plain"),
            DynamicAttribute("x-dynamic", "data.k"),
        )
        answers = [await world.arm("GET", f"{form}/mine"), await world.arm("GET", form)]
        assert all(b"hunter2" not in answer.body for answer in answers)
        shown = answers[0].json["properties"]["destination"]["properties"][MAPPINGS]
        hidden = {**SECRET, "properties": {"value": None, "isSecret": True}}
        assert shown == [hidden, PLAIN, DYNAMIC]
        full = await world.arm("POST", f"{form}/mine/getDeliveryAttributes")
        assert (full.status, full.json) == (200, {"value": [SECRET, PLAIN, DYNAMIC]})
        url = await world.arm("POST", f"{form}/mine/getFullUrl")
        assert (url.status, url.json) == (200, {"endpointUrl": "https://example.com/hook?code=secret"})
        refused(await world.arm("POST", f"{form}/nobody/getFullUrl"), 404, "ResourceNotFound")

    run(test)


def static(name: str, value: Any = "v") -> dict[str, Any]:
    return {"name": name, "type": "Static", "properties": {"value": value}}


@pytest.mark.parametrize(
    ("mapping", "target"),
    [
        (static("aeg-x"), "[0].name"),
        (static("AEG-x"), "[0].name"),
        (static("Host"), "[0].name"),
        (static("content-length"), "[0].name"),
        (static("Transfer-Encoding"), "[0].name"),
        (static("Content-Type"), "[0].name"),
        (static("connection"), "[0].name"),
        (static("a b"), "[0].name"),
        (static("a:b"), "[0].name"),
        (static("a\r\nb"), "[0].name"),
        (static(""), "[0].name"),
        (static("x" * 257), "[0].name"),
        (static("x", None), "[0].properties.value"),
        (static("x", 1), "[0].properties.value"),
        (static("x", "a\r\nHost: b"), "[0].properties.value"),
        (static("x", "x" * 4097), "[0].properties.value"),
        (static("x", "é"), "[0].properties.value"),
        ({"name": "x", "type": "Static"}, "[0].properties.value"),
        ({"name": "x", "type": "Odd"}, "[0].type"),
        ({"name": "x"}, "[0].type"),
        ({"type": "Static"}, "[0].name"),
        ({"name": "x", "type": "Dynamic", "properties": {}}, "[0].properties.sourceField"),
        ({"name": "x", "type": "Dynamic", "properties": {"sourceField": ""}}, "[0].properties.sourceField"),
        ("x", "[0]"),
    ],
)
def test_bad_delivery_attributes(mapping: Any, target: str) -> None:
    """A header that is ours, that cannot be a header, or that would smuggle one, is 400 with its place."""

    async def test(world: World) -> None:
        await world.topic()
        sent = body(destination=webhook(deliveryAttributeMappings=[mapping]))
        refused(await world.arm("PUT", f"{NESTED}/mine", sent), 400, "InvalidRequest", f"{WITHIN}.{MAPPINGS}{target}")

    run(test)


def test_limits_of_delivery_attributes() -> None:
    """Ten headers of 4096 bytes are taken, not eleven, and none twice; Authorization only without a bearer token."""

    async def test(world: World) -> None:
        await world.topic()
        ten = [static(f"x-{n}", "x" * limits.ATTRIBUTE_VALUE_BYTES) for n in range(10)]
        await world.subscription(destination=webhook(deliveryAttributeMappings=ten))
        for mappings, target in (
            ([*ten, static("y")], ""),
            ([static("x"), static("X")], "[1].name"),
        ):
            sent = body(destination=webhook(deliveryAttributeMappings=mappings))
            answer = await world.arm("PUT", f"{NESTED}/mine", sent)
            refused(answer, 400, "InvalidRequest", f"{WITHIN}.{MAPPINGS}{target}")
        secret = [static("Authorization", "Bearer x")]
        await world.subscription(destination=webhook(deliveryAttributeMappings=secret))
        entra = {"azureActiveDirectoryTenantId": "t", "azureActiveDirectoryApplicationIdOrUri": "a"}
        sent = body(destination=webhook(deliveryAttributeMappings=secret, **entra))
        answer = await world.arm("PUT", f"{NESTED}/mine", sent)
        refused(answer, 400, "InvalidRequest", f"{WITHIN}.{MAPPINGS}[0].name")

    run(test)


def test_tenant_and_application_come_together() -> None:
    """Both are stored and shown; one alone is 400 and names the other."""

    async def test(world: World) -> None:
        await world.topic()
        tenant, application = "azureActiveDirectoryTenantId", "azureActiveDirectoryApplicationIdOrUri"
        both = {tenant: "t-1", application: "api://a"}
        made = await world.subscription(destination=webhook(**both, minimumTlsVersionAllowed="1.2"))
        assert (made.destination.tenant, made.destination.application) == ("t-1", "api://a")
        shown = (await world.arm("GET", f"{NESTED}/mine")).json["properties"]["destination"]["properties"]
        assert {**both, "minimumTlsVersionAllowed": "1.2"}.items() <= shown.items()
        for given, missing in ((tenant, application), (application, tenant)):
            sent = body(destination=webhook(**{given: "x"}))
            refused(await world.arm("PUT", f"{NESTED}/mine", sent), 400, "InvalidRequest", f"{WITHIN}.{missing}")

    run(test)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("2027-01-01T00:00:00.000Z", "2027-01-01T00:00:00.0000000Z"),
        ("2027-01-01T00:00:00Z", "2027-01-01T00:00:00.0000000Z"),
        ("2027-01-01T02:00:00+02:00", "2027-01-01T00:00:00.0000000Z"),
        ("2027-01-01T00:00:00.1234567Z", "2027-01-01T00:00:00.1234560Z"),
        ("2027-01-01T00:00:00", "2027-01-01T00:00:00.0000000Z"),
        ("2027-01-01", "2027-01-01T00:00:00.0000000Z"),
    ],
)
def test_expiration_times(text: str, shown: str) -> None:
    """Every form that clients send is taken, and shown in UTC."""

    async def test(world: World) -> None:
        await world.topic()
        await world.subscription(expirationTimeUtc=text)
        assert (await world.arm("GET", f"{NESTED}/mine")).json["properties"]["expirationTimeUtc"] == shown

    run(test)


@pytest.mark.parametrize(
    "text",
    ["2020-01-01T00:00:00Z", "2023-11-14T22:13:20Z", "9999-01-01T00:00:00Z", "soon", "0001-01-01T00:00:00+14:00"],
)
def test_bad_expiration_times(text: str) -> None:
    """A text that is no time, or a time in the past or too far ahead, is 400."""

    async def test(world: World) -> None:
        await world.topic()
        answer = await world.arm("PUT", f"{NESTED}/mine", body(expirationTimeUtc=text))
        said = refused(answer, 400, "InvalidRequest", "properties.expirationTimeUtc")
        assert said.startswith("Invalid expiration time." if "0:00Z" in text or "20Z" in text else "'properties.")

    run(test)


def test_an_expired_subscription_is_shown_no_more() -> None:
    """At its time it is gone from GET and lists, DELETE finds nothing, and its name can be used again."""

    async def test(world: World) -> None:
        await world.topic()
        old = await world.subscription(expirationTimeUtc="2023-11-14T23:13:20Z")
        world.clock.instant += HOUR
        refused(await world.arm("GET", f"{SCOPE}/mine"), 404, "ResourceNotFound")
        refused(await world.arm("PATCH", f"{SCOPE}/mine", {}), 404, "ResourceNotFound")
        assert (await world.arm("GET", NESTED)).json == {"value": []}
        assert (await world.arm("DELETE", f"{NESTED}/mine")).status == 204
        assert (await world.subscription()).id != old.id

    run(test)


def test_dead_letters_in_blobs() -> None:
    """A container of a storage account is taken and shown; wrong ids and names are 400 with their path."""

    async def test(world: World) -> None:
        await world.topic()

        def blobs(account: Any = ACCOUNT, container: Any = "dead-letters") -> dict[str, Any]:
            properties = {"resourceId": account, "blobContainerName": container}
            return {"endpointType": "StorageBlob", "properties": properties}

        made = await world.subscription(deadLetterDestination=blobs())
        assert made.dead_letter == DeadLetterBlobs(ACCOUNT, "dead-letters")
        assert made.dead_letter.container == f"{ACCOUNT}/blobServices/default/containers/dead-letters".lower()
        shown = (await world.arm("GET", f"{NESTED}/mine")).json["properties"]["deadLetterDestination"]
        assert shown == blobs()
        within = "properties.deadLetterDestination.properties"
        for bad in ("", None, "/x", f"{ACCOUNT}/../..", ACCOUNT + "/blobServices/default", ACCOUNT + "-"):
            answer = await world.arm("PUT", f"{NESTED}/mine", body(deadLetterDestination=blobs(account=bad)))
            refused(answer, 400, "InvalidRequest", f"{within}.resourceId")
        for bad in ("", None, "..", "a/b", "Upper", "a--b", "-ab", "ab-", "x" * 64, "ab"):
            answer = await world.arm("PUT", f"{NESTED}/mine", body(deadLetterDestination=blobs(container=bad)))
            refused(answer, 400, "InvalidRequest", f"{within}.blobContainerName")

    run(test, find_connection=everywhere)


def test_resource_identities_are_shown_as_they_were_asked() -> None:
    """A destination wrapped with an identity is taken, delivered to, and shown in its wrapper."""

    async def test(world: World) -> None:
        await world.topic()
        identity = {"type": "UserAssigned", "userAssignedIdentity": "/subscriptions/s/x"}
        place = {"endpointType": "StorageBlob", "properties": {"resourceId": ACCOUNT, "blobContainerName": "dead"}}
        properties = {
            "deliveryWithResourceIdentity": {"identity": identity, "destination": webhook()},
            "deadLetterWithResourceIdentity": {"identity": identity, "deadLetterDestination": place},
        }
        answer = await world.arm("PUT", f"{NESTED}/mine", {"properties": properties})
        assert answer.status == 201, answer.body
        shown = (await world.arm("GET", f"{NESTED}/mine")).json["properties"]
        assert (shown["destination"], shown["deadLetterDestination"]) == (None, None)
        assert shown["deadLetterWithResourceIdentity"] == properties["deadLetterWithResourceIdentity"]
        assert shown["deliveryWithResourceIdentity"]["identity"] == identity
        assert shown["deliveryWithResourceIdentity"]["destination"]["endpointType"] == "WebHook"
        await world.arm("PATCH", f"{NESTED}/mine", {"destination": webhook()})
        shown = (await world.arm("GET", f"{NESTED}/mine")).json["properties"]
        assert shown["deliveryWithResourceIdentity"] is None
        assert shown["deadLetterWithResourceIdentity"]["identity"] == identity
        both = {"properties": {**properties, "destination": webhook()}}
        target = "properties.deliveryWithResourceIdentity"
        refused(await world.arm("PUT", f"{NESTED}/mine", both), 400, "InvalidRequest", target)
        wrong = {"properties": {"deliveryWithResourceIdentity": {"destination": webhook()}}}
        refused(await world.arm("PUT", f"{NESTED}/mine", wrong), 400, "InvalidRequest", f"{target}.identity")

    run(test, find_connection=everywhere)


@pytest.mark.parametrize("form", [NESTED, SCOPE])
def test_patch_changes_only_what_it_names(form: str) -> None:
    """The flat body changes labels, filter or destination one by one; the rest stays, and the answer is 201."""

    async def test(world: World) -> None:
        await world.topic()
        await world.subscription(
            labels=["a"],
            retryPolicy={"maxDeliveryAttempts": 3},
            filter={"subjectBeginsWith": "/a"},
            expirationTimeUtc="2027-01-01T00:00:00Z",
            deadLetterDestination={"endpointType": "Directory", "properties": {"name": "orders"}},
        )
        before = (await world.arm("GET", f"{form}/mine")).json["properties"]
        answer = await world.arm("PATCH", f"{form}/mine", {"labels": ["b"], "filter": None})
        assert (answer.status, answer.json["properties"]["provisioningState"]) == (201, "Updating")
        assert (await world.arm("GET", f"{form}/mine")).json["properties"] == {**before, "labels": ["b"]}
        await world.arm("PATCH", f"{form}/mine", {"destination": webhook("https://example.com/other")})
        await world.arm("PATCH", f"{form}/mine", {"filter": {"subjectEndsWith": "z"}})
        after = (await world.arm("GET", f"{form}/mine")).json["properties"]
        assert after["destination"]["properties"]["endpointBaseUrl"] == "https://example.com/other"
        assert (after["filter"]["subjectBeginsWith"], after["filter"]["subjectEndsWith"]) == ("", "z")
        assert after["retryPolicy"] == before["retryPolicy"]
        assert after["deadLetterDestination"] == before["deadLetterDestination"]
        refused(await world.arm("PATCH", f"{form}/nobody", {}), 404, "ResourceNotFound")

    run(test)


def test_patch_with_what_was_shown() -> None:
    """az sends back the destination that it was shown: the URL's query and the secrets, which are not in it, stay."""

    async def test(world: World) -> None:
        await world.topic()
        secret = {"name": "x-secret", "type": "Static", "properties": {"value": "hidden", "isSecret": True}}
        made = await world.subscription(destination=webhook(deliveryAttributeMappings=[secret]))
        shown = (await world.arm("GET", f"{NESTED}/mine")).json["properties"]["destination"]
        assert shown["properties"]["deliveryAttributeMappings"][0]["properties"]["value"] is None
        assert (await world.arm("PATCH", f"{NESTED}/mine", {"destination": shown})).status == 201
        after = await world.log.subscription_by_id(made.id)
        assert after is not None
        assert (after.destination, after.attributes) == (made.destination, made.attributes)
        shown["properties"]["deliveryAttributeMappings"][0]["name"] = "x-other"
        target = "destination.properties.deliveryAttributeMappings[0].properties.value"
        refused(await world.arm("PATCH", f"{NESTED}/mine", {"destination": shown}), 400, "InvalidRequest", target)

    run(test)


@pytest.mark.parametrize(
    ("sent", "target"),
    [
        ({"properties": {}}, "properties"),
        ({"labels": "x"}, "labels"),
        ({"retryPolicy": {"maxDeliveryAttempts": 99}}, "retryPolicy.maxDeliveryAttempts"),
        ({"destination": webhook(5)}, "destination.properties.endpointUrl"),
        ({"filter": {"advancedFilters": [{}]}}, "filter.advancedFilters[0].operatorType"),
        ({"expirationTimeUtc": "soon"}, "expirationTimeUtc"),
    ],
)
def test_bad_patches(sent: Any, target: str) -> None:
    """A wrong field of the flat body is 400 with its path in that body; nothing changes."""

    async def test(world: World) -> None:
        await world.topic()
        made = await world.subscription()
        refused(await world.arm("PATCH", f"{NESTED}/mine", sent), 400, "InvalidRequest", target)
        assert await world.log.subscription_by_id(made.id) == made

    run(test)
