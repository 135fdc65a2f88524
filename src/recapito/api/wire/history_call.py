"""The questions of an owner to other nodes about the attempts that they made, and the answers, as they are sent."""

from enum import StrEnum

import msgspec

from recapito.contracts.history import AttemptPage, HistoryExtent, HistoryReader, KeptAttempt, SeriesPage
from recapito.domain import limits
from recapito.domain.history.attempt import AttemptQuery
from recapito.domain.history.chunk import Unpacked, pack
from recapito.domain.history.series import Bucket, Series

HISTORY = "/cluster/history"


class HistoryVerb(StrEnum):
    """The verbs of `HistoryReader`."""

    NEWEST = "newest"
    OLDEST = "oldest"
    SERIES = "series"
    EXTENT = "extent"


class HistoryCall(msgspec.Struct, frozen=True):
    """A question about the history of a partition."""

    partition: int
    verb: HistoryVerb
    selection: AttemptQuery = AttemptQuery()
    limit: int = 0
    width: int = 0
    after: int = 0
    before: int | None = None


class _PackedPage(msgspec.Struct, frozen=True):
    """A page whose attempts are packed as history stores them; `marks` has the mark of each."""

    marks: list[int]
    ids: bytes
    packed: bytes
    next: int | None
    newest: int


class _PackedSeries(msgspec.Struct, frozen=True):
    buckets: dict[int, Bucket]
    next: int | None
    newest: int


encode_history_call = msgspec.msgpack.Encoder().encode
decode_history_call = msgspec.msgpack.Decoder(HistoryCall).decode
decode_extent = msgspec.msgpack.Decoder(HistoryExtent).decode
_encode = msgspec.msgpack.Encoder().encode
_decode_page = msgspec.msgpack.Decoder(_PackedPage).decode
_decode_series = msgspec.msgpack.Decoder(_PackedSeries).decode


async def answer_history_call(call: HistoryCall, history: HistoryReader) -> bytes:
    """The answer of a node. StoreFailed: its history cannot be read."""
    limit = min(call.limit, limits.HISTORY_PAGE[1])
    match call.verb:
        case HistoryVerb.NEWEST:
            return _pack_page(await history.newest_first(call.selection, call.before, limit))
        case HistoryVerb.OLDEST:
            return _pack_page(await history.oldest_first(call.selection, call.after, limit))
        case HistoryVerb.SERIES:
            counted = await history.series(call.selection, call.width, call.after, call.before)
            return _encode(_PackedSeries(counted.series.buckets, counted.next, counted.newest))
        case HistoryVerb.EXTENT:
            return _encode(await history.extent())


def _pack_page(page: AttemptPage) -> bytes:
    chunk = pack([kept.attempt for kept in page.value]) if page.value else None
    ids, packed = (b"", b"") if chunk is None else (chunk.ids, chunk.packed)
    return _encode(_PackedPage([kept.mark for kept in page.value], ids, packed, page.next, page.newest))


def unpack_page(answer: bytes) -> AttemptPage:
    page = _decode_page(answer)
    places = range(len(page.marks))
    attempts = Unpacked(page.ids, page.packed).select(AttemptQuery(), places) if page.marks else ()
    return AttemptPage([KeptAttempt(page.marks[n], attempt) for n, attempt in attempts], page.next, page.newest)


def unpack_series(answer: bytes, width: int) -> SeriesPage:
    page, series = _decode_series(answer), Series(width)
    series.buckets = page.buckets
    return SeriesPage(series, page.next, page.newest)
