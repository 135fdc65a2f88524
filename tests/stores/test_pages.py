"""Damaged pages of log.db: an entry is given up only if its own record is damaged; others are read, or wait."""

import random
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import apsw
import pytest

from recapito.contracts.log import EntryKind
from recapito.errors import SettingsError, StoreDamaged
from recapito.stores.sqlite import SqliteLog
from recapito.stores.sqlite.files.connection import LOG
from recapito.stores.sqlite.files.damage import clear_signs, read_signs
from recapito.stores.sqlite.files.pages import BLOBS, INNER, INTEGERS, LEAF, Pages, is_record_damaged
from tests.stores.page_layout import WAYS, Layout, lay_out, spoil_page, swap_pages, zero
from tests.stores.values import new_topic, segment

PAGE = 512
ENTRIES = 300
CASES = 36


class SmallPages(SqliteLog):
    """A log whose trees are deep though it is small."""

    KIND = LOG._replace(page_bytes=PAGE)


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Layout]:
    """A log of entries that fit a page and of entries that need overflow pages."""
    directory = tmp_path_factory.mktemp("sound")
    log = SmallPages.open(directory, threaded=False)
    rng = random.Random(1)
    drive(log.put_topic(new_topic()))
    drive(log.append([segment(1, body(n, rng.choice((20, 60, 1500)))) for n in range(2, ENTRIES + 2)]))
    drive(log.close())
    return directory / "log.db", lay_out(directory / "log.db")


def body(position: int, size: int) -> bytes:
    return f"{position}:".encode() * size


def drive(call: Any) -> Any:
    """A store without threads never waits."""
    try:
        call.send(None)
    except StopIteration as ended:
        return ended.value
    raise AssertionError("it waits")


KINDS = ("entry internal", "entry leaf", "entry overflow", "sqlite_autoindex_entry_1 internal", "topic leaf")
KINDS += ("sqlite_autoindex_entry_1 leaf",)


def fates(directory: Path) -> Iterator[tuple[int, str]]:
    """The result of a read at each position: sound, damaged, waits, gone, or wrong."""
    log = SmallPages.open_reader(directory)
    position = 2
    while position < ENTRIES + 2:
        try:
            found = drive(log.read(1, position, 1 << 16))
        except StoreDamaged:
            yield position, "waits"
            position += 1
            continue
        except LookupError:
            yield position, "gone"
            position += 1
            continue
        for entry in found:
            whole = entry.body in {body(entry.position, size) for size in (20, 60, 1500)}
            yield entry.position, "damaged" if entry.kind is EntryKind.DAMAGED else "sound" if whole else "wrong"
        position += len(found)
    log.database.close()


@pytest.mark.parametrize("case", range(CASES))
def test_only_damaged_records_are_given_up(sound: tuple[Path, Layout], tmp_path: Path, case: int) -> None:
    """Whatever page is damaged: no sound entry counts as damaged, and none is read as another."""
    rng = random.Random(case)
    path, layout = sound
    copy = tmp_path / "log.db"
    copy.write_bytes(path.read_bytes())
    kind = KINDS[case % len(KINDS)]
    number = rng.choice(layout.kinds[kind])
    spoilt = {number}
    if rng.random() < 0.2:
        other = rng.choice([page for pages in layout.kinds.values() for page in pages if page not in (1, number)])
        swap_pages(copy, PAGE, number, other)
        spoilt.add(other)
    else:
        spoil_page(copy, PAGE, number, rng.choice(WAYS), rng)
    try:
        found = dict(fates(tmp_path))
    except SettingsError as error:  # the file cannot be opened
        assert "restore a backup" in str(error)
        return
    lost = {position for position, fate in found.items() if fate == "damaged" and not layout.own[position] & spoilt}
    assert not lost, f"{kind} {number}: sound, and given up"
    assert "wrong" not in found.values()


@pytest.mark.parametrize(
    ("kind", "own", "others"),
    [
        ("entry leaf", {"damaged"}, {"sound"}),
        ("entry overflow", {"damaged"}, {"sound"}),
        ("entry internal", set(), {"sound", "waits"}),
        ("sqlite_autoindex_entry_1 leaf", set(), {"sound", "waits"}),
        ("sqlite_autoindex_entry_1 internal", set(), {"waits"}),
        ("topic leaf", set(), {"sound"}),
    ],
)
def test_the_cost_of_a_page(
    sound: tuple[Path, Layout], tmp_path: Path, kind: str, own: set[str], others: set[str]
) -> None:
    """A leaf costs its entries; a page on the way to entries costs time, until it is restored: then all are read."""
    path, layout = sound
    copy = tmp_path / "log.db"
    number = layout.kinds[kind][-1]
    copy.write_bytes(path.read_bytes())
    spoil_page(copy, PAGE, number, zero, random.Random(0))
    found = dict(fates(tmp_path))
    assert {fate for position, fate in found.items() if number in layout.own[position]} == own
    assert {fate for position, fate in found.items() if number not in layout.own[position]} == others
    assert bool(read_signs(tmp_path)) == (kind != "entry overflow")  # SQLite reads the end of a chain as zeros
    copy.write_bytes(path.read_bytes())
    assert set(dict(fates(tmp_path)).values()) == {"sound"}


