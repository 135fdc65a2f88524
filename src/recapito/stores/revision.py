"""The rule of a put of a topic or a subscription, the same in every store.

A `version` counts the puts of one resource. A put that replaces a resource must name the version that it read.
"""

from msgspec.structs import replace

from recapito.domain.resources.subscription import FilterSince, Subscription
from recapito.domain.resources.topic import Topic
from recapito.errors import Conflict


def name_taken(kind: str, name: str) -> Conflict:
    """The error for a name that another resource has."""
    return Conflict("Conflict", f"A {kind} named '{name}' exists already.", "name")


def not_deleted(subscription: Subscription) -> Conflict:
    """The error for forgetting a subscription that is not deleted."""
    return Conflict("Conflict", f"Event subscription '{subscription.name}' is not deleted.")


def create_topic(topic: Topic, id: int) -> Topic:
    return replace(topic, id=id, version=1)


def replace_topic(stored: Topic, topic: Topic) -> Topic:
    """The topic that replaces the stored one."""
    _check_version("topic", stored, topic)
    return replace(topic, version=stored.version + 1)


def create_subscription(subscription: Subscription, id: int, position: int) -> Subscription:
    """A new subscription; it begins at the position of its change mark."""
    return replace(
        subscription,
        id=id,
        version=1,
        created_position=position,
        deleted_position=None,
        filters=(FilterSince(position, subscription.filter),),
    )


def replace_subscription(stored: Subscription, new: Subscription, position: int, first: int) -> Subscription:
    """The subscription that replaces the stored one, from the change mark at `position` on.

    `first` is the first position that the log still has: filters that were replaced before it are dropped, so that a
    subscription does not grow with every change.
    """
    _check_version("event subscription", stored, new)
    filters = stored.filters
    if new.filter != stored.filter:
        filters = (*_still_needed(filters, first), FilterSince(position, new.filter))
    return replace(
        new,
        version=stored.version + 1,
        created_position=stored.created_position,
        deleted_position=None,
        filters=filters,
    )


def _still_needed(filters: tuple[FilterSince, ...], first: int) -> tuple[FilterSince, ...]:
    replaced = sum(following.position <= first for following in filters[1:])
    return filters[replaced:]


def _check_version(kind: str, stored: Topic | Subscription, new: Topic | Subscription) -> None:
    if new.version != stored.version:
        raise Conflict("PreconditionFailed", f"The {kind} '{stored.name}' changed since it was read.")
