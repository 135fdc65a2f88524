"""Checks after everything is healed and quiet: nothing lost, nothing twice in the vault, nothing left over.

Together with what `attempts`, `settlements` and `books` check on the way these are the invariants I1–I9, I14 and
I16–I18 of the service.
"""

from collections import Counter
from typing import Any

from recapito.contracts.damage import Damage
from recapito.dispatch.dead_letter_writer import CONTAINER_MISSING, UNAVAILABLE
from recapito.domain import limits
from recapito.domain.delivery.delivery import CORRUPT
from recapito.domain.instant import HOUR, SECOND
from recapito.intake.maintenance.damage_report import DamageReport
from tests.sim.books import Owed, State
from tests.sim.facts import Watched
from tests.sim.oracle import Oracle
from tests.sim.settlements import decode_records

WORTH_WAITING_NS = 20 * HOUR  # the longest delay with its jitter, the longest hold, dead letters, and some more
PROBE_NS = 180 * SECOND
Rotten = tuple[str, object]
LOST = (UNAVAILABLE, CONTAINER_MISSING, CORRUPT)  # given up, and perhaps in the vault all the same


def quiet(oracle: Oracle) -> bool:
    """Whether nothing is left to do for anybody."""
    return all(settled(lane) for lane in oracle.lanes.values())


def settled(lane: Watched) -> bool:
    """Whether nothing is left to do for one subscription."""
    states = lane.books.states
    waiting = states[State.PARKED] + states[State.BURIED] + states[State.NAMED]
    if lane.deleted_at is not None:
        return lane.books.ended and not waiting
    return not lane.books.unread and not waiting


def check_liveness(oracle: Oracle) -> None:
    """Everything has ended, one way or another (I2, I16)."""
    for lane in oracle.lanes.values():
        if settled(lane):
            continue
        left = [owed for owed in lane.books.owed.values() if not owed.terminal]
        if left:
            oracle.fail("I16", f"{len(left)} deliveries never end; one is {left[0].state}", lane.id, left[0])
        else:
            oracle.fail("I16", "never comes to its end", lane=lane.id)


def check_fates(oracle: Oracle) -> None:
    """Every acknowledged event is, for every subscription that matched, delivered, in the vault, or dropped (I2)."""
    for event in oracle.published.values():
        if event.acknowledged_at is not None and event.id not in oracle.appended:
            oracle.fail("I2", "was acknowledged and is nowhere", event=event.id)
    for lane in oracle.lanes.values():
        for owed in lane.books.owed.values():
            if owed.state is State.DELIVERED and not owed.successes:
                oracle.fail("I2", "is delivered without an answer", lane.id, owed)
            if owed.state is State.UNREAD and lane.deleted_at is None:
                oracle.fail("I2", "was never read", lane.id, owed)


def check_vault(oracle: Oracle) -> None:
    """The vault has each dead letter once, with the event's bytes, and nothing else (I5, I7, I11).

    An event that was redriven and died again is there once more. A subscription whose record was damaged has no name.
    """
    aliases = {f"LANE-{lane.id}": lane.now.name.upper() for lane in oracle.lanes.values() if lane.halted}
    found: Counter[tuple[str, str]] = Counter()
    for (container, path), content in oracle.vault_files.items():
        for record in decode_records(content):
            sent = oracle.published.get(record.id)
            if sent is None or bytes(record.data) != sent.data or record.subject != sent.subject:
                oracle.fail("I7", f"{container}/{path} holds something else", event=record.id)
            folder = path.partition("/")[0]
            found[aliases.get(folder, folder), record.id] += 1
    for (subscription, id), deliveries in _deliveries(oracle).items():
        count = found.pop((subscription, id), 0)
        dead = sum(owed.state is State.DEAD_LETTERED for owed in deliveries)
        lost = sum(owed.state is State.DROPPED and owed.reason in LOST for owed in deliveries)
        if count > len(deliveries):
            oracle.fail("I5", f"is {count} times in the vault for {subscription}", event=id)
        elif not dead <= count <= dead + lost:
            states = ", ".join(owed.state for owed in deliveries)
            oracle.fail("I11", f"is {states} and {count} times in the vault", event=id)
    for (subscription, id), _ in found.items():
        oracle.fail("I6", f"is in the vault for {subscription}, which did not get it", event=id)


