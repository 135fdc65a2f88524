"""The attempts in history, counted by time: the charts of the portal.

A request counts at most some million attempts, newest first and in slices, and other readers of history get their turn
in between. A client that follows asks only for the attempts after its last mark.
"""

from starlette.requests import Request
from starlette.responses import Response

from recapito.api.arm.routing import answer
from recapito.api.auth.management import admit
from recapito.api.docs.documented_route import DocumentedRoute, names_in, read_query
from recapito.api.services import Services
from recapito.api.wire.attempt import missing_nodes
from recapito.api.wire.decode import Body, Shown, check_range
from recapito.contracts.history import SeriesPage
from recapito.domain import limits
from recapito.domain.history.attempt import AttemptQuery
from recapito.domain.history.series import Bucket
from recapito.domain.instant import MILLISECOND, SECOND, stamp

PATH = "/deliveries/series"


class _WantedSeries(Body):
    """The last `buckets` of `seconds` each, the current one included; `after` is the `newest` of an earlier answer."""

    topic: str | None = None
    subscription: str | None = None
    seconds: int = 60
    buckets: int = 60
    after: int = 0


class DeliverySeries:
    def __init__(self, services: Services) -> None:
        self._history = services.history
        self._clock = services.clock

    def routes(self) -> list[DocumentedRoute]:
        return [DocumentedRoute(PATH, self._show, queries=names_in(_WantedSeries))]

    async def _show(self, request: Request) -> Response:
        await admit(request)
        wanted, now = read_query(request, _WantedSeries), self._clock.now()
        width = check_range(wanted.seconds, limits.SERIES_SECONDS, "seconds") * SECOND
        since = (now // width - check_range(wanted.buckets, limits.SERIES_BUCKETS, "buckets") + 1) * width
        selection = AttemptQuery(topic=wanted.topic, subscription=wanted.subscription, since=since)
        page = await self._count(selection, width, wanted.after)
        buckets = sorted(page.series.buckets.items())
        return answer(
            {
                **missing_nodes(page.missing),
                "value": [_show_bucket(number * width, bucket) for number, bucket in buckets],
                "newest": page.newest,
                "complete": page.next is None,
                "now": stamp(now),
            }
        )

    async def _count(self, selection: AttemptQuery, width: int, after: int) -> SeriesPage:
        """The counts and the newest mark; `next` is None if every attempt was counted."""
        first = await self._history.series(selection, width, after, None)
        following = first.next
        for _ in range(limits.SERIES_SLICES - 1):
            if following is None:
                break
            page = await self._history.series(selection, width, after, following)
            first.series.merge(page.series)
            following = page.next
        return first._replace(next=following)


def _show_bucket(at: int, bucket: Bucket) -> Shown:
    return {
        "at": stamp(at),
        "delivered": bucket.delivered,
        "failed": bucket.failed,
        "expired": bucket.expired,
        "dropped": bucket.dropped,
        "deadLettered": bucket.dead_lettered,
        "answers": bucket.answers,
        "tookMs": bucket.took / MILLISECOND,
    }
