"""Topics over ARM: bodies, statuses, places, pages and errors that name the field."""

from typing import Any

import pytest

from recapito.domain import limits
from recapito.errors import StoreFailed
from recapito.stores.memory import MemoryLog
from tests.api.client import GROUP, NESTED, TOPIC, VERSION, World, run, webhook
from tests.kit.arm_errors import refused

SHOWN: dict[str, Any] = {
    "id": TOPIC,
    "name": "orders",
    "type": "Microsoft.EventGrid/topics",
    "location": "westus2",
    "tags": {"tag1": "value1"},
    "sku": {"name": "Basic"},
    "kind": "Azure",
    "properties": {
        "provisioningState": "Succeeded",
        "metricResourceId": "00000000-0000-0000-0000-000000000001",
        "endpoint": "http://127.0.0.1:8585/topics/orders/api/events",
        "inputSchema": "EventGridSchema",
        "publicNetworkAccess": "Enabled",
        "inboundIpRules": [],
        "disableLocalAuth": False,
    },
    "systemData": {
        "createdAt": "2023-11-14T22:13:20.0000000Z",
        "lastModifiedAt": "2023-11-14T22:13:20.0000000Z",
    },
}


CREATING = {**SHOWN, "properties": {**SHOWN["properties"], "provisioningState": "Creating"}}
UPDATING = {**SHOWN, "properties": {**SHOWN["properties"], "provisioningState": "Updating"}}


def test_put_and_get() -> None:
    """PUT answers 201 with a topic that is not done yet, so that clients ask again; GET shows it done."""

    async def test(world: World) -> None:
        body = {"location": "westus2", "tags": {"tag1": "value1"}, "properties": {"inputSchema": "EventGridSchema"}}
        first = await world.arm("PUT", TOPIC, body)
        assert (first.status, first.json, first.headers["retry-after"]) == (201, CREATING, "0")
        again = await world.arm("PUT", TOPIC, body)
        assert (again.status, again.json) == (201, UPDATING)
        shown = await world.arm("GET", TOPIC)
        assert (shown.status, shown.json) == (200, SHOWN)
        assert first.headers["etag"] != again.headers["etag"] == shown.headers["etag"]
        assert (await world.arm("HEAD", TOPIC)).status == 200

    run(test)


def test_what_clients_send_is_taken() -> None:
    """The body of the az command line, a shown topic sent back, and an empty object are all taken."""

    async def test(world: World) -> None:
        az = {
            "sku": {"name": "Basic"},
            "identity": {"type": "None"},
            "kind": "Azure",
            "properties": {"publicNetworkAccess": "enabled", "inboundIpRules": [], "disableLocalAuth": False},
        }
        for body in ({}, az, SHOWN, {"location": None, "tags": None, "properties": None}):
            assert (await world.arm("PUT", f"{GROUP}/topics/x-{len(str(body))}", body)).status == 201
        assert (await world.arm("GET", f"{GROUP}/topics/x-2")).json["location"] == "local"

    run(test)


def test_constants_of_the_path_compare_without_case() -> None:
    """Clients write resourcegroups and microsoft.eventgrid as they like; an extra slash in front is forgiven."""

    async def test(world: World) -> None:
        await world.topic()
        path = "/SUBSCRIPTIONS/5B4B650E/resourcegroups/EXAMPLERG/providers/microsoft.eventgrid/Topics/ORDERS"
        for spelling in (path, "/" + TOPIC):
            assert (await world.arm("GET", spelling)).json["id"] == TOPIC

    run(test)


def test_delete() -> None:
    """DELETE answers 204, also when there is nothing to delete; then the topic is gone."""

    async def test(world: World) -> None:
        await world.topic()
        for _ in range(2):
            answer = await world.arm("DELETE", TOPIC)
            assert (answer.status, answer.body) == (204, b"")
        refused(await world.arm("GET", TOPIC), 404, "ResourceNotFound")

    run(test)


def test_keys() -> None:
    """listKeys shows both keys, regenerateKey changes the one that is named; neither is shown anywhere else."""

    async def test(world: World) -> None:
        topic = await world.topic()
        keys = await world.arm("POST", f"{TOPIC}/listKeys")
        assert (keys.status, keys.json) == (200, {"key1": topic.key1, "key2": topic.key2})
        fresh = await world.arm("POST", f"{TOPIC}/regenerateKey", {"keyName": "key2"})
        assert fresh.json["key1"] == topic.key1
        assert fresh.json["key2"] != topic.key2
        shown = await world.arm("GET", TOPIC)
        assert topic.key1 not in shown.body.decode()

    run(test)


