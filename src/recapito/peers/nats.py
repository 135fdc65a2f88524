"""Peers on a JetStream stream of their own: one subject for each member, lease, wish and paper.

A message with a time to live is forgotten by the servers. Everything is read from the stream's leader, one request for
each message: a cluster has few nodes, and each reads once a second.
"""

import asyncio
import base64
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import datetime
from typing import Any, NamedTuple

import msgspec
import nats.errors
from nats.aio.client import Client
from nats.aio.msg import Msg

from recapito.domain.cluster.lease import LIFE_NS, Lease, LeaseSeen
from recapito.domain.cluster.member import ClusterMember, Sighting
from recapito.domain.instant import SECOND
from recapito.errors import PeersFailed

WISH_S = 30
WAIT_S = 2.0
MAX_BYTES = 16 << 20
_NO_MESSAGE = 10037
_WRONG_SEQUENCE = (10071, 10164)
_LIFE = f"{LIFE_NS // SECOND}s"


class _PeerMessage(NamedTuple):
    subject: str
    sequence: int
    content: bytes
    at: int


def _lease_key(partition: int) -> str:
    """The first partition's lease has the name that it had when there was one partition."""
    return f"lease.{partition}" if partition else "lease"


class NatsPeers:
    """The peers as one node reaches them.

    stream: the name of the stream, and the first word of its subjects.
    why: the trouble that the client has with the servers.
    """

    def __init__(self, client: Client, stream: str, why: Callable[[], str] = lambda: "") -> None:
        self._client = client
        self._stream = stream
        self._why = why
        self._news = f"{stream}_NEWS"  # a subject of no stream: its messages wake nodes, and are not kept
        self._heard: asyncio.Event | None = None

    def __repr__(self) -> str:
        return f"<NatsPeers on {self._stream}>"

    async def create(self, replicas: int) -> None:
        """Create the stream of the peers; an existing one stays."""
        config = {
            "name": self._stream,
            "subjects": [f"{self._stream}.>"],
            "storage": "file",
            "retention": "limits",
            "discard": "new",
            "num_replicas": replicas,
            "max_bytes": MAX_BYTES,
            "max_msgs": -1,
            "max_msgs_per_subject": 1,
            "max_consumers": -1,
            "allow_msg_ttl": True,
            "allow_direct": False,
        }
        await self._ask(f"$JS.API.STREAM.CREATE.{self._stream}", config)

    async def announce(self, member: ClusterMember, news: bool = False) -> None:
        await self._put(f"member.{member.name}", msgspec.json.encode(member), {"Nats-TTL": _LIFE})
        if news:
            await self._tell()

    async def withdraw(self, name: str) -> None:
        await self._ask(f"$JS.API.STREAM.PURGE.{self._stream}", {"filter": f"{self._stream}.member.{name}"})

    async def members(self) -> Sequence[Sighting]:
        found, after = [], 1
        while (stored := await self._get({"seq": after, "next_by_subj": f"{self._stream}.member.>"})) is not None:
            with suppress(msgspec.MsgspecError):  # of another version
                found.append(Sighting(msgspec.json.decode(stored.content, type=ClusterMember), stored.at))
            after = stored.sequence + 1
        return sorted(found, key=lambda seen: seen.member.name)

    async def lease(self, partition: int = 0) -> LeaseSeen:
        stored = await self._last(_lease_key(partition))
        if stored is None:
            return LeaseSeen(None)
        return LeaseSeen(msgspec.json.decode(stored.content, type=Lease), stored.sequence)

    async def put_lease(self, lease: Lease, revision: int, partition: int = 0) -> int | None:
        put = await self._put(_lease_key(partition), msgspec.json.encode(lease), {"Nats-TTL": _LIFE}, revision)
        if lease.free:
            await self._tell()
        return put

    async def ask_to_drain(self, id: str, drained: bool) -> None:
        await self._put(f"wish.{id}", msgspec.json.encode(drained), {"Nats-TTL": f"{WISH_S}s"})
        await self._tell()

    async def drain_asked(self, id: str) -> bool | None:
        stored = await self._last(f"wish.{id}")
        return None if stored is None else msgspec.json.decode(stored.content, type=bool)

    async def put_paper(self, name: str, content: bytes) -> bool:
        return await self._put(f"paper.{name}", content, {}, 0) is not None

    async def paper(self, name: str) -> bytes | None:
        stored = await self._last(f"paper.{name}")
        return None if stored is None else stored.content

    async def changed(self) -> None:
        if self._heard is None:
            heard = asyncio.Event()

            async def hear(message: Msg) -> None:
                heard.set()

            try:
                await self._client.subscribe(self._news, cb=hear)
            except (nats.errors.Error, OSError) as error:
                raise PeersFailed(f"the servers of the cluster tell no news: {error}") from error
            self._heard = heard
        await self._heard.wait()
        self._heard.clear()

    async def close(self) -> None:
        """The connection is its owner's to close."""

    async def _tell(self) -> None:
        """Wake the other nodes, after the servers have stored the news; they look by themselves a moment later."""
        with suppress(nats.errors.Error, OSError):
            await self._client.publish(self._news)

    async def _put(self, key: str, content: bytes, headers: dict[str, str], revision: int | None = None) -> int | None:
        if revision is not None:
            headers = {**headers, "Nats-Expected-Last-Subject-Sequence": str(revision)}
        answer = await self._request(f"{self._stream}.{key}", content, headers)
        error = answer.get("error")
        if error is None:
            return int(answer["seq"])
        if revision is not None and error.get("err_code") in _WRONG_SEQUENCE:
            return None
        raise PeersFailed(f"{key} cannot be stored: {error.get('description')}")

    async def _last(self, key: str) -> _PeerMessage | None:
        return await self._get({"last_by_subj": f"{self._stream}.{key}"})

    async def _get(self, wanted: dict[str, Any]) -> _PeerMessage | None:
        answer = await self._ask(f"$JS.API.STREAM.MSG.GET.{self._stream}", wanted)
        if "error" in answer:
            return None
        message = answer["message"]
        at = datetime.fromisoformat(message["time"])
        content = base64.b64decode(message.get("data", ""))
        return _PeerMessage(message["subject"], message["seq"], content, int(at.timestamp() * SECOND))

    async def _ask(self, subject: str, body: dict[str, Any]) -> dict[str, Any]:
        """One request to JetStream's API. The answer may say that there is no such message."""
        answer = await self._request(subject, msgspec.json.encode(body), {})
        error = answer.get("error")
        if error is not None and error.get("err_code") != _NO_MESSAGE:
            raise PeersFailed(f"{self._stream}: {error.get('description')}")
        return answer

    async def _request(self, subject: str, body: bytes, headers: dict[str, str]) -> dict[str, Any]:
        if not self._client.is_connected:
            raise PeersFailed(f"this node is not connected to NATS: {self._why() or 'it connects'}")
        try:
            answer = await self._client.request(subject, body, timeout=WAIT_S, headers=headers or None)
            return msgspec.json.decode(answer.data, type=dict)
        except (nats.errors.Error, OSError, TimeoutError, msgspec.MsgspecError) as error:
            reason = self._why() or str(error) or type(error).__name__
            raise PeersFailed(f"the servers of the cluster do not answer: {reason}") from error
