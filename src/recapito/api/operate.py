"""For operators and their tools: health, readiness, metrics, and the clock where it is manual."""

import asyncio

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from recapito import __version__
from recapito.api import metrics
from recapito.api.arm import answer
from recapito.api.body import BodyReader
from recapito.api.exposition import CONTENT_TYPE
from recapito.api.local import admit
from recapito.api.services import ClockControl, Services
from recapito.api.wire import Body, check_choice, decode, invalid
from recapito.domain import limits
from recapito.domain.instant import stamp
from recapito.errors import Conflict

_WELCOME = {
    "service": "recapito",
    "version": __version__,
    "publish": "/topics/{topic}/api/events",
    "manage": "/subscriptions/{subscription}/resourceGroups/{group}/providers/Microsoft.EventGrid/topics",
    "operate": [
        "/healthz",
        "/readyz",
        "/metrics",
        "/clock",
        "/lanes",
        "/counts",
        "/deliveries",
        "/deadletters",
        "/connections",
    ],
    "documentation": ["README.md", "docs/compatibility.md"],
}


class _Advance(Body):
    seconds: int | float | None = None
    until: str | None = None


class _Sleep(Body):
    seconds: int | float


class Operation:
    """The handlers for operators, and their routes."""

    def __init__(self, services: Services, bodies: BodyReader) -> None:
        self._services = services
        self._bodies = bodies

    def routes(self) -> list[Route]:
        """Every path, with its method."""
        return [
            Route("/", self._welcome),
            Route("/healthz", self._health),
            Route("/readyz", self._ready),
            Route("/metrics", self._metrics),
            Route("/clock", self._clock),
            Route("/clock/advance", self._advance, methods=["POST"]),
            Route("/clock/sleep", self._sleep, methods=["POST"]),
        ]

    async def _welcome(self, request: Request) -> Response:
        return answer(_WELCOME)

    async def _health(self, request: Request) -> Response:
        return answer({"status": "ok"})

    async def _ready(self, request: Request) -> Response:
        reasons = await self._services.readiness()
        ready = not any(reasons.values())
        checks = {name: reason or "ok" for name, reason in reasons.items()}
        return answer({"status": "ready" if ready else "not ready", "checks": checks}, 200 if ready else 503)

    async def _metrics(self, request: Request) -> Response:
        return Response(await metrics.render(self._services), headers={"content-type": CONTENT_TYPE})

    async def _clock(self, request: Request) -> Response:
        await admit(request)
        return answer({"now": stamp(self._services.clock.now()), "mode": self._services.clock_mode})

    async def _advance(self, request: Request) -> Response:
        await admit(request)
        control = self._control()
        happened = await _move(control, decode(await self._body(request), _Advance))
        return answer({"now": stamp(self._services.clock.now()), **happened})

    async def _sleep(self, request: Request) -> Response:
        """Answer when the clock has moved so far. Who hangs up meanwhile does not sleep any more."""
        await admit(request)
        control = self._control()
        seconds = _in_range(decode(await self._body(request), _Sleep).seconds)
        sleeping, gone = asyncio.create_task(control.sleep(seconds)), asyncio.create_task(_await_hang_up(request))
        try:
            await asyncio.wait({sleeping, gone}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            sleeping.cancel()
            gone.cancel()
        return answer({"now": stamp(self._services.clock.now())})

    def _control(self) -> ClockControl:
        if self._services.clock_control is None:
            raise Conflict("ClockNotManual", "The clock is not manual; start with --clock manual.")
        return self._services.clock_control

    async def _body(self, request: Request) -> bytes:
        return await self._bodies.read(dict(request.scope["headers"]), request.receive, limits.MANAGE_BODY_BYTES)


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


async def _await_hang_up(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        continue
