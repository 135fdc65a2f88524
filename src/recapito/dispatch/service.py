"""The dispatch role: the dispatcher and the writer of dead letters, run and stopped together."""

import asyncio

from recapito.clock import SECOND, Clock
from recapito.dispatch.dead_letter_writer import DeadLetterWriter
from recapito.dispatch.dispatcher import Dispatcher

DRAIN_LOOK_NS = SECOND // 100


class DispatchService:
    """Neither part holds the other: they share the open lanes and the signal that a delivery was buried."""

    def __init__(self, dispatcher: Dispatcher, writer: DeadLetterWriter, housekeeping: Clock) -> None:
        self.dispatcher = dispatcher
        self.writer = writer
        self._housekeeping = housekeeping

    async def run(self) -> None:
        """Open the lanes, then dispatch and write dead letters until cancelled."""
        await self.dispatcher.start()
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self.dispatcher.run())
            tasks.create_task(self.writer.run())

    def quiet(self) -> bool:
        """True when nothing happens until an answer, a publish or the clock brings something."""
        return self.dispatcher.quiet() and self.writer.quiet()

    async def drain(self, deadline: int) -> None:
        """Start nothing new; return when all requests are settled, or at an instant of the housekeeping clock."""
        self.dispatcher.close()
        while (self.dispatcher.under_way or not self.quiet()) and self._housekeeping.now() < deadline:
            await self._housekeeping.sleep_until(self._housekeeping.now() + DRAIN_LOOK_NS)
