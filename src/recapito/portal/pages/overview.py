"""The first page: the server's health, failing subscriptions, and the topics."""

import asyncio

from recapito.portal import format
from recapito.portal.api_types import Readiness, ShownCounts, ShownLane
from recapito.portal.page import Page
from recapito.portal.urls import resource_path
from recapito.portal.widgets.pieces import attribute, bar, chip, empty, link, link_button, panel, set_tone, text
from recapito.portal.widgets.table import Cell, Row, Table

_FAILING = 10
_TOPICS = 10
_POLL_S = 5.0  # finding those that fail costs the server more than anything else here
_CHECKS = {"store": "Store", "disk": "Disk", "dispatch": "Dispatch", "damage": "Data"}
_WRONG = {"damage": "wait"}  # a person has to look; delivery goes on meanwhile


async def build(page: Page) -> None:
    """Build the page."""
    server = page.server
    page.layout("Overview", "/")
    with panel("Server"), bar() as health:
        pass
    with panel("Subscriptions with problems", "failing"):
        calm = text("p", "All subscriptions deliver.", "muted")
        failing = Table("Subscriptions with problems", ("Subscription", "Topic", "State", "Why", "Pending#"))
    with panel("Topics"):
        topics = Table("Topics", ("Topic", "Published#", "Publish failed#", "Unmatched#", "Subscriptions#"))
        with empty("There is no topic yet.", "Events are published to topics. Create one to begin.") as none:
            link_button("Create a topic", "/new-topic", "primary")
        with empty(
            "No topic has a subscription yet.", "A subscription delivers events of a topic to an endpoint."
        ) as unheard:
            first = link_button("Create a subscription", "/topics", "primary")
        with bar("end"):
            link("All topics", "/topics")

    chips = {}
    with health:
        for name, title in _CHECKS.items():
            chips[name] = chip(f"{title} …")

    def show_health(found: Readiness) -> None:
        for name, title in _CHECKS.items():
            state = found.checks.get(name, "unknown").replace("`", "")
            chips[name].text = f"{title} {state}" if state == "ok" else f"{title}: {state}"
            set_tone(chips[name], "good" if state == "ok" else _WRONG.get(name, "bad"))

    async def refresh() -> None:
        show_health(await server.readiness())
        lanes = (await server.lanes(failing="true", limit=str(_FAILING))).value
        calm.set_visibility(not lanes)
        failing.show([_failing_row(lane) for lane in lanes])
        listed = []
        for azure in await server.azure_subscriptions():
            topics_page = await server.page(
                f"/subscriptions/{azure}/providers/Microsoft.EventGrid/topics", size=_TOPICS
            )
            listed += topics_page.value
        listed = listed[:_TOPICS]
        none.set_visibility(not listed)
        counts = await asyncio.gather(*(server.count(one["name"], "topics") for one in listed))
        unheard.set_visibility(bool(listed) and not any(count.subscriptions for count in counts))
        if listed:
            attribute(first, href=f"/new-subscription{listed[0]['id']}")
        topics.show([_topic_row(one["id"], count) for one, count in zip(listed, counts, strict=True)])

    await refresh()
    page.poll(refresh, _POLL_S)


def _failing_row(lane: ShownLane) -> Row:
    state, tone = lane.state
    why = lane.hold.reason if lane.hold and lane.hold.on else format.tally(lane.failed_attempts)
    return Row(
        lane.resource_id,
        (
            Cell(lane.subscription, resource_path(lane.resource_id)),
            Cell(lane.topic),
            Cell(state, tone=tone),
            Cell(lane.stopped or why),
            Cell(format.number(lane.pending)),
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
