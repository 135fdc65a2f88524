"""A page that is open in a browser: its session, its request, its frame, and its behaviour while the server is away.

It has one poller, which ends with it. While the server does not answer, a banner is shown and polling goes on.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

from nicegui import background_tasks, ui
from starlette.requests import Request

from recapito.domain.cluster.partition import silent
from recapito.portal.client import AWAY, RequestRefused, ServerApi, ServerConnections, Unreachable
from recapito.portal.guard import SESSION
from recapito.portal.layout import THEME_COOKIE, Crumb, Layout, make_layout
from recapito.portal.session import Session, Sessions
from recapito.portal.urls import ways_back
from recapito.portal.widgets.pieces import bar, empty, link_button, text
from recapito.settings.settings import Settings

POLL_S = 2.0
_SOON_S = 0.3  # that a page waits for a part: one that follows costs the browser more
_LOST = "Trying again; the page may be out of date."
_ENDED = "Your session has ended. Open the page again to sign in."


class Dependencies(NamedTuple):
    """The settings, the connections to the server, and the sessions; None on loopback, without a login."""

    settings: Settings
    wire: ServerConnections
    sessions: Sessions | None


class Page:
    """The context in which a page is built and refreshed."""

    def __init__(self, parts: Dependencies, request: Request) -> None:
        session: Session | None = request.scope.get(SESSION)
        self.request = request
        self.settings: Settings = parts.settings
        self.server = ServerApi(parts.wire, session.tokens if session else None)
        self.principal = session.principal if session else None
        self._layout: Layout | None = None

    def __repr__(self) -> str:
        return f"<Page {self.request.url.path}>"

    def layout(self, title: str, here: str, *crumbs: Crumb, heading: bool = True) -> None:
        """Begin the page; everything after this goes into it."""
        theme = self.request.cookies.get(THEME_COOKIE, "")
        self._layout = make_layout(title, here, crumbs, theme, self.principal, self.settings.clock.manual)
        self._layout.main.__enter__()
        if heading:
            text("h1", title)

    def leave(self) -> None:
        """End the page. NiceGUI keeps the open container per task; another page would find one that was left open."""
        if self._layout is not None:
            self._layout.main.__exit__(None, None, None)

    def poll(self, refresh: Callable[[], Awaitable[None]], every_s: float = POLL_S) -> None:
        """Refresh the page while it is open. NiceGUI keeps a closed page for a while, which is not refreshed."""
        client = ui.context.client

        async def look() -> None:
            if client.has_socket_connection:
                self.server.missing.clear()
                await self._try(refresh)

        ui.timer(every_s, look, immediate=False)

    async def soon(self, refresh: Callable[[], Awaitable[None]]) -> None:
        """Load a part of the page that may take long: the page opens without it if it does, and the part follows."""
        place = self._layout.main if self._layout is not None else ui.context.client

        async def load() -> None:
            with place:
                await self._try(refresh)

        loading = background_tasks.create(load(), name=f"part of {self.request.url.path}")
        await asyncio.wait([loading], timeout=_SOON_S)

    def doing(self, action: Callable[..., Awaitable[None]]) -> Callable[..., Awaitable[None]]:
        """The handler of a button: a refusal by the server becomes a message."""

        async def do(*arguments: Any) -> None:
            try:
                await action(*arguments)
                self.warn()
            except RequestRefused as error:
                self.complain(error.message)
            except Unreachable as error:
                self._lost(str(error))

        return do

    def complain(self, message: str) -> None:
        """Show an error; its text is not interpreted as HTML."""
        ui.notify(message, type="negative", multi_line=True, timeout=8000, close_button="Close", classes="said")

    def say(self, message: str) -> None:
        """Show a success."""
        ui.notify(message, type="positive", timeout=4000, classes="said")

    async def _try(self, refresh: Callable[[], Awaitable[None]]) -> None:
        try:
            await refresh()
        except Unreachable as error:
            self._lost(str(error))
            return
        except RequestRefused as error:
            self._lost(_ENDED if error.status == 401 else error.message)
            return
        if self._layout is not None:
            self._layout.banner.hide()
            self.warn()

    def warn(self) -> None:
        """Name the partitions of the cluster that the page lacks, if it lacks any."""
        if self._layout is not None and self.server.missing:
            them = "it" if len(self.server.missing) == 1 else "them"
            self._layout.banner.show(f"{silent(self.server.missing)}: nothing of {them} is on this page.", "wait")

    def _lost(self, what: str) -> None:
        if self._layout is not None:
            self._layout.banner.show(what if what == _ENDED else f"{what.removesuffix(' Try again.')} {_LOST}")

    def show_trouble(self, error: RequestRefused | Unreachable) -> None:
        """The page when its subject is gone, or when the server is away and may come back."""
        if self._layout is None:
            gone = isinstance(error, RequestRefused) and error.status == 404
            self.layout("Not found" if gone else "Not available", "")
        if isinstance(error, RequestRefused) and error.status != AWAY:
            with empty("This page is not available.", error.message), bar("center"):
                for name, path in ways_back(self.request.url.path):
                    link_button(name, path)
            return
        self._lost(error.message if isinstance(error, RequestRefused) else str(error))

        async def again() -> None:
            await self.server.ask_again()
            ui.navigate.reload()

        self.poll(again)
