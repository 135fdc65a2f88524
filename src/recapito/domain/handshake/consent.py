"""What is in force while an endpoint's consent is awaited, and what consent makes of it.

Nothing that an endpoint has not consented to is ever in force: until then a new subscription takes no events, and a
changed one goes on as it was.
"""

from msgspec.structs import replace

from recapito.domain.events.schema import DeliverySchema
from recapito.domain.filters.filter import TAKE_NONE
from recapito.domain.resources.destination import WebHook
from recapito.domain.resources.subscription import FilterSince, Handshake, Subscription


def needs_consent(old: Subscription | None, wanted: Subscription) -> bool:
    """Whether the endpoint must be asked: a webhook that is new, was never asked so or has not consented."""
    if not isinstance(wanted.destination, WebHook):
        return False
    return old is None or not is_consented(old) or not have_one_endpoint(old, wanted)


def is_consented(subscription: Subscription) -> bool:
    """Whether what is in force has its endpoint's consent.

    Only a new subscription is in force with the very endpoint that it waits for, and takes nothing.
    """
    return subscription.proposed is None or not have_one_endpoint(subscription, subscription.proposed)


def have_one_endpoint(one: Subscription, other: Subscription) -> bool:
    """Whether consent to one is consent to the other: the same URL, asked by the same kind of handshake."""
    if not isinstance(one.destination, WebHook) or not isinstance(other.destination, WebHook):
        return False
    return one.destination.url == other.destination.url and asks_by_options(one) == asks_by_options(other)


def webhook_of(subscription: Subscription) -> WebHook:
    """The endpoint that is asked: only webhooks are."""
    assert isinstance(subscription.destination, WebHook)
    return subscription.destination


def asks_by_options(subscription: Subscription) -> bool:
    """Which of the two handshakes it is: CloudEvents' own, or the validation event of all other schemas."""
    return subscription.delivery_schema is DeliverySchema.CLOUD_EVENT


def await_consent(old: Subscription | None, wanted: Subscription, handshake: Handshake) -> Subscription:
    """What is stored while consent to what is wanted is awaited."""
    if old is not None and is_consented(old):
        return replace(old, handshake=handshake, proposed=wanted)
    return replace(wanted, filters=(FilterSince(0, TAKE_NONE),), handshake=handshake, proposed=wanted)


def with_consent(subscription: Subscription, now: int) -> Subscription:
    """What is stored when consent has come: what was wanted, in force from now on."""
    wanted = subscription.proposed
    assert wanted is not None
    return replace(
        wanted,
        id=subscription.id,
        version=subscription.version,
        created_at=subscription.created_at,
        modified_at=now,
    )


def shown(subscription: Subscription) -> Subscription:
    """What its owner sees: what is wanted, whether it is in force yet or not."""
    return subscription.proposed or subscription


def provisioning_state(subscription: Subscription, now: int) -> str:
    """ARM's word for how far it is."""
    if subscription.handshake is None:
        return "Succeeded"
    return "AwaitingManualAction" if now <= subscription.handshake.until else "Failed"