class FewPages:
    """Pages that a test makes; the first has the number 1."""

    def __init__(self, *pages: bytes) -> None:
        self.count = len(pages)
        self._pages = pages

    def __getitem__(self, number: int) -> bytes:
        return self._pages[number - 1]


def leaf(*rows: int) -> bytes:
    """A leaf whose cells have these rows, of entries without bodies."""
    cells = [bytes([8, row, 8, *[1] * INTEGERS, *[12] * BLOBS]) for row in rows]
    places = [PAGE - sum(map(len, cells[n:])) for n in range(len(cells))]
    head = bytes([LEAF, 0, 0, 0, len(rows), 0, 0, 0]) + b"".join(place.to_bytes(2, "big") for place in places)
    return head.ljust(places[0], b"\0") + b"".join(cells)


@pytest.mark.parametrize(
    ("rows", "damaged"),
    [
        ((1, 2), False),  # whole, and without the row: the way is wrong
        ((1, 2, 9), True),
        ((1, 9), False),
        ((1, 8, 9), False),
    ],
)
def test_a_leaf_with_rows_of_another_range(rows: tuple[int, ...], damaged: bool) -> None:
    """It is the right leaf, and damaged, only if most of its rows are in its range; in doubt the entry is whole."""
    root = bytes([INNER, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 3, 0, 14, 0, 0, 0, 2, 3])  # page 2 up to row 3, then page 3
    pages: Any = FewPages(root.ljust(PAGE, b"\0"), leaf(*rows), leaf(4, 5))
    assert is_record_damaged(pages, 1, 3) is damaged


def test_a_leaf_in_the_write_ahead_log(sound: tuple[Path, Layout], tmp_path: Path) -> None:
    """The newest copy of a page counts: a page of the file that the WAL replaces may be damaged without effect."""
    path, layout = sound
    copy = tmp_path / "log.db"
    copy.write_bytes(path.read_bytes())
    log = SmallPages.open(tmp_path, threaded=False)
    drive(log.append([segment(1, body(ENTRIES + 2, 20))]))
    last = max(layout.own)
    pages = Pages(copy)
    with closing(apsw.Connection(str(copy))) as connection:
        root: Any = connection.execute("SELECT rootpage FROM sqlite_schema WHERE name = 'entry'").get
    assert not is_record_damaged(pages, root, last + 9)  # no such row, and all leaves are whole
    assert any(pages[number] != copy.read_bytes()[(number - 1) * PAGE :][:PAGE] for number in range(1, pages.count))
    assert pages.unchanged
    drive(log.append([segment(1, body(ENTRIES + 3, 20))]))
    assert not pages.unchanged
    drive(log.close())


def test_an_index_that_leads_to_another_entry(sound: tuple[Path, Layout], tmp_path: Path) -> None:
    """A flipped bit in the index shows a sound entry in the place of another: neither is given up."""
    copy = tmp_path / "log.db"
    copy.write_bytes(sound[0].read_bytes())
    key = bytes([4, 9, 2, 2, 1, 44, 1, 44])  # its types, and topic 1, position 300, row 300
    content = copy.read_bytes()
    assert content.count(key) == 1
    copy.write_bytes(content.replace(key, key[:-1] + bytes([40])))
    found = dict(fates(tmp_path))
    assert found.pop(300) == "waits"
    assert set(found.values()) == {"sound"}
    assert "out of reach" in read_signs(tmp_path)[0].why


def test_a_sign_that_was_removed_too_early_comes_back(sound: tuple[Path, Layout], tmp_path: Path) -> None:
    """A marker that a person removes while the page is still damaged is left again by the next read."""
    path, layout = sound
    copy = tmp_path / "log.db"
    copy.write_bytes(path.read_bytes())
    spoil_page(copy, PAGE, layout.kinds["entry internal"][0], zero, random.Random(0))
    log = SmallPages.open_reader(tmp_path)
    for _ in range(2):
        with pytest.raises(StoreDamaged):
            drive(log.read(1, 2, 0))
        assert clear_signs(tmp_path)
    log.database.close()
