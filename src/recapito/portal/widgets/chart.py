"""The live charts of a subscription: the changes between two refreshes, for the last minutes.

They are drawn as SVG from here, so that they follow the theme, need no script, and can show nothing but numbers.
"""

from collections import deque
from typing import NamedTuple

from nicegui import ui
from nicegui.element import Element
from nicegui.elements.mixins.text_element import TextElement

from recapito.portal import format
from recapito.portal.api_types import ShownLane
from recapito.portal.widgets.pieces import attribute, text

SERIES = {
    "matched": "Matched",
    "delivered": "Delivered",
    "failed": "Failed attempts",
    "expired": "Expired",
    "dropped": "Dropped",
    "deadlettered": "Dead-lettered",
}
SAMPLES = 120
_WIDTH, _HEIGHT, _LEFT, _BOTTOM, _TOP = 480, 150, 44, 20, 8


class Sample(NamedTuple):
    """The changes since the last refresh: a number for each series, and the mean time of answers in milliseconds."""

    counts: tuple[int, ...]
    latency: float | None


class Sampler:
    """Turns counts since the start into differences between refreshes. It keeps the last samples only."""

    def __init__(self) -> None:
        self._last: ShownLane | None = None
        self.samples: deque[Sample] = deque(maxlen=SAMPLES)

    def take(self, lane: ShownLane) -> None:
        """Look at the lane."""
        last, self._last = self._last, lane
        if last is None or last.id != lane.id or lane.matched < last.matched:  # the first look, or another lane
            return
        counts = tuple(max(0, now - then) for now, then in zip(totals(lane), totals(last), strict=True))
        answers = lane.answers - last.answers
        self.samples.append(Sample(counts, (lane.took_ms - last.took_ms) / answers if answers > 0 else None))


def totals(lane: ShownLane) -> tuple[int, ...]:
    """The counts of a lane, in the order of the series."""
    return (lane.matched, lane.delivered, lane.failures, lane.expired, lane.lost - lane.expired, lane.dead_lettered)


class _Lines:
    """Lines over the same time, with a scale that fits the highest of them."""

    def __init__(self, title: str, names: tuple[str, ...], interval_s: float) -> None:
        self._lines: dict[str, Element] = {}
        minutes = format.duration(SAMPLES * interval_s)
        with ui.element("svg").classes("chart") as svg:
            attribute(svg, viewBox=f"0 0 {_WIDTH} {_HEIGHT}", role="img")
            text("title", title)
            for y in (_TOP, (_HEIGHT - _BOTTOM + _TOP) / 2, _HEIGHT - _BOTTOM):
                grid = ui.element("line").classes("grid")
                attribute(grid, x1=str(_LEFT), x2=str(_WIDTH), y1=str(y), y2=str(y))
            self._most = _label("", _LEFT - 6, _TOP + 4, "end")
            _label("0", _LEFT - 6, _HEIGHT - _BOTTOM + 4, "end")
            _label(f"{minutes} ago", _LEFT, _HEIGHT - 4, "start")
            _label("now", _WIDTH, _HEIGHT - 4, "end")
            for name in names:
                self._lines[name] = ui.element("polyline").classes(f"line {name}")
                attribute(self._lines[name], points="", data_line=name)

    def draw(self, values: dict[str, list[float | None]], unit: str = "") -> None:
        """Draw these values, the newest at the right."""
        most = max([1.0, *(value for line in values.values() for value in line if value is not None)])
        self._most.text = format.short(most) + unit
        for name, line in values.items():
            points = _points(line, most)
            if self._lines[name].props.get("points") != points:
                self._lines[name].props["points"] = points


def _label(content: str, x: float, y: float, anchor: str) -> TextElement:
    made = text("text", content)
    attribute(made, x=str(x), y=str(y), text_anchor=anchor)
    return made


def _points(line: list[float | None], most: float) -> str:
    """The points of a line; a line of zeros is not drawn."""
    if not any(line):
        return ""
    step = (_WIDTH - _LEFT) / (SAMPLES - 1)
    first = SAMPLES - len(line)
    room = _HEIGHT - _BOTTOM - _TOP
    return " ".join(
        f"{_LEFT + (first + n) * step:.1f},{_HEIGHT - _BOTTOM - value / most * room:.1f}"
        for n, value in enumerate(line)
        if value is not None
    )


class LaneChart:
    """The two charts of a subscription: events, and the time of answers."""

    def __init__(self, interval_s: float) -> None:
        self._sampler = Sampler()
        with ui.element("div").classes("pair"):
            with ui.element("div"):
                text("h3", f"Events per {interval_s:.0f} seconds")
                self._counts = _Lines("Events and failed attempts", tuple(SERIES), interval_s)
            with ui.element("div"):
                text("h3", "Mean time of an answer")
                self._latency = _Lines("Mean time of an answer", ("latency",), interval_s)

    def show(self, lane: ShownLane) -> None:
        """Take a sample, and draw."""
        self._sampler.take(lane)
        samples = self._sampler.samples
        lines: dict[str, list[float | None]] = {
            name: [sample.counts[n] for sample in samples] for n, name in enumerate(SERIES)
        }
        self._counts.draw(lines)
        self._latency.draw({"latency": [sample.latency for sample in samples]}, " ms")
