"""The pages of a database file, read without SQLite: they tell whose damage it is that SQLite cannot read an entry.

SQLite reports a damaged page without its number. An entry may be given up only if its own record is damaged: its cell,
the leaf with that cell, or its overflow pages. If an inner page leads astray, the entry is whole and only out of reach.
In doubt the answer is that the entry is whole: it waits, and nothing is lost.

The format is SQLite's: https://www.sqlite.org/fileformat2.html.
"""

from collections.abc import Iterator
from math import inf
from pathlib import Path
from typing import NamedTuple

from recapito.stores.sqlite.files.wal import FRAME_HEADER_BYTES, WAL_HEADER_BYTES, wal_of

INNER, LEAF = 5, 13
KINDS = (2, INNER, 10, LEAF)  # the first byte of every page of a tree
LARGEST_PAGE = 1 << 16
INTEGERS, BLOBS = 5, 2  # the columns of an entry, in this order
DEEPEST = 20
LOOKED_AT = 8  # pages of a level, to find the depth of a tree


class BadPage(Exception):
    """A page is not what its place in the tree demands."""


class Pages:
    """The pages of a file as its last commit left them: those in its WAL, else those in the file."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._wal = wal_of(path)
        self._began = self._state()
        with path.open("rb") as file:
            self.size = int.from_bytes(file.read(18)[16:18], "big")
        if self.size == 1:
            self.size = LARGEST_PAGE
        self.count = path.stat().st_size // self.size
        self._frames: dict[int, int] = {}
        if self._wal.exists():
            self._read_wal()

    def __getitem__(self, number: int) -> bytes:
        if not 1 <= number <= self.count:
            raise BadPage(f"there is no page {number}")
        at = self._frames.get(number)
        with (self._path if at is None else self._wal).open("rb") as file:
            file.seek((number - 1) * self.size if at is None else at)
            return file.read(self.size)

    @property
    def unchanged(self) -> bool:
        """Whether nothing was written since these pages were first looked at: they then belong together."""
        return self._state() == self._began

    def _state(self) -> list[tuple[int, int]]:
        found = [file.stat() for file in (self._path, self._wal) if file.exists()]
        return [(stored.st_size, stored.st_mtime_ns) for stored in found]

    def _read_wal(self) -> None:
        """Find the newest copy of each page, up to the last commit. Frames of an older WAL have other salts."""
        found: dict[int, int] = {}
        with self._wal.open("rb") as file:
            salts = file.read(WAL_HEADER_BYTES)[16:24]
            at = WAL_HEADER_BYTES
            while len(header := file.read(FRAME_HEADER_BYTES)) == FRAME_HEADER_BYTES and header[8:16] == salts:
                at += FRAME_HEADER_BYTES
                found[int.from_bytes(header[:4], "big")] = at
                count = int.from_bytes(header[4:8], "big")
                if count:  # the last frame of a commit
                    self._frames |= found
                    self.count = count
                at += self.size
                file.seek(at)


def is_record_damaged(pages: Pages, root: int, rowid: int) -> bool:
    """Whether the record of an entry is damaged, which SQLite cannot read or find; `root` is the page of its table."""
    try:
        depth = _depth(pages, root)
        number, low, high = root, -inf, inf
        for _ in range(depth):
            number, low, high = _child(pages, number, rowid, low, high)
        return _judge_leaf(pages, pages[number], rowid, low, high)
    except BadPage:
        return False


def _depth(pages: Pages, root: int) -> int:
    """The number of levels above the leaves, which is the same for all leaves: one sound way down tells."""
    level = [root]
    for depth in range(DEEPEST):
        below: list[int] = []
        for number in level[:LOOKED_AT]:
            if _is_sound_leaf(pages[number]):
                return depth
            try:
                below += (child for child, _ in _children(pages, number))
            except BadPage:
                continue
        level = [number for number in below if 1 <= number <= pages.count]
    raise BadPage("no way leads to a leaf")


def _child(pages: Pages, number: int, rowid: int, low: float, high: float) -> tuple[int, float, float]:
    """The child in which a row must be, and the limits of its rows: above `low`, up to `high`."""
    found: tuple[int, float, float] | None = None
    for child, key in _children(pages, number):
        until = high if key == inf else key
        if not low < until <= high:
            raise BadPage(f"the keys of page {number} are out of order")
        if found is None and rowid <= until:
            found = (child, low, until)
        low = until
    if found is None:
        raise BadPage(f"page {number} ends before row {rowid}")
    return found


def _children(pages: Pages, number: int) -> Iterator[tuple[int, float]]:
    """The children of an inner page, each with its largest row."""
    page = pages[number]
    if page[0] != INNER:
        raise BadPage(f"page {number} is not an inner page")
    for at in _cells(page, 12):
        yield int.from_bytes(page[at : at + 4], "big"), _varint(page, at + 4)[0]
    yield int.from_bytes(page[8:12], "big"), inf


def _judge_leaf(pages: Pages, page: bytes, rowid: int, low: float, high: float) -> bool:
    """Whether a page is the leaf of a row and damaged; a whole leaf, or another page, means that the way is wrong."""
    rows = _rows(page)
    known = [row for row in rows if row is not None]
    inside = [row for row in known if low < row <= high]
    if rowid in inside:
        return True
    if known:
        return 2 * len(inside) > len(known) and not (inside == rows and _is_sound_leaf(page))
    first = int.from_bytes(page[:4], "big")  # of an overflow page, or a free one: the number of the next
    return not any(page) or (page[0] not in KINDS and first > pages.count)


def _is_sound_leaf(page: bytes) -> bool:
    rows = _rows(page)
    known = [row for row in rows if row is not None]
    return page[0] == LEAF and bool(known) and len(known) == len(rows) and known == sorted(set(known))


def _rows(page: bytes) -> list[int | None]:
    """The rows whose cells are on a page, taken for a leaf whatever its first byte; None where no entry is."""
    try:
        return [_row(page, at) for at in _cells(page, 8)]
    except BadPage:
        return [None]


def _row(page: bytes, at: int) -> int | None:
    try:
        _, at = _varint(page, at)
        row, at = _varint(page, at)
        return row if _is_entry(page, at) else None
    except BadPage:
        return None


def _is_entry(page: bytes, at: int) -> bool:
    """Whether the types of a record are those of an entry."""
    size, next = _varint(page, at)
    end, types = at + size, list[int]()
    while next < end and len(types) <= INTEGERS + BLOBS:
        type, next = _varint(page, next)
        types.append(type)
    numbers, blobs = types[:INTEGERS], types[INTEGERS:]
    whole = len(blobs) == BLOBS and next == end
    return whole and all(1 <= t <= 9 and t != 7 for t in numbers) and all(t >= 12 and t % 2 == 0 for t in blobs)


def _cells(page: bytes, start: int) -> list[int]:
    count = int.from_bytes(page[3:5], "big")
    if start + 2 * count > len(page):
        raise BadPage("it has more cells than fit")
    return [int.from_bytes(page[at : at + 2], "big") for at in range(start, start + 2 * count, 2)]


class _Number(NamedTuple):
    value: int
    end: int


def _varint(page: bytes, at: int) -> _Number:
    """A number of one to nine bytes, and the place behind it."""
    value = 0
    for n in range(9):
        if at + n >= len(page):
            raise BadPage("a number leaves the page")
        byte = page[at + n]
        if n == 8:
            return _Number(value << 8 | byte, at + 9)
        value = value << 7 | byte & 0x7F
        if byte < 0x80:
            return _Number(value, at + n + 1)
    raise AssertionError("a number has nine bytes at most")
