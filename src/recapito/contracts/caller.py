"""The contract of a caller: it makes one small HTTP request and returns what came of it.

What intake asks of other people's endpoints goes this way: handshakes, the keys of a token issuer.
"""

import asyncio
from typing import Protocol

from recapito.clock import Clock
from recapito.domain.handshake.http_call import CallResult, FailureKind, NoReply, Request
from recapito.domain.instant import SECOND


class Caller(Protocol):
    """Makes requests, under the same egress rules as deliveries.

    Promises: `ask` never raises for anything that the network, the name service or the endpoint does; nothing is
    followed, neither redirects nor proxies; headers and body are cut at their limits; no time-out of the caller's
    own ends a request, only connecting has one; a cancelled `ask` lets go of its connection.
    """

    async def ask(self, request: Request) -> CallResult:
        """Make one request."""

    async def close(self) -> None:
        """End what is open as Unanswered and free everything; whatever is asked later is Unanswered too."""


async def ask_in_time(caller: Caller, request: Request, clock: Clock, wait_ns: int) -> CallResult:
    """Make one request, and give it up when the clock says so."""
    asking = asyncio.ensure_future(caller.ask(request))
    waiting = asyncio.ensure_future(clock.sleep_until(clock.now() + wait_ns))
    try:
        await asyncio.wait((asking, waiting), return_when=asyncio.FIRST_COMPLETED)
        if asking.done():
            return asking.result()
        return NoReply(FailureKind.TIMED_OUT, f"no answer within {wait_ns // SECOND} s")
    finally:
        asking.cancel()
        waiting.cancel()