@pytest.mark.parametrize(
    ("body", "target"), [({}, "keyName"), ({"keyName": "key3"}, "keyName"), ({"keyName": 1}, "keyName")]
)
def test_which_key(body: Any, target: str) -> None:
    """Only key1 and key2 can be regenerated."""

    async def test(world: World) -> None:
        await world.topic()
        refused(await world.arm("POST", f"{TOPIC}/regenerateKey", body), 400, "InvalidRequest", target)

    run(test)


@pytest.mark.parametrize(
    ("body", "target"),
    [
        ({"colour": "red"}, "colour"),
        ({"properties": {"colour": "red"}}, "properties.colour"),
        ({"location": 7}, "location"),
        ({"location": ""}, "location"),
        ({"location": "x" * 65}, "location"),
        ({"location": "a\r\nb"}, "location"),
        ({"tags": []}, "tags"),
        ({"tags": {"a": 1}}, "tags[...]"),
        ({"tags": {str(n): "" for n in range(limits.TAGS + 1)}}, "tags"),
        ({"tags": {"": "x"}}, "tags"),
        ({"tags": {"a": "x" * (limits.TAG_CHARS + 1)}}, "tags"),
        ({"tags": {"recapito-profile": "1999-01"}}, "tags.recapito-profile"),
        ({"properties": []}, "properties"),
        ({"properties": {"inputSchema": "Klingon"}}, "properties.inputSchema"),
        ({"properties": {"disableLocalAuth": "no"}}, "properties.disableLocalAuth"),
    ],
)
def test_bad_fields(body: Any, target: str) -> None:
    """A wrong field is 400 with its path as the target; nothing is made."""

    async def test(world: World) -> None:
        answer = await world.arm("PUT", TOPIC, body)
        code = "InvalidProfile" if "profile" in target else "InvalidRequest"
        refused(answer, 400, code, target)
        assert await world.log.topic("orders") is None

    run(test)


@pytest.mark.parametrize(
    ("body", "target"),
    [
        ({"properties": {"publicNetworkAccess": "SecuredByPerimeter"}}, "properties.publicNetworkAccess"),
        ({"extendedLocation": {"name": "x"}}, "extendedLocation"),
        ({"sku": {"name": "Premium"}}, "sku.name"),
        ({"kind": "AzureArc"}, "kind"),
    ],
)
def test_what_is_not_built_is_refused_and_not_ignored(body: Any, target: str) -> None:
    """A setting of Event Grid that has no effect here yet is refused by name."""

    async def test(world: World) -> None:
        said = refused(await world.arm("PUT", TOPIC, body), 400, "NotSupported", target)
        assert "not supported yet by this version of Recapito" in said

    run(test)


@pytest.mark.parametrize("body", [b"", b"[", b"null", b"\xff{}", b'{"location":"\\ud800"}', b"[" * 5000, b"{}{}"])
def test_bodies_that_are_no_object(body: bytes) -> None:
    """A body that is not one JSON object is 400."""

    async def test(world: World) -> None:
        answer = await world.arm("PUT", TOPIC, body)
        assert answer.status == 400
        assert answer.error["code"] in ("InvalidRequestContent", "InvalidRequest")

    run(test)


def test_bodies_that_are_too_large_or_compressed() -> None:
    """413 over the limit, 415 for a content encoding, in ARM's shape."""

    async def test(world: World) -> None:
        large = {"tags": {"a": "x" * limits.MANAGE_BODY_BYTES}}
        refused(await world.arm("PUT", TOPIC, large), 413, "RequestEntityTooLarge")
        answer = await world.arm("PUT", TOPIC, {}, headers={"content-encoding": "gzip"})
        refused(answer, 415, "UnsupportedMediaType")

    run(test)


@pytest.mark.parametrize(
    ("name", "target"), [("ab", "name"), ("x" * 51, "name"), ("a_b", "name"), ("System-1", "name")]
)
def test_bad_names(name: str, target: str) -> None:
    """A name that Event Grid refuses is refused."""

    async def test(world: World) -> None:
        refused(await world.arm("PUT", f"{GROUP}/topics/{name}", {}), 400, "InvalidRequest", target)

    run(test)


