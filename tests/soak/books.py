"""The account of each event at publishers and endpoints: nothing acknowledged may be missing."""

import threading
from collections import Counter
from dataclasses import dataclass, field


@dataclass
class Books:
    """Kept by threads. An event is acknowledged, or its fate is unknown; `arrived` counts by path."""

    acknowledged: set[str] = field(default_factory=set)
    unknown: set[str] = field(default_factory=set)
    arrived: dict[str, Counter[str]] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def published(self, ids: list[str], status: int | None) -> None:
        """A publish was answered, or its connection broke. After a 5xx it is unknown whether it was stored."""
        with self.lock:
            (self.acknowledged if status == 200 else self.unknown).update(ids)

    def arrive(self, path: str, ids: list[str]) -> None:
        """A request reached an endpoint and was answered so that it needs no other."""
        with self.lock:
            self.arrived.setdefault(path, Counter()).update(ids)

    def missing(self, path: str) -> set[str]:
        """The acknowledged events that have not arrived."""
        with self.lock:
            return self.acknowledged - self.arrived.get(path, Counter()).keys()

    def invented(self, path: str) -> set[str]:
        """The events that arrived and were neither acknowledged nor unknown."""
        with self.lock:
            return self.arrived.get(path, Counter()).keys() - self.acknowledged - self.unknown

    def repeated(self, path: str) -> int:
        """How many arrivals were one too many."""
        with self.lock:
            counts = self.arrived.get(path, Counter())
            return counts.total() - len(counts)


def unbalanced(counts: dict[str, float]) -> str | None:
    """The fault in the server's own counts of a subscription at the end; None if they balance."""
    ended = counts["delivered"] + counts["dead_lettered"] + counts.get("dropped", 0.0)
    if counts["matched"] != ended + counts["pending"]:
        return f"matched {counts['matched']:.0f} is not {ended:.0f} + {counts['pending']:.0f}"
    return f"{counts['pending']:.0f} are pending" if counts["pending"] else None


def unaccounted(missing: set[str], damaged: set[str], corrupt: int, begun_again: bool) -> str | None:
    """The fault of acknowledged events that did not arrive at a subscription; None if each has its reason.

    `damaged` were in records that people are shown, and `corrupt` is how many the server says it gave up for that: it
    may have given up one that had just arrived. Books that have begun again know less.
    """
    if lost := missing - damaged:
        return f"{len(lost)} acknowledged events never arrived, one is {min(lost)}"
    if corrupt > len(damaged) or (corrupt < len(missing) and not begun_again):
        return f"{corrupt} are counted as CorruptRecord; of {len(damaged)} that were damaged {len(missing)} are missing"
    return None
