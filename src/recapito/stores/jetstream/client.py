"""The client of NATS: the way to the servers, with TLS and credentials; it reconnects forever, and knows why it must.

nats-py closes a client for good when a server refuses its credentials while it runs, sends a password in plain text to
a server that offers no TLS, and stops reconnecting if it cannot read a file. A node outlives all of that: it reads its
files at each connection, so that an operator can replace them, and reports the reason with the name of the server.
"""

import asyncio
import base64
import contextlib
import logging
import ssl
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import nkeys
from nats.aio.client import Client, Srv
from nats.errors import Error as NatsError
from nats.errors import SecureConnWantedError
from nats.protocol.parser import PERMISSIONS_ERR, STALE_CONNECTION

from recapito.errors import SettingsError
from recapito.observability.journal import Journal, silent

CONNECT_S = 10.0
MONITOR_PORT = 8222
REFUSED_PAUSE_S = 1.0  # after a refusal that the next try will meet again
PENDING_BYTES = 64 * 1024 * 1024  # what may wait to be sent; at least one message of the largest size
_JWT, _SEED = "-----BEGIN NATS USER JWT-----", "-----BEGIN USER NKEY SEED-----"


class JetStreamOptions(NamedTuple):
    """How a cluster of NATS servers is reached.

    servers: URLs, nats:// or tls://.
    name: the cluster's name, which begins the names of its streams, subjects and buckets.
    user, password: or `creds` or `nkey`, the paths of their files; `password_file` comes before `password`.
    ca, certificate, key: files for TLS.
    monitors: the URLs of the servers' monitors, which alone show whether the servers sync each message.
    unchecked: rely on servers whose monitors are not named.
    """

    servers: tuple[str, ...]
    name: str = "recapito"
    user: str = ""
    password: str = ""
    password_file: Path | None = None
    creds: Path | None = None
    nkey: Path | None = None
    ca: Path | None = None
    certificate: Path | None = None
    key: Path | None = None
    monitors: tuple[str, ...] = ()
    unchecked: bool = False

    @property
    def monitored(self) -> tuple[str, ...]:
        """The monitors to ask: those with a name, otherwise NATS's usual port of each server."""
        if self.monitors or self.unchecked:
            return self.monitors
        return tuple(dict.fromkeys(f"http://{_host(server)}:{MONITOR_PORT}" for server in self.servers))

    @property
    def secure(self) -> bool:
        """Whether a server without TLS is refused."""
        return any(server.startswith("tls:") for server in self.servers) or bool(self.ca or self.certificate)

    def tls(self) -> ssl.SSLContext | None:
        """The context of connections to servers and monitors; None without TLS. SettingsError: a file is no use."""
        if not self.secure:
            return None
        file = self.ca
        try:
            context = ssl.create_default_context(cafile=file)
            if self.certificate is not None:
                file = self.certificate
                context.load_cert_chain(file, self.key)
        except OSError as error:
            raise SettingsError(f"cluster: {file} cannot be used for TLS: {error}") from None
        return context


class ServersRefuse(Exception):
    """Every server refuses this client for a reason that lasts."""


class NatsClient(Client):
    """A client on the running event loop. `why` says, by server, why it is not connected."""

    def __init__(self, options: JetStreamOptions, journal: Journal = silent) -> None:
        super().__init__()
        self._given = options
        self._journal = journal
        self._dialled = ""
        self._reasons: dict[str, str] = {}
        self._refused: set[str] = set()
        self._was_connected = False

    @property
    def server(self) -> str:
        """The address of the connected server, without a secret."""
        url = self.connected_url
        return "" if url is None else url.netloc.rpartition("@")[2]

    @property
    def why(self) -> str:
        """The last trouble with each server since the client was connected."""
        servers: dict[str, list[str]] = {}
        for server, reason in self._reasons.items():
            servers.setdefault(reason, []).append(server)
        return "; ".join(f"{', '.join(sorted(named))}: {reason}" for reason, named in servers.items())

    async def open(self) -> None:
        """Connect. ServersRefuse, or as nats-py does."""
        given = self._given
        known: dict[str, Any] = {}
        if given.user:
            known = {"user": given.user, "password": self._password}
        elif given.creds is not None:
            creds = given.creds
            known = {"user_jwt_cb": lambda: _section(creds, _JWT), "signature_cb": self._signer(creds, _SEED)}
        elif given.nkey is not None:
            known = {"signature_cb": self._signer(given.nkey)}
        await self.connect(
            servers=list(given.servers),
            name=given.name,
            error_cb=self._on_error,
            reconnected_cb=self._on_reconnect,
            connect_timeout=1,
            reconnect_time_wait=0.1,  # type: ignore[arg-type] # seconds; with 0 a client of dead servers spins
            max_reconnect_attempts=-1,
            ping_interval=1,
            max_outstanding_pings=2,
            pending_size=PENDING_BYTES,
            tls=given.tls(),
            **known,
        )
        self._was_connected = True
        self._reasons.clear()
        self._refused.clear()

    def _password(self) -> str:
        file = self._given.password_file
        return self._given.password if file is None else _read(file).strip()

    def _signer(self, path: Path, mark: str = "") -> Callable[[str], bytes]:
        """Signs the server's nonce by the seed in a file. The public key goes with it, unless a JWT does."""

        def sign(nonce: str) -> bytes:
            pair = read_seed(path, mark)
            self._public_nkey = pair.public_key.decode()
            return base64.b64encode(pair.sign(nonce.encode()))

        return sign

    async def _connect_to_server(self, s: Srv) -> None:
        self._dialled = s.uri.netloc.rpartition("@")[2]
        await super()._connect_to_server(s)

    async def _process_info(self, info: dict[str, Any], initial_connection: bool = False) -> None:
        if initial_connection and self._given.secure and not info.get("tls_required"):
            raise SecureConnWantedError
        await super()._process_info(info, initial_connection)

    async def _process_err(self, err_msg: str) -> None:
        """Reconnect after an error that nats-py would close the client for."""
        if STALE_CONNECTION in err_msg or PERMISSIONS_ERR in err_msg:
            await super()._process_err(err_msg)
            return
        error = NatsError(f"nats: {err_msg}")
        await self._on_error(error)
        await self._process_op_err(error)

    async def _on_error(self, error: Exception) -> None:
        reason, lasts = explain(error)
        if not lasts and self._dialled in self._refused:
            return  # a server that refuses us may also break the connection off before its words arrive
        if self._reasons.get(self._dialled) != reason:
            self._reasons[self._dialled] = reason
            self._journal("nats.error", server=self._dialled, why=reason)
        if not lasts:
            return
        if isinstance(error, ssl.SSLError) and self._transport is not None:
            self._transport.close()  # type: ignore[no-untyped-call]
            self._transport = None  # nats-py would wait for its end, which does not come
        self._refused.add(self._dialled)
        if not self._was_connected and len(self._refused) >= len(self._given.servers):
            raise ServersRefuse
        await asyncio.sleep(REFUSED_PAUSE_S)

    async def _on_reconnect(self) -> None:
        self._reasons.clear()
        self._refused.clear()
        self._journal("nats.reconnected", server=self.server)


