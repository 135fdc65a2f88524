"""The frame of all pages: the navigation, the banner of a lost server, the light and dark themes."""

from collections.abc import Iterable
from typing import NamedTuple

from nicegui import ui
from nicegui.element import Element

from recapito.portal.login import LOGOUT
from recapito.portal.widgets.pieces import attribute, button, link, text

NAVIGATION = (
    ("Overview", "/"),
    ("Topics", "/topics"),
    ("Domains", "/domains"),
    ("System topics", "/system-topics"),
    ("Deliveries", "/deliveries"),
    ("Dead letters", "/dead-letters"),
)
CLOCK = ("Clock", "/clock")
THEME_COOKIE = "recapito_theme"
_THEMES = {"dark": True, "light": False}
_KEEP_THEME = "document.cookie = '%s=%s; path=/; max-age=31536000; SameSite=Strict'"


class Crumb(NamedTuple):
    """A link of the path to a page."""

    name: str
    path: str


class Banner:
    """A message about the server above everything else, until it answers again, with all partitions of a cluster."""

    def __init__(self) -> None:
        self._box = ui.element("div").classes("banner")
        attribute(self._box, role="alert")
        with self._box:
            self._text = text("span", "")
        self._box.set_visibility(False)

    @property
    def is_shown(self) -> bool:
        """True while it is shown."""
        return bool(self._box.visible)

    def show(self, what: str, tone: str = "bad") -> None:
        """Say it. The tone `wait` is that of a page which is right as far as it goes."""
        self._text.text = what
        self._box.classes(replace=f"banner {tone}")
        self._box.set_visibility(True)

    def hide(self) -> None:
        """All is well again."""
        self._box.set_visibility(False)


class Layout(NamedTuple):
    """The banner, and where the page itself goes."""

    banner: Banner
    main: Element


def make_layout(
    title: str, here: str, crumbs: Iterable[Crumb], theme: str, principal: str | None, has_clock: bool
) -> Layout:
    """The frame of a page. `here` is the path of its entry in the navigation."""
    ui.page_title(f"{title} · Recapito")
    dark = ui.dark_mode(_THEMES.get(theme))
    with ui.header(wrap=False, add_scroll_padding=False).classes("top"):
        with attribute(ui.element("a").classes("brand"), href="/", aria_label="Recapito, overview"):
            attribute(ui.element("img"), src="/assets/mark.svg", alt="", width="26", height="26")
            text("span", "Recapito")
        with attribute(ui.element("nav"), aria_label="Main"):
            for name, path in (*NAVIGATION, CLOCK) if has_clock else NAVIGATION:
                way = link(name, path, "way")
                if path == here:
                    attribute(way, aria_current="page")
        with ui.element("div").classes("side"):
            _theme_button(dark, theme)
            if principal is not None:
                _sign_out(principal)
    banner = Banner()
    main = ui.element("div").classes("page")
    with main:
        crumbs = list(crumbs)
        if crumbs:
            with attribute(ui.element("nav").classes("crumbs"), aria_label="Breadcrumbs"):
                for crumb in crumbs:
                    link(crumb.name, crumb.path)
                    text("span", "/")
    ui.skip_link(target=main)
    return Layout(banner, main)


def _theme_button(dark: ui.dark_mode, theme: str) -> None:
    order = {"": "dark", "dark": "light", "light": ""}
    names = {"": "Theme: system", "dark": "Theme: dark", "light": "Theme: light"}
    state = {"theme": theme if theme in order else ""}

    def turn() -> None:
        state["theme"] = order[state["theme"]]
        dark.value = _THEMES.get(state["theme"])
        pressed.text = names[state["theme"]]
        ui.run_javascript(_KEEP_THEME % (THEME_COOKIE, state["theme"]))

    pressed = button(names[state["theme"]], turn, "quiet")


def _sign_out(principal: str) -> None:
    with attribute(ui.element("form").classes("out"), method="post", action=LOGOUT):
        text("span", principal, "who")
        attribute(text("button", "Sign out", "b quiet"), type="submit")
