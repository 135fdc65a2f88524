"""Tidings of dead-letter blobs: a notice for each that somebody is subscribed to hear of, kept with what counts it.

Dead letters of a system topic's own subscriptions are not told of: they are such tidings themselves, and would
beget others for ever.
"""

from typing import NamedTuple

from recapito.contracts.ledger import DeadLetterGroup
from recapito.contracts.registry import TAKEN, TAKEN_KIND, Registry, has_subscription, system_topic_of
from recapito.contracts.vault import Receipt
from recapito.domain.dead_letter.blob_notice import BlobNotice, encode_notice
from recapito.domain.resources.resource_id import parse_resource_id
from recapito.domain.resources.topic import TopicKind
from recapito.errors import RecordDamaged


class StoredNotice(NamedTuple):
    """What the ledger keeps: the notice, and the number up to which intake has taken notices over."""

    notice: bytes
    taken: int


async def notice_for(
    registry: Registry, group: DeadLetterGroup, receipt: Receipt, length: int, now: int
) -> StoredNotice | None:
    """The tiding of a group that was just written as a blob; None if nobody wants to hear of it.

    Nor if a record is damaged that only tidings need: dead letters do not wait for it.
    """
    assert group.path is not None
    place = parse_resource_id(group.container)
    try:
        if not await _is_wanted(registry, group.lane, place.top.text):
            return None
        taken = int(await registry.document(TAKEN_KIND, TAKEN) or 0)
    except RecordDamaged:
        return None
    notice = BlobNotice(
        account=place.top.text,
        container=place.name,
        path=group.path,
        at=now,
        length=length,
        url=receipt.url,
        etag=receipt.etag,
        request_id=receipt.request_id,
        client_request_id=receipt.client_request_id,
    )
    return StoredNotice(encode_notice(notice), taken)


async def _is_wanted(registry: Registry, lane: int, account: str) -> bool:
    listener = await system_topic_of(registry, account)
    if listener is None or not await has_subscription(registry, listener):
        return False
    subscription = await registry.subscription_by_id(lane)
    topic = None if subscription is None else await registry.topic_by_id(subscription.topic)
    return topic is not None and topic.kind is not TopicKind.SYSTEM
