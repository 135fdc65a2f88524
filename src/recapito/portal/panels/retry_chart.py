"""The retry timetable as a chart: each attempt a dot on a time line that is stretched near its beginning."""

import math

from nicegui import ui
from nicegui.element import Element

from recapito.domain.delivery.delivery import KEPT, Timetable, timetable
from recapito.domain.delivery.outcome import Outcome, Result, answered
from recapito.domain.instant import SECOND
from recapito.domain.profiles.profile import EndpointKind, load
from recapito.domain.resources.subscription import RetryPolicy
from recapito.portal import format
from recapito.portal.api_types import ShownAttempt
from recapito.portal.widgets.pieces import attribute, text

ANSWERS = {
    "none": "Does not answer",
    "500": "500, it fails",
    "503": "503, it is busy",
    "408": "408, it is too slow",
    "404": "404, nothing is there",
    "401": "401, it refuses us",
    "400": "400, it refuses the event",
    "413": "413, it is too large",
}
_WIDTH, _HEIGHT, _Y, _MARGIN = 640, 96, 42, 14
_TICKS = ((0, "0"), (10, "10 s"), (60, "1 min"), (600, "10 min"), (3600, "1 h"), (21600, "6 h"), (86400, "24 h"))


def answer_of(last_failure: ShownAttempt | None) -> tuple[str, dict[str, str]]:
    """The answer that the timetable opens with, and all answers to choose from."""
    if last_failure is None or last_failure.status is None:
        return "none", ANSWERS
    status = str(last_failure.status)
    return status, {status: f"{status}, as it answered last", **ANSWERS} if status not in ANSWERS else ANSWERS


def timetable_of(
    profile: str, is_webhook: bool, attempts: int, minutes: int, answer: str, dead_letters: bool
) -> Timetable:
    """The attempts at an endpoint that always gives this answer."""
    outcome = Outcome(Result.SOCKET_ERROR) if answer == "none" else answered(int(answer))
    kind = EndpointKind.WEBHOOK if is_webhook else EndpointKind.AZURE_RESOURCE
    return timetable(load(profile), kind, RetryPolicy(attempts, minutes), outcome, dead_letters)


def sentence(times: Timetable, dead_letters: bool) -> str:
    """The timetable in words."""
    count = len(times.attempts)
    if times.reason == KEPT:
        return f"An event is tried {count} times in its first day, and so on until it is delivered."
    tried = "tried once" if count == 1 else f"tried {count} times"
    end, why = ("dead-lettered", "") if dead_letters else ("dropped", ", since there is no dead-letter destination")
    after = f"after {format.duration(times.end / SECOND)}" if times.end else "at once"
    return f"An event is {tried}, and is {end} {after} ({times.reason}){why}."


def draw(box: Element, times: Timetable) -> None:
    """Draw the timetable into a box, replacing its contents."""
    box.clear()
    longest = max(times.end / SECOND, 60.0)
    with box, ui.element("svg").classes("chart timetable") as svg:
        attribute(svg, viewBox=f"0 0 {_WIDTH} {_HEIGHT}", role="img")
        text("title", f"{len(times.attempts)} attempts over {format.duration(times.end / SECOND)}")
        for at, name in _TICKS:
            if at <= longest:
                _tick(_x(at, longest), name)
        span = ui.element("line").classes("span")
        end = _x(times.end / SECOND, longest)
        attribute(span, x1=str(_MARGIN), x2=f"{end:.1f}", y1=str(_Y), y2=str(_Y))
        for number, at in enumerate(times.attempts, 1):
            seconds = at / SECOND
            with ui.element("circle").classes("dot") as dot:
                attribute(dot, cx=f"{_x(seconds, longest):.1f}", cy=str(_Y), r="4.5", data_attempt=str(number))
                text("title", f"Attempt {number}, {format.duration(seconds)} after publishing")
        if times.reason != KEPT:
            _end(end, times)


def _end(x: float, times: Timetable) -> None:
    """The mark of the instant at which an event is given up."""
    with ui.element("rect").classes("end") as mark:
        attribute(mark, x=f"{x - 2:.1f}", y=str(_Y - 12), width="4", height="24", rx="2")
        text("title", f"{times.reason} after {format.duration(times.end / SECOND)}")
    last = text("text", format.duration(times.end / SECOND) if times.end else "at once")
    attribute(last, x=f"{max(x, 40):.1f}", y="12", text_anchor="end")


def _tick(x: float, name: str) -> None:
    line = ui.element("line").classes("grid")
    attribute(line, x1=f"{x:.1f}", x2=f"{x:.1f}", y1="22", y2=str(_HEIGHT - 26))
    label = text("text", name)
    attribute(label, x=f"{x:.1f}", y=str(_HEIGHT - 8), text_anchor="middle")


def _x(seconds: float, longest: float) -> float:
    share = math.log1p(seconds / 5) / math.log1p(longest / 5)
    return _MARGIN + share * (_WIDTH - 2 * _MARGIN)
