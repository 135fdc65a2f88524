"""Deletion of subscriptions at their expiration time, on the service's clock."""

import asyncio
import heapq
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial

from recapito.clock import Clock, SystemClock
from recapito.contracts.registry import Registry
from recapito.domain.instant import SECOND
from recapito.domain.resources.subscription import Subscription
from recapito.errors import StoreFailed
from recapito.observability.journal import Journal, Trouble, silent

PAGE = 1000
RETRY_NS = 1 * SECOND


class Expiry:
    """The expiration times of subscriptions, as a heap. A subscription that changed meanwhile stays."""

    def __init__(self, registry: Registry, clock: Clock, journal: Journal = silent) -> None:
        self._registry = registry
        self._clock = clock
        self._journal = journal
        self._times: list[tuple[int, int]] = []  # instants and ids
        self._more = asyncio.Event()
        self._expiring = False

    def watch(self, subscription: Subscription) -> None:
        """Remember the expiration time of a subscription."""
        if subscription.expires_at is not None:
            heapq.heappush(self._times, (subscription.expires_at, subscription.id))
            self._more.set()

    def quiet(self) -> bool:
        """True when no subscription is due and none is being deleted."""
        return not self._expiring and (not self._times or self._times[0][0] > self._clock.now())

    async def run(self, expire: Callable[[int], Awaitable[None]]) -> None:
        """Call `expire` for each subscription at its time, forever. A call that fails is repeated a second later."""
        await self._insist(self._load)
        while True:
            self._more.clear()
            if not self._times:
                await self._more.wait()
            elif self.quiet():
                await self._sleep_until(self._times[0][0])
            else:
                self._expiring = True
                _, id = heapq.heappop(self._times)
                await self._insist(partial(expire, id))
                self._expiring = False

    async def _load(self) -> None:
        times: list[tuple[int, int]] = []
        after = 0
        while page := await self._registry.subscriptions(None, after, PAGE):
            for subscription in page:
                if subscription.deleted_position is None and subscription.expires_at is not None:
                    times.append((subscription.expires_at, subscription.id))
            after = page[-1].id
        self._times += times
        heapq.heapify(self._times)

    async def _insist(self, act: Callable[[], Awaitable[None]]) -> None:
        wall, trouble = SystemClock(), Trouble()
        while True:
            try:
                return await act()
            except StoreFailed as error:
                if trouble.is_news(str(error)):
                    self._journal("expiry.failed", error=error)
            await wall.sleep_until(wall.now() + RETRY_NS)

    async def _sleep_until(self, when: int) -> None:
        """Sleep until an instant, or until an earlier one is added."""
        sleeping = asyncio.ensure_future(self._clock.sleep_until(when))
        more = asyncio.ensure_future(self._more.wait())
        try:
            await asyncio.wait((sleeping, more), return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (sleeping, more):
                task.cancel()
                with suppress(asyncio.CancelledError):
                    await task
