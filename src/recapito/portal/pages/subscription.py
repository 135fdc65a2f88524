"""A subscription's page: live state, retry timetable, recent deliveries, dead letters, settings."""

import asyncio
from typing import Any

from nicegui import ui

from recapito.portal import format
from recapito.portal.api_types import ShownLane
from recapito.portal.client import KINDS, RequestRefused
from recapito.portal.layout import Crumb
from recapito.portal.page import POLL_S, Page
from recapito.portal.pages.subscription_facts import settings_facts
from recapito.portal.pages.topic import LISTS
from recapito.portal.panels.attempts import recent_deliveries
from recapito.portal.panels.clock import clock_panel
from recapito.portal.panels.dead_letters import DeadLetterList
from recapito.portal.panels.retry import retry_panel
from recapito.portal.urls import Address, resource_path
from recapito.portal.widgets.chart import SERIES, LaneChart, totals
from recapito.portal.widgets.pieces import Tiles, bar, button, chip, confirm, facts, link_button, panel, set_tone, text

_NOW = {"pending": "Pending", "parked": "Waiting for a retry", "unread": "Unread, at most", "latency": "Mean latency"}


async def build(page: Page, address: Address) -> None:
    """Build the page."""
    shown, topic = await asyncio.gather(page.server.arm("GET", address.id), page.server.arm("GET", address.topic_id))
    crumbs = [LISTS[address.kind], Crumb(topic["name"], resource_path(address.topic_id))]
    if address.domain_topic is not None:
        crumbs.append(Crumb(address.domain_topic, resource_path(address.parent_id)))
    page.layout(shown["name"], LISTS[address.kind].path, *crumbs, heading=False)
    state = _head(page, address, shown)
    _consent(shown)
    with panel("Now"):
        why = text("p", "", "note bad hold")
        why.set_visibility(False)
        series = Tiles(SERIES, "series")
        chart = LaneChart(POLL_S)
        tiles = Tiles(_NOW)
        reasons = text("p", "", "muted")
    clock = clock_panel(page) if page.settings.clock.manual else None
    retry_panel(page, topic, shown)
    with panel("Recent deliveries"):
        deliveries = recent_deliveries(page, topic["name"], shown["name"])
    with panel("Dead letters"):
        letters = DeadLetterList(page, topic["name"], shown["name"])
    with panel("Settings"):
        facts(settings_facts(shown))

    async def refresh() -> None:
        lane = await _find(page, address)
        word, tone = lane.state
        state.text = word
        set_tone(state, tone)
        why.text = _why(lane)
        why.set_visibility(bool(why.text))
        chart.show(lane)
        series.show({name: format.number(total) for name, total in zip(SERIES, totals(lane), strict=True)})
        tiles.show(_now(lane))
        reasons.text = _reasons(lane)
        await deliveries.refresh()
        if clock is not None:
            await clock()
        if lane.dead_lettered != seen["letters"]:
            seen["letters"] = lane.dead_lettered
            await letters.listing.refresh()

    seen = {"letters": -1}
    await refresh()
    page.poll(refresh)


async def _find(page: Page, address: Address) -> ShownLane:
    found = await page.server.lanes(topic=address.topic, subscription=address.subscription)
    for lane in found.value:
        if lane.topic_kind == KINDS[address.kind] and _same(lane.domain_topic, address.domain_topic):
            return lane
    raise RequestRefused(404, "NotFound", "This subscription does not exist any more.", None)


def _same(one: str | None, other: str | None) -> bool:
    return (one or "").lower() == (other or "").lower()


def _head(page: Page, address: Address, shown: dict[str, Any]) -> Any:
    async def delete() -> None:
        detail = "Its pending events are dropped. This cannot be undone."
        if await confirm(f"Delete '{shown['name']}'?", detail, "Delete"):
            await page.server.arm("DELETE", address.id)
            ui.navigate.to(resource_path(address.parent_id))

    with bar("head"):
        with bar():
            text("h1", shown["name"])
            state = chip("…")
        with bar():
            link_button("Edit", f"/edit{address.id}")
            button("Delete", page.doing(delete), "danger")
    return state


def _consent(shown: dict[str, Any]) -> None:
    """Help with the handshake: its state, and the server's advice."""
    properties = shown["properties"]
    state = properties["provisioningState"]
    if state not in ("AwaitingManualAction", "Failed"):
        return
    with panel("The endpoint has not consented yet" if state != "Failed" else "The endpoint did not consent in time"):
        text("p", str(properties.get("handshakeMessage") or "The endpoint was asked and did not consent."), "note wait")
        text(
            "p",
            "Until it consents, no new event is delivered to it. Open the validation URL that it was sent, or change "
            "the endpoint and save the subscription again, which repeats the handshake.",
        )


def _why(lane: ShownLane) -> str:
    if lane.stopped:
        return f"This subscription has stopped: {lane.stopped}"
    if lane.hold is not None and lane.hold.on:
        return f"On probation: {lane.hold.reason}."
    return ""


def _now(lane: ShownLane) -> dict[str, str]:
    mean = lane.took_ms / lane.answers if lane.answers else None
    return {
        "pending": format.number(lane.pending),
        "parked": format.number(lane.parked),
        "unread": format.number(lane.unread),
        "latency": format.milliseconds(mean),
    }


def _reasons(lane: ShownLane) -> str:
    parts = []
    if lane.next_due_at is not None:
        parts.append(f"Next retry due {format.instant(lane.next_due_at)} UTC.")
    if lane.failed_attempts:
        parts.append(f"Failed attempts: {format.tally(lane.failed_attempts)}.")
    if lane.dropped:
        parts.append(f"Dropped: {format.tally(lane.dropped)}.")
    return " ".join(parts)
