"""The tail of a log: what it says of its entries is true, and of what it does not know it says nothing."""

from hypothesis import given
from hypothesis import strategies as st

from recapito.dispatch.feed.tail_index import ANY, TailIndex
from recapito.domain import limits
from recapito.domain.filters.filter import Filter
from recapito.domain.filters.matcher import WakeKey

WATCHED = Filter(subject_begins_with="a")
wake_keys = st.sampled_from(["type a", "type b", "topic c"])
entries = st.lists(
    st.tuples(st.lists(wake_keys, unique=True, max_size=3), st.booleans(), st.integers(0, 4)), max_size=20
)


@given(
    entries=entries,
    first=st.integers(1, 3),
    watched_from=st.integers(0, 20),
    below=st.integers(0, 25),
    wanted=st.sets(wake_keys, max_size=2),
    by_filter=st.booleans(),
)
def test_search(
    entries: list[tuple[list[WakeKey], bool, int]],
    first: int,
    watched_from: int,
    below: int,
    wanted: set[WakeKey],
    by_filter: bool,
) -> None:
    """From every position it finds the next one that must be read, as a look at all of them would."""
    tail = TailIndex()
    tail.restart(first)
    for n, (held, passes, events) in enumerate(entries):
        if n == watched_from:
            tail.watch(WATCHED)
        tail.add(held + [WATCHED] * (passes and WATCHED in tail.watched), events)
    tail.forget(below)
    if by_filter:
        wanted = {WATCHED}

    def concerns(position: int) -> bool:
        n = position - first
        known = n in range(len(entries)) and position >= below
        if not known or (by_filter and not watched_from <= n):
            return True
        return (by_filter and entries[n][1]) or bool(wanted & set(entries[n][0]))

    for position in range(1, first + len(entries) + 3):
        for end in range(position, first + len(entries) + 3):
            found = next((p for p in range(position, end + 1) if concerns(p)), end + 1)
            passed = sum(entries[p - first][2] for p in range(position, found))
            assert tail.search(position, wanted, end) == (found, passed)


def test_an_entry_for_everybody() -> None:
    """The mark of a change, and an entry with very many words, are found whatever one looks for."""
    tail = TailIndex()
    tail.add(["type a"], 1)
    tail.add([ANY], 0)
    tail.add([f"type {n}" for n in range(limits.TAIL_WAKE_KEYS + 1)], 9)
    assert tail.search(1, ["type b"], 3) == (2, 1)
    assert tail.search(3, ["type b"], 3) == (3, 0)
    assert ANY in tail.wake_keys(3, 3)


def test_it_is_bounded() -> None:
    """However much is added, it knows the last entries, a bounded number of them."""
    tail = TailIndex()
    for n in range(1, 3 * limits.TAIL_ENTRIES):
        tail.add([f"type {n}"], 1)
        assert tail.end == n
        assert tail.end - tail.first < limits.TAIL_ENTRIES
    assert tail.knows(tail.end - limits.TAIL_ENTRIES // 2 + 1, tail.end)
    assert not tail.knows(1, tail.end)
    assert len(tail.wake_keys(tail.first, tail.end)) == tail.end - tail.first + 1


def test_a_filter_is_known_from_its_watch_on() -> None:
    """Whether earlier entries pass it, and what comes after it is unwatched, is not known."""
    tail = TailIndex()
    tail.add([], 1)
    tail.watch(WATCHED)
    tail.add([], 1)
    assert tail.search(1, [WATCHED], 2) == (1, 0)
    assert tail.search(2, [WATCHED], 2) == (3, 1)
    tail.unwatch(WATCHED)
    assert tail.search(2, [WATCHED], 2) == (2, 0)
    tail.restart(9)
    tail.watch(WATCHED)
    tail.add([], 5)
    assert tail.search(9, [WATCHED], 9) == (10, 5)