def test_conflicts() -> None:
    """A name that is taken in another group is 409."""

    async def test(world: World) -> None:
        await world.topic()
        elsewhere = TOPIC.replace("examplerg", "otherrg")
        refused(await world.arm("PUT", elsewhere, {}), 409, "ResourceNameInUse", "name")
        refused(await world.arm("GET", elsewhere), 404, "ResourceGroupNotFound")

    run(test)


def test_a_profile_that_lacks_what_a_subscription_uses() -> None:
    """The error names the tag and the profile."""

    async def test(world: World) -> None:
        await world.topic()
        await world.subscription(destination=webhook(maxEventsPerBatch=10))
        answer = await world.arm("PUT", TOPIC, {"tags": {"recapito-profile": "2019-05"}})
        assert "2019-05" in refused(answer, 400, "InvalidRequest", "tags.recapito-profile")

    run(test)


@pytest.mark.parametrize(
    "version", ["2018-01-01", "2021-10-15-preview", "2022-06-15", "2025-02-15", "2026-12-31", "2018-05-01-preview"]
)
def test_api_versions_that_are_served(version: str) -> None:
    """Every version that clients use is served, previews too, whatever the case of the parameter."""

    async def test(world: World) -> None:
        assert (await world.call("PUT", f"{TOPIC}?api-version={version}", {})).status == 201
        assert (await world.call("GET", f"{TOPIC}?Api-Version={version}")).status == 200

    run(test)


@pytest.mark.parametrize(
    ("query", "code"),
    [
        ("", "MissingApiVersionParameter"),
        ("?api-version=", "MissingApiVersionParameter"),
        ("?api-version=latest", "InvalidApiVersionParameter"),
        ("?api-version=2017-12-31", "InvalidApiVersionParameter"),
        ("?api-version=2027-01-01", "InvalidApiVersionParameter"),
        ("?api-version=2022-02-30", "InvalidApiVersionParameter"),
        ("?api-version=2022-06-15-beta", "InvalidApiVersionParameter"),
        ("?api-version=2022-06-15%0a", "InvalidApiVersionParameter"),
    ],
)
def test_api_versions_that_are_not(query: str, code: str) -> None:
    """Without a version, or with one that cannot be, the answer is 400."""

    async def test(world: World) -> None:
        refused(await world.call("GET", f"{TOPIC}{query}"), 400, code, "api-version")

    run(test)


def test_lists_and_pages() -> None:
    """Lists of a group and of a subscription go page by page along nextLink."""

    async def test(world: World) -> None:
        for n in range(25):
            await world.arm("PUT", f"{GROUP}/topics/topic-{n:02}", {})
        await world.arm("PUT", f"{GROUP.replace('examplerg', 'otherrg')}/topics/zzz", {})
        first = (await world.arm("GET", f"{GROUP}/topics")).json
        assert len(first["value"]) == 20
        assert first["nextLink"].startswith(f"http://127.0.0.1:8585{GROUP}/topics?{VERSION}")
        second = (await world.call("GET", first["nextLink"].removeprefix("http://127.0.0.1:8585"))).json
        assert [one["name"] for one in second["value"]] == [f"topic-{n}" for n in range(20, 25)]
        assert "nextLink" not in second
        everywhere = await world.arm("GET", "/subscriptions/5b4b650e/providers/Microsoft.EventGrid/topics?$top=100")
        assert len(everywhere.json["value"]) == 26
        assert (await world.arm("GET", "/subscriptions/none/providers/Microsoft.EventGrid/topics")).json == {
            "value": []
        }

    run(test)


@pytest.mark.parametrize(
    ("query", "code", "target"),
    [
        ("$top=0", "InvalidRequest", "$top"),
        ("$top=101", "InvalidRequest", "$top"),
        ("$top=ten", "InvalidRequest", "$top"),
        ("$top=-1", "InvalidRequest", "$top"),
        ("$top=²", "InvalidRequest", "$top"),
        ("$filter=colour eq 'red'", "InvalidRequest", "$filter"),
        ("$skiptoken=" + "x" * 300, "InvalidRequest", "$skiptoken"),
    ],
)
def test_bad_pages(query: str, code: str, target: str) -> None:
    """Page sizes are 1 to 100; a filter that cannot be understood is refused."""

    async def test(world: World) -> None:
        await world.topic()
        refused(await world.arm("GET", f"{GROUP}/topics?{query}"), 400, code, target)

    run(test)


