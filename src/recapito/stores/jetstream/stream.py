"""One stream on JetStream, by its API of requests and answers."""

import base64
from datetime import datetime
from typing import Any

import msgspec
from nats.aio.msg import Msg

from recapito.contracts.stream import (
    Replica,
    StreamFenced,
    StreamFull,
    StreamMessage,
    StreamMissing,
    StreamState,
    StreamUnknown,
)
from recapito.stores.jetstream.link import Link

LOG_ID, PARTITIONS = "recapito.log_id", "recapito.partitions"  # of a stream's metadata
HEADERS_BYTES = 1024  # of a message, kept free of its body
BATCH = 1000  # messages of one read
LEADER_BATCH = 16

STREAM_NOT_FOUND = 10059
NO_MESSAGE = 10037
WRONG_LAST_SEQUENCE = (10071, 10164)
FULL = (10077, 10047, 10023)  # maximum bytes; storage; resources


class _Error(msgspec.Struct):
    code: int = 0
    err_code: int = 0
    description: str = ""


class _Acknowledgement(msgspec.Struct):
    seq: int = 0
    error: _Error | None = None


class _StoredMessage(msgspec.Struct):
    seq: int
    time: str
    data: str = ""


class _Got(msgspec.Struct):
    message: _StoredMessage | None = None
    error: _Error | None = None


_acknowledgement = msgspec.json.Decoder(_Acknowledgement).decode
_got = msgspec.json.Decoder(_Got).decode


class JetStreamStream:
    """A stream with one subject."""

    def __init__(self, link: Link, name: str, subject: str) -> None:
        self._link = link
        self._name = name
        self.subject = subject

    def __repr__(self) -> str:
        return f"<JetStreamStream {self._name}>"

    @property
    def name(self) -> str:
        return self._name

    @property
    def max_body(self) -> int:
        return self._link.max_payload - HEADERS_BYTES

    def publish(self, body: bytes, expected: int) -> int:
        headers = {"Nats-Expected-Last-Sequence": str(expected), "Nats-Expected-Stream": self._name}
        answer = _acknowledgement(self._link.request(self.subject, body, headers))
        if answer.error is None:
            return answer.seq
        if answer.error.err_code in WRONG_LAST_SEQUENCE:
            raise StreamFenced(answer.error.description)
        if answer.error.err_code in FULL:
            raise StreamFull(answer.error.description)
        raise StreamUnknown(answer.error.description)

    def read(self, after: int, limit_bytes: int, leader: bool = False) -> list[StreamMessage]:
        return self._read_from_leader(after, limit_bytes) if leader else self._read_from_any(after, limit_bytes)

    def state(self) -> StreamState:
        info = self.info()
        state, cluster = info["state"], info.get("cluster") or {}
        metadata = info["config"].get("metadata") or {}
        return StreamState(
            state["first_seq"],
            state["last_seq"],
            state["bytes"],
            max(info["config"]["max_bytes"], 0),
            _nanoseconds(info["created"]),
            metadata.get(LOG_ID, ""),
            cluster.get("leader", ""),
            tuple(
                Replica(replica["name"], replica.get("current", False), replica.get("lag", 0))
                for replica in cluster.get("replicas") or ()
            ),
            int(metadata.get(PARTITIONS, "1")),
        )

    def info(self) -> dict[str, Any]:
        """The answer of the stream's leader about its configuration and state."""
        return self._ask("STREAM.INFO", {})

    def purge(self, below: int) -> None:
        self._ask("STREAM.PURGE", {"seq": below})

    def _read_from_any(self, after: int, limit_bytes: int) -> list[StreamMessage]:
        """Read by a direct get, which any replica may answer."""
        wanted = {"seq": after + 1, "batch": BATCH, "max_bytes": limit_bytes, "next_by_subj": self.subject}
        answers = self._link.request_many(f"$JS.API.DIRECT.GET.{self._name}", msgspec.json.encode(wanted))
        return [_direct(answer) for answer in answers if "Nats-Sequence" in (answer.headers or {})]

    def _read_from_leader(self, after: int, limit_bytes: int) -> list[StreamMessage]:
        found: list[StreamMessage] = []
        while len(found) < LEADER_BATCH and limit_bytes > 0:
            wanted = {"seq": after + 1, "next_by_subj": self.subject}
            got = _got(self._link.request(f"$JS.API.STREAM.MSG.GET.{self._name}", msgspec.json.encode(wanted)))
            if got.message is None:
                if got.error is None or got.error.err_code != NO_MESSAGE:
                    raise StreamUnknown(got.error.description if got.error else "no answer")
                break
            body = base64.b64decode(got.message.data)
            found.append(StreamMessage(got.message.seq, body, _nanoseconds(got.message.time)))
            after = got.message.seq
            limit_bytes -= len(body)
        return found

    def _ask(self, verb: str, wanted: dict[str, Any]) -> dict[str, Any]:
        answer = msgspec.json.decode(self._link.request(f"$JS.API.{verb}.{self._name}", msgspec.json.encode(wanted)))
        error = answer.get("error")
        if error is not None:
            if error.get("err_code") == STREAM_NOT_FOUND:
                raise StreamMissing(
                    f"there is no stream {self._name} on {self._link.server}: `recapito cluster init` makes it"
                )
            raise StreamUnknown(error.get("description", "an error"))
        return dict(answer)


def _direct(answer: Msg) -> StreamMessage:
    headers = answer.headers or {}
    return StreamMessage(int(headers["Nats-Sequence"]), answer.data, _nanoseconds(headers["Nats-Time-Stamp"]))


def _nanoseconds(text: str) -> int:
    """An instant of RFC 3339 with up to nine digits after the second."""
    whole, _, rest = text.rstrip("Z").partition(".")
    seconds = int(datetime.fromisoformat(f"{whole}+00:00").timestamp())
    return seconds * 1_000_000_000 + int(rest.ljust(9, "0") or 0)
