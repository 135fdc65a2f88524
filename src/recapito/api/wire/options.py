"""The options of a subscription that Event Grid does not have, as an estate file has them."""

from collections.abc import Sequence

from recapito.api.wire.decode import Body, check_range, convert, invalid
from recapito.domain import limits
from recapito.domain.delivery.signature import parse_secret
from recapito.intake.resources.subscription_options import OpenOptions


class OptionsBody(Body):
    """Limits, and the secrets `whsec_…` that sign requests, the newest first. What is left out is off."""

    max_requests: int | None = None
    events_per_second: int | None = None
    signing_secrets: list[str] | None = None


def read_options(given: object) -> OpenOptions:
    """The options of an estate file, or an error that names the key."""
    sent = convert(given, OptionsBody, "options")
    check_limits(sent.max_requests, sent.events_per_second, "options.")
    return OpenOptions(_read_secrets(sent.signing_secrets or ()), sent.max_requests or 0, sent.events_per_second or 0)


def check_limits(max_requests: int | None, events_per_second: int | None, within: str = "") -> None:
    """Refuse limits outside of their ranges."""
    if max_requests is not None:
        check_range(max_requests, (1, limits.WINDOW_REQUESTS), f"{within}maxRequests")
    if events_per_second is not None:
        check_range(events_per_second, limits.LANE_RATE, f"{within}eventsPerSecond")


def _read_secrets(given: Sequence[str]) -> tuple[bytes, ...]:
    target = "options.signingSecrets"
    if len(given) > limits.SIGNING_SECRETS:
        raise invalid(f"'{target}' may have {limits.SIGNING_SECRETS} secrets: the one in use, and its former.", target)
    return tuple(parse_secret(secret, f"{target}[{n}]") for n, secret in enumerate(given))
