"""The contract of damage: it is found, set aside, and in no reader's way."""

from typing import Any

import pytest
from msgspec.structs import replace

from recapito.contracts.damage import Damage
from recapito.contracts.ledger import (
    DeadLetterGroup,
    Drop,
    DueDeliveries,
    LaneCounts,
    LaneRow,
    Notice,
    SkippedDeadLetters,
)
from recapito.contracts.log import Entry, EntryKind
from recapito.contracts.registry import Document
from recapito.domain.delivery.cursor import Cursor
from recapito.domain.delivery.delivery import CORRUPT, DeliveryId
from recapito.domain.delivery.hold import CLEAR
from recapito.errors import RecordDamaged
from tests.stores.values import burial, new_subscription, new_topic, parked, segment, settlement

# A replicated store sets nothing aside: its stream has the row whole.
pytestmark = pytest.mark.parametrize("stores", ["memory", "sqlite-inline", "sqlite-thread"], indirect=True)

LARGE = 1 << 20
NOBODY = SkippedDeadLetters()


def test_a_damaged_entry_is_read_as_one(stores: Any, run: Any) -> None:
    """It comes at its position with what is left of it and the number of its events; the others are as they were."""
    topic = run(stores.log.put_topic(new_topic())).id
    run(stores.log.append([segment(topic, body, events=3) for body in (b"a", b"b", b"c")]))
    assert stores.spoil.entry(topic, 3)
    assert stores.spoil.entry(topic, 1)
    assert run(stores.log.read(topic, 1, LARGE)) == [
        Entry(1, EntryKind.DAMAGED, b"", b"", 0),
        Entry(2, EntryKind.SEGMENT, b"columns", b"a", 3),
        Entry(3, EntryKind.DAMAGED, b"columns", b"b", 3),
        Entry(4, EntryKind.SEGMENT, b"columns", b"c", 3),
    ]


def test_a_damaged_entry_is_kept_once(stores: Any, run: Any) -> None:
    """It is set aside under the next number, byte for byte, however often it is met, and after a restart too."""
    entry = Damage("entry", 1, 0, 3, 0, 2, b"body", b"columns")
    assert run(stores.ledger.set_aside(entry)) is True
    assert run(stores.ledger.set_aside(entry)) is False
    assert run(stores.ledger.set_aside(entry._replace(position=4))) is True
    run(stores.reopen())
    assert run(stores.ledger.set_aside(entry)) is False
    assert run(stores.ledger.damaged(0, 9)) == [entry._replace(number=1), entry._replace(number=2, position=4)]
    assert [damage.number for damage in run(stores.ledger.damaged(0, 1))] == [1]
    assert [damage.number for damage in run(stores.ledger.damaged(1, 9))] == [2]
    assert run(stores.ledger.damaged_counts(0)) == {"entry": 2}
    assert run(stores.ledger.damaged_counts(2)) == {}


@pytest.mark.parametrize("verb", ["due", "parked", "find"])
def test_a_damaged_parked_delivery_is_set_aside(stores: Any, run: Any, verb: str) -> None:
    """Whichever verb meets it: the others are served, the books have a line for it, and it is kept."""
    lane = run(stores.ledger.open_lane(7, 3, "log", 1))
    run(stores.ledger.settle([settlement(lane, matched=2, park=[parked(1, 0, 10), parked(1, 1, 11)])]))
    assert stores.spoil.row("parked", 7, DeliveryId(1, 0))
    met = {
        "due": lambda: stores.ledger.due(7, 99, 9),
        "parked": lambda: stores.ledger.parked(7, 9),
        "find": lambda: stores.ledger.find(7, DeliveryId(1, 0)),
    }
    served = {"due": DueDeliveries([parked(1, 1, 11)], None), "parked": [parked(1, 1, 11)], "find": None}
    assert run(met[verb]()) == served[verb]
    stored = run(stores.ledger.lane(7))
    assert (stored.counts, stored.next_due_at) == (LaneCounts(matched=2, dropped={CORRUPT: 1}, parked=1), 11)
    (kept,) = run(stores.ledger.damaged(0, 9))
    assert kept[:6] == ("parked", 3, 7, 1, 0, 1) and kept.content


