"""The calls of a partition's intake to the other partitions, by the way that requests are forwarded."""

import asyncio
from collections.abc import Mapping, Sequence
from http import HTTPStatus

import msgspec
from starlette.types import Scope

from recapito.api.errors import OutcomeUnknown
from recapito.api.router.forward import RETRY_S, Forwarder, GatheredAnswer, NoOwner
from recapito.api.wire.partition_call import (
    NOTICES,
    SOURCES,
    SourceCall,
    SourceStep,
    decode_source_answer,
    encode_call,
    name_caller,
)
from recapito.contracts.ledger import Notice
from recapito.domain import limits
from recapito.domain.instant import SECOND
from recapito.errors import Busy


class _FaultDetail(msgspec.Struct):
    message: str


class _PartitionFault(msgspec.Struct):
    error: _FaultDetail


_decode_fault = msgspec.json.Decoder(_PartitionFault).decode


def call_scope(caller: str, path: str) -> Scope:
    """The request of a node itself; the forwarder signs the caller in the place of a client's address."""
    return {
        "type": "http",
        "method": "POST",
        "scheme": "http",
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"",
        "headers": [],
        "client": (caller, 0),
    }


def find_call(source: str) -> bytes:
    """The body of a question for the system topic of a source."""
    return encode_call(SourceCall(SourceStep.FIND, source))


def found_name(answer: GatheredAnswer) -> str | None:
    """The name in the answer to a call about a source."""
    return decode_source_answer(answer.body).name


class PartitionCalls:
    """Calls the other partitions. `forwarders` has one for each of them."""

    def __init__(self, number: int, forwarders: Mapping[int, Forwarder]) -> None:
        self._caller = name_caller(number)
        self._forwarders = forwarders

    def __repr__(self) -> str:
        return f"<PartitionCalls of {self._caller}>"

    async def close(self) -> None:
        for forwarder in self._forwarders.values():
            await forwarder.close()

    @property
    def others(self) -> Sequence[int]:
        return list(self._forwarders)

    async def cross(self, partition: int, notices: Sequence[Notice]) -> str | None:
        """Have a partition take notices; the reason why it did not, or may not have."""
        answer = await self._call(partition, NOTICES, encode_call(list(notices)))
        return answer if isinstance(answer, str) else None

    async def find_topic(self, partition: int, source: str) -> str | None:
        return await self._ask_about(partition, SourceCall(SourceStep.FIND, source))

    async def reserve(self, partition: int, source: str, name: str) -> str | None:
        return await self._ask_about(partition, SourceCall(SourceStep.RESERVE, source, name))

    async def release(self, partition: int, source: str, name: str) -> None:
        await self._ask_about(partition, SourceCall(SourceStep.RELEASE, source, name))

    async def _ask_about(self, partition: int, call: SourceCall) -> str | None:
        answer = await self._call(partition, SOURCES, encode_call(call))
        if isinstance(answer, str):
            unknown = "Whether the source has a system topic already is unknown"
            raise Busy(
                f"{unknown}: partition {partition} of the cluster cannot tell, for {answer}. Try again.", RETRY_S
            )
        return found_name(answer)

    async def _call(self, partition: int, path: str, body: bytes) -> GatheredAnswer | str:
        """The answer, if it is a success; otherwise the reason why there is none."""
        try:
            async with asyncio.timeout(limits.FORWARD_PUBLISH_NS / SECOND):
                answer = await self._forwarders[partition].ask(call_scope(self._caller, path), body)
        except NoOwner:
            return "it has no owner that can be reached"
        except (OutcomeUnknown, TimeoutError):
            return "it does not answer"
        return answer if answer.status == HTTPStatus.OK else f"it answers with {answer.status}: {_message(answer)}"


def _message(answer: GatheredAnswer) -> str:
    """The message of a partition's error."""
    try:
        return _decode_fault(answer.body).error.message
    except msgspec.MsgspecError:
        return "no reason"
