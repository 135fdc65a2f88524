"""The options of subscriptions that Event Grid does not have: signatures, limits, and retries at once.

They go by the id of the subscription. A change is a change of the subscription: it leaves a mark in the topic's log,
by which its lane learns of it.
"""

from collections.abc import Callable
from enum import StrEnum

from msgspec.structs import replace

from recapito.clock import Clock
from recapito.domain.delivery.signature import parse_secret
from recapito.domain.handshake.consent import shown
from recapito.domain.resources.delivery_options import DeliveryOptions, signing_name
from recapito.domain.resources.destination import WebHook, kind_of
from recapito.domain.resources.subscription import Subscription
from recapito.errors import Conflict, InvalidInput, SettingsError
from recapito.intake.resources.subscriptions import Subscriptions

Encrypt = Callable[[bytes, str], bytes]


class SigningChange(StrEnum):
    """A change of a subscription's secrets.

    `rotate` signs with a new secret and with the one before it; `finish` forgets the one before it.
    """

    SET = "set"
    ROTATE = "rotate"
    FINISH = "finish"
    OFF = "off"


class SubscriptionOptions:
    """Changes options. `clock` is the service's; `encrypt` encrypts a secret for a name."""

    def __init__(self, subscriptions: Subscriptions, clock: Clock, encrypt: Encrypt) -> None:
        self._subscriptions = subscriptions
        self._clock = clock
        self._encrypt = encrypt

    async def sign(self, id: int, change: SigningChange, secret: str | None) -> Subscription:
        """Change the secrets that sign a subscription's requests. Only webhooks get signatures."""
        makes = change in (SigningChange.SET, SigningChange.ROTATE)
        if makes != (secret is not None):
            message = f"'{change}' {'needs' if makes else 'takes no'} 'secret'."
            raise InvalidInput("InvalidRequest", message, "secret")
        added = () if secret is None else (self._seal(parse_secret(secret), id),)

        def apply(subscription: Subscription) -> DeliveryOptions:
            destination, signing = shown(subscription).destination, subscription.options.signing
            if makes and not isinstance(destination, WebHook):
                message = f"Only requests to a webhook are signed; this subscription delivers to {_noun(subscription)}."
                raise InvalidInput("InvalidRequest", message)
            kept = {SigningChange.ROTATE: signing[:1], SigningChange.FINISH: signing[:1]}.get(change, ())
            return replace(subscription.options, signing=added + kept)

        return await self._subscriptions.change_options(id, apply)

    async def limit(self, id: int, max_requests: int | None, events_per_second: int | None) -> Subscription:
        """Limit a subscription's requests in flight and events per second; None is no limit."""

        def apply(subscription: Subscription) -> DeliveryOptions:
            wanted = max_requests or 0, events_per_second or 0
            return replace(subscription.options, max_requests=wanted[0], events_per_second=wanted[1])

        return await self._subscriptions.change_options(id, apply)

    async def retry_now(self, id: int) -> Subscription:
        """End a hold of the subscription, and try now everything that is parked.

        The instant grows even if the clock stands still, so that the lane notices a second request.
        """

        def apply(subscription: Subscription) -> DeliveryOptions:
            options = subscription.options
            return replace(options, retry_asked_at=max(self._clock.now(), options.retry_asked_at + 1))

        return await self._subscriptions.change_options(id, apply)

    def _seal(self, key: bytes, id: int) -> bytes:
        try:
            return self._encrypt(key, signing_name(id))
        except SettingsError as error:
            raise Conflict("SecretNotSealed", f"The secret cannot be stored. {error}", "secret") from None


def _noun(subscription: Subscription) -> str:
    return kind_of(shown(subscription).destination).noun
