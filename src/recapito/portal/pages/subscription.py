"""A subscription's page: its state and numbers, and in tabs charts, deliveries, dead letters, timetable, settings."""

import asyncio
from typing import Any

from nicegui import ui

from recapito.portal import format
from recapito.portal.api_types import ShownLane
from recapito.portal.client import RequestRefused
from recapito.portal.layout import Crumb
from recapito.portal.page import Page
from recapito.portal.pages.subscription_facts import settings_facts
from recapito.portal.pages.topic import LISTS
from recapito.portal.panels.attempts import recent_deliveries
from recapito.portal.panels.clock import clock_panel
from recapito.portal.panels.dead_letters import DeadLetterList
from recapito.portal.panels.history_chart import SERIES, HistoryChart
from recapito.portal.panels.retry import retry_panel
from recapito.portal.urls import Address, resource_path
from recapito.portal.widgets.pieces import Tiles, bar, button, chip, confirm, facts, link_button, panel, set_tone, text
from recapito.portal.widgets.tabs import Tabs

_NOW = {"pending": "Pending", "parked": "Waiting for a retry", "unread": "Unread", "latency": "Mean latency"}
_TABS = {"activity": "Activity", "letters": "Dead letters", "retries": "Retries", "settings": "Settings"}
_CLOCK = {"clock": "Clock"}


async def build(page: Page, address: Address) -> None:
    """Build the page."""
    shown, topic, failed, (lane, _) = await asyncio.gather(
        page.server.arm("GET", address.id),
        page.server.arm("GET", address.topic_id),
        page.server.deliveries(topic=address.topic, subscription=address.subscription, outcome="Failed", limit="1"),
        _find(page, address),
    )
    crumbs = [LISTS[address.kind], Crumb(topic["name"], resource_path(address.topic_id))]
    if address.domain_topic is not None:
        crumbs.append(Crumb(address.domain_topic, resource_path(address.parent_id)))
    page.layout(shown["name"], LISTS[address.kind].path, *crumbs, heading=False)
    state = _head(page, address, shown)
    _consent(shown)
    now = NumbersNow()

    async def opened() -> None:
        await page.doing(refresh)()

    names = _TABS | (_CLOCK if page.settings.clock.manual else {})
    tabs = Tabs(names, page.request.query_params.get("tab", ""), opened)
    with tabs.part("activity"):
        with panel():
            chart = HistoryChart(page, topic["name"], shown["name"])
            reasons = text("p", "", "muted")
        with panel("Recent deliveries"):
            deliveries = recent_deliveries(page, topic["name"], shown["name"])
    with tabs.part("letters"), panel("Dead letters"):
        letters = DeadLetterList(page, topic["name"], shown["name"])
    with tabs.part("retries"):
        retry_panel(page, topic, shown, next(iter(failed.value), None))
    with tabs.part("settings"), panel("Settings"):
        facts(settings_facts(shown, lane.options))
    clock = None
    if page.settings.clock.manual:
        with tabs.part("clock"):
            clock = clock_panel(page, opened)

    async def refresh() -> None:
        lane, at = await _find(page, address)
        word, tone = lane.state
        state.text = word
        set_tone(state, tone)
        now.show(lane, at)
        reasons.text = _reasons(lane, at)
        tabs.count("letters", format.short(lane.dead_lettered) if lane.dead_lettered else "")
        if tabs.chosen == "activity":
            await asyncio.gather(chart.refresh(), deliveries.refresh())
        if clock is not None and tabs.chosen == "clock":
            await clock()
        if tabs.chosen == "letters" and lane.dead_lettered != seen["letters"]:
            seen["letters"] = lane.dead_lettered
            await letters.refresh()

    seen = {"letters": -1}
    await refresh()
    page.poll(refresh)


class NumbersNow:
    """The numbers of this moment, and the reason if nothing is sent."""

    def __init__(self) -> None:
        self._why = text("p", "", "note bad hold")
        self._why.set_visibility(False)
        self._series = Tiles(SERIES, "series")
        self._tiles = Tiles(_NOW, "now")

    def show(self, lane: ShownLane, at: str) -> None:
        self._why.text = format.told(_why(lane), at)
        self._why.set_visibility(bool(self._why.text))
        self._series.show({name: format.number(total) for name, total in zip(SERIES, _totals(lane), strict=True)})
        self._tiles.show(_now(lane))


def _totals(lane: ShownLane) -> tuple[int, ...]:
    """The counts of a lane, in the order of the series."""
    return (lane.matched, lane.delivered, lane.failures, lane.expired, lane.lost - lane.expired, lane.dead_lettered)


async def _find(page: Page, address: Address) -> tuple[ShownLane, str]:
    """The lane, and the time by the service's clock."""
    found = await page.server.lanes(resourceId=address.id)
    if not found.value:
        raise RequestRefused(404, "NotFound", "This subscription does not exist any more.", None)
    return found.value[0], found.now


def _head(page: Page, address: Address, shown: dict[str, Any]) -> Any:
    async def delete() -> None:
        detail = "Its pending events are dropped. This cannot be undone."
        if await confirm(f"Delete '{shown['name']}'?", detail, "Delete"):
            await page.server.arm("DELETE", address.id)
            ui.navigate.to(resource_path(address.parent_id))

    async def retry() -> None:
        lane, _ = await _find(page, address)
        asked = await page.server.call("POST", f"/lanes/{lane.id}/retry-now", {})
        page.say(f"{format.number(asked['parked'])} waiting deliveries are tried now.")

    with bar("head"):
        with bar():
            text("h1", shown["name"])
            state = chip("…")
        with bar():
            button("Retry now", page.doing(retry))
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
        "pending": format.number(lane.waiting),
        "parked": format.number(lane.parked),
        "unread": format.number(lane.unread),
        "latency": format.milliseconds(mean),
    }


def _reasons(lane: ShownLane, now: str) -> str:
    parts = []
    if lane.waiting > lane.pending:
        behind = format.number(lane.waiting - lane.pending)
        parts.append(f"{behind} of the pending events are unread behind the hold, before the filter.")
    if lane.next_due_at is not None:
        parts.append(
            f"Next retry due {format.relative(lane.next_due_at, now)} ({format.instant(lane.next_due_at)} UTC)."
        )
    if lane.failed_attempts:
        parts.append(f"Failed attempts: {format.tally(lane.failed_attempts)}.")
    if lane.dropped:
        parts.append(f"Dropped: {format.tally(lane.dropped)}.")
    return " ".join(parts)
