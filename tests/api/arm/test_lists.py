"""Resource groups, lists across topics, and what clients look up before and besides the resources."""

import asyncio
import tracemalloc
from typing import Any
from urllib.parse import quote

import pytest
from msgspec.structs import replace

from recapito.domain import limits
from tests.api.client import GROUP, NESTED, TOPIC, World, run, webhook
from tests.api.known import TENANT, Known
from tests.kit.arm_errors import refused

AZURE = "/subscriptions/5b4b650e"
RG = f"{AZURE}/resourcegroups/examplerg"
EVENTGRID = "/providers/Microsoft.EventGrid"
BODY = {"properties": {"destination": webhook()}}


async def names(world: World, path: str) -> list[str]:
    answer = await world.arm("GET", path)
    assert answer.status == 200, answer.body
    return [one["name"] for one in answer.json["value"]]


def test_resource_groups() -> None:
    """PUT is 201 and then 200, HEAD 204 or 404, and a topic makes its group; what is not given stays."""

    async def test(world: World) -> None:
        assert (await world.arm("HEAD", RG)).status == 404
        refused(await world.arm("GET", RG), 404, "ResourceGroupNotFound")
        body = {"location": "westus2", "tags": {"a": "1"}}
        assert [(await world.arm("PUT", RG, body)).status for _ in range(2)] == [201, 200]
        assert (await world.arm("HEAD", RG)).status == 204
        shown = await world.arm("PATCH", RG, {"tags": {"b": "2"}})
        assert shown.json == {
            "id": f"{AZURE}/resourceGroups/examplerg",
            "name": "examplerg",
            "type": "Microsoft.Resources/resourceGroups",
            "location": "westus2",
            "tags": {"b": "2"},
            "managedBy": None,
            "properties": {"provisioningState": "Succeeded"},
        }
        moved = await world.arm("PUT", RG, {"location": "eastus"})
        refused(moved, 409, "InvalidResourceGroupLocation", "location")
        await world.arm("PUT", f"{GROUP.replace('examplerg', 'implicit')}/topics/orders", {"location": "eastus"})
        assert await names(world, f"{AZURE}/resourcegroups") == ["examplerg", "implicit"]
        assert await names(world, f"{AZURE}/resourcegroups?$filter=name eq 'implicit'") == ["implicit"]
        refused(await world.arm("PUT", f"{RG}!", {}), 400, "InvalidRequest", "resourceGroupName")

    run(test)


def test_deleting_a_group_deletes_what_is_in_it() -> None:
    """Topics of all kinds, their subscriptions and storage accounts go with their group, and nothing else does."""

    async def test(world: World) -> None:
        other = GROUP.replace("examplerg", "otherrg")
        await world.topic()
        await world.subscription()
        for path in (f"{GROUP}/domains/shop", f"{other}/topics/stays"):
            assert (await world.arm("PUT", path, {})).status == 201
        await world.arm("PUT", f"{RG}/providers/Microsoft.Storage/storageAccounts/pictures", {})
        assert len((await world.arm("GET", f"{RG}/resources")).json["value"]) == 3
        assert (await world.arm("DELETE", RG)).status == 200
        refused(await world.arm("DELETE", RG), 404, "ResourceGroupNotFound")
        assert await names(world, f"{AZURE}/resources") == ["stays"]

    run(test)


def test_all_resources() -> None:
    """The list of everything takes the simple filters that az sends, and no others."""

    async def test(world: World) -> None:
        await world.topic()
        await world.arm("PUT", f"{GROUP}/domains/shop", {})
        by_type = quote("resourceType eq 'microsoft.eventgrid/topics'")
        assert await names(world, f"{AZURE}/resources?$filter={by_type}") == ["orders"]
        both = quote("resourceGroup eq 'EXAMPLERG' and name ne 'orders'")
        assert await names(world, f"{AZURE}/resources?$filter={both}") == ["shop"]
        assert await names(world, f"{RG}/resources") == ["orders", "shop"]
        answer = await world.arm("GET", f"{AZURE}/resources?$filter={quote('colour eq 1')}")
        refused(answer, 400, "InvalidRequest", "$filter")

    run(test)


async def many(world: World) -> None:
    await world.topic()
    other = GROUP.replace("examplerg", "otherrg")
    await world.arm("PUT", f"{other}/topics/elsewhere", {"location": "East US"})
    await world.arm("PUT", f"{GROUP}/domains/shop", {"location": "westus2"})
    for path in (
        f"{TOPIC}/{{}}/one",
        f"{other}/topics/elsewhere/{{}}/two",
        f"{GROUP}/domains/shop/topics/north/{{}}/three",
    ):
        assert (await world.arm("PUT", path.format("eventSubscriptions"), BODY)).status == 201


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        (f"{AZURE}{EVENTGRID}/eventSubscriptions", ["one", "two", "three"]),
        (f"{RG}{EVENTGRID}/eventSubscriptions", ["one", "three"]),
        (f"{AZURE}{EVENTGRID}/locations/westus2/eventSubscriptions", ["one", "three"]),
        (f"{AZURE}{EVENTGRID}/locations/eastus/eventSubscriptions", ["two"]),
        (f"{RG}{EVENTGRID}/locations/eastus/eventSubscriptions", []),
        (f"{AZURE}{EVENTGRID}/topicTypes/Microsoft.EventGrid.Topics/eventSubscriptions", ["one", "two"]),
        (f"{RG}{EVENTGRID}/topicTypes/microsoft.eventgrid.domains/eventSubscriptions", ["three"]),
        (f"{AZURE}{EVENTGRID}/locations/eastus/topicTypes/Microsoft.EventGrid.Topics/eventSubscriptions", ["two"]),
        (f"{RG}{EVENTGRID}/locations/westus2/topicTypes/x/eventSubscriptions", []),
        ("/subscriptions/other/providers/Microsoft.EventGrid/eventSubscriptions", []),
        (f"{AZURE}{EVENTGRID}/eventSubscriptions?$filter={quote('contains(name,')}'t')", ["two", "three"]),
    ],
)
def test_lists_across_topics(path: str, expected: list[str]) -> None:
    """Event subscriptions are listed by Azure subscription, group, location and topic type, and by name."""

    async def test(world: World) -> None:
        await many(world)
        assert await names(world, path) == expected

    run(test)


