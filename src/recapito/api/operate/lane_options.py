"""Options of one subscription that Event Grid does not have, under the path of its lane. Callers may manage.

`{id}` is the `id` that `/lanes` shows. Secrets in a body are never shown again.
"""

from starlette.requests import Request
from starlette.responses import Response

from recapito.api.arm.routing import answer
from recapito.api.auth.management import admit
from recapito.api.body import BodyReader
from recapito.api.docs.documented_route import DocumentedRoute, read_instant
from recapito.api.operate.lanes import PATH, show_options
from recapito.api.services import Services
from recapito.api.wire.decode import Body, check_range, decode, invalid
from recapito.api.wire.options import check_limits
from recapito.domain import limits
from recapito.domain.resources.subscription import Subscription
from recapito.intake.publish.replayer import ReplayStart
from recapito.intake.resources.not_found import subscription_missing
from recapito.intake.resources.subscription_options import SigningChange


class SigningBody(Body):
    """A change of the secrets that sign requests; `set` and `rotate` need a secret `whsec_…`."""

    change: SigningChange
    secret: str | None = None


class LimitsBody(Body):
    """The limits of a subscription; one that is not given is lifted."""

    max_requests: int | None = None
    events_per_second: int | None = None


class RetryBody(Body):
    """Nothing: the path names the subscription."""


class ReplayBody(Body):
    """The start, by time or position; `until` and a position come from the answer before, to go on."""

    since: str | None = None
    position: int | None = None
    until: int | None = None
    dry_run: bool = False


class LaneOptions:
    def __init__(self, services: Services, bodies: BodyReader) -> None:
        self._options = services.options
        self._replayer = services.replayer
        self._ledger = services.ledger
        self._clock = services.clock
        self._bodies = bodies

    def routes(self) -> list[DocumentedRoute]:
        return [
            DocumentedRoute(PATH + "/{id}/signing", self._sign, SigningBody),
            DocumentedRoute(PATH + "/{id}/limits", self._limit, LimitsBody),
            DocumentedRoute(PATH + "/{id}/retry-now", self._retry, RetryBody),
            DocumentedRoute(PATH + "/{id}/replay", self._replay, ReplayBody),
        ]

    async def _sign(self, request: Request) -> Response:
        await admit(request)
        wanted = decode(await self._body(request), SigningBody)
        return _answer(await self._options.sign(_id(request), wanted.change, wanted.secret))

    async def _limit(self, request: Request) -> Response:
        await admit(request)
        wanted = decode(await self._body(request), LimitsBody)
        check_limits(wanted.max_requests, wanted.events_per_second)
        return _answer(await self._options.limit(_id(request), wanted.max_requests, wanted.events_per_second))

    async def _retry(self, request: Request) -> Response:
        """Ask the lane to try everything that is parked; the answer has the numbers of that moment."""
        await admit(request)
        decode(await self._body(request) or b"{}", RetryBody)
        lane = await self._ledger.lane(_id(request))
        subscription = await self._options.retry_now(_id(request))
        shown = {"id": subscription.id, "subscription": subscription.name, "held": False, "parked": 0}
        if lane is not None:
            shown |= {"held": lane.hold.holds(self._clock.now()), "parked": lane.counts.parked}
        return answer(shown)

    async def _replay(self, request: Request) -> Response:
        await admit(request)
        wanted = decode(await self._body(request), ReplayBody)
        if (wanted.since is None) == (wanted.position is None):
            raise invalid("Give either 'since' or 'position'.", "position")
        for name, value in (("position", wanted.position), ("until", wanted.until)):
            if value is not None:
                check_range(value, (1, limits.LOG_POSITIONS), name)
        start = ReplayStart(wanted.position, read_instant(wanted.since, "since"))
        replayed = await self._replayer.replay(_id(request), start, wanted.until, wanted.dry_run)
        return answer(replayed._asdict())

    async def _body(self, request: Request) -> bytes:
        return await self._bodies.read(dict(request.scope["headers"]), request.receive, limits.MANAGE_BODY_BYTES)


def _id(request: Request) -> int:
    text: str = request.path_params["id"]
    if not (text.isascii() and text.isdigit() and len(text) < 19):
        raise subscription_missing(text)
    return int(text)


def _answer(subscription: Subscription) -> Response:
    return answer(
        {"id": subscription.id, "subscription": subscription.name, "options": show_options(subscription.options)}
    )