@pytest.mark.parametrize("named", [False, True])
def test_a_damaged_dead_letter_is_set_aside(stores: Any, run: Any, named: bool) -> None:
    """The group is written without it; one that has nothing else is gone."""
    lane = run(stores.ledger.open_lane(7, 3, "log", 1))
    run(stores.ledger.settle([settlement(lane, matched=2, bury=[burial(1, 0), burial(1, 1)])]))
    if named:
        run(stores.ledger.name_group(run(stores.ledger.burials_due(99, 9, LARGE, NOBODY)), "path", 1))
    assert stores.spoil.row("burial", 7, DeliveryId(1, 0))
    assert run(stores.ledger.burials_due(99, 9, LARGE, NOBODY)).burials == [burial(1, 1)]
    assert stores.spoil.row("burial", 7, DeliveryId(1, 1))
    assert run(stores.ledger.burials_due(99, 9, LARGE, NOBODY)) is None
    assert run(stores.ledger.lane(7)).counts == LaneCounts(matched=2, dropped={CORRUPT: 2})
    assert [damage[:5] for damage in run(stores.ledger.damaged(0, 9))] == [("burial", 3, 7, 1, n) for n in (0, 1)]


def test_what_was_set_aside_is_settled_no_more(stores: Any, run: Any) -> None:
    """A delivery that was on the wire when its row was set aside cannot be parked or dropped again; the books hold."""
    lane = run(stores.ledger.open_lane(7, 3, "log", 1))
    run(stores.ledger.settle([settlement(lane, matched=2, park=[parked(1, 0, 10), parked(1, 1, 11)])]))
    assert stores.spoil.row("parked", 7, DeliveryId(1, 0))
    run(stores.ledger.due(7, 99, 9))
    again = [parked(1, 0, 20), parked(1, 1, 21)]
    run(stores.ledger.settle([settlement(run(stores.ledger.lane(7)), park=again)]))
    assert run(stores.ledger.parked(7, 9)) == [parked(1, 1, 21)]
    run(stores.ledger.settle([settlement(run(stores.ledger.lane(7)), bury=[burial(1, 0)])]))
    run(stores.ledger.settle([settlement(run(stores.ledger.lane(7)), drop=[Drop(DeliveryId(1, 0), "Canceled")])]))
    assert run(stores.ledger.lane(7)).counts == LaneCounts(matched=2, dropped={CORRUPT: 1}, parked=1)


def test_a_damaged_row_that_is_written_anew_is_whole(stores: Any, run: Any) -> None:
    """A delivery whose row was damaged and not read since is parked again as if nothing were."""
    lane = run(stores.ledger.open_lane(7, 3, "log", 1))
    run(stores.ledger.settle([settlement(lane, matched=1, park=[parked(1, 0, 10)])]))
    assert stores.spoil.row("parked", 7, DeliveryId(1, 0))
    run(stores.ledger.settle([settlement(run(stores.ledger.lane(7)), park=[parked(1, 0, 20)])]))
    assert run(stores.ledger.due(7, 99, 9)) == DueDeliveries([parked(1, 0, 20)], None)
    assert run(stores.ledger.damaged(0, 9)) == []


def test_a_damaged_lane_is_told_from_others(stores: Any, run: Any) -> None:
    """A reader sees that it is damaged and nothing else; its neighbours are whole."""
    for id in (7, 8):
        run(stores.ledger.open_lane(id, 3, "log", 5))
    assert stores.spoil.lane(7)
    lanes = run(stores.ledger.lanes())
    assert [(lane.id, lane.damaged, lane.cursor.low) for lane in lanes] == [(7, True, (0, 0)), (8, False, (5, 0))]
    assert run(stores.ledger.lane(7)).damaged and run(stores.ledger.some_lanes([7]))[0].damaged
    assert run(stores.ledger.open_lane(7, 3, "log", 5)).damaged


@pytest.mark.parametrize(
    ("part", "count"), [("books", "matched"), ("books", "parked"), ("version", ""), ("cursor", "")]
)
def test_a_damaged_lane_that_ended_is_closed(stores: Any, run: Any, part: str, count: str) -> None:
    """The lane of a subscription that is gone goes too, whatever its damaged row says; the row is set aside."""
    lane = run(stores.ledger.open_lane(7, 3, "log", 5))
    run(stores.ledger.settle([settlement(lane, ended=True)]))
    assert stores.spoil.lane(7, part, count)
    run(stores.ledger.close_lane(7))
    assert run(stores.ledger.lane(7)) is None
    assert run(stores.ledger.damaged_counts(0)) == {"lane": 1}


def test_a_damaged_lane_in_which_rows_wait_stays(stores: Any, run: Any) -> None:
    """Nothing that waits is removed with the lane."""
    lane = run(stores.ledger.open_lane(7, 3, "log", 5))
    run(stores.ledger.settle([settlement(lane, matched=1, park=[parked(5)])]))
    assert stores.spoil.lane(7)
    run(stores.ledger.close_lane(7))
    assert run(stores.ledger.lane(7)).damaged
    assert run(stores.ledger.damaged_counts(0)) == {}


