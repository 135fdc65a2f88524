"""Merged answers: following the pages shows every member once."""

from typing import Any

from recapito.api.router import merge
from recapito.api.router.relabel import Relabelled
from recapito.domain.cluster.partition import Partition


def test_pages_by_name_show_every_member_once() -> None:
    """Whatever the size of a page, three lists with a common member give all names in order, each once."""
    lists = [["a", "d", "e"], ["b", "d"], ["c", "f", "g", "h"]]
    for size in range(1, 10):
        seen: list[str] = []
        after = ""
        for _ in range(20):
            pages = [[name for name in names if name > after] for names in lists]
            more = any(len(page) > size for page in pages)
            shown = [[{"name": name.upper(), "id": name} for name in page[:size]] for page in pages]
            page = merge.merge_sorted(shown, more, size, merge.by_name, "id")
            seen += [member["id"] for member in page.value]
            if page.next is None:
                break
            after = page.next
        assert seen == list("abcdefgh")


def test_members_with_one_key_stay_together() -> None:
    """A page that would end between equal numbers is longer."""
    page = merge.merge_sorted([[{"number": 1}, {"number": 2}], [{"number": 1}]], False, 1, merge.by_number)
    assert (len(page.value), page.next) == (2, 1)


def test_damaged_records_without_a_number_are_on_the_first_page() -> None:
    """However many there are, they take no place from the others, and the next page starts after a number."""
    one, two = [{"number": 0}] * 3 + [{"number": 1}], [{"number": 0}, {"number": 8}, {"number": 9}]
    page = merge.merge_numbered([one, two], False, 2)
    assert ([each["number"] for each in page.value], page.next) == ([0, 0, 0, 0, 1, 8], 8)
    assert merge.merge_numbered([one[:3]], False, 1).next is None


def test_the_start_of_a_chain() -> None:
    """A page starts at the partition of its id, or at the beginning of one; anything else at the first."""
    id = Partition(2, 4).first_id + 7
    assert merge.chain_start("", 4) == (0, "")
    assert merge.chain_start(str(id), 4) == (2, str(id))
    assert merge.chain_start(f"{id}/HOOK/x/0", 4) == (2, f"{id}/HOOK/x/0")
    assert merge.chain_start("~3", 4) == (3, "")
    assert merge.chain_start("~9", 4) == (3, "")
    assert merge.chain_start(str(Partition(9, 4).first_id), 4) == (0, str(Partition(9, 4).first_id))
    assert merge.chain_start("nonsense", 4) == (0, "nonsense")


def test_sums() -> None:
    """Numbers are added, also within objects; truths and texts are those of the last."""
    first = {"a": 1, "b": {"x": 1}, "now": "1", "ok": True}
    assert merge.add([first, {"a": 2.5, "b": {"x": 2, "y": 1}, "now": "2", "ok": False}]) == {
        "a": 3.5,
        "b": {"x": 3, "y": 1},
        "now": "2",
        "ok": False,
    }
    assert merge.add_series([[{"at": "2", "n": 1}], [{"at": "1", "n": 1}, {"at": "2", "n": 2}]]) == [
        {"at": "1", "n": 1},
        {"at": "2", "n": 3},
    ]


def test_pages_of_attempts_show_each_once() -> None:
    """Going back page by page through three histories shows all attempts once, newest first."""
    histories = [[(n, f"{n * 3 + p:03}") for n in range(1, 8 - p)] for p in range(3)]

    def answer(partition: int, before: str | None, limit: int) -> dict[str, Any]:
        kept = [each for each in histories[partition] if before is None or each[0] < int(before)][::-1]
        value = [{"mark": str(mark), "at": at} for mark, at in kept[:limit]]
        return {"value": value, "next": value[-1]["mark"] if len(kept) > limit else None}

    for limit in range(1, 20):
        seen: list[str] = []
        token: str | None = None
        for _ in range(40):
            marks = merge.split_marks(token, 3)
            value, starts = merge.merge_newest({p: answer(p, marks[p], limit) for p in range(3)}, limit)
            seen += [attempt["at"] for attempt in value]
            if starts is None:
                break
            token = merge.join_marks([starts[p] for p in range(3)])
        assert seen == sorted((at for history in histories for _, at in history), reverse=True)


def test_marks_of_partitions_that_do_not_answer() -> None:
    """Their place is kept, and a token of another shape starts anew."""
    assert merge.split_marks(merge.join_marks(["1", None, "3"]), 3) == ["1", None, "3"]
    assert merge.split_marks("1-2", 3) == [None, None, None]
    assert merge.split_marks(None, 2) == [None, None]


def test_metrics_get_the_label_of_their_partition() -> None:
    """Samples of one family stand together, with a head of its own once; families of the node are not repeated."""
    own = b"# HELP recapito_cluster_members m\n# TYPE recapito_cluster_members gauge\nrecapito_cluster_members 2\n"
    text = (
        b"# HELP recapito_cluster_members m\n# TYPE recapito_cluster_members gauge\nrecapito_cluster_members 2\n"
        b'# HELP a_total a\n# TYPE a_total counter\na_total{topic="x {y} z"} 1\n# HELP b b\n# TYPE b gauge\nb 2\n'
    )
    merged = Relabelled(own)
    merged.add(text, 0)
    merged.add(text, 3)
    assert merged.to_bytes().decode().splitlines() == [
        "# HELP recapito_cluster_members m",
        "# TYPE recapito_cluster_members gauge",
        "recapito_cluster_members 2",
        "# HELP a_total a",
        "# TYPE a_total counter",
        'a_total{partition="0",topic="x {y} z"} 1',
        'a_total{partition="3",topic="x {y} z"} 1',
        "# HELP b b",
        "# TYPE b gauge",
        'b{partition="0"} 2',
        'b{partition="3"} 2',
    ]
