"""The connection to NATS: an event loop in a thread of its own, so that a store's thread can wait for an answer."""

import asyncio
import concurrent.futures
import contextlib
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

from nats.aio.msg import Msg
from nats.errors import Error as NatsError
from nats.errors import NoRespondersError

from recapito.contracts.stream import StreamUnknown
from recapito.observability.journal import Journal, silent
from recapito.stores.jetstream.client import CONNECT_S, JetStreamOptions, open_client

T = TypeVar("T")
ANSWER_S = 3.0
GRACE_S = 1.0  # for the loop to report an answer that did not come


def start_loop(name: str) -> tuple[asyncio.AbstractEventLoop, threading.Thread]:
    """An event loop that runs in a thread of this name. On a busy machine a thread has started long before its loop."""
    loop, runs = asyncio.new_event_loop(), threading.Event()
    loop.call_soon(runs.set)
    thread = threading.Thread(target=loop.run_forever, name=name, daemon=True)
    thread.start()
    runs.wait()
    return loop, thread


class Link:
    """A client in a thread of its own. Its verbs block the calling thread."""

    def __init__(self, options: JetStreamOptions, journal: Journal = silent) -> None:
        self._loop, self._thread = start_loop("nats")
        try:
            self._client = self._wait(open_client(options, journal), CONNECT_S)
        except BaseException:
            self._stop()
            raise

    @property
    def server(self) -> str:
        return self._client.server

    @property
    def why(self) -> str:
        """The trouble with each server while there is no connection."""
        return self._client.why

    @property
    def version(self) -> str:
        """The version of the server that is connected now."""
        return str(self._client._server_info.get("version", ""))

    @property
    def max_payload(self) -> int:
        return self._client.max_payload

    def request(self, subject: str, body: bytes, headers: dict[str, str] | None = None) -> bytes:
        """Send a request and wait for its one answer. StreamUnknown if there is none."""
        return self._ask(self._request(subject, body, headers))

    def request_many(self, subject: str, body: bytes) -> list[Msg]:
        """Send a request and wait for answers, until one has a status; those that came in time, that one included."""
        return self._ask(self._request_many(subject, body))

    def close(self) -> None:
        """Close the connection; verbs under way raise StreamUnknown. A second call does nothing."""
        if self._loop.is_closed():
            return
        with contextlib.suppress(StreamUnknown, NatsError):
            self._wait(self._client.close(), ANSWER_S)
        self._stop()

    async def _request(self, subject: str, body: bytes, headers: dict[str, str] | None) -> bytes:
        if not self._client.is_connected:
            raise StreamUnknown("not connected to NATS")
        answer = await self._client.request(subject, body, timeout=ANSWER_S, headers=headers)
        return answer.data

    async def _request_many(self, subject: str, body: bytes) -> list[Msg]:
        if not self._client.is_connected:
            raise StreamUnknown("not connected to NATS")
        inbox = self._client.new_inbox()
        subscription = await self._client.subscribe(inbox, pending_bytes_limit=-1)
        answers: list[Msg] = []
        try:
            await self._client.publish(subject, body, reply=inbox)
            while not answers or "Status" not in (answers[-1].headers or {}):
                answers.append(await subscription.next_msg(timeout=ANSWER_S))
        except NatsError:
            if not answers:
                raise
        finally:
            with contextlib.suppress(NatsError):
                await subscription.unsubscribe()
        return answers

    def _ask(self, work: Coroutine[Any, Any, T]) -> T:
        """Wait for an answer of the servers. If they refuse this client something, that is why there is none."""
        try:
            return self._wait(work, ANSWER_S)
        except StreamUnknown as error:
            raise StreamUnknown(self.why or str(error)) from error

    def _wait(self, work: Coroutine[Any, Any, T], seconds: float) -> T:
        if not self._loop.is_running():
            work.close()
            raise StreamUnknown("the connection is closed")
        running = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return running.result(seconds + GRACE_S)
        except NoRespondersError as error:
            raise StreamUnknown("no server answers for the stream") from error
        except (TimeoutError, concurrent.futures.CancelledError, NatsError, OSError) as error:
            running.cancel()
            raise StreamUnknown(str(error) or "no answer") from error

    def _stop(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