def test_a_damaged_lane_is_renewed(stores: Any, run: Any) -> None:
    """It begins again at a position: what waits before that stays, and the books begin with it."""
    lane = run(stores.ledger.open_lane(7, 3, "log", 1))
    park = [parked(n, 0, 10 + n) for n in (2, 4, 5)]
    bury = [burial(3, 0), burial(6, 0)]
    drop = [Drop(DeliveryId(1, 0), "Canceled")]
    run(stores.ledger.settle([settlement(lane, matched=9, delivered=3, park=park, bury=bury, drop=drop)]))
    assert stores.spoil.lane(7)
    renewed = run(stores.ledger.renew_lane(7, 3, "log", 5))
    assert renewed == LaneRow(
        7, 3, "log", 1, Cursor((5, 0)), CLEAR, LaneCounts(matched=3, parked=2, buried=1), next_due_at=12
    )
    run(stores.reopen())
    assert run(stores.ledger.lane(7)) == renewed
    assert run(stores.ledger.parked(7, 9)) == park[:2]
    assert run(stores.ledger.burials_due(99, 9, LARGE, NOBODY)).burials == bury[:1]
    (kept,) = run(stores.ledger.damaged(0, 9))
    assert kept[:3] == ("lane", 3, 7) and kept.content
    again = settlement(renewed, matched=3, park=[parked(5, 0, 20)], delivered=2)
    run(stores.ledger.settle([again]))
    assert run(stores.ledger.lane(7)).counts == LaneCounts(matched=6, delivered=2, parked=3, buried=1)


def test_what_a_renewed_lane_reads_again_is_settled_again(stores: Any, run: Any) -> None:
    """A delivery that was set aside and lies after the new beginning can be parked, and dropped, like any other."""
    lane = run(stores.ledger.open_lane(7, 3, "log", 1))
    run(stores.ledger.settle([settlement(lane, matched=2, park=[parked(1, 0, 10), parked(2, 0, 10)])]))
    for position in (1, 2):
        assert stores.spoil.row("parked", 7, DeliveryId(position, 0))
    assert run(stores.ledger.due(7, 99, 9)).parked == []
    assert stores.spoil.lane(7)
    renewed = run(stores.ledger.renew_lane(7, 3, "log", 2))
    assert renewed.counts == LaneCounts()
    run(stores.ledger.settle([settlement(renewed, matched=1, park=[parked(2, 0, 20), parked(1, 0, 20)])]))
    assert run(stores.ledger.parked(7, 9)) == [parked(2, 0, 20)]
    assert run(stores.ledger.lane(7)).counts == LaneCounts(matched=1, parked=1)


def test_a_group_after_the_new_beginning_is_gone(stores: Any, run: Any) -> None:
    """A renewed lane keeps no name of a group without dead letters, and reads their events again."""
    lane = run(stores.ledger.open_lane(7, 3, "log", 1))
    run(stores.ledger.settle([settlement(lane, matched=1, bury=[burial(6, 0)])]))
    run(stores.ledger.name_group(run(stores.ledger.burials_due(99, 1, LARGE, NOBODY)), "path", 1))
    assert stores.spoil.lane(7)
    run(stores.ledger.renew_lane(7, 3, "log", 5))
    assert run(stores.ledger.burials_due(99, 9, LARGE, NOBODY)) is None


@pytest.mark.parametrize("count", ["matched", "delivered", "parked", "buried"])
def test_damaged_books_hold_up_nobody(stores: Any, run: Any, count: str) -> None:
    """Rows are set aside and dead letters are counted as written, for all that the books can say; then they begin."""
    lane = run(stores.ledger.open_lane(7, 3, "log", 1))
    bury = [burial(1, 1), burial(1, 2)]
    run(stores.ledger.settle([settlement(lane, matched=4, park=[parked(1, 0, 10), parked(1, 3, 9)], bury=bury)]))
    run(stores.ledger.name_group(run(stores.ledger.burials_due(99, 1, LARGE, NOBODY)), "path", 1))
    assert stores.spoil.lane(7, "books", count) and stores.spoil.row("parked", 7, DeliveryId(1, 0))
    assert run(stores.ledger.due(7, 99, 9)).parked == [parked(1, 3, 9)]
    run(stores.ledger.written(7, "path"))
    assert run(stores.ledger.lane(7)).damaged
    with pytest.raises(ValueError, match="balance"):
        run(stores.ledger.settle([settlement(replace(lane, version=2))]))
    renewed = run(stores.ledger.renew_lane(7, 3, "log", 5))
    assert renewed.counts == LaneCounts(matched=2, parked=1, buried=1)


def test_a_damaged_lane_that_is_settled_is_whole(stores: Any, run: Any) -> None:
    """A settlement writes all of it anew."""
    lane = run(stores.ledger.open_lane(7, 3, "log", 1))
    assert stores.spoil.lane(7)
    run(stores.ledger.settle([settlement(lane, matched=1, delivered=1)]))
    assert run(stores.ledger.lane(7)).counts == LaneCounts(matched=1, delivered=1)


