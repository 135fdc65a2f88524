"""The connection to NATS: an event loop in a thread of its own, so that a store's thread can wait for an answer."""

import asyncio
import concurrent.futures
import contextlib
import ssl
import threading
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.errors import Error as NatsError
from nats.errors import NoRespondersError

from recapito.contracts.stream import StreamUnknown
from recapito.errors import SettingsError
from recapito.observability.journal import Journal, silent

T = TypeVar("T")
ANSWER_S = 3.0
CONNECT_S = 10.0
GRACE_S = 1.0  # for the loop to report an answer that did not come
PENDING_BYTES = 64 * 1024 * 1024  # what may wait to be sent; at least one message of the largest size


class JetStreamOptions(NamedTuple):
    """How a cluster of NATS servers is reached.

    servers: URLs, nats:// or tls://.
    name: the cluster's name, which begins the names of its streams, subjects and buckets.
    user, password: or `creds` or `nkey`, the paths of their files.
    ca, certificate, key: files for TLS.
    monitors: the URLs of the servers' monitors, which alone show whether the servers sync each message.
    unchecked: rely on servers whose monitors are not named.
    """

    servers: tuple[str, ...]
    name: str = "recapito"
    user: str = ""
    password: str = ""
    creds: Path | None = None
    nkey: Path | None = None
    ca: Path | None = None
    certificate: Path | None = None
    key: Path | None = None
    monitors: tuple[str, ...] = ()
    unchecked: bool = False


async def open_client(options: JetStreamOptions, journal: Journal = silent) -> Client:
    """A client of the cluster on this event loop. It notices a paused server within seconds, and reconnects forever."""
    client, why = Client(), ""

    async def on_error(error: Exception) -> None:
        nonlocal why
        why = str(error) or type(error).__name__
        journal("nats.error", why=why)

    async def on_reconnect() -> None:
        journal("nats.reconnected", server=server_of(client))

    servers = list(options.servers)
    given: dict[str, Any] = {}
    if options.user:
        given |= {"user": options.user, "password": options.password}
    if options.creds is not None:
        given["user_credentials"] = str(options.creds)
    if options.nkey is not None:
        given["nkeys_seed"] = str(options.nkey)
    try:
        tls = _tls(options)
        if tls is not None:
            given["tls"] = tls
        connecting = client.connect(
            servers=servers,
            name=options.name,
            error_cb=on_error,
            reconnected_cb=on_reconnect,
            connect_timeout=1,
            reconnect_time_wait=0.1,  # type: ignore[arg-type] # seconds; with 0 a client of dead servers spins
            max_reconnect_attempts=-1,
            ping_interval=1,
            max_outstanding_pings=2,
            pending_size=PENDING_BYTES,
            **given,
        )
        await asyncio.wait_for(connecting, CONNECT_S)
    except (TimeoutError, NatsError, OSError, ValueError) as error:
        with contextlib.suppress(Exception):
            await client.close()
        names = ", ".join(server.rpartition("@")[2] for server in servers)
        reason = why or str(error) or "no answer"
        raise SettingsError(f"NATS at {names} cannot be reached: {reason}. Start it, or correct [cluster].") from error
    return client


def server_of(client: Client) -> str:
    """The address of the server that a client is connected to, without a secret."""
    url = client.connected_url
    return "" if url is None else url.netloc.rpartition("@")[2]


class Link:
    """A client in a thread of its own. Its verbs block the calling thread."""

    def __init__(self, options: JetStreamOptions, journal: Journal = silent) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="nats", daemon=True)
        self._thread.start()
        try:
            self._client = self._wait(open_client(options, journal), CONNECT_S)
        except BaseException:
            self._stop()
            raise

    @property
    def server(self) -> str:
        return server_of(self._client)

    @property
    def version(self) -> str:
        """The version of the server that is connected now."""
        return str(self._client._server_info.get("version", ""))

    @property
    def max_payload(self) -> int:
        return self._client.max_payload

    def request(self, subject: str, body: bytes, headers: dict[str, str] | None = None) -> bytes:
        """Send a request and wait for its one answer. StreamUnknown if there is none."""
        return self._wait(self._request(subject, body, headers), ANSWER_S)

    def request_many(self, subject: str, body: bytes) -> list[Msg]:
        """Send a request and wait for answers, until one has a status; those that came in time, that one included."""
        return self._wait(self._request_many(subject, body), ANSWER_S)

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


def _tls(options: JetStreamOptions) -> ssl.SSLContext | None:
    if options.ca is None and options.certificate is None:
        return None
    context = ssl.create_default_context(cafile=options.ca)
    if options.certificate is not None:
        context.load_cert_chain(options.certificate, options.key)
    return context
