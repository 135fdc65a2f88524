"""The calls of other partitions and of routers, answered (`api/wire/partition_call.py`)."""

from collections.abc import Callable
from typing import NamedTuple, TypeVar

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from recapito.api.arm.catalog import unknown_path
from recapito.api.arm.routing import answer
from recapito.api.auth.management import peer_of
from recapito.api.body import BodyReader
from recapito.api.wire.partition_call import (
    NOTICES,
    ROUTER,
    SOURCES,
    SourceAnswer,
    SourceStep,
    decode_notices,
    decode_source_call,
    read_caller,
)
from recapito.domain import limits
from recapito.errors import InvalidInput
from recapito.intake.maintenance.notice_taker import NoticeTaker
from recapito.intake.resources.sources import Sources

_Call = TypeVar("_Call")


class PartitionServices(NamedTuple):
    """The parts of a partition that others call."""

    taker: NoticeTaker
    sources: Sources


class PartitionCallRoutes:
    def __init__(self, services: PartitionServices, bodies: BodyReader) -> None:
        self._services = services
        self._bodies = bodies

    def routes(self) -> list[Route]:
        return [
            Route(NOTICES, self._take, methods=["POST"]),
            Route(SOURCES, self._find, methods=["POST"]),
        ]

    async def _take(self, request: Request) -> Response:
        partition = read_caller(peer_of(request.scope) or "")
        if partition is None:
            raise unknown_path(request.url.path)
        await self._services.taker.take(partition, await self._read(request, decode_notices))
        return answer({})

    async def _find(self, request: Request) -> Response:
        caller = peer_of(request.scope) or ""
        if caller != ROUTER and read_caller(caller) is None:
            raise unknown_path(request.url.path)
        call, sources = await self._read(request, decode_source_call), self._services.sources
        found: str | None = None
        match call.step:
            case SourceStep.FIND:
                found = await sources.find(call.source)
            case SourceStep.RESERVE:
                found = sources.reserve(call.source, call.name)
            case SourceStep.RELEASE:
                sources.release(call.source, call.name)
        return answer(msgspec.to_builtins(SourceAnswer(found)))

    async def _read(self, request: Request, decode: Callable[[bytes], _Call]) -> _Call:
        body = await self._bodies.read(dict(request.scope["headers"]), request.receive, limits.PUBLISH_BYTES)
        try:
            return decode(body)
        except msgspec.MsgspecError as error:
            raise InvalidInput("InvalidRequest", str(error)) from error
