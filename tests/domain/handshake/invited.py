"""A topic and a subscription whose webhook is asked for consent."""

from recapito.domain.events.schema import DeliverySchema
from recapito.domain.filters.filter import TAKE_ALL
from recapito.domain.resources.destination import WebHook
from recapito.domain.resources.subscription import FilterSince, Subscription
from recapito.domain.resources.topic import Source, Topic, TopicKind

CODE = "512d38b6-c7b8-40c8-89fe-f46f9e9622b6"
NOW = 1_516_918_339_455_681_100


def topic(kind: TopicKind = TopicKind.CUSTOM, source: Source | None = None) -> Topic:
    return Topic(
        id=5,
        kind=kind,
        name="Orders",
        azure_subscription="5b4b650e",
        resource_group="rg",
        location="local",
        key1="k",
        key2="k",
        source=source,
        created_at=1,
        modified_at=1,
    )


def subscription(
    schema: DeliverySchema = DeliverySchema.EVENT_GRID, domain_topic: str | None = None, **more: object
) -> Subscription:
    return Subscription(
        topic=5,
        name="orders-hook",
        domain_topic=domain_topic,
        destination=WebHook(url="https://example.com/hook?code=hush-hush"),
        delivery_schema=schema,
        filters=(FilterSince(0, TAKE_ALL),),
        created_at=1,
        modified_at=1,
        **more,  # type: ignore[arg-type]
    )
