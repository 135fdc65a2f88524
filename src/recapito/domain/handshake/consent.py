"""The state of a subscription before and after its endpoint's consent.

The law: nothing is in force without the endpoint's consent. Until then a new subscription takes no events, and a
changed one continues as it was.
"""

from msgspec.structs import replace

from recapito.domain.events.schema_table import DELIVERY_SCHEMAS
from recapito.domain.filters.filter import TAKE_NONE
from recapito.domain.resources.destination import WebHook
from recapito.domain.resources.subscription import FilterSince, Handshake, Subscription


def needs_consent(old: Subscription | None, wanted: Subscription) -> bool:
    """Whether the endpoint must be asked: a webhook that is new, was asked in the other way or has not consented."""
    if not isinstance(wanted.destination, WebHook):
        return False
    return old is None or not is_consented(old) or not have_one_endpoint(old, wanted)


def is_consented(subscription: Subscription) -> bool:
    """Whether the settings in force have their endpoint's consent.

    Only a new subscription has the endpoint that it waits for already in force, and it takes no events.
    """
    return subscription.proposed is None or not have_one_endpoint(subscription, subscription.proposed)


def have_one_endpoint(first: Subscription, second: Subscription) -> bool:
    """Whether consent to the first is consent to the second: the same URL and the same kind of handshake."""
    if not isinstance(first.destination, WebHook) or not isinstance(second.destination, WebHook):
        return False
    return first.destination.url == second.destination.url and asks_by_options(first) == asks_by_options(second)


def webhook_of(subscription: Subscription) -> WebHook:
    """The endpoint of a handshake: only webhooks are asked."""
    assert isinstance(subscription.destination, WebHook)
    return subscription.destination


def asks_by_options(subscription: Subscription) -> bool:
    """True for the handshake of CloudEvents, False for the validation event of all other schemas."""
    return DELIVERY_SCHEMAS[subscription.delivery_schema].asks_by_options


def await_consent(old: Subscription | None, wanted: Subscription, handshake: Handshake) -> Subscription:
    """The subscription to store while consent to the wanted one is awaited."""
    if old is not None and is_consented(old):
        return replace(old, handshake=handshake, proposed=wanted)
    return replace(wanted, filters=(FilterSince(0, TAKE_NONE),), handshake=handshake, proposed=wanted)


def with_consent(subscription: Subscription, now: int) -> Subscription:
    """The subscription to store after consent: the wanted one, in force from now on."""
    wanted = subscription.proposed
    assert wanted is not None
    return replace(
        wanted,
        id=subscription.id,
        version=subscription.version,
        created_at=subscription.created_at,
        modified_at=now,
        own_options=subscription.own_options,
    )


def shown(subscription: Subscription) -> Subscription:
    """The subscription that its owner sees: the wanted one, whether it is in force or not."""
    return subscription.proposed or subscription


def provisioning_state(subscription: Subscription, now: int) -> str:
    """ARM's word for the state of the handshake."""
    if subscription.handshake is None:
        return "Succeeded"
    return "AwaitingManualAction" if now <= subscription.handshake.until else "Failed"
