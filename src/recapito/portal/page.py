"""One page that somebody has open: who they are, what they asked for, and what happens when the server is away.

A page has one poller. It ends with the page, and where the server does not answer it says so and goes on asking.
"""

from collections.abc import Awaitable, Callable
from typing import Any

from nicegui import ui
from starlette.requests import Request

from recapito.portal.client import Refused, Server, Unreachable
from recapito.portal.dependencies import Dependencies
from recapito.portal.guard import SESSION
from recapito.portal.layout import THEME_COOKIE, Crumb, Layout, make_layout
from recapito.portal.session import Session
from recapito.portal.widgets.pieces import empty, link_button, text
from recapito.settings.settings import Settings

POLL_S = 2.0
_LOST = "Trying again; what is shown may be old."
_ENDED = "Your session has ended. Open the page again to sign in."


class Page:
    """What a page needs to be built and kept fresh."""

    def __init__(self, parts: Dependencies, request: Request) -> None:
        session: Session | None = request.scope.get(SESSION)
        self.request = request
        self.settings: Settings = parts.settings
        self.server = Server(parts.wire, session.tokens if session else None)
        self.who = session.who if session else None
        self._layout: Layout | None = None

    def __repr__(self) -> str:
        return f"<Visit {self.request.url.path}>"

    def layout(self, title: str, here: str, *crumbs: Crumb, heading: bool = True) -> None:
        """Begin the page; everything after this goes into it."""
        theme = self.request.cookies.get(THEME_COOKIE, "")
        self._layout = make_layout(title, here, crumbs, theme, self.who, self.settings.clock.manual)
        self._layout.main.__enter__()
        if heading:
            text("h1", title)

    def leave(self) -> None:
        """The page is built. NiceGUI keeps where elements go by task: what is not left would be found by another."""
        if self._layout is not None:
            self._layout.main.__exit__(None, None, None)

    def poll(self, refresh: Callable[[], Awaitable[None]], every_s: float = POLL_S) -> None:
        """Keep the page fresh while it is open: NiceGUI keeps one that was left for a while, should it come back."""
        client = ui.context.client

        async def look() -> None:
            if client.has_socket_connection:
                await self._try(refresh)

        ui.timer(every_s, look, immediate=False)

    def doing(self, action: Callable[..., Awaitable[None]]) -> Callable[..., Awaitable[None]]:
        """What a button does: if the server refuses, that is said."""

        async def do(*arguments: Any) -> None:
            try:
                await action(*arguments)
            except Refused as error:
                self.complain(error.message)
            except Unreachable as error:
                self._lost(str(error))

        return do

    def complain(self, message: str) -> None:
        """Say what did not work; the text is shown as it is."""
        ui.notify(message, type="negative", multi_line=True, timeout=8000, close_button="Close", classes="said")

    def say(self, message: str) -> None:
        """Say what worked."""
        ui.notify(message, type="positive", timeout=4000, classes="said")

    async def _try(self, refresh: Callable[[], Awaitable[None]]) -> None:
        try:
            await refresh()
        except Unreachable as error:
            self._lost(str(error))
            return
        except Refused as error:
            self._lost(_ENDED if error.status == 401 else error.message)
            return
        if self._layout is not None:
            self._layout.banner.hide()

    def _lost(self, what: str) -> None:
        if self._layout is not None:
            self._layout.banner.show(what if what == _ENDED else f"{what} {_LOST}")

    def show_trouble(self, error: Refused | Unreachable) -> None:
        """The page when what it is about cannot be had: it is gone, or the server is away and may come back."""
        if self._layout is None:
            self.layout("Not available", "")
        if isinstance(error, Refused):
            with empty("This cannot be shown.", error.message):
                link_button("Go to the overview", "/")
            return
        self._lost(str(error))

        async def again() -> None:
            await self.server.readiness()
            ui.navigate.reload()

        self.poll(again)
