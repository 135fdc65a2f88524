"""A limit on wrong secrets, by the address that they come from and by the principal or topic that they are tried on.

A wrong secret over the budget is delayed and then answered 429 instead of 401. A right one is never delayed: no caller
can lock out another. The number of delayed requests of one address is bounded; where people choose their own secrets, a
further request is refused unread until one of those has ended (`check`).
"""

from collections import Counter

from recapito.clock import SECOND, Clock
from recapito.domain import limits
from recapito.domain.access.guess_budget import Budget, source_of
from recapito.errors import TooManyRequests
from recapito.observability.journal import Journal, silent

_MESSAGE = "Too many wrong secrets were shown from here, or for this. Show a right one, or try again later."


class WrongSecrets:
    """Counts wrong secrets, of a bounded number of sources. `wall` is real time, whatever the server's clock does.

    `counts` has the refused and the delayed ones, by the endpoint that they were sent to.
    """

    def __init__(self, wall: Clock, journal: Journal = silent, budget: Budget | None = None) -> None:
        self.counts: Counter[tuple[str, str]] = Counter()
        self._wall = wall
        self._journal = journal
        self._budget = budget or Budget()
        self._spent: dict[tuple[str, str], int] = {}
        self._held: Counter[str] = Counter()
        self._told_at: int | None = None

    def __repr__(self) -> str:
        return f"<WrongSecrets of {len(self._spent)}, {self._held.total()} held back>"

    def check(self, at: str, address: str | None) -> None:
        """Raise TooManyRequests if as many wrong secrets of an address are delayed as may be."""
        if self._held[source_of(address or "")] >= limits.HELD_REFUSALS:
            self.counts[at, "slowed"] += 1
            raise TooManyRequests(_MESSAGE)

    async def refused(self, at: str, address: str | None, whose: str | None = None) -> None:
        """Count a wrong secret. Over the budget: wait, then raise TooManyRequests.

        `whose` is the principal or the topic that it was tried on, None if that does not exist: names that a caller
        invents are neither counted nor journalled, for one may be a secret in the wrong field.
        """
        source, now = source_of(address or ""), self._wall.now()
        keys = [key for key in (("address", source), ("whose", whose or "")) if key[1]]
        debt = max((self._spend(key, now) for key in keys), default=0)
        if not debt:
            self.counts[at, "refused"] += 1
            return
        self.counts[at, "slowed"] += 1
        self._tell(at, source, whose, now)
        await self._hold(source, now)
        raise TooManyRequests(_MESSAGE, -(-debt // SECOND))

    def _spend(self, key: tuple[str, str], now: int) -> int:
        """Spend, and return how long the key is in debt. The key that was counted longest ago is forgotten first."""
        until = self._budget.spend(self._spent.pop(key, 0), now)
        if len(self._spent) >= limits.GUESSERS:
            del self._spent[next(iter(self._spent))]
        self._spent[key] = until
        return self._budget.debt(until, now)

    async def _hold(self, source: str, now: int) -> None:
        if self._held[source] >= limits.HELD_REFUSALS or self._held.total() >= limits.HELD_REFUSALS_IN_ALL:
            return
        self._held[source] += 1
        try:
            await self._wall.sleep_until(now + limits.HELD_REFUSAL_NS)
        finally:
            self._held[source] -= 1
            if not self._held[source]:
                del self._held[source]

    def _tell(self, at: str, source: str, whose: str | None, now: int) -> None:
        if self._told_at is None or now - self._told_at >= limits.GUESSING_TOLD_NS:
            self._told_at = now
            self._journal("secret.guessed", door=at, address=source, whose=whose, slowed=self.counts[at, "slowed"])