def test_other_methods_and_paths() -> None:
    """405 lists what is allowed; an unknown path is 404; both in ARM's shape."""

    async def test(world: World) -> None:
        answer = await world.arm("POST", TOPIC, {})
        refused(answer, 405, "MethodNotAllowed")
        assert answer.headers["allow"] == "DELETE, GET, HEAD, PATCH, PUT"
        refused(await world.arm("GET", f"{TOPIC}/listKeys"), 405, "MethodNotAllowed")
        for path in ("/nothing", "/topics/orders", "/topics//api/events"):
            refused(await world.arm("GET", path), 404, "NotFound")
        for path in (f"{GROUP}/pigeons/d", f"{TOPIC}/", f"{NESTED}/a/b"):
            refused(await world.arm("GET", path), 404, "InvalidResourceType")
        other = GROUP.replace("EventGrid", "Pigeons")
        assert "Microsoft.Pigeons" in refused(await world.arm("GET", f"{other}/p/d"), 404, "InvalidResourceNamespace")

    run(test)


class FailingLog(MemoryLog):
    """A registry that cannot write."""

    async def put_topic(self, topic: Any) -> Any:
        raise StoreFailed("disk I/O error")

    async def topics(self, after: str, limit: int) -> Any:
        if after.endswith("/a"):
            raise RuntimeError("a bug with a secret inside")
        return []


def test_our_own_faults() -> None:
    """A failed commit is 503 with Retry-After, a bug is 500; the journal has the cause, the caller a report id."""

    async def test(world: World) -> None:
        failed = await world.arm("PUT", TOPIC, {})
        refused(failed, 503, "StoreFailed")
        assert failed.headers["retry-after"] == "1"
        bug = await world.arm("GET", "/subscriptions/x/providers/Microsoft.EventGrid/topics?$skiptoken=a")
        assert "secret" not in refused(bug, 500, "InternalError")
        assert [name for name, _ in world.told] == ["api.failed", "api.failed"]
        assert [fields["report"] for _, fields in world.told] == [
            answer.headers["x-recapito-report"] for answer in (failed, bug)
        ]

    run(test, log=FailingLog())


def test_a_caller_that_hangs_up_is_no_fault_of_ours() -> None:
    """A management body that ends early changes nothing and is not journalled as a failure."""

    async def test(world: World) -> None:
        await world.arm("PUT", TOPIC, b"{", hang_up=True)
        assert (world.told, await world.log.topic("orders")) == ([], None)

    run(test)


@pytest.mark.parametrize(
    ("peer", "headers"),
    [
        ("10.0.0.5", {}),
        ("::ffff:10.0.0.5", {}),
        (None, {}),
        ("127.0.0.1", {"host": "evil.example:8585"}),
        ("127.0.0.1", {"host": "127.0.0.1.evil.example"}),
        ("127.0.0.1", {"host": "localhost.evil.example"}),
        ("127.0.0.1", {"host": ""}),
        ("127.0.0.1", {"host": "[::1"}),
        ("127.0.0.1", {"origin": "https://evil.example"}),
        ("127.0.0.1", {"origin": "null"}),
    ],
)
def test_management_is_for_this_machine_only(peer: str | None, headers: dict[str, str]) -> None:
    """Another peer, another Host, as after DNS rebinding, or a web page from elsewhere: 403, and nothing happens."""

    async def test(world: World) -> None:
        refused(await world.arm("PUT", TOPIC, {}, peer=peer, headers=headers), 403, "Forbidden")
        assert await world.log.topic("orders") is None

    run(test)


def test_two_hosts_are_none() -> None:
    """A request with two Host headers is refused."""

    async def test(world: World) -> None:
        hosts = [("host", "127.0.0.1"), ("host", "evil.example")]
        refused(await world.arm("GET", TOPIC, headers=hosts), 403, "Forbidden")

    run(test)


@pytest.mark.parametrize(
    ("peer", "headers"),
    [
        ("127.0.0.1", {"host": "localhost:8585"}),
        ("127.8.8.8", {"host": "orders.localhost"}),
        ("::1", {"host": "[::1]:8585"}),
        ("::ffff:127.0.0.1", {"host": "127.0.0.1:8585", "origin": "http://localhost:8586"}),
    ],
)
def test_every_spelling_of_this_machine(peer: str, headers: dict[str, str]) -> None:
    """Loopback in every form is answered."""

    async def test(world: World) -> None:
        assert (await world.arm("PUT", TOPIC, {}, peer=peer, headers=headers)).status == 201

    run(test)
