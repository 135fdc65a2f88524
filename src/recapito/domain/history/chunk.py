"""A chunk: some thousand attempts packed together, as history stores them.

The ids of all events are one text, separated by marks, so that a plain search finds one id without an index and without
unpacking; the outcomes and the lanes are listed in the same way. Everything else is packed in columns.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import accumulate, chain
from operator import itemgetter
from typing import NamedTuple

import msgspec
from msgspec.structs import astuple

from recapito.domain.delivery.kept_headers import HeaderText, text_of
from recapito.domain.events.segment import by_field, numbered
from recapito.domain.history.attempt import FAILED, NOT_FAILED, Attempt, AttemptQuery, EventDisposition, LaneLabel
from recapito.domain.history.series import Series

MARK = b"\0"  # no id contains it
LINE = "\n"  # no name contains it
PROBE, LATE = 1, 2


class Chunk(NamedTuple):
    """Stored attempts, and the texts in which a search sees whether a wanted one may be among them."""

    attempts: int
    first_at: int
    last_at: int
    outcomes: str
    labels: str
    ids: bytes
    packed: bytes


class _Columns(msgspec.Struct, frozen=True, array_like=True):
    labels: list[LaneLabel]
    outcomes: list[str]
    details: list[str]
    lane: list[int]
    at: Sequence[int]
    took: Sequence[int]
    outcome_of: list[int]
    status: Sequence[int | None]
    detail_of: list[int]
    flags: list[int]
    events: list[int]  # the number of events of each attempt
    runs: list[int]  # the number of runs of positions of each attempt
    positions: list[tuple[int, int]]
    offsets: list[int]
    told: list[tuple[int, list[int], list[EventDisposition]]]  # retries, and attempts that did not deliver


class _HeadedColumns(_Columns, frozen=True, array_like=True):
    """The columns of a chunk in which an attempt has headers; a chunk without any is stored as it always was."""

    headers: list[HeaderText | None] = []  # the distinct ones
    headers_of: list[int] = []


class _CountedColumns(msgspec.Struct, frozen=True, array_like=True):
    """The same fields as far as a count needs them; the others are passed over."""

    labels: list[LaneLabel]
    outcomes: list[str]
    details: msgspec.Raw
    lane: list[int]
    at: list[int]
    took: list[int]
    outcome_of: list[int]
    status: msgspec.Raw
    detail_of: msgspec.Raw
    flags: msgspec.Raw
    events: list[int]
    runs: msgspec.Raw
    positions: msgspec.Raw
    offsets: msgspec.Raw
    told: list[tuple[int, list[int], list[EventDisposition]]]


_lane_of = itemgetter(LaneLabel._fields.index("lane"))
_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(_HeadedColumns).decode
_decode_counted = msgspec.msgpack.Decoder(_CountedColumns).decode


def pack(attempts: Sequence[Attempt]) -> Chunk:
    """The chunk of these attempts, at least one, in their order."""
    fields = by_field(Attempt, attempts)
    label, at, took, outcome, status, detail, probe, late, ids, positions, offsets, *_ = fields
    numbers, dispositions, headers = fields[-3:]
    lane = list(map(_lane_of, label))
    labels = dict(zip(lane, label, strict=True))
    outcomes, outcome_of = numbered(outcome)
    details, detail_of = numbered(detail)
    columns = _Columns(
        lane=lane,
        at=at,
        took=took,
        outcome_of=outcome_of,
        status=status,
        detail_of=detail_of,
        flags=_flags(probe, late),
        events=list(map(len, ids)),
        runs=list(map(len, positions)),
        positions=list(chain.from_iterable(positions)),
        offsets=list(chain.from_iterable(offsets)),
        told=_told(numbers, dispositions),
        labels=list(labels.values()),
        outcomes=outcomes,
        details=details,
    )
    if any(headers):
        columns = _HeadedColumns(*chain(astuple(columns), numbered(list(map(text_of, headers)))))
    return Chunk(
        attempts=len(attempts),
        first_at=min(at),
        last_at=max(at),
        outcomes=_lines(_outcome_words(outcomes)),
        labels=_lines(f"{label.lane}/{label.topic_name}/{label.subscription}".lower() for label in columns.labels),
        ids=_marked(list(chain.from_iterable(ids))),
        packed=_encode(columns),
    )


def _flags(probe: Sequence[bool], late: Sequence[bool]) -> list[int]:
    if not (any(probe) or any(late)):
        return [0] * len(probe)
    return [a * PROBE + b * LATE for a, b in zip(probe, late, strict=True)]


def _told(
    numbers: Sequence[Sequence[int]], dispositions: Sequence[Sequence[EventDisposition]]
) -> list[tuple[int, list[int], list[EventDisposition]]]:
    if not (any(numbers) or any(dispositions)):
        return []
    rows = enumerate(zip(numbers, dispositions, strict=True))
    return [(n, list(number), list(disposition)) for n, (number, disposition) in rows if number or disposition]


class Search(NamedTuple):
    """The texts that a chunk must contain, each in its field, if a selected attempt may be in it; None is any."""

    event: bytes | None
    search: bytes | None
    lane: str | None
    topic: str | None
    subscription: str | None
    outcome: str | None


def search_for(selection: AttemptQuery) -> Search:
    """The texts to search chunks for."""
    event, search = selection.event, selection.search
    return Search(
        event=None if event is None else MARK + event.encode() + MARK,
        search=None if search is None else search.encode(),
        lane=None if selection.lane is None else f"{LINE}{selection.lane}/",
        topic=None if selection.topic is None else f"/{selection.topic.lower()}/",
        subscription=None if selection.subscription is None else f"/{selection.subscription.lower()}{LINE}",
        outcome=None if selection.outcome is None else f"{LINE}{selection.outcome}{LINE}",
    )


class Unpacked:
    """The attempts of a chunk, each built only when it is selected."""

    def __init__(self, ids: bytes, packed: bytes) -> None:
        self._columns = _decode(packed)
        self._ids = ids[1:-1].decode().split("\0")
        self._labels = {label.lane: label for label in self._columns.labels}
        self._first_event = [0, *accumulate(self._columns.events)]
        self._first_run = [0, *accumulate(self._columns.runs)]
        self._told = {n: (numbers, dispositions) for n, numbers, dispositions in self._columns.told}

    def __len__(self) -> int:
        return len(self._columns.at)

    def select(self, selection: AttemptQuery, indexes: range) -> Iterator[tuple[int, Attempt]]:
        """The selected attempts among those at these indexes, each with its index."""
        columns = self._columns
        lanes = {lane for lane, label in self._labels.items() if selection.takes_label(label)}
        outcomes = {n for n, outcome in enumerate(columns.outcomes) if selection.takes_outcome(outcome)}
        for n in indexes:
            if columns.lane[n] in lanes and columns.outcome_of[n] in outcomes:
                attempt = self._attempt(n)
                if selection.takes(attempt):
                    yield n, attempt

    def _attempt(self, n: int) -> Attempt:
        columns, (numbers, dispositions) = self._columns, self._told.get(n, ((), ()))
        events = slice(self._first_event[n], self._first_event[n + 1])
        return Attempt(
            label=self._labels[columns.lane[n]],
            at=columns.at[n],
            took=columns.took[n],
            outcome=columns.outcomes[columns.outcome_of[n]],
            status=columns.status[n],
            detail=columns.details[columns.detail_of[n]],
            probe=bool(columns.flags[n] & PROBE),
            late=bool(columns.flags[n] & LATE),
            ids=self._ids[events],
            positions=columns.positions[self._first_run[n] : self._first_run[n + 1]],
            offsets=columns.offsets[events],
            numbers=numbers,
            dispositions=dispositions,
            headers=columns.headers[columns.headers_of[n]] if columns.headers_of else None,
        )


def count(packed: bytes, selection: AttemptQuery, indexes: range, series: Series) -> None:
    """Add to a series the selected attempts at these indexes, by lane, outcome and time; no event is unpacked."""
    columns = _decode_counted(packed)
    lanes = {label.lane for label in columns.labels if selection.takes_label(label)}
    outcomes = columns.outcomes
    taken = {n for n, outcome in enumerate(outcomes) if selection.takes_outcome(outcome)}
    since, until = selection.since or 0, selection.until or 1 << 62
    sums: defaultdict[tuple[int, int], list[int]] = defaultdict(lambda: [0, 0, 0])
    part = slice(indexes.start, indexes.stop)
    fields = columns.lane[part], columns.at[part], columns.took[part], columns.outcome_of[part], columns.events[part]
    for lane, at, took, outcome, events in zip(*fields, strict=True):
        if lane in lanes and outcome in taken and since <= at <= until:
            counted = sums[at // series.width, outcome]
            counted[0] += 1
            counted[1] += events
            counted[2] += took
    for (bucket, outcome), (attempts, events, took) in sums.items():
        series.bucket(bucket).add(outcomes[outcome], attempts, events, took)
    for n, _, dispositions in columns.told:
        selected = n in indexes and columns.lane[n] in lanes and columns.outcome_of[n] in taken
        if selected and since <= columns.at[n] <= until:
            series.bucket(columns.at[n] // series.width).add_drops(dispositions)


def _marked(ids: list[str]) -> bytes:
    """The ids between marks. Publishers cannot send an id with a mark, but a redriven dead letter may have one."""
    text = "\0".join(ids)
    if text.count("\0") >= max(len(ids), 1):
        text = "\0".join([id.replace("\0", "\ufffd") for id in ids])
    return MARK + text.encode() + MARK


def _outcome_words(outcomes: list[str]) -> list[str]:
    """The outcomes, and the word for all failures."""
    return [*outcomes, FAILED] if set(outcomes) - NOT_FAILED else outcomes


def _lines(words: Iterator[str] | list[str]) -> str:
    return LINE + LINE.join(words) + LINE
