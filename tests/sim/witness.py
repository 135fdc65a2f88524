"""The witness of the stores: sees every call at the instant at which it takes effect, and tells the oracle.

After each commit the oracle's books and the store's must agree, and what was appended must be there.
"""

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from recapito.contracts.ledger import DeadLetterGroup, DueDeliveries, LaneRow, Settlement
from recapito.contracts.log import NewSegment
from recapito.contracts.registry import Document
from recapito.domain.delivery.delivery import DeliveryId, Parked
from recapito.domain.events.segment import REPLAYED, Segment
from recapito.domain.filters.matcher import matches
from recapito.domain.resources.subscription import Subscription
from recapito.domain.resources.topic import Topic
from tests.sim import redrives, replays, settlements
from tests.sim.books import Books, State
from tests.sim.endpoints import ArrivedEvent
from tests.sim.facts import NOTICED_NS, Watched
from tests.sim.oracle import Oracle

ALL = 1 << 31
_decode = msgspec.json.Decoder(list[ArrivedEvent]).decode


class Witness:
    """An Observer of stores. What happened is handed to the method `_<verb>`, if there is one."""

    def __init__(self, oracle: Oracle) -> None:
        self._oracle = oracle

    def called(self, verb: str, args: tuple[Any, ...]) -> None:
        for settlement in args[0] if verb == "settle" else ():
            lane, now = self._oracle.lanes[settlement.lane], self._oracle.clock.now()
            if lane.settling is settlement:
                continue  # it is tried again: what happened meanwhile is not in it
            lane.settling, lane.settling_since = settlement, now
            wrong = lane.hold.settled(self._oracle.rules_of(lane), settlement.hold, now)
            if wrong and lane.deleted_at is None and self._oracle.watches_holds:
                self._oracle.fail("hold", wrong, lane=lane.id)

    async def done(self, store: Any, verb: str, args: tuple[Any, ...], result: Any) -> None:
        witness = getattr(self, f"_{verb}", None)
        if witness is not None:
            await witness(store, result, *args)

    def returned(self, verb: str, args: tuple[Any, ...], error: bool) -> None:
        if error:
            self._oracle.disturb()
        if verb == "settle":
            for settlement in args[0]:
                self._oracle.lanes[settlement.lane].blocked = settlement if error else None
        elif verb == "lane" and not error:
            self._looked_up(self._oracle.lanes[args[0]])

    def _looked_up(self, lane: Watched) -> None:
        """Dispatch sees whether a settlement is stored."""
        row = lane.books.last_row
        if lane.blocked is not None and row is not None and row.version > lane.blocked.version:
            lane.blocked = None

    # The log and the registry.

    async def _append(self, log: Any, positions: list[int], segments: Sequence[NewSegment]) -> None:
        for segment, position in zip(segments, positions, strict=True):
            events = _decode(b"[" + segment.body + b"]")
            self._oracle.note("appended", segment.topic, position, len(events))
            stored = await log.read(segment.topic, position, 1)
            if not stored or (stored[0].position, stored[0].body) != (position, segment.body):
                self._oracle.fail("I3", f"position {position} of topic {segment.topic} is not what was appended")
            read = Segment(segment.columns, segment.body)
            if read.only or read.origin:
                repeats = replays if read.origin.startswith(REPLAYED) else redrives
                repeats.check(self._oracle, segment.topic, position, read, events)
                continue
            self._check_whole(events)
            for offset, event in enumerate(events):
                self._append_event(segment.topic, DeliveryId(position, offset), event.id)

    async def _append_marked(
        self, log: Any, positions: list[int], segments: Sequence[NewSegment], kind: str, marks: Sequence[Document]
    ) -> None:
        for mark in marks:
            self._oracle.documents.append((kind, mark.key))
            self._oracle.rotten.discard(("document", (kind, mark.key)))
        await self._append(log, positions, segments)

    def _check_whole(self, events: list[ArrivedEvent]) -> None:
        """A publish is stored whole, in one segment (I4), and once."""
        ids = {event.id for event in events}
        if len(ids) < len(events) or any(id in self._oracle.appended for id in ids):
            self._oracle.fail("I4", "an event was appended twice", event=events[0].id)
        for publish in {self._oracle.published[id].publish for id in ids if id in self._oracle.published}:
            if not all(event.id in ids for event in self._oracle.publishes[publish]):
                self._oracle.fail("I4", f"publish {publish} was stored in part", event=events[0].id)

    def _append_event(self, topic: int, identity: DeliveryId, id: str) -> None:
        event = self._oracle.published.get(id)
        if event is None:
            self._oracle.fail("I6", "was appended and never published", event=id)
            return
        if event.refused:
            self._oracle.fail("refused", "was refused and is stored", event=id)
        event.appended_s = self._oracle.time_s()
        self._oracle.appended[id] = identity
        for lane in self._oracle.lanes.values():
            if lane.topic == topic and lane.deleted_at is None:
                taken = matches(lane.now.filter, event.type, event.subject, event.wire())
                lane.books.add(identity, event, taken)

    async def _put_topic(self, log: Any, stored: Topic, topic: Topic) -> None:
        self._oracle.topics[stored.id] = stored
        self._oracle.note("topic", stored.id, stored.name, stored.profile)

    async def _delete_topic(self, log: Any, result: None, id: int) -> None:
        self._oracle.note("topic deleted", id)
        for lane in self._oracle.lanes.values():
            if lane.topic == id and lane.deleted_at is None:
                lane.deleted_at = self._oracle.clock.now()

    async def _put_subscription(self, log: Any, stored: Subscription, subscription: Subscription) -> None:
        lane = self._oracle.lanes.get(stored.id)
        if lane is None:
            lane = self._oracle.lanes[stored.id] = Watched(
                stored.id, stored.topic, Books(stored.id, stored.created_position, self._oracle.fail)
            )
        asked = bool(lane.versions) and lane.now.options.retry_asked_at != stored.options.retry_asked_at
        if lane.versions and (asked or lane.now.destination != stored.destination):  # which ends a hold
            lane.hold.distrust(self._oracle.clock.now() + NOTICED_NS)
        lane.versions.append(stored)
        self._oracle.lane_of_url[stored.destination.url] = lane
        self._oracle.note("subscription", stored.id, stored.topic, stored.name, stored.version)

    async def _delete_subscription(self, log: Any, result: None, id: int) -> None:
        self._oracle.note("subscription deleted", id)
        self._oracle.lanes[id].deleted_at = self._oracle.clock.now()

    async def _forget(self, log: Any, result: None, id: int) -> None:
        self._oracle.note("subscription forgotten", id)
        lane = self._oracle.lanes[id]
        if not lane.books.ended:
            self._oracle.fail("I2", "was forgotten before its lane had ended", lane=id)

    async def _trim(self, log: Any, count: int, topic: int, below: int) -> None:
        if not count:
            return
        self._oracle.note("trimmed", topic, below, count)
        for lane in self._oracle.lanes.values():
            if lane.topic == topic and not lane.books.ended and below > lane.books.cursor.low[0]:
                self._oracle.fail("I2", f"topic {topic} was trimmed below {below}", lane=lane.id)

    async def _topic_by_id(self, log: Any, topic: Topic | None, id: int) -> None:
        self._believe("topic", [] if topic is None else [id])

    async def _subscription_by_id(self, log: Any, subscription: Subscription | None, id: int) -> None:
        self._believe("subscription", [] if subscription is None else [id])

    async def _subscriptions(self, log: Any, page: list[Subscription], *args: object) -> None:
        self._believe("subscription", [subscription.id for subscription in page])

    def _believe(self, table: str, ids: Iterable[int]) -> None:
        """Records are served: none that is damaged may be."""
        for id in ids:
            if (table, id) in self._oracle.rotten:
                self._oracle.fail("damage", f"{table} {id} is damaged, and served")

    # The ledger.

    async def _open_lane(self, ledger: Any, row: LaneRow, id: int, topic: int, log_id: str, position: int) -> None:
        lane = self._oracle.lanes[id]
        self._compare(lane, row)
        if not row.damaged:
            lane.start_hold(row.hold, self._oracle.clock.now())

    async def _renew_lane(self, ledger: Any, row: LaneRow, id: int, topic: int, log_id: str, position: int) -> None:
        """The lane has lost its memory; what it still has under way does not matter any more."""
        lane = self._oracle.lanes[id]
        self._oracle.note("lane renewed", id, position)
        if not lane.rotten:
            self._oracle.fail("damage", "begins again, and its row was sound", lane=id)
        self._oracle.disturb()
        self._oracle.renewals += 1
        lane.rotten, lane.blocked = False, None
        lane.epoch += 1
        lane.books.renew(position)
        lane.books.compare(row)
        lane.start_hold(row.hold, self._oracle.clock.now())

    async def _lanes(self, ledger: Any, rows: list[LaneRow]) -> None:
        for row in rows:
            self._look(self._oracle.lanes[row.id], row)

    def _compare(self, lane: Watched, row: LaneRow | None) -> None:
        """The store's row says what the books say, or that it is damaged, which it is."""
        if row is None or not row.damaged:
            lane.books.compare(row)
        if row is not None:
            self._look(lane, row)

    def _look(self, lane: Watched, row: LaneRow) -> None:
        if row.damaged is not lane.rotten:
            shown = "damaged" if row.damaged else "sound"
            self._oracle.fail("damage", f"its row is shown as {shown}, and is not", lane=lane.id)

    async def _close_lane(self, ledger: Any, result: None, id: int) -> None:
        if id in self._oracle.lanes and not self._oracle.lanes[id].books.ended and await ledger.lane(id) is None:
            self._oracle.fail("I2", "its lane was closed before it had ended", lane=id)

    async def _lane(self, ledger: Any, row: LaneRow | None, id: int) -> None:
        if row is not None:
            self._compare(self._oracle.lanes[id], row)

    async def _settle(self, ledger: Any, result: None, batch: Sequence[Settlement]) -> None:
        for settlement in batch:
            lane = self._oracle.lanes[settlement.lane]
            lane.rotten = False
            touched = lane.books.settle(settlement)
            lane.books.compare(await ledger.lane(lane.id))
            settlements.check(self._oracle, lane, touched)
            self._oracle.note("settled", lane.id, settlement.version, settlement.cursor.low, len(touched))

    async def _reconcile(self, ledger: Any, lanes: Iterable[Watched]) -> None:
        """A read may have set rows aside: the books learn of it at the same instant."""
        spoilt = {(lane.id, identity): lane for lane in lanes for identity in lane.books.spoilt_rows}
        for damage in await ledger.damaged(0, ALL) if spoilt else ():
            lane = spoilt.get((damage.lane, DeliveryId(damage.position, damage.offset)))
            if lane is not None and damage.table in ("parked", "burial"):
                self._oracle.note("set aside", lane.id, damage.table, damage.position, damage.offset)
                lane.books.set_aside(DeliveryId(damage.position, damage.offset))

    async def _parked(self, ledger: Any, rows: list[Parked], id: int, *args: object) -> None:
        await self._reconcile(ledger, [self._oracle.lanes[id]])

    async def _burials_due(self, ledger: Any, group: DeadLetterGroup | None, *args: object) -> None:
        await self._reconcile(ledger, self._oracle.lanes.values())

    async def _due(self, ledger: Any, due: DueDeliveries, id: int, now: int, limit: int, at_least: int = 1) -> None:
        await self._reconcile(ledger, [self._oracle.lanes[id]])
        settlements.check_due(self._oracle, self._oracle.lanes[id], due, now, limit)

    async def _name_group(self, ledger: Any, result: None, group: DeadLetterGroup, path: str, tried_at: int) -> None:
        lane = self._oracle.lanes[group.lane]
        settlements.check_named(self._oracle, lane, lane.books.name(group, path, tried_at))

    async def _written(self, ledger: Any, result: None, id: int, path: str, *notice: object) -> None:
        lane = self._oracle.lanes[id]
        members = lane.books.close_group(path, State.DEAD_LETTERED)
        self._oracle.note("written", id, path, len(members))
        settlements.check_written(self._oracle, lane, path, members)
        self._compare(lane, await ledger.lane(id))

    async def _abandon(self, ledger: Any, result: None, id: int, path: str, reason: str) -> None:
        lane = self._oracle.lanes[id]
        members = lane.books.close_group(path, State.DROPPED, reason)
        self._oracle.note("abandoned", id, path, reason, len(members))
        settlements.check_abandoned(self._oracle, lane, members, reason)
        self._compare(lane, await ledger.lane(id))
