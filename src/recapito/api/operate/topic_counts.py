"""The publishes of each topic since the start: stored, failed and unmatched."""

from starlette.requests import Request
from starlette.responses import Response

from recapito.api.arm.routing import answer
from recapito.api.auth.management import admit
from recapito.api.docs.documented_route import DocumentedRoute, names_in, read_query
from recapito.api.services import Services
from recapito.api.wire.decode import Body, Shown, check_range
from recapito.domain import limits
from recapito.domain.instant import stamp
from recapito.domain.resources.topic import KIND_NAMES, Topic, TopicKind

PATH = "/counts"


class _WantedCounts(Body):
    """`topic` is the name of a topic, or several with commas between them."""

    topic: str | None = None
    after: str = ""
    limit: int = limits.COUNT_PAGE_DEFAULT


class TopicCounts:
    def __init__(self, services: Services) -> None:
        self._services = services

    def routes(self) -> list[DocumentedRoute]:
        return [DocumentedRoute(PATH, self._list, queries=names_in(_WantedCounts))]

    async def _list(self, request: Request) -> Response:
        await admit(request)
        wanted = read_query(request, _WantedCounts)
        check_range(wanted.limit, limits.COUNT_PAGE, "limit")
        topics = await self._topics(wanted)
        subscriptions = await self._services.registry.subscription_counts([topic.id for topic in topics])
        more = wanted.topic is None and len(topics) == wanted.limit
        return answer(
            {
                "value": [self._show(topic, subscriptions.get(topic.id, 0)) for topic in topics],
                "next": topics[-1].key if more else None,
                "now": stamp(self._services.clock.now()),
            }
        )

    async def _topics(self, wanted: _WantedCounts) -> list[Topic]:
        registry = self._services.registry
        if wanted.topic is None:
            return await registry.topics(wanted.after, wanted.limit)
        names = wanted.topic.split(",")
        check_range(len(names), (1, limits.COUNT_PAGE_DEFAULT), "topic")
        topics = [await registry.topic(name, kind) for name in names for kind in TopicKind]
        return [topic for topic in topics if topic is not None]

    def _show(self, topic: Topic, subscriptions: int) -> Shown:
        tally = self._services.publisher.counters.of(topic.id)
        return {
            "topic": topic.name,
            "topicKind": KIND_NAMES[topic.kind],
            "published": tally.events,
            "publishedBytes": tally.bytes,
            "publishFailed": tally.failed,
            "unmatched": tally.unmatched + self._services.dispatch.unmatched(topic.id),
            "subscriptions": subscriptions,
        }
