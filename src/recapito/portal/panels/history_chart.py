"""The charts of a subscription, or of the whole server: drawn from history when the page opens, and kept up to date.

That of a subscription opens with the shortest range that shows something.
"""

from nicegui import ui

from recapito.portal import format
from recapito.portal.page import Page
from recapito.portal.widgets.chart import Lines
from recapito.portal.widgets.pieces import attribute, bar, text
from recapito.portal.widgets.timeline import LINES, RANGES, Timeline, shortest_range

SERIES = {
    "matched": "Matched",
    "delivered": "Delivered",
    "failed": "Failed attempts",
    "expired": "Expired",
    "dropped": "Dropped",
    "deadlettered": "Dead-lettered",
}
_INCOMPLETE = "There are more attempts than are counted here; the chart shows the newest."


class HistoryChart:
    """Two charts over one range: events, and the time of answers."""

    def __init__(self, page: Page, topic: str | None = None, subscription: str | None = None) -> None:
        self._page = page
        self._where = {"topic": topic, "subscription": subscription}
        self._minutes = next(iter(RANGES))
        self._timeline = Timeline(self._minutes)
        self._newest = ""
        self._is_chosen = subscription is None
        self._delivered: list[float] = []
        with bar("ranges"):
            self._ranges = {minutes: self._range(minutes, name) for minutes, name in RANGES.items()}
        with ui.element("div").classes("pair"):
            with ui.element("div"):
                self._title = text("h3", "")
                self._counts = Lines("Events and failed attempts", LINES)
                with ui.element("ul").classes("legend"):
                    for name in LINES:
                        text("li", SERIES[name], name)
            with ui.element("div"):
                text("h3", "Mean time of an answer in ms")
                self._latency = Lines("Mean time of an answer", ("latency",))
        self._incomplete = text("p", _INCOMPLETE, "note")
        self._incomplete.set_visibility(False)
        self._mark()

    @property
    def per_minute(self) -> float:
        """The events delivered in the last minutes of the range, for each minute."""
        line = self._delivered[-5:-1] or [0]
        return sum(line) / len(line) * 60 / self._timeline.seconds

    async def refresh(self) -> None:
        """Add the attempts since the last refresh, and draw."""
        timeline = self._timeline
        size = {"seconds": str(timeline.seconds), "buckets": str(timeline.buckets)}
        found = await self._page.server.series(**self._where, **size, after=self._newest)
        if timeline is not self._timeline:  # another range was chosen meanwhile
            return
        if not self._is_chosen and not found.value:
            minutes = await self._range_with_attempts()
            if not self._is_chosen and minutes != self._minutes:
                self._choose(minutes)
                await self.refresh()
                return
        self._is_chosen = True
        timeline.add(found.value)
        self._incomplete.set_visibility(self._incomplete.visible or not found.complete)
        self._newest = str(found.newest)
        lines = timeline.lines(found.now)
        self._delivered = lines["delivered"]
        begin = f"{RANGES[self._minutes]} ago"
        self._counts.draw(lines, begin)
        self._latency.draw({"latency": timeline.latency(found.now)}, begin)

    async def _range_with_attempts(self) -> str:
        """The shortest range that has the newest attempt; the shortest of all if none has it."""
        newest = await self._page.server.deliveries(**self._where, limit="1")
        return shortest_range(newest.value[0].at if newest.value else None, newest.now)

    def _choose(self, minutes: str) -> None:
        self._is_chosen = True
        self._minutes, self._newest, self._delivered = minutes, "", []
        self._timeline = Timeline(minutes)
        self._incomplete.set_visibility(False)
        self._mark()

    def _range(self, minutes: str, name: str) -> ui.element:
        chosen = text("button", name, "tab")
        attribute(chosen, type="button", data_range=minutes)

        async def choose() -> None:
            self._choose(minutes)
            await self.refresh()

        chosen.on("click", self._page.doing(choose))
        return chosen

    def _mark(self) -> None:
        self._title.text = f"Events per {format.duration(self._timeline.seconds)}"
        for minutes, chosen in self._ranges.items():
            attribute(chosen, aria_pressed="true" if minutes == self._minutes else "false")
