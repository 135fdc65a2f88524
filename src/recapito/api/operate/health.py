"""For operators and their tools: health, readiness, metrics, and the clock where it is manual."""

import asyncio
from collections.abc import Sequence
from contextlib import suppress

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from recapito import __version__
from recapito.api.arm.routing import answer
from recapito.api.auth.management import admit, admit_to_status
from recapito.api.body import BodyReader
from recapito.api.errors import Forbidden
from recapito.api.operate.metrics import Scraper
from recapito.api.operate.prometheus_text import CONTENT_TYPE
from recapito.api.services import ClockControl, Services
from recapito.api.wire.decode import Body, check_choice, decode, invalid
from recapito.domain import limits
from recapito.domain.instant import stamp
from recapito.errors import Conflict, StoreFailed, TooManyRequests, Unauthorized

_WELCOME = {
    "service": "recapito",
    "version": __version__,
    "publish": "/topics/{topic}/api/events",
    "manage": "/subscriptions/{subscription}/resourceGroups/{group}/providers/Microsoft.EventGrid/topics",
    "operate": [
        "/healthz",
        "/readyz",
        "/metrics",
        "/server",
        "/clock",
        "/lanes",
        "/counts",
        "/deliveries",
        "/deadletters",
        "/damaged",
        "/connections",
        "/estate",
    ],
    "documentation": ["README.md", "docs/compatibility.md"],
}


class _Advance(Body):
    seconds: int | float | None = None
    until: str | None = None


class _Sleep(Body):
    seconds: int | float


class OperatorRoutes:
    def __init__(self, services: Services, bodies: BodyReader) -> None:
        self._services = services
        self._bodies = bodies
        self._scraper = Scraper(services)

    def routes(self) -> list[Route]:
        return [
            Route("/", self._welcome),
            Route("/healthz", self._health),
            Route("/readyz", self._ready),
            Route("/metrics", self._metrics),
            Route("/server", self._server),
            Route("/clock", self._clock),
            Route("/clock/advance", self._advance, methods=["POST"]),
            Route("/clock/sleep", self._sleep, methods=["POST"]),
        ]

    async def _welcome(self, request: Request) -> Response:
        return answer(_WELCOME)

    async def _health(self, request: Request) -> Response:
        return answer({"status": "ok"})

    async def _ready(self, request: Request) -> Response:
        """Whether all checks pass, to every caller; the failing ones, to a caller that may see them."""
        reasons = await self._services.readiness()
        ready = not any(reasons.values())
        warnings = {"damage": await _damage(self._services), **self._services.warnings()}
        status = "not ready" if not ready else "degraded" if any(warnings.values()) else "ready"
        body: dict[str, object] = {"status": status}
        with suppress(Unauthorized, Forbidden, TooManyRequests):
            await admit_to_status(request)
            body["checks"] = {name: reason or "ok" for name, reason in {**reasons, **warnings}.items()}
        return answer(body, 200 if ready else 503)

    async def _metrics(self, request: Request) -> Response:
        await admit_to_status(request)
        return _InParts(await self._scraper.scrape(), CONTENT_TYPE)

    async def _server(self, request: Request) -> Response:
        """Facts about this server for its operator, such as `recapito doctor`."""
        await admit(request)
        return answer({"version": __version__, "data": self._services.data, "development": self._services.development})

    async def _clock(self, request: Request) -> Response:
        await admit(request)
        return answer({"now": stamp(self._services.clock.now()), "mode": self._services.clock_mode})

    async def _advance(self, request: Request) -> Response:
        await admit(request)
        control = self._control()
        happened = await _move(control, decode(await self._body(request), _Advance))
        return answer({"now": stamp(self._services.clock.now()), **happened})

    async def _sleep(self, request: Request) -> Response:
        """Answer when the clock has moved by N seconds. A client that hangs up, or closes its side, ends the sleep."""
        await admit(request)
        control = self._control()
        seconds = _in_range(decode(await self._body(request), _Sleep).seconds)
        sleeping = asyncio.create_task(control.sleep(seconds))
        gone = asyncio.ensure_future(request.receive())  # the body is complete, so the next message is the disconnect
        try:
            await asyncio.wait({sleeping, gone}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            sleeping.cancel()
            gone.cancel()
        return answer({"now": stamp(self._services.clock.now())})

    def _control(self) -> ClockControl:
        if self._services.clock_control is None:
            raise Conflict("ClockNotManual", "The clock is not manual. Start the server with --clock manual.")
        return self._services.clock_control

    async def _body(self, request: Request) -> bytes:
        return await self._bodies.read(dict(request.scope["headers"]), request.receive, limits.MANAGE_BODY_BYTES)


async def _damage(services: Services) -> str | None:
    """A warning about damaged records; if the store cannot be read, its error."""
    try:
        return await services.damages.warning()
    except StoreFailed as error:
        return str(error)


class _InParts(Response):
    """An answer whose body is sent in parts, with other work in between."""

    def __init__(self, parts: Sequence[bytes], content_type: str) -> None:
        headers = {"content-type": content_type, "content-length": str(sum(map(len, parts)))}
        super().__init__(headers=headers)
        self._parts = parts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        for part in self._parts if scope["method"] != "HEAD" else ():
            await send({"type": "http.response.body", "body": part, "more_body": True})
            await asyncio.sleep(0)
        await send({"type": "http.response.body", "body": b""})


async def _move(control: ClockControl, wanted: _Advance) -> dict[str, object]:
    if (wanted.seconds is None) == (wanted.until is None):
        raise invalid('The body must be {"seconds": n} or {"until": "idle"}.', None)
    if wanted.seconds is None:
        check_choice(wanted.until or "", ("idle",), "until")
        return dict(await control.until_idle())
    return dict(await control.advance(_in_range(wanted.seconds)))


def _in_range(seconds: float) -> float:
    least, most = limits.ADVANCE_S
    if not least <= seconds <= most:
        raise invalid(f"'seconds' must be between {least} and {most}.", "seconds")
    return seconds
