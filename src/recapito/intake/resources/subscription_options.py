"""The options of subscriptions that Event Grid does not have: signatures, limits, and retries at once.

They go by the id of the subscription. A change is a change of the subscription: it leaves a mark in the topic's log,
by which its lane learns of it.
"""

from collections.abc import Callable
from enum import StrEnum
from typing import NamedTuple

from msgspec.structs import replace

from recapito.clock import Clock
from recapito.domain.delivery.signature import parse_secret
from recapito.domain.handshake.consent import shown
from recapito.domain.resources.delivery_options import DeliveryOptions, signing_name
from recapito.domain.resources.destination import WebHook, kind_of
from recapito.domain.resources.subscription import Subscription
from recapito.errors import Conflict, InvalidInput, SettingsError
from recapito.intake.resources.subscriptions import OptionsChange, Subscriptions

Cipher = Callable[[bytes, str], bytes]
"""Encrypts or decrypts a secret for a name."""


class SigningChange(StrEnum):
    """A change of a subscription's secrets.

    `rotate` signs with a new secret and with the one before it; `finish` forgets the one before it.
    """

    SET = "set"
    ROTATE = "rotate"
    FINISH = "finish"
    OFF = "off"


class OpenOptions(NamedTuple):
    """The options that an estate file has, their secrets not encrypted, the newest first; 0 is no limit."""

    secrets: tuple[bytes, ...] = ()
    max_requests: int = 0
    events_per_second: int = 0

    def __repr__(self) -> str:
        return "<OpenOptions>"


class SubscriptionOptions:
    """Changes options. `clock` is the service's."""

    def __init__(self, subscriptions: Subscriptions, clock: Clock, encrypt: Cipher, decrypt: Cipher) -> None:
        self._subscriptions = subscriptions
        self._clock = clock
        self._encrypt = encrypt
        self._decrypt = decrypt

    def open(self, subscription: Subscription) -> OpenOptions:
        """The options of a subscription. SettingsError if a secret of it cannot be decrypted."""
        options, name = subscription.options, signing_name(subscription.id)
        secrets = tuple(self._decrypt(sealed, name) for sealed in options.signing)
        return OpenOptions(secrets, options.max_requests, options.events_per_second)

    def change_to(self, wanted: OpenOptions) -> OptionsChange:
        """The change of a subscription's options to exactly these."""

        def apply(subscription: Subscription) -> DeliveryOptions:
            if wanted.secrets:
                _check_signed(subscription, "options.signingSecrets")
            return replace(
                subscription.options,
                signing=tuple(self._seal(key, subscription.id) for key in wanted.secrets),
                max_requests=wanted.max_requests,
                events_per_second=wanted.events_per_second,
            )

        return apply

    async def sign(self, id: int, change: SigningChange, secret: str | None) -> Subscription:
        """Change the secrets that sign a subscription's requests. Only webhooks get signatures."""
        makes = change in (SigningChange.SET, SigningChange.ROTATE)
        if makes != (secret is not None):
            message = f"'{change}' {'needs' if makes else 'takes no'} 'secret'."
            raise InvalidInput("InvalidRequest", message, "secret")
        added = () if secret is None else (self._seal(parse_secret(secret), id),)

        def apply(subscription: Subscription) -> DeliveryOptions:
            signing = subscription.options.signing
            if makes:
                _check_signed(subscription, None)
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


def _check_signed(subscription: Subscription, target: str | None) -> None:
    destination = shown(subscription).destination
    if not isinstance(destination, WebHook):
        noun = kind_of(destination).noun
        message = f"Only requests to a webhook are signed; this subscription delivers to {noun}."
        raise InvalidInput("InvalidRequest", message, target)
