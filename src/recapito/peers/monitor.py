"""NATS servers about themselves, at their monitors: the state of each copy of a stream, and its lag."""

import urllib.request
from collections.abc import Mapping
from ssl import SSLContext
from typing import NamedTuple, TypeVar
from urllib.parse import urlsplit

import msgspec

from recapito.domain.cluster.replicas import CopyState

T = TypeVar("T")
WAIT_S = 3.0
MAX_BYTES = 16 << 20


class _JszState(msgspec.Struct):
    messages: int = 0
    first_seq: int = 0
    last_seq: int = 0


class _JszReplica(msgspec.Struct):
    name: str
    current: bool = False
    lag: int = 0


class _JszCluster(msgspec.Struct):
    leader: str = ""
    replicas: list[_JszReplica] = []


class _JszStream(msgspec.Struct):
    name: str
    state: _JszState
    cluster: _JszCluster | None = None


class _JszAccount(msgspec.Struct):
    stream_detail: list[_JszStream] = []


class _JszConfig(msgspec.Struct):
    sync_always: bool = False


class _JszAnswer(msgspec.Struct):
    account_details: list[_JszAccount] = []
    config: _JszConfig = msgspec.field(default_factory=_JszConfig)


class _VarzAnswer(msgspec.Struct):
    server_name: str = ""


class Monitored(NamedTuple):
    """One server: its copies by the stream's name, the lag of replicas that it leads, and whether it syncs.

    keepers: the names of all servers that it knows to have such copies.
    """

    name: str
    copies: Mapping[str, CopyState]
    lag: Mapping[str, int]
    syncs: bool
    keepers: frozenset[str]


def ask_monitor(url: str, prefix: str, tls: SSLContext | None = None) -> Monitored:
    """Ask one monitor about the streams whose names begin with a prefix. OSError or ValueError if it has no answer.

    It blocks.
    """
    if urlsplit(url).scheme not in ("http", "https"):
        raise ValueError(f"'{url}' is not the URL of a monitor")
    told = _ask(f"{url.rstrip('/')}/jsz?accounts=1&streams=1&config=1", _JszAnswer, tls)
    name = _ask(f"{url.rstrip('/')}/varz", _VarzAnswer, tls).server_name or url
    ours = [
        stream for account in told.account_details for stream in account.stream_detail if stream.name.startswith(prefix)
    ]
    lag: dict[str, int] = {}
    for stream in ours:
        for replica in stream.cluster.replicas if stream.cluster else ():
            lag[replica.name] = max(lag.get(replica.name, 0), replica.lag)
    copies = {
        stream.name: CopyState(stream.state.messages, stream.state.first_seq, stream.state.last_seq) for stream in ours
    }
    keepers = {replica.name for stream in ours if stream.cluster for replica in stream.cluster.replicas}
    return Monitored(name, copies, lag, told.config.sync_always, frozenset(keepers | ({name} if ours else set())))


def _ask(url: str, kind: type[T], tls: SSLContext | None) -> T:
    with urllib.request.urlopen(url, timeout=WAIT_S, context=tls) as answer:
        return msgspec.json.decode(answer.read(MAX_BYTES), type=kind)