def explain(error: Exception) -> tuple[str, bool]:
    """The trouble with a server in words, with the remedy, and whether the next try will meet it again."""
    text = str(error).removeprefix("nats: ").strip("'\"") or type(error).__name__
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not trusted ({error.verify_message}): renew it, or correct cluster.ca_file", True
    if isinstance(error, SecureConnWantedError):
        return "it offers no TLS: set `tls` in its configuration, or take TLS out of the settings", True
    if "certificate required" in text.lower() or "bad certificate" in text.lower():
        return "it refuses the certificate of this node: correct cluster.cert_file and cluster.key_file", True
    if "authorization" in text.lower() or "authentication" in text.lower():
        remedy = "correct the user, nkey or credentials under [cluster], or in the server's configuration"
        return f"it refuses the credentials ({text}): {remedy}", True
    if PERMISSIONS_ERR in text.lower():
        return f"it forbids this user something ({text}): allow the cluster's subjects, $JS.API.> and _INBOX.>", False
    return text, False


async def open_client(options: JetStreamOptions, journal: Journal = silent) -> NatsClient:
    """A client of the cluster on this event loop. It notices a paused server within seconds, and reconnects forever."""
    check_files(options)
    logging.getLogger("asyncio").addFilter(_is_news)
    client = NatsClient(options, journal)
    try:
        await asyncio.wait_for(client.open(), CONNECT_S)
    except (ServersRefuse, TimeoutError, NatsError, OSError, ValueError) as error:
        with contextlib.suppress(Exception):
            await client.close()
        names = ", ".join(server.rpartition("/")[2].rpartition("@")[2] for server in options.servers)
        reason = client.why or str(error) or "no answer"
        raise SettingsError(f"NATS at {names} cannot be reached: {reason}. Start it, or correct [cluster].") from error
    return client


def _is_news(record: logging.LogRecord) -> bool:
    """Whether a warning of asyncio is worth a line: the one that nats-py causes with each TLS connection is not."""
    return "eof_received()" not in record.getMessage()


def check_files(options: JetStreamOptions) -> None:
    """Refuse files of [cluster] that hold no credentials, by their names."""
    try:
        if options.creds is not None:
            _section(options.creds, _JWT)
            read_seed(options.creds, _SEED)
        if options.nkey is not None:
            read_seed(options.nkey)
    except (OSError, NatsError) as error:
        key = "creds_file" if options.creds is not None else "nkey_file"
        raise SettingsError(f"cluster.{key}: {error}") from None


def read_seed(path: Path, mark: str = "") -> nkeys.KeyPair:
    """The nkey whose seed is in a file, or in its section under a mark."""
    try:
        return nkeys.from_seed(bytearray(_section(path, mark) if mark else _read(path).strip().encode()))
    except (nkeys.NkeysError, ValueError):
        raise NatsError(f"{path} holds no seed of an nkey") from None


def _host(server: str) -> str:
    """The host of a server's URL, as a URL has it."""
    host = urlsplit(server).hostname or ""
    return f"[{host}]" if ":" in host else host


def _section(path: Path, mark: str) -> bytes:
    lines: Sequence[str] = _read(path).splitlines()
    if mark not in lines[:-1]:
        raise NatsError(f"{path} holds no credentials of a NATS user: it lacks the line {mark}")
    return lines[lines.index(mark) + 1].strip().encode()


def _read(path: Path) -> str:
    try:
        return path.read_text("utf-8")
    except UnicodeDecodeError:
        raise NatsError(f"{path} is not a text") from None