def test_what_lists_across_topics_show() -> None:
    """Each member has its id as an extension of what it hangs on, so that it can be got under it."""

    async def test(world: World) -> None:
        await many(world)
        for one in (await world.arm("GET", f"{AZURE}{EVENTGRID}/eventSubscriptions")).json["value"]:
            assert (await world.arm("GET", one["id"])).json == one

    run(test)


def test_filters_go_along_the_pages() -> None:
    """A list that is filtered stays so on its next pages."""

    async def test(world: World) -> None:
        await world.topic()
        for n in range(9):
            await world.subscription(f"{'even' if n % 2 == 0 else 'odd'}-{n}")
        found: list[str] = []
        path = f"{NESTED}?$top=2&$filter={quote('contains(name,')}'even')&api-version=2022-06-15"
        while path:
            page = (await world.call("GET", path)).json
            found += [one["name"] for one in page["value"]]
            path = page.get("nextLink", "").removeprefix("http://127.0.0.1:8585")
        assert found == [f"even-{n}" for n in range(0, 9, 2)]

    run(test)


def test_a_long_list_is_walked_in_flat_memory() -> None:
    """Ten thousand subscriptions are all listed, page by page, and no page holds more than a page."""

    async def test(world: World) -> None:
        await world.topic()
        one = await world.subscription("sub-0")
        for n in range(1, 10_000):
            await world.log.put_subscription(replace(one, id=0, version=0, name=f"sub-{n}"))
        path = f"{AZURE}{EVENTGRID}/eventSubscriptions?$top=100&api-version=2022-06-15"
        found = 0
        tracemalloc.start()
        while path:
            page = (await world.call("GET", path)).json
            found += len(page["value"])
            path = page.get("nextLink", "").removeprefix("http://127.0.0.1:8585")
            await asyncio.sleep(0)  # as a server does between two requests
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert found == 10_000
        assert peak < 4 * limits.MB

    run(test)


@pytest.mark.parametrize(
    "path",
    [
        "/tenants",
        "/subscriptions",
        f"{AZURE}/locations",
        f"{AZURE}/providers",
        f"{EVENTGRID}/topicTypes",
        f"{EVENTGRID}/topicTypes/microsoft.storage.storageaccounts/eventTypes",
        f"{EVENTGRID}/operations",
        f"{RG}/providers/microsoft.storage/storageaccounts/x{EVENTGRID}/eventTypes",
    ],
)
def test_what_is_looked_up(path: str) -> None:
    """Each of these lists has something in it."""

    async def test(world: World) -> None:
        assert (await world.arm("GET", path)).json["value"]

    run(test)


def test_subscriptions_belong_to_the_tenant_of_the_tokens() -> None:
    """The tenant that is shown is the one that gives out tokens, so that a client that logged in there finds it."""

    async def test(world: World) -> None:
        (tenant,) = (await world.arm("GET", "/tenants")).json["value"]
        (subscription,) = (await world.arm("GET", "/subscriptions")).json["value"]
        assert tenant["tenantId"] == subscription["tenantId"] == TENANT

    run(test, access=Known().access)


def test_single_things_that_are_looked_up() -> None:
    """A subscription, a provider and a topic type are shown by name; others are not found."""

    async def test(world: World) -> None:
        subscription: Any = (await world.arm("GET", AZURE)).json
        assert (subscription["subscriptionId"], subscription["state"]) == ("5b4b650e", "Enabled")
        assert (await world.call("GET", "/subscriptions?api-version=2016-06-01")).status == 200
        for method, path in (
            ("GET", f"{AZURE}/providers/microsoft.eventgrid"),
            ("POST", f"{AZURE}/providers/Microsoft.EventGrid/register"),
        ):
            assert (await world.arm(method, path)).json["registrationState"] == "Registered"
        refused(await world.arm("GET", f"{AZURE}/providers/Microsoft.Pigeons"), 404, "InvalidResourceNamespace")
        shown = (await world.arm("GET", f"{EVENTGRID}/topicTypes/microsoft.storage.storageaccounts")).json
        assert shown["name"] == "Microsoft.Storage.StorageAccounts"
        refused(await world.arm("GET", f"{EVENTGRID}/topicTypes/Microsoft.Pigeons.Lofts"), 404, "ResourceNotFound")

    run(test)
