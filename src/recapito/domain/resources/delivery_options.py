"""Options of a subscription that Event Grid does not have. ARM's bodies neither show nor change them."""

import msgspec


class DeliveryOptions(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The options of one subscription; the defaults leave Event Grid's behaviour as it is.

    `signing` holds the encrypted secrets that sign its requests, the newest first: two while secrets are rotated.
    `max_requests` and `events_per_second` limit its requests in flight and its events per second; 0 is no limit.
    `retry_asked_at` is the last instant at which an operator asked to try now everything that is parked; it only grows.
    """

    signing: tuple[bytes, ...] = ()
    max_requests: int = 0
    events_per_second: int = 0
    retry_asked_at: int = 0

    def __repr__(self) -> str:
        return "<DeliveryOptions>"


NO_OPTIONS = DeliveryOptions()


def signing_name(subscription: int) -> str:
    """The name for which the secrets of a subscription are encrypted: no other subscription can use them."""
    return f"signing/{subscription}"
