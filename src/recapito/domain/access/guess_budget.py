"""A budget of wrong secrets that refills with time, kept as one instant: the one at which it is full again.

The instant never lies further ahead than twice the budget, so a source that stops guessing is out of debt in a bounded
time.
"""

from ipaddress import ip_address, ip_network
from typing import NamedTuple

from recapito.domain import limits


class Budget(NamedTuple):
    """`wrong` secrets at once, and then one every `refill` nanoseconds."""

    wrong: int = limits.WRONG_SECRETS
    refill: int = limits.WRONG_SECRET_REFILL_NS

    def spend(self, until: int, now: int) -> int:
        """The instant after one more wrong secret."""
        return min(max(until, now) + self.refill, now + 2 * self.wrong * self.refill)

    def debt(self, until: int, now: int) -> int:
        """Nanoseconds until a wrong secret is within the budget again; 0 if it is now."""
        return max(0, until - now - self.wrong * self.refill)


def source_of(address: str) -> str:
    """The source that an address is counted under: of IPv6 the /64, since one machine may own all of it."""
    try:
        parsed = ip_address(address.partition("%")[0])
    except ValueError:
        return ""
    mapped = getattr(parsed, "ipv4_mapped", None)
    if parsed.version == 4 or mapped is not None:
        return str(mapped or parsed)
    return str(ip_network((parsed, limits.GUESSER_IPV6_BITS), strict=False))
