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
from recapito.api.wire.decode import Body, Shown, check_range
from recapito.domain import limits
from recapito.domain.history.attempt import AttemptQuery
from recapito.domain.history.series import Bucket, Series
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
        series, newest, complete = await self._count(selection, width, wanted.after)
        buckets = sorted(series.buckets.items())
        return answer(
            {
                "value": [_show_bucket(number * width, bucket) for number, bucket in buckets],
                "newest": newest,
                "complete": complete,
                "now": stamp(now),
            }
        )

    async def _count(self, selection: AttemptQuery, width: int, after: int) -> tuple[Series, int, bool]:
        """The counts, the newest mark, and whether every attempt was counted."""
        page = await self._history.series(selection, width, after, None)
        series, newest = page.series, page.newest
        for _ in range(limits.SERIES_SLICES - 1):
            if page.next is None:
                break
            page = await self._history.series(selection, width, after, page.next)
            series.merge(page.series)
        return series, newest, page.next is None


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
