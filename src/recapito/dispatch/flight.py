"""A flight: one request on its way, and the deliveries it carries.

Deliveries of fresh events are made from the segments only when the request fails: a success needs their number alone.
"""

from collections.abc import Sequence
from hashlib import blake2b
from typing import NamedTuple

import msgspec

from recapito.domain.batch import Batch
from recapito.domain.cursor import Range
from recapito.domain.delivery import Delivery, Identity
from recapito.domain.segment import Segment
from recapito.sender import Exchange


class Piece(NamedTuple):
    """Events of one segment that go into a batch."""

    position: int
    segment: Segment
    offsets: Sequence[int]

    def body(self) -> bytes:
        """The events, joined by commas; neighbours are one slice of the segment."""
        first, last = self.offsets[0], self.offsets[-1]
        if last - first + 1 == len(self.offsets):
            return self.segment.body[self.segment.start(first) : self.segment.ends[last]]
        return b",".join([self.segment.event(i) for i in self.offsets])

    def versions(self) -> set[str]:
        """The distinct data versions of the events."""
        if len(self.segment.versions) == 1:
            return {self.segment.versions[0]}
        return {self.segment.versions[self.segment.version_of[i]] for i in self.offsets}


class Load:
    """What a flight carries: either a range of the log (fresh) or deliveries that were parked."""

    def __init__(
        self,
        pieces: Sequence[Piece] = (),
        parked: Sequence[Delivery] = (),
        span: Range | None = None,
        unmatched: int = 0,
    ) -> None:
        self._pieces = pieces
        self._parked = parked
        self.span = span
        self.unmatched = unmatched
        self.events = len(parked) + sum(len(piece.offsets) for piece in pieces)

    @property
    def fresh(self) -> bool:
        """True when the ledger has no rows of these deliveries yet."""
        return self.span is not None

    def deliveries(self) -> list[Delivery]:
        """The deliveries, as they are before this attempt."""
        if not self.fresh:
            return list(self._parked)
        return [
            Delivery(Identity(position, i), segment.published_at[i], segment.event(i))
            for position, segment, offsets in self._pieces
            for i in offsets
        ]

    def batch(self, subscription: str, origin: bytes) -> Batch:
        """The request's content; `origin` names the topic's log, so that an event's output id never changes."""
        if self.fresh:
            parts = [piece.body() for piece in self._pieces]
            versions = set().union(*(piece.versions() for piece in self._pieces))
            first = Identity(self._pieces[0].position, self._pieces[0].offsets[0])
            attempts_before = 0
        else:
            parts = [delivery.body for delivery in self._parked]
            versions = {_data_version(body) for body in parts}
            first = self._parked[0].identity
            attempts_before = min(delivery.attempts for delivery in self._parked)
        return Batch(
            subscription=subscription,
            body=b"[%b]" % b",".join(parts),
            events=self.events,
            attempts_before=attempts_before,
            data_version=versions.pop() if len(versions) == 1 else None,
            output_id=_output_id(origin, first) if self.events == 1 else None,
        )


class Flight:
    """One request on its way. `settled` are deliveries that an earlier attempt's late answer settled meanwhile."""

    __slots__ = ("exchange", "late", "load", "probe", "sent_at", "settled", "size")

    def __init__(self, load: Load, size: int, sent_at: int, probe: bool) -> None:
        self.load = load
        self.size = size
        self.sent_at = sent_at
        self.probe = probe
        self.late = False
        self.settled: set[Identity] = set()
        self.exchange: Exchange | None = None

    def __repr__(self) -> str:
        return f"<Flight of {self.load.events} events, {self.size} bytes, sent at {self.sent_at}>"


class _Versioned(msgspec.Struct):
    dataVersion: str = ""  # the wire's name


_decode_version = msgspec.json.Decoder(_Versioned).decode


def _data_version(body: bytes) -> str:
    return _decode_version(body).dataVersion


def _output_id(origin: bytes, identity: Identity) -> str:
    """A GUID that stays with the event through all its attempts."""
    hex = blake2b(b"%b/%d/%d" % (origin, *identity), digest_size=16).hexdigest()
    return f"{hex[:8]}-{hex[8:12]}-{hex[12:16]}-{hex[16:20]}-{hex[20:]}"
