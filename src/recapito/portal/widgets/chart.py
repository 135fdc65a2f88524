"""A chart of lines over time.

It is drawn as SVG from here, so that it follows the theme, needs no script, and can show nothing but numbers.
"""

from collections.abc import Mapping, Sequence

from nicegui import ui
from nicegui.element import Element
from nicegui.elements.mixins.text_element import TextElement

from recapito.portal import format
from recapito.portal.widgets.pieces import attribute, text

_WIDTH, _HEIGHT, _LEFT, _BOTTOM, _TOP = 480, 150, 44, 20, 8


class Lines:
    """Lines over the same time, with a scale that fits the highest of them."""

    def __init__(self, title: str, names: Sequence[str]) -> None:
        self._lines: dict[str, Element] = {}
        with ui.element("svg").classes("chart") as svg:
            attribute(svg, viewBox=f"0 0 {_WIDTH} {_HEIGHT}", role="img")
            text("title", title)
            for y in (_TOP, (_HEIGHT - _BOTTOM + _TOP) / 2, _HEIGHT - _BOTTOM):
                grid = ui.element("line").classes("grid")
                attribute(grid, x1=str(_LEFT), x2=str(_WIDTH), y1=str(y), y2=str(y))
            self._most = _label("", _LEFT - 6, _TOP + 4, "end")
            _label("0", _LEFT - 6, _HEIGHT - _BOTTOM + 4, "end")
            self._begin = _label("", _LEFT, _HEIGHT - 4, "start")
            _label("now", _WIDTH, _HEIGHT - 4, "end")
            for name in names:
                self._lines[name] = ui.element("polyline").classes(f"line {name}")
                attribute(self._lines[name], points="", data_line=name)

    def draw(self, values: Mapping[str, Sequence[float | None]], begin: str) -> None:
        """Draw these values, the newest at the right; `begin` is the name of the left edge."""
        most = max([1.0, *(value for line in values.values() for value in line if value is not None)])
        self._most.text = format.short(most)
        self._begin.text = begin
        for name, line in values.items():
            drawn = points(line, most)
            if self._lines[name].props.get("points") != drawn:
                self._lines[name].props["points"] = drawn


def _label(content: str, x: float, y: float, anchor: str) -> TextElement:
    made = text("text", content)
    attribute(made, x=str(x), y=str(y), text_anchor=anchor)
    return made


def points(line: Sequence[float | None], most: float) -> str:
    """The points of a line; a line of zeros is not drawn, and a point alone is drawn as a short stroke."""
    if not any(line):
        return ""
    step = (_WIDTH - _LEFT) / max(len(line) - 1, 1)
    room = _HEIGHT - _BOTTOM - _TOP
    found = [
        (_LEFT + n * step, _HEIGHT - _BOTTOM - value / most * room) for n, value in enumerate(line) if value is not None
    ]
    if len(found) == 1:
        ((x, y),) = found
        found = [(x - 2, y), (x + 2, y)]
    return " ".join(f"{x:.1f},{y:.1f}" for x, y in found)
