"""The small pieces that pages are made of. All of them show text as text: nothing here takes HTML."""

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple

from nicegui import ui
from nicegui.element import Element
from nicegui.elements.mixins.text_element import TextElement

_COPY = (
    "(e) => { const b = e.currentTarget; navigator.clipboard?.writeText(b.dataset.copy);"
    " b.classList.add('done'); setTimeout(() => b.classList.remove('done'), 1200) }"
)
TONES = ("good", "wait", "bad", "plain")


def text(tag: str, content: str, classes: str = "") -> TextElement:
    """An element with a text in it."""
    return TextElement(tag=tag, text=content).classes(classes)


def attribute(element: Element, **values: str) -> Element:
    """Set attributes, whatever is in their values; `_` stands for `-`."""
    for name, value in values.items():
        element.props[name.strip("_").replace("_", "-")] = value
    return element


def link(content: str, path: str, classes: str = "") -> Element:
    """A link to a page of ours."""
    return attribute(text("a", content, classes), href=path)


def button(
    content: str, on_click: Callable[..., Any] | None = None, kind: str = "plain", icon: str | None = None
) -> ui.button:
    """A button: plain, primary, danger or small."""
    made = ui.button(content, color=None, icon=icon).props("no-caps unelevated").classes(f"b {kind}")
    if on_click is not None:
        press(made, on_click)
    return made


def press(made: ui.button, handler: Callable[..., Any]) -> None:
    """Have a button run a handler. It shows at once that it works, and takes no second press meanwhile."""

    async def run() -> None:
        _set_busy(made, True)
        try:
            await handler()
        finally:
            if not made.is_deleted:
                _set_busy(made, False)

    made.on_click(run if inspect.iscoroutinefunction(handler) else handler)


def _set_busy(made: ui.button, busy: bool) -> None:
    made.props["loading"] = busy
    attribute(made, aria_busy="true" if busy else "false")


def copy_button(content: str) -> None:
    """A button that copies a text; the browser does it alone."""
    made = text("button", "", "copy")
    attribute(made, type="button", aria_label="Copy", title="Copy", data_copy=content)
    made.on("click", js_handler=_COPY)


def link_button(content: str, path: str, kind: str = "plain") -> Element:
    """A link that looks like a button."""
    return link(content, path, f"b link {kind}")


def chip(content: str, tone: str = "plain") -> TextElement:
    """A word about a state."""
    return text("span", content, f"chip {tone}")


def set_tone(element: Element, tone: str) -> None:
    """Let an element look good, wait, bad or plain."""
    element.classes(replace=f"chip {tone}")


@contextmanager
def panel(title: str = "", classes: str = "") -> Iterator[Element]:
    """A part of a page with a heading; what is put into it first after the heading stands beside it."""
    with ui.element("section").classes(f"panel {classes}") as section:
        if title:
            text("h2", title)
        yield section


@contextmanager
def bar(classes: str = "") -> Iterator[Element]:
    """Things beside each other that wrap on a narrow screen."""
    with ui.element("div").classes(f"bar {classes}") as row:
        yield row


@contextmanager
def empty(title: str, hint: str) -> Iterator[Element]:
    """The text in place of an empty list, and the next step."""
    with ui.element("div").classes("empty") as box:
        text("p", title, "what")
        text("p", hint)
        yield box


def say_empty(title: str, hint: str) -> None:
    """The same, with nothing to press."""
    with empty(title, hint):
        pass


class Fact(NamedTuple):
    """A name and a value; a path makes the value a link, `title` is shown on hover."""

    name: str
    value: str
    path: str = ""
    title: str = ""
    copy: str = ""


def facts(shown: Iterable[Fact]) -> None:
    """A list of names and values."""
    with ui.element("dl").classes("facts"):
        for fact in shown:
            text("dt", fact.name)
            with ui.element("dd"):
                shown_value = link(fact.value, fact.path) if fact.path else text("span", fact.value)
                if fact.title:
                    attribute(shown_value, title=fact.title)
                if fact.copy:
                    copy_button(fact.copy)


class Tiles:
    """Numbers with their names; `show` changes the numbers."""

    def __init__(self, names: Mapping[str, str], classes: str = "") -> None:
        self._values: dict[str, TextElement] = {}
        with ui.element("dl").classes(f"tiles {classes}"):
            for key, name in names.items():
                with ui.element("div").classes(f"tile {key}"):
                    text("dt", name)
                    self._values[key] = text("dd", "–")
                    attribute(self._values[key], data_tile=key)

    def show(self, values: Mapping[str, str]) -> None:
        """Show new numbers."""
        for key, value in values.items():
            self._values[key].text = value


def note(content: str, tone: str = "plain") -> None:
    """A sentence that stands out."""
    text("p", content, f"note {tone}")


def code(content: str) -> TextElement:
    """Something as it is, in a box of its own."""
    box = text("pre", content, "code")
    attribute(box, tabindex="0")
    return box


async def confirm(question: str, detail: str, yes: str, danger: bool = True) -> bool:
    """Ask before an action that cannot be undone; True if the person agrees."""
    with ui.dialog() as dialog, ui.card() as card:
        attribute(card, role="alertdialog", aria_label=question)
        text("h2", question)
        text("p", detail)
        with bar("end"):
            button(yes, lambda: dialog.submit(True), "danger" if danger else "primary")
            button("Cancel", lambda: dialog.submit(False)).props("autofocus")
    agreed = bool(await dialog)
    dialog.delete()
    return agreed
