"""A topic's page, a domain's, a system topic's: what was published, its subscriptions, its keys, a test event."""

from typing import Any

from nicegui import ui
from nicegui.element import Element

from recapito.portal import format
from recapito.portal.api_types import LanePage, ShownLane
from recapito.portal.client import KINDS, PAGE
from recapito.portal.layout import Crumb
from recapito.portal.page import Page
from recapito.portal.panels.sample_event import sample_event
from recapito.portal.urls import Address, resource_path
from recapito.portal.widgets.paged_list import PagedList
from recapito.portal.widgets.pieces import (
    Fact,
    Tiles,
    bar,
    button,
    code,
    confirm,
    empty,
    facts,
    link_button,
    note,
    panel,
    text,
)
from recapito.portal.widgets.table import Cell, Row, Table

LISTS = {
    "topics": Crumb("Topics", "/topics"),
    "domains": Crumb("Domains", "/domains"),
    "systemTopics": Crumb("System topics", "/system-topics"),
}
_TILES = {
    "published": "Published",
    "failed": "Publish failed",
    "unmatched": "Unmatched",
    "subscriptions": "Subscriptions",
}
_COLUMNS = ("Subscription", "State", "Endpoint", "Matched#", "Delivered#", "Pending#", "Dead-lettered#", "Dropped#")


async def build(page: Page, address: Address) -> None:
    """Build the page."""
    topic = await page.server.arm("GET", address.topic_id)
    crumbs = [LISTS[address.kind]]
    if address.domain_topic is not None:
        await page.server.arm("GET", address.parent_id)
        crumbs.append(Crumb(topic["name"], resource_path(address.topic_id)))
    page.layout(address.domain_topic or topic["name"], LISTS[address.kind].path, *crumbs, heading=False)
    _head(page, address, topic)
    tiles = None
    if address.domain_topic is None:
        tiles = Tiles(_TILES)
        why = text("p", "", "muted")
    with panel("Event subscriptions"):
        search = ui.input("Search by name").props("outlined dense clearable debounce=150")
        listing = _subscriptions(page, address, search)
    if address.kind == "domains" and address.domain_topic is None:
        await _domain_topics(page, address)
    if address.kind != "systemTopics":
        sample_event(page, topic, address.domain_topic)
    with ui.element("div").classes("columns"):
        with panel("Settings"):
            facts(_facts(topic))
        if address.kind != "systemTopics" and address.domain_topic is None:
            _keys(page, topic)

    async def refresh() -> None:
        await listing.refresh()
        if tiles is not None:
            count = await page.server.count(topic["name"], address.kind)
            tiles.show(
                {
                    "published": format.number(count.published),
                    "failed": format.number(count.failures),
                    "unmatched": format.number(count.unmatched),
                    "subscriptions": format.number(count.subscriptions),
                }
            )
            why.text = f"Publish failures by reason: {format.tally(count.publish_failed)}." if count.failures else ""

    await refresh()
    page.poll(refresh)


def _head(page: Page, address: Address, topic: dict[str, Any]) -> None:
    async def delete() -> None:
        what = "its subscriptions and their pending events"
        if await confirm(
            f"Delete '{topic['name']}'?", f"This deletes the topic, {what}. It cannot be undone.", "Delete"
        ):
            await page.server.arm("DELETE", topic["id"])
            ui.navigate.to(LISTS[address.kind].path)

    with bar("head"):
        text("h1", address.domain_topic or topic["name"])
        with bar():
            link_button("Create a subscription", f"/new-subscription{address.parent_id}", "primary")
            if address.kind == "topics":
                link_button("Edit", f"/edit{topic['id']}")
            if address.domain_topic is None:
                button("Delete", page.doing(delete), "danger")


def _subscriptions(page: Page, address: Address, search: ui.input) -> PagedList:
    table = Table("Event subscriptions", _COLUMNS)
    with empty("There is no such subscription.", "A subscription delivers events of a topic to an endpoint.") as none:
        link_button("Create a subscription", f"/new-subscription{address.parent_id}", "primary")

    async def load(start: str | None) -> LanePage:
        return await page.server.lanes(topic=address.topic, search=search.value, after=start, limit=str(PAGE))

    async def show(found: LanePage) -> str | None:
        lanes = [lane for lane in found.value if _belongs(lane, address)]
        none.set_visibility(not lanes)
        table.show([lane_row(lane) for lane in lanes])
        return found.next

    listing = PagedList(page, load, show)
    search.on_value_change(listing.restart)
    return listing


