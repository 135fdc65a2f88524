"""How many wrong secrets are answered at once: a budget that refills, kept as one instant.

The instant is when everything spent will be refilled. It never lies further ahead than twice the budget, so that
whoever stops guessing is out of debt in a bounded time.
"""

from ipaddress import ip_address, ip_network
from typing import NamedTuple

from recapito.domain import limits


class Budget(NamedTuple):
    """So many wrong secrets at once, and then one in each `refill` nanoseconds."""

    wrong: int = limits.WRONG_SECRETS
    refill: int = limits.WRONG_SECRET_REFILL_NS

    def spend(self, until: int, now: int) -> int:
        """The state after one more wrong secret."""
        return min(max(until, now) + self.refill, now + 2 * self.wrong * self.refill)

    def debt(self, until: int, now: int) -> int:
        """How long until a wrong secret is within the budget again; 0 if it is now."""
        return max(0, until - now - self.wrong * self.refill)


def source_of(address: str) -> str:
    """The source that an address is counted under. Of IPv6 that is the /64, all of which one machine may have."""
    try:
        found = ip_address(address.partition("%")[0])
    except ValueError:
        return ""
    mapped = getattr(found, "ipv4_mapped", None)
    if found.version == 4 or mapped is not None:
        return str(mapped or found)
    return str(ip_network((found, limits.GUESSER_IPV6_BITS), strict=False))
