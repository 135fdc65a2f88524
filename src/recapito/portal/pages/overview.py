"""The first page: the server's health, its throughput and backlog, failing subscriptions, and the topics."""

import asyncio

from nicegui.elements.mixins.text_element import TextElement

from recapito.portal import format
from recapito.portal.api_types import Readiness, ShownCounts, ShownLane, ShownTotals
from recapito.portal.page import Page
from recapito.portal.panels.history_chart import HistoryChart
from recapito.portal.urls import resource_path
from recapito.portal.widgets.pieces import Tiles, attribute, bar, chip, empty, link, link_button, panel, set_tone, text
from recapito.portal.widgets.table import Cell, Row, Table

_FAILING = 10
_TOPICS = 10
_POLL_S = 5.0  # finding those that fail costs the server more than anything else here
_CHECKS = {"store": "Store", "disk": "Disk", "dispatch": "Dispatch", "damage": "Data", "estate": "Estate file"}
_WRONG = {"damage": "wait", "estate": "wait"}  # a person has to look; delivery goes on meanwhile
_OPTIONAL = ("estate",)  # a server without such a file does not name it
_TILES = {
    "throughput": "Delivered a minute",
    "backlog": "Backlog",
    "failing": "Subscriptions with problems",
    "delivered": "Delivered",
    "failed": "Failed attempts",
    "deadlettered": "Dead-lettered",
    "dropped": "Dropped",
}


class HealthChips:
    """A chip for each check of the server's readiness."""

    def __init__(self) -> None:
        self._chips: dict[str, TextElement] = {}
        with bar("apart") as self._bar:
            for name, title in _CHECKS.items():
                self._chips[name] = chip(f"{title} …")

    def show(self, found: Readiness) -> None:
        """The checks that the server names; those of a cluster name its partitions."""
        for name in dict.fromkeys((*self._chips, *found.checks)):
            if name not in self._chips:
                with self._bar:
                    self._chips[name] = chip("")
            shown = name in found.checks or (not found.checks and name not in _OPTIONAL)
            self._chips[name].set_visibility(shown)
            if not shown:
                continue
            state = found.checks.get(name, "unknown").replace("`", "")
            good = state == "ok" or state.startswith("ok: ")
            title = _CHECKS.get(name, name.capitalize())
            self._chips[name].text = f"{title} {state}" if good else f"{title}: {state}"
            set_tone(self._chips[name], "good" if good else _WRONG.get(name.split()[-1], "bad"))


class FirstTopics:
    """The first topics, or the next step if there are none."""

    def __init__(self) -> None:
        self._table = Table("Topics", ("Topic", "Published#", "Publish failed#", "Unmatched#", "Subscriptions#"))
        with empty("There is no topic yet.", "Events are published to topics. Create one to begin.") as self._none:
            link_button("Create a topic", "/new-topic", "primary")
        with empty(
            "No topic has a subscription yet.", "A subscription delivers events of a topic to an endpoint."
        ) as self._unheard:
            self._first = link_button("Create a subscription", "/topics", "primary")
        with bar("end"):
            link("All topics", "/topics")

    async def refresh(self, page: Page) -> None:
        server = page.server
        listed = []
        for azure in await server.azure_subscriptions():
            path = f"/subscriptions/{azure}/providers/Microsoft.EventGrid/topics"
            listed += (await server.page(path, size=_TOPICS)).value
        listed = listed[:_TOPICS]
        counts = await server.counts([one["name"] for one in listed], "topics")
        self._none.set_visibility(not listed)
        self._unheard.set_visibility(bool(listed) and not any(count.subscriptions for count in counts))
        if listed:
            attribute(self._first, href=f"/new-subscription{listed[0]['id']}")
        self._table.show([_topic_row(one["id"], count) for one, count in zip(listed, counts, strict=True)])


async def build(page: Page) -> None:
    """Build the page."""
    server = page.server
    page.layout("Overview", "/")
    with panel("Server"):
        health = HealthChips()
        tiles = Tiles(_TILES, "series")
        chart = HistoryChart(page)
    with panel("Subscriptions with problems", "failing"):
        calm = text("p", "All subscriptions deliver.", "muted")
        failing = Table("Subscriptions with problems", ("Subscription", "Topic", "State", "Why", "Pending#"))
    with panel("Topics"):
        topics = FirstTopics()

    async def show_failing() -> None:
        found = await server.lanes(failing="true", limit=str(_FAILING))
        calm.set_visibility(not found.value)
        failing.show([_failing_row(lane, found.now) for lane in found.value])

    async def show_totals() -> None:
        tiles.show(_numbers(await server.totals(), chart.per_minute))

    async def show_rest() -> None:
        readiness, *_ = await asyncio.gather(server.readiness(), chart.refresh(), topics.refresh(page))
        health.show(readiness)

    async def show_all_lanes() -> None:
        await asyncio.gather(show_totals(), show_failing())

    async def refresh() -> None:
        await show_rest()
        await show_all_lanes()

    await show_rest()
    await page.soon(show_all_lanes)
    page.poll(refresh, _POLL_S)


def _numbers(totals: ShownTotals, per_minute: float) -> dict[str, str]:
    return {
        "throughput": format.short(per_minute),
        "backlog": format.number(totals.backlog),
        "failing": f"{format.number(totals.failing)} of {format.number(totals.subscriptions)}",
        "delivered": format.number(totals.delivered),
        "failed": format.number(totals.failed),
        "deadlettered": format.number(totals.dead_lettered),
        "dropped": format.number(totals.dropped),
    }


def _failing_row(lane: ShownLane, now: str) -> Row:
    state, tone = lane.state
    why = lane.hold.reason if lane.hold and lane.hold.on else format.tally(lane.failed_attempts)
    return Row(
        lane.resource_id,
        (
            Cell(lane.subscription, resource_path(lane.resource_id)),
            Cell(lane.topic),
            Cell(state, tone=tone),
            Cell(format.told(lane.stopped or why, now)),
            Cell(format.number(lane.waiting)),
        ),
    )


def _topic_row(id: str, count: ShownCounts) -> Row:
    return Row(
        id,
        (
            Cell(format.name_of(id), resource_path(id)),
            Cell(format.number(count.published)),
            Cell(format.number(count.failures)),
            Cell(format.number(count.unmatched)),
            Cell(format.number(count.subscriptions)),
        ),
    )