def _belongs(lane: ShownLane, address: Address) -> bool:
    if lane.topic_kind != KINDS[address.kind]:
        return False
    wanted = address.domain_topic
    return wanted is None or (lane.domain_topic or "").lower() == wanted.lower()


def lane_row(lane: ShownLane) -> Row:
    """A subscription with its counts."""
    state, tone = lane.state
    name = lane.subscription if lane.domain_topic is None else f"{lane.domain_topic} / {lane.subscription}"
    return Row(
        lane.resource_id,
        (
            Cell(name, resource_path(lane.resource_id)),
            Cell(state, tone=tone),
            Cell(
                lane.endpoint
                if lane.endpoint_type == "WebHook"
                else f"{lane.endpoint_type} {format.name_of(lane.endpoint)}"
            ),
            Cell(format.number(lane.matched)),
            Cell(format.number(lane.delivered)),
            Cell(format.number(lane.waiting)),
            Cell(format.number(lane.dead_lettered)),
            Cell(format.number(lane.lost)),
        ),
    )


async def _domain_topics(page: Page, address: Address) -> None:
    with panel("Domain topics"):
        table = Table("Domain topics", ("Name", "State"))
        with empty(
            "There is no topic in this domain yet.", "One is made with its first subscription or event."
        ) as none:
            pass

        async def load(start: str | None) -> Any:
            return await page.server.page(f"{address.topic_id}/topics", start=start)

        async def show(found: Any) -> str | None:
            none.set_visibility(not found.value)
            table.show(
                [
                    Row(
                        one["id"],
                        (Cell(one["name"], resource_path(one["id"])), Cell(one["properties"]["provisioningState"])),
                    )
                    for one in found.value
                ]
            )
            following: str | None = found.next
            return following

        await PagedList(page, load, show).refresh()


def _facts(topic: dict[str, Any]) -> list[Fact]:
    properties, tags = topic["properties"], topic.get("tags") or {}
    shown = [
        Fact("Endpoint", properties.get("endpoint", "")),
        Fact("Input schema", properties.get("inputSchema", "")),
        Fact("Source", properties.get("source", "")),
        Fact("Topic type", properties.get("topicType", "")),
        Fact("Resource group", format.group_of(topic)),
        Fact("Location", topic.get("location", "")),
        Fact("Tags", ", ".join(f"{name}={value}" for name, value in tags.items()) or "none"),
        Fact("Local authentication", "off" if properties.get("disableLocalAuth") else "on"),
        Fact("Created", format.instant(topic["systemData"]["createdAt"])),
        Fact("Resource id", topic["id"]),
    ]
    if "source" in properties:
        shown = [fact for fact in shown if fact.name != "Local authentication"]
    return [fact for fact in shown if fact.value]


def _keys(page: Page, topic: dict[str, Any]) -> None:
    with panel("Access keys"):
        text("p", "Whoever has a key can publish to this topic.", "muted")
        place = ui.element("div")

        async def show() -> None:
            _show_keys(place, await page.server.arm("POST", f"{topic['id']}/listKeys"))

        async def renew() -> None:
            if await confirm(
                "Make a new key1?", "Publishers that use the old one are refused from then on.", "New key"
            ):
                answer = await page.server.arm("POST", f"{topic['id']}/regenerateKey", {"keyName": "key1"})
                _show_keys(place, answer)

        with bar():
            button("Show keys", page.doing(show))
            button("Hide", lambda: place.clear(), "quiet")
            button("New key1", page.doing(renew), "quiet")


def _show_keys(place: Element, keys: dict[str, str]) -> None:
    place.clear()
    with place:
        for name in ("key1", "key2"):
            code(f"{name}  {keys[name]}")
        note("Hide them when you are done.")
