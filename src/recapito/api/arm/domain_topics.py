"""The topics of a domain under ARM's paths. The domain's flags also create and delete them with their subscriptions."""

from collections.abc import AsyncIterator
from functools import partial

from starlette.requests import Request
from starlette.responses import Response

from recapito.api.arm.paging import page_start, show_page
from recapito.api.arm.routing import PROVIDER, ArmRoute, accepted, answer, gone, in_group
from recapito.api.arm.scope import domain_topic_id
from recapito.api.body import BodyReader
from recapito.api.services import Services
from recapito.api.wire.decode import Shown
from recapito.domain.instant import stamp
from recapito.domain.resources.topic import Topic, TopicKind
from recapito.errors import NotFound
from recapito.intake.resources.domain_topics import PAGE, DomainTopic
from recapito.intake.resources.not_found import parent_missing, resource_missing

_TYPE = "Microsoft.EventGrid/domains/topics"
_PATH = in_group(PROVIDER) + "/domains/{topic}/topics"


class DomainTopicManagement:
    def __init__(self, services: Services, bodies: BodyReader) -> None:
        self._topics = services.topics
        self._domain_topics = services.topics.domain_topics

    def routes(self) -> list[ArmRoute]:
        return [
            ArmRoute(_PATH, {"GET": self._list}),
            ArmRoute(_PATH + "/{name}", {"GET": self._get, "PUT": self._put, "DELETE": self._delete}),
        ]

    async def _domain(self, request: Request) -> Topic:
        path = request.path_params
        try:
            return await self._topics.get(path["subscription"], path["group"], path["topic"], TopicKind.DOMAIN)
        except NotFound as error:
            if error.code != "ResourceNotFound":
                raise
            raise parent_missing(_TYPE, f"Microsoft.EventGrid/domains/{path['topic']}") from None

    async def _list(self, request: Request) -> Response:
        domain = await self._domain(request)

        async def walk() -> AsyncIterator[DomainTopic]:
            after = page_start(request)
            while page := await self._domain_topics.page(domain, after, PAGE):
                for topic in page:
                    yield topic
                after = page[-1].name

        return await show_page(request, walk(), _name, _name, partial(_show, domain))

    async def _get(self, request: Request) -> Response:
        domain, name = await self._domain(request), request.path_params["name"]
        topic = await self._domain_topics.find(domain, name)
        if topic is None:
            raise resource_missing(_TYPE, f"{domain.name}/{name}", domain.resource_group)
        return answer(_show(domain, topic))

    async def _put(self, request: Request) -> Response:
        domain = await self._domain(request)
        topic = await self._topics.put_domain_topic(domain, request.path_params["name"])
        return accepted(_show(domain, topic, "Creating"))

    async def _delete(self, request: Request) -> Response:
        try:
            domain, name = await self._domain(request), request.path_params["name"]
            topic = await self._domain_topics.find(domain, name)
        except NotFound:
            topic = None
        if topic is None:
            return gone(found=False)
        await self._topics.delete_domain_topic(domain, topic.name)
        return gone()


def _show(domain: Topic, topic: DomainTopic, state: str = "Succeeded") -> Shown:
    return {
        "id": domain_topic_id(domain, topic.name),
        "name": topic.name,
        "type": _TYPE,
        "properties": {"provisioningState": state},
        "systemData": {"createdAt": stamp(topic.created_at), "lastModifiedAt": stamp(topic.created_at)},
    }


def _name(topic: DomainTopic) -> str:
    return topic.name
