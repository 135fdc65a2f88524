"""The portal as an application: its pages, its assets, its login."""

from collections.abc import Awaitable, Callable
from importlib import resources
from pathlib import Path

from fastapi import FastAPI
from nicegui import Client, ui
from nicegui import app as nicegui_app
from starlette.requests import Request
from starlette.responses import Response
from starlette.staticfiles import StaticFiles

from recapito.clock import SystemClock
from recapito.identity.wrong_secrets import WrongSecrets
from recapito.observability.journal import LineJournal
from recapito.portal.client import RequestRefused, Unreachable
from recapito.portal.login import LoginPage
from recapito.portal.page import Dependencies, Page
from recapito.portal.pages import PAGES
from recapito.portal.session import Sessions
from recapito.portal.template import stamp_templates

Build = Callable[[Page], Awaitable[None]]
_STYLE = '<link rel="stylesheet" href="/assets/portal.css?{version}" />'
_BUILD_S = 20.0
_RECONNECT_S = 10.0


def make_app(parts: Dependencies) -> FastAPI:
    """The application, without what guards it."""
    stamp_templates()
    assets = Path(str(resources.files("recapito.portal") / "assets"))
    app = FastAPI(openapi_url=None, docs_url=None, redoc_url=None)
    app.mount("/assets", StaticFiles(directory=assets))
    if parts.sessions is not None:
        app.router.routes.extend(_login(parts, parts.sessions).routes())
    version = (assets / "portal.css").stat().st_mtime_ns
    ui.add_head_html(_STYLE.format(version=version), shared=True)
    for path, build in PAGES.items():
        _add(parts, path, build)
    _add_not_found(parts)
    ui.run_with(
        app,
        title="Recapito",
        favicon=assets / "mark.svg",
        dark=None,
        reconnect_timeout=_RECONNECT_S,
        message_history_length=200,
        binding_refresh_interval=None,
        gzip_middleware_factory=None,
        tailwind=False,
        show_welcome_message=False,
    )
    return app


def _add_not_found(parts: Dependencies) -> None:
    """The page of a path that is none of ours; NiceGUI answers for its own paths."""
    own = nicegui_app.exception_handlers[404]

    async def show(request: Request, error: Exception) -> Response:
        if request.url.path.startswith("/_nicegui"):
            answer = own(request, error)
            return answer if isinstance(answer, Response) else await answer
        with Client(ui.page(""), request=request) as client:
            page = Page(parts, request)
            page.show_trouble(RequestRefused(404, "NotFound", f"There is no page at {request.url.path}.", None))
            page.leave()
        return client.build_response(request, 404)

    nicegui_app.exception_handler(404)(show)


def _login(parts: Dependencies, sessions: Sessions) -> LoginPage:
    wrong_secrets = WrongSecrets(SystemClock(), LineJournal(role="portal"))
    return LoginPage(parts.wire, sessions, bool(parts.settings.identity.issuer), wrong_secrets)


def _add(parts: Dependencies, path: str, build: Build) -> None:
    async def build_page(request: Request) -> Response | None:
        page = Page(parts, request)
        try:
            await build(page)
            page.warn()
        except (RequestRefused, Unreachable) as error:
            page.show_trouble(error)
            if isinstance(error, RequestRefused) and error.status == 404:
                return ui.context.client.build_response(request, 404)
        finally:
            page.leave()
        return None

    ui.page(path, response_timeout=_BUILD_S)(build_page)
