"""The lists of topics, domains and system topics: searched and paged by the server."""

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, NamedTuple

from nicegui import ui

from recapito.portal import format
from recapito.portal.api_types import ShownCounts
from recapito.portal.client import PROVIDER, ResultPage
from recapito.portal.page import Page
from recapito.portal.urls import resource_path
from recapito.portal.widgets.paged_list import PagedList
from recapito.portal.widgets.pieces import bar, empty, link_button, panel, text
from recapito.portal.widgets.table import Cell, Row, Table

_COLUMNS = ("Name", "Published#", "Publish failed#", "Unmatched#", "Subscriptions#", "Resource group")


class _Kind(NamedTuple):
    arm: str
    title: str
    path: str
    nothing: str
    hint: str


_TOPICS = _Kind("topics", "Topics", "/topics", "There is no such topic.", "Events are published to topics. Create one.")
_DOMAINS = _Kind(
    "domains",
    "Domains",
    "/domains",
    "There is no domain.",
    "A domain holds many topics behind one endpoint. Create one with: recapito domain create NAME",
)
_SYSTEM = _Kind(
    "systemTopics",
    "System topics",
    "/system-topics",
    "There is no system topic.",
    "A system topic carries the events of an Azure resource, such as a storage account. Create one with: "
    "recapito system-topic create NAME",
)


async def _build(kind: _Kind, page: Page) -> None:
    server = page.server
    subscriptions = await server.azure_subscriptions()
    page.layout(kind.title, kind.path, heading=False)
    with bar("head"):
        text("h1", kind.title)
        if kind is _TOPICS:
            link_button("Create a topic", "/new-topic", "primary")
    with panel():
        with bar():
            search = ui.input("Search by name").props("outlined dense clearable debounce=150").classes("grow")
            azure = ui.select(subscriptions, label="Azure subscription", value=subscriptions[0])
            azure.props("outlined dense").classes("grow").set_visibility(len(subscriptions) > 1)
        table = Table(kind.title, _COLUMNS)
        with empty(kind.nothing, kind.hint) as none:
            pass

    async def load(start: str | None) -> ResultPage:
        path = f"/subscriptions/{azure.value}{PROVIDER}/{kind.arm}"
        return await server.page(path, search.value or "", start)

    async def show(found: ResultPage) -> str | None:
        none.set_visibility(not found.value)
        counts = await server.counts([one["name"] for one in found.value], kind.arm)
        table.show([_row(one, count) for one, count in zip(found.value, counts, strict=True)])
        return found.next

    listing = PagedList(page, load, show)
    search.on_value_change(listing.restart)
    azure.on_value_change(listing.restart)
    await listing.refresh()
    page.poll(listing.refresh, 5.0)


def _row(topic: dict[str, Any], count: ShownCounts) -> Row:
    return Row(
        topic["id"],
        (
            Cell(topic["name"], resource_path(topic["id"])),
            Cell(format.number(count.published)),
            Cell(format.number(count.failures)),
            Cell(format.number(count.unmatched)),
            Cell(format.number(count.subscriptions)),
            Cell(format.group_of(topic)),
        ),
    )


build_topics: Callable[[Page], Awaitable[None]] = partial(_build, _TOPICS)
build_domains: Callable[[Page], Awaitable[None]] = partial(_build, _DOMAINS)
build_system_topics: Callable[[Page], Awaitable[None]] = partial(_build, _SYSTEM)