def test_a_damaged_notice(stores: Any, run: Any) -> None:
    """It is told from others, and kept once for a person, when the ledger is opened and before it is removed."""
    lane = run(stores.ledger.open_lane(7, 3, "log", 1))
    run(stores.ledger.settle([settlement(lane, matched=4, bury=[burial(1, n) for n in range(4)])]))
    for n in range(4):
        run(stores.ledger.name_group(DeadLetterGroup(7, "dead", None, None, [burial(1, n)]), f"path{n}", 1))
    for n in range(2):
        run(stores.ledger.written(7, f"path{n}", b"%d" % n, 0))
    assert stores.spoil.notice(1)
    assert run(stores.ledger.notices(0, 9)) == [Notice(1, b"0", damaged=True), Notice(2, b"1")]
    run(stores.reopen())
    assert [damage[:6] for damage in run(stores.ledger.damaged(0, 9))] == [("notice", 0, 0, 1, 0, 1)]
    assert stores.spoil.notice(2)
    run(stores.ledger.written(7, "path2", b"2", 2))
    assert run(stores.ledger.notices(0, 9)) == [Notice(3, b"2")]
    run(stores.reopen())
    assert [damage.content for damage in run(stores.ledger.damaged(0, 9))] == [b"0", b"1"]
    assert run(stores.ledger.damaged_counts(0)) == {"notice": 2}


def test_a_damaged_topic(stores: Any, run: Any) -> None:
    """It is refused to each caller, left out of lists, and named; others are served, and so is its log."""
    sick, well = (run(stores.log.put_topic(new_topic(name))) for name in ("sick", "well"))
    assert stores.spoil.topic(sick.id)
    for verb in (
        lambda: stores.log.topic("sick"),
        lambda: stores.log.topic_by_id(sick.id),
        lambda: stores.log.put_topic(sick),
        lambda: stores.log.delete_topic(sick.id),
        lambda: stores.log.put_subscription(new_subscription(sick.id)),
    ):
        with pytest.raises(RecordDamaged):
            run(verb())
    assert run(stores.log.topics("", 1)) == [well]
    assert run(stores.log.topic("well")) == well
    assert run(stores.log.append([segment(sick.id), segment(well.id)])) == [2, 2]
    assert [damage[:3] for damage in run(stores.log.damaged_records())] == [("topic", sick.id, 0)]


def test_a_damaged_subscription(stores: Any, run: Any) -> None:
    """The same; a topic that has one cannot be deleted."""
    topic = run(stores.log.put_topic(new_topic()))
    sick, well = (run(stores.log.put_subscription(new_subscription(topic.id, name))) for name in ("sick", "well"))
    assert stores.spoil.subscription(sick.id)
    for verb in (
        lambda: stores.log.subscription(topic.id, "sick"),
        lambda: stores.log.subscription_by_id(sick.id),
        lambda: stores.log.put_subscription(sick),
        lambda: stores.log.delete_subscription(sick.id),
        lambda: stores.log.forget(sick.id),
        lambda: stores.log.delete_topic(topic.id),
    ):
        with pytest.raises(RecordDamaged):
            run(verb())
    assert run(stores.log.subscriptions(None, 0, 1)) == [well]
    assert run(stores.log.subscriptions(topic.id, 0, 9)) == [well]
    assert run(stores.log.subscription(topic.id, "well")) == well
    assert run(stores.log.subscription_counts([topic.id])) == {topic.id: 2}
    assert [damage[:3] for damage in run(stores.log.damaged_records())] == [("subscription", topic.id, sick.id)]


def test_a_damaged_document(stores: Any, run: Any) -> None:
    """The same, until it is written anew."""
    for key in ("a", "b"):
        run(stores.log.put_document("kind", key, b"content"))
    assert stores.spoil.document("kind", "a")
    with pytest.raises(RecordDamaged):
        run(stores.log.document("kind", "a"))
    assert run(stores.log.documents("kind", "", 1)) == [Document("b", b"content")]
    assert [damage.columns for damage in run(stores.log.damaged_records())] == [b"kind a"]
    run(stores.log.put_document("kind", "a", b"new"))
    assert run(stores.log.document("kind", "a")) == b"new"
    assert run(stores.log.damaged_records()) == []


def test_the_first_position(log: Any, run: Any) -> None:
    """It is the first that was not trimmed, or the next of an empty log."""
    topic = run(log.put_topic(new_topic())).id
    run(log.append([segment(topic) for _ in range(3)]))
    assert run(log.first(topic)) == 1
    run(log.trim(topic, 3))
    assert run(log.first(topic)) == 3
    run(log.trim(topic, 99))
    assert run(log.first(topic)) == 5
    assert run(log.first(999)) == 1
