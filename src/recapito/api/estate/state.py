"""The states and keys of resources, as templates ask for them."""

from typing import Any

from recapito.api.arm.scope import ScopeStyle, SubscriptionScope
from recapito.api.estate.address import Stage, address_of
from recapito.api.estate.kinds import Parts
from recapito.api.wire.topic import show_keys, show_topic
from recapito.domain.resources.topic import TopicKind
from recapito.domain.templates.evaluator import LIST_KEYS
from recapito.errors import NotFound


async def find_state(parts: Parts, public_url: str, id: str, verb: str) -> Any:
    """The answer of `reference` or `listKeys`; None if the resource does not exist here, or has none."""
    address, topics = address_of(id), parts.topics
    if address is None:
        return None
    place = address.azure_subscription, address.group
    try:
        if address.stage is Stage.TOPIC:
            topic = await topics.get(*place, address.name, address.kind)
            if verb == LIST_KEYS:
                return None if address.kind is TopicKind.SYSTEM else show_keys(topic)
            return show_topic(topic, public_url)
        if address.stage is Stage.SUBSCRIPTION and verb != LIST_KEYS and not address.account:
            topic = await topics.get(*place, address.topic, address.kind)
            found = await parts.subscriptions.get(topic, address.name, address.domain_topic)
            scope = SubscriptionScope(topic, address.domain_topic, ScopeStyle.NESTED)
            return scope.show(found, parts.clock.now())
        if address.stage is Stage.ACCOUNT and verb != LIST_KEYS:
            account = await topics.accounts.get(*place, address.name)
            return {"id": account.resource_id, "name": account.name, "location": account.location, "properties": {}}
    except NotFound:
        return None
    return None
