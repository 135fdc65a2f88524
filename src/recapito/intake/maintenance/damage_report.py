"""What was found damaged in the store, for people: how much of it nobody has looked at, and each record with its bytes.

A person who has looked dismisses what was set aside so far: the warnings end, the records stay. Topics, subscriptions
and documents are not set aside: they stay in their place, and are warned of until they are whole again.
"""

from collections import Counter
from contextlib import suppress
from typing import NamedTuple, Protocol

from recapito.contracts.damage import Damage
from recapito.contracts.registry import Registry
from recapito.domain import limits
from recapito.domain.resources.subscription import Subscription
from recapito.domain.resources.topic import Topic
from recapito.errors import InvalidInput, NotFound, RecordDamaged

KIND, SEEN = "damage", "seen"  # the document with the number up to which damage was dismissed


class DamageReader(Protocol):
    """The part of the Ledger that is asked."""

    async def damaged(self, after: int, limit: int) -> list[Damage]:
        """What was set aside."""

    async def damaged_counts(self, after: int) -> dict[str, int]:
        """How many were set aside, by table."""


class Record(NamedTuple):
    """A damaged record with the names of its topic and its subscription, as far as they are known."""

    damage: Damage
    topic: str
    subscription: str
    dismissed: bool

    @property
    def name(self) -> str:
        """What people call it by: a number, which records of the registry have not; the id of those; or a key."""
        damage = self.damage
        if damage.number:
            return f"{damage.table}-{damage.number}"
        return f"{damage.table}:{damage.columns.decode() or damage.lane or damage.topic}"


class DamageReport:
    """Damage as intake sees it."""

    def __init__(self, registry: Registry, ledger: DamageReader) -> None:
        self._registry = registry
        self._ledger = ledger

    async def unseen(self) -> dict[str, int]:
        """How many damaged records nobody has dismissed, by table."""
        rows = Counter(await self._ledger.damaged_counts(await self._seen()))
        return dict(rows + Counter(damage.table for damage in await self._registry.damaged_records()))

    async def warning(self) -> str | None:
        """What an operator has to know, if there is something."""
        count = sum((await self.unseen()).values())
        if not count:
            return None
        records = "1 damaged record was" if count == 1 else f"{count} damaged records were"
        return f"{records} set aside: see `recapito damaged list`"

    async def page(self, after: int, limit: int) -> list[Record]:
        """Damaged records from the first after a number on; those of the registry are at the beginning."""
        seen = await self._seen()
        registry = [] if after else await self._registry.damaged_records()
        return [await self._named(damage, seen) for damage in (*registry, *await self._ledger.damaged(after, limit))]

    async def find(self, name: str) -> Record:
        """The record of that name."""
        table, _, number = name.rpartition("-")
        if number.isascii() and number.isdigit() and len(number) < limits.NUMBER_DIGITS:
            for record in await self.page(int(number) - 1, 1):
                if (record.damage.table, record.damage.number) == (table, int(number)):
                    return record
        for damage in await self._registry.damaged_records():
            record = await self._named(damage, 0)
            if record.name == name:
                return record
        raise NotFound("ResourceNotFound", "There is no damaged record of this name; `recapito damaged list` has all.")

    async def dismiss(self, number: int) -> None:
        """Warn no more of what was found up to a number."""
        if not await self._ledger.damaged(number - 1, 1):
            raise InvalidInput("InvalidRequest", "No damaged record has this number.", "number")
        await self._registry.put_document(KIND, SEEN, str(max(number, await self._seen())).encode())

    async def holding(self, text: bytes) -> Record | None:
        """A damaged record that holds these bytes, among the first of all."""
        for after in range(0, limits.DAMAGED_SEARCHED, limits.DAMAGED_PAGE_DEFAULT):
            for record in await self.page(after, limits.DAMAGED_PAGE_DEFAULT):
                if text in record.damage.columns or text in record.damage.content:
                    return record
        return None

    async def _seen(self) -> int:
        try:
            return int(await self._registry.document(KIND, SEEN) or 0)
        except RecordDamaged:  # of all records this one: dismissing writes it anew
            return 0

    async def _named(self, damage: Damage, seen: int) -> Record:
        topic: Topic | None = None
        subscription: Subscription | None = None
        with suppress(RecordDamaged):
            topic = await self._registry.topic_by_id(damage.topic)
        with suppress(RecordDamaged):
            subscription = await self._registry.subscription_by_id(damage.lane)
        names = (topic.name if topic else "", subscription.name if subscription else "")
        return Record(damage, *names, 0 < damage.number <= seen)
