"""The parts that Microsoft's messaging clients share: their credential, and sockets that are closed for certain.

The clients forget a socket that broke or that was still being opened.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any, assert_never

from azure.core.credentials import AzureNamedKeyCredential, AzureSasCredential
from azure.core.credentials_async import AsyncTokenCredential

from recapito.domain.connections.connection import (
    AccountKey,
    Connection,
    DefaultCredential,
    FunctionKey,
    PolicyKey,
    SharedAccess,
    TopicKey,
    TopicToken,
)

for _library in ("azure.servicebus", "azure.eventhub"):  # their errors come back as Outcomes
    logging.getLogger(_library).setLevel(logging.CRITICAL + 1)

_LOOK_S = 0.005
_INNER = ("_handler", "_connection", "_transport")
SdkCredential = AzureNamedKeyCredential | AzureSasCredential | AsyncTokenCredential


def sdk_credential(connection: Connection, own: AsyncTokenCredential | None) -> SdkCredential:
    """The library's credential for a connection; `own` is the server's identity, for a connection without a secret."""
    match connection.credential:
        case PolicyKey(policy, key):
            return AzureNamedKeyCredential(policy, key)
        case SharedAccess(token):
            return AzureSasCredential(f"SharedAccessSignature {token}")
        case DefaultCredential():
            assert own is not None
            return own
        case AccountKey() | FunctionKey() | TopicKey() | TopicToken():
            raise TypeError("not a credential of a messaging namespace")
    assert_never(connection.credential)


class Sockets:
    """The transports that a client has used, so that all of them are closed. `holder` returns the client's handler."""

    def __init__(self, holder: Callable[[], Any]) -> None:
        self._holder = holder
        self._seen: list[Any] = []

    def __repr__(self) -> str:
        return f"<Sockets, {len(self._seen)} seen>"

    async def open(self, opening: Coroutine[Any, Any, object]) -> None:
        """Run `opening`, which opens the client, and note the transport that it opens."""
        task = asyncio.get_running_loop().create_task(opening)
        try:
            while not task.done():
                await asyncio.wait([task], timeout=None if self._seen else _LOOK_S)
                self._look()
            task.result()
        except asyncio.CancelledError:
            self._look()
            task.cancel()
            await asyncio.wait([task])
            raise

    async def close(self) -> None:
        """Close all transports, also those that the client has closed."""
        for transport in self._seen:
            await transport.close()

    def _look(self) -> None:
        transport = self._holder()
        for name in _INNER:
            transport = getattr(transport, name, None)
        if transport is not None and transport not in self._seen:
            self._seen.append(transport)
