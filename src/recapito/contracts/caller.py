"""The contract of a caller: it makes one small HTTP request and returns its result.

Intake uses it for handshakes and for the keys of a token issuer.
"""

import asyncio
from typing import Protocol

from recapito.clock import Clock
from recapito.domain.handshake.http_call import CallResult, FailureKind, HttpRequest, NoReply
from recapito.domain.instant import SECOND


class Caller(Protocol):
    """Makes requests, under the same egress rules as deliveries.

    Promises: `ask` never raises for anything that the network, the name service or the endpoint does; it follows
    neither redirects nor proxies; it cuts headers and body at their limits; it limits the time of connecting, but not
    of the request; a cancelled `ask` releases its connection.
    """

    async def ask(self, request: HttpRequest) -> CallResult:
        """Make one request."""

    async def close(self) -> None:
        """End open requests with NoReply and free everything; later requests end with NoReply too."""


async def ask_in_time(caller: Caller, request: HttpRequest, clock: Clock, wait_ns: int) -> CallResult:
    """Make one request, and give it up after `wait_ns` of this clock."""
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