def _deliveries(oracle: Oracle) -> dict[tuple[str, str], list[Owed]]:
    """By name of the subscription and event: more than one where an event was redriven."""
    found: dict[tuple[str, str], list[Owed]] = {}
    for lane in oracle.lanes.values():
        for owed in (*lane.books.owed.values(), *lane.books.before):
            found.setdefault((lane.now.name.upper(), owed.event.id), []).append(owed)
    return found


async def check_store(oracle: Oracle, log: Any, ledger: Any) -> None:
    """The store keeps what is needed and nothing else: the books, no ended lanes, a trimmed log."""
    rows = {row.id: row for row in await ledger.lanes()}
    known = {subscription.id: subscription for subscription in await log.subscriptions(None, 0, 10_000)}
    for id in rows.keys() - known.keys():
        oracle.fail("I20", "its lane was never removed", lane=id)
    floors: dict[int, int] = {}
    for id, subscription in known.items():
        if subscription.deleted_position is not None:
            oracle.fail("I20", "is deleted and never forgotten", lane=id)
        lane = oracle.lanes[id]
        if lane.rotten:
            oracle.fail("damage", "its row is damaged to the end", lane=id)
        lane.books.compare(rows.get(id))
        floors[lane.topic] = min(floors.get(lane.topic, 1 << 62), lane.books.cursor.low[0])
    await _check_kept(oracle, ledger)
    for topic, floor in floors.items():
        first = await _first(log, topic)
        if first < floor - limits.TRIM_SLICE and not oracle.keeps_log:
            oracle.fail("I20", f"topic {topic} is kept from {first} on, all is read up to {floor}")


async def _check_kept(oracle: Oracle, ledger: Any) -> None:
    """A damaged record that was given up is kept for a person, with its bytes."""
    kept = {damage[:5]: damage for damage in await ledger.damaged(0, 1 << 31)}
    entries = {damage[1:4:2]: damage.content for damage in kept.values() if damage.table == "entry"}
    for lane in oracle.lanes.values():
        for identity, owed in lane.books.lost.items():
            place = (lane.topic, lane.id, *identity)
            content = entries.get((lane.topic, identity.position), b"")
            rows = [kept[table, *place].content for table in ("parked", "burial") if (table, *place) in kept]
            if not any(owed.event.id.encode() in text for text in (content, *rows)):
                oracle.fail("damage", "is damaged, and not kept", lane=lane.id, owed=owed)


async def check_shown(oracle: Oracle, rotten: set[Rotten], damages: DamageReport, ledger: Any) -> None:
    """A person sees each damaged record that is in its place, and each that was set aside, and is warned of them.

    `rotten` was damaged when all records were last read.
    """
    shown = await damages.page(0, 1 << 31)
    places = {(record.damage.table, _key_of(record.damage)) for record in shown if not record.damage.number}
    for table, id in sorted((oracle.rotten & rotten) - places, key=str):
        oracle.fail("damage", f"{table} {id} is damaged, and nobody is shown")
    for table, id in sorted(places - oracle.rotten, key=str):
        oracle.fail("damage", f"{table} {id} is sound, and shown as damaged")
    numbers = {record.damage.number for record in shown if record.damage.number}
    if numbers != {damage.number for damage in await ledger.damaged(0, 1 << 31)}:
        oracle.fail("damage", "what was set aside is not shown")
    if shown and await damages.warning() is None:
        oracle.fail("damage", "nobody is warned")


def _key_of(damage: Damage) -> object:
    if damage.table == "document":
        return tuple(damage.columns.decode().split(" ", 1))
    return damage.topic if damage.table == "topic" else damage.lane


async def _first(log: Any, topic: int) -> int:
    """The first position that a topic still has."""
    position: int = await log.end(topic)
    while position > 0:
        try:
            await log.read(topic, position, 1)
        except LookupError:
            return position + 1
        position -= 1
    return 1


def check_calm(oracle: Oracle) -> None:
    """Without crashes, time-outs and store failures nothing is delivered twice (I8)."""
    if oracle.duplicates and not oracle.renewals:
        oracle.fail("I8", f"{oracle.duplicates} duplicates in a history without a reason for any")


def probe_by(oracle: Oracle, lane: Watched) -> int | None:
    """By when a lane whose endpoint has recovered must be in use again (I18); None if it has nothing to send."""
    if lane.deleted_at is not None or settled(lane):
        return None
    books = lane.books
    due = 0 if books.states[State.UNREAD] else min((row.due_at for row in books.parked.values()), default=None)
    if due is None:
        return None
    held_until = books.last_row.hold.until if books.last_row else 0
    return max(oracle.clock.now(), due, held_until) + PROBE_NS
