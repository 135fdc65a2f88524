"""The pages of a SQLite file: where its rows are, and ways to damage a page."""

import random
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import apsw

Way = Callable[[bytearray, random.Random], None]


class Layout(NamedTuple):
    """The pages of a sound file as SQLite lists them: of each entry its leaf and overflow pages, and all by kind."""

    page_bytes: int
    own: dict[int, set[int]]
    kinds: dict[str, list[int]]


def lay_out(path: Path, table: str = "entry") -> Layout:
    """Read the layout of a file that no other connection has open. A kind is a table or index, and a type of page."""
    own: dict[int, set[int]] = {}
    kinds: dict[str, list[int]] = {}
    overflow: dict[str, set[int]] = {}
    with closing(apsw.Connection(str(path))) as connection:
        listed = "SELECT name, path, pageno, pagetype, ncell FROM dbstat ORDER BY path"
        rows: Any = connection.execute(listed).fetchall()
        rowids = iter([row[0] for row in connection.execute(f"SELECT rowid FROM {table} ORDER BY rowid")])
        size: Any = connection.pragma("page_size")
    for name, place, number, kind, _ in rows:
        kinds.setdefault(f"{name} {kind}", []).append(number)
        if name == table and kind == "overflow":
            overflow.setdefault(place.partition("+")[0], set()).add(number)
    for name, place, number, kind, cells in rows:
        if name == table and kind == "leaf":
            for cell in range(cells):
                own[next(rowids)] = {number} | overflow.get(f"{place}{cell:03x}", set())
    return Layout(size, own, kinds)


def zero(page: bytearray, rng: random.Random) -> None:
    """Nothing is left of the page."""
    page[:] = bytes(len(page))


def garble(page: bytearray, rng: random.Random) -> None:
    """Other bytes are in its place."""
    page[:] = b"\xff" + rng.randbytes(len(page) - 1)


def flip(page: bytearray, rng: random.Random) -> None:
    """One bit, mostly where a page has its structure."""
    page[rng.randrange(rng.choice((12, 40, len(page))))] ^= 1 << rng.randrange(8)


WAYS: tuple[Way, ...] = (zero, garble, flip, flip, flip)


def spoil_page(path: Path, size: int, number: int, way: Way, rng: random.Random) -> None:
    """Damage a page in one of these ways."""
    content = bytearray(path.read_bytes())
    page = content[(number - 1) * size : number * size]
    way(page, rng)
    content[(number - 1) * size : number * size] = page
    path.write_bytes(content)


def swap_pages(path: Path, size: int, one: int, other: int) -> None:
    """Each page is in the place of the other, as after a write that went astray."""
    content = bytearray(path.read_bytes())
    first, second = slice((one - 1) * size, one * size), slice((other - 1) * size, other * size)
    content[first], content[second] = content[second], content[first]
    path.write_bytes(content)
