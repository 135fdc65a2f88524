"""Damaged records of the store, for operators: the number not yet dismissed, and each record with its bytes.

An operator dismisses records up to a number: the warnings end, the records stay. Damaged topics, subscriptions and
documents are not set aside: they stay in their place, and the warning lasts until they are whole again.
Operators see numbers above `first`, so that no two partitions of a cluster have the same.
"""

from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from typing import NamedTuple, Protocol

from recapito.contracts.damage import Damage
from recapito.contracts.registry import Registry
from recapito.domain import limits
from recapito.domain.delivery.delivery import DeliveryId
from recapito.domain.resources.subscription import Subscription
from recapito.domain.resources.topic import Topic
from recapito.errors import InvalidInput, NotFound, RecordDamaged

WAITING = ("parked", "burial")
KIND, SEEN = "damage", "seen"  # the document with the last dismissed number


class DamageReader(Protocol):
    """The part of the Ledger that is read here."""

    async def damaged(self, after: int, limit: int) -> list[Damage]:
        """Records that were set aside, after a number."""

    async def damaged_counts(self, after: int) -> dict[str, int]:
        """The number of records set aside after a number, by table."""


class NamedDamage(NamedTuple):
    """A damaged record with the names of its topic and its subscription, empty if unknown."""

    number: int
    damage: Damage
    topic: str
    subscription: str
    dismissed: bool

    @property
    def name(self) -> str:
        """The record's name for people: its number, or for records of the registry, which have none, a key or an id."""
        damage = self.damage
        if self.number:
            return f"{damage.table}-{self.number}"
        return f"{damage.table}:{damage.columns.decode() or damage.lane or damage.topic}"


class DamageReport:
    """`first`: the numbers of the ledger's records are shown above this one."""

    def __init__(self, registry: Registry, ledger: DamageReader, first: int = 0) -> None:
        self._registry = registry
        self._ledger = ledger
        self._first = first

    async def unseen(self) -> dict[str, int]:
        """The number of damaged records that are not dismissed, by table."""
        rows = Counter(await self._ledger.damaged_counts(await self._seen()))
        return dict(rows + Counter(damage.table for damage in await self._registry.damaged_records()))

    async def warning(self) -> str | None:
        """A sentence for operators, None if no damage is left to look at."""
        rows = sum((await self._ledger.damaged_counts(await self._seen())).values())
        records = len(await self._registry.damaged_records())
        found = []
        if rows:
            found.append(f"{rows} damaged record{' was' if rows == 1 else 's were'} set aside")
        if records:
            many = "record of a resource is" if records == 1 else "records of resources are"
            found.append(f"{records} {many} damaged until a backup is restored")
        return f"{'; '.join(found)}: see `recapito damaged list`" if found else None

    async def page(self, after: int, limit: int) -> list[NamedDamage]:
        """Damaged records after a number; those of the registry, which have no number, are on the first page."""
        seen = await self._seen()
        registry = [] if after else await self._registry.damaged_records()
        rows = await self._ledger.damaged(max(0, after - self._first), limit)
        return [await self._named(damage, seen) for damage in (*registry, *rows)]

    async def find(self, name: str) -> NamedDamage:
        table, _, number = name.rpartition("-")
        if number.isascii() and number.isdigit() and len(number) < limits.NUMBER_DIGITS:
            for record in await self.page(int(number) - 1, 1):
                if (record.damage.table, record.number) == (table, int(number)):
                    return record
        for damage in await self._registry.damaged_records():
            record = await self._named(damage, 0)
            if record.name == name:
                return record
        raise NotFound("ResourceNotFound", "There is no such damaged record. `recapito damaged list` shows all names.")

    async def dismiss(self, number: int) -> None:
        """End the warnings about records up to a number."""
        own = number - self._first
        if not await self._ledger.damaged(own - 1, 1):
            raise InvalidInput("InvalidRequest", "No damaged record has this number.", "number")
        await self._registry.put_document(KIND, SEEN, str(max(own, await self._seen())).encode())

    async def holding(self, text: bytes) -> NamedDamage | None:
        """A damaged record that contains these bytes, among the first N."""
        return await self._search(lambda damage: text in damage.columns or text in damage.content)

    async def of_delivery(self, lane: int, identity: DeliveryId) -> NamedDamage | None:
        """The damaged record of a delivery or dead letter that waited, among the first N."""
        row = (lane, *identity)
        return await self._search(
            lambda damage: damage.table in WAITING and (damage.lane, damage.position, damage.offset) == row
        )

    async def _search(self, is_wanted: Callable[[Damage], bool]) -> NamedDamage | None:
        for place in range(0, limits.DAMAGED_SEARCHED, limits.DAMAGED_PAGE_DEFAULT):
            for record in await self.page(self._first + place if place else 0, limits.DAMAGED_PAGE_DEFAULT):
                if is_wanted(record.damage):
                    return record
        return None

    async def _seen(self) -> int:
        try:
            return int(await self._registry.document(KIND, SEEN) or 0)
        except RecordDamaged:  # this very document is damaged: dismissing writes it anew
            return 0

    async def _named(self, damage: Damage, seen: int) -> NamedDamage:
        topic: Topic | None = None
        subscription: Subscription | None = None
        with suppress(RecordDamaged):
            topic = await self._registry.topic_by_id(damage.topic)
        with suppress(RecordDamaged):
            subscription = await self._registry.subscription_by_id(damage.lane)
        names = (topic.name if topic else "", subscription.name if subscription else "")
        number = self._first + damage.number if damage.number else 0
        return NamedDamage(number, damage, *names, 0 < damage.number <= seen)
