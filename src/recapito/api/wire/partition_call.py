"""The calls of one partition of a cluster to another, and of routers to partitions, as they are sent.

The law: only nodes of the cluster reach these paths. A node signs, where it signs the address of a client otherwise,
the name of the caller, which no client's address can be; for all others the paths do not exist.
"""

from enum import StrEnum

import msgspec

from recapito.contracts.ledger import Notice

NOTICES = "/cluster/notices"
SOURCES = "/cluster/sources"
ROUTER = "router"
_PARTITION = "partition-"


class SourceStep(StrEnum):
    """The verbs of `Sources`."""

    FIND = "find"
    RESERVE = "reserve"
    RELEASE = "release"


class SourceCall(msgspec.Struct, frozen=True):
    """A call about a source. `name`: the system topic that is to be created."""

    step: SourceStep
    source: str
    name: str = ""


class SourceAnswer(msgspec.Struct, frozen=True):
    """The name of a system topic that the source has, or is kept for; None if there is none."""

    name: str | None = None


encode_call = msgspec.msgpack.Encoder().encode
decode_notices = msgspec.msgpack.Decoder(list[Notice]).decode
decode_source_call = msgspec.msgpack.Decoder(SourceCall).decode
decode_source_answer = msgspec.json.Decoder(SourceAnswer).decode


def name_caller(partition: int) -> str:
    """The signed name of a partition that calls."""
    return f"{_PARTITION}{partition}"


def read_caller(name: str) -> int | None:
    """The partition that calls; None if it is no partition."""
    return int(name.removeprefix(_PARTITION)) if name.startswith(_PARTITION) else None
