"""A rush: an operator asked to try now everything that is parked, whatever its due time.

The laws: each delivery that was parked when the operator asked is tried once, unless the lane is held again before. The
pages of the ledger are read in the order of due times and never again, so a rush ends however many attempts fail. It
rewrites no row. After a restart it begins again and leaves out whatever was tried since the operator asked.
"""

from recapito.contracts.ledger import ParkedKey
from recapito.domain import limits
from recapito.domain.delivery.delivery import DeliveryId, Parked
from recapito.domain.delivery.hold import Hold


class Rush:
    """Asked for at an instant. `after` is the key of the last row that was read."""

    def __init__(self, asked_at: int) -> None:
        self.asked_at = asked_at
        self.after: ParkedKey | None = None
        self._tried: set[DeliveryId] = set()

    def __repr__(self) -> str:
        return f"<Rush of {self.asked_at} after {self.after}>"

    def choose(self, rows: list[Parked], now: int) -> list[Parked]:
        """The rows of the next page that were not tried since the operator asked.

        While the clock stands still, as a manual one does, the time of an attempt does not tell: then ids do.
        """
        self.after = rows[-1].due_at, rows[-1].delivery.identity
        chosen = [row for row in rows if self._waits(row)]
        if now <= self.asked_at:
            self._tried.update(row.delivery.identity for row in chosen)
        return chosen

    def _waits(self, row: Parked) -> bool:
        tried_at = row.delivery.last_attempt_at
        return tried_at is None or (tried_at <= self.asked_at and row.delivery.identity not in self._tried)


def outlasts(asked_at: int, hold: Hold, now: int) -> bool:
    """Whether a lane that is opened takes up a request from before: not an old one, nor one that a hold has ended."""
    held_since = hold.until - hold.period if hold.on else 0
    return now - limits.RUSH_NS < asked_at and held_since <= asked_at
