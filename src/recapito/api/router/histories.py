"""The histories of other nodes, asked by the way that requests are forwarded, and this node's, as it answers them."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from http import HTTPStatus
from typing import TypeVar

import msgspec
from starlette.types import Receive, Scope, Send

from recapito.api.auth.management import peer_of
from recapito.api.body import BodyReader, ClientGone
from recapito.api.errors import OutcomeUnknown
from recapito.api.router.calls import call_scope
from recapito.api.router.forward import Forwarder, GatheredAnswer, NoOwner, plain, refuse
from recapito.api.wire.history_call import (
    HISTORY,
    HistoryCall,
    HistoryVerb,
    answer_history_call,
    decode_extent,
    decode_history_call,
    encode_history_call,
    unpack_page,
    unpack_series,
)
from recapito.api.wire.partition_call import name_caller, read_caller
from recapito.contracts.history import AttemptPage, HistoryExtent, HistoryReader, SeriesPage
from recapito.domain import limits
from recapito.domain.cluster.view import ClusterView
from recapito.domain.history.attempt import AttemptQuery
from recapito.domain.history.series import Series
from recapito.domain.instant import SECOND
from recapito.errors import CallerError, StoreFailed

T = TypeVar("T")
Ask = Callable[[bytes], Awaitable[GatheredAnswer]]


class RemoteHistory:
    """The history of a partition at another node. StoreFailed: it does not answer in time."""

    def __init__(self, partition: int, ask: Ask) -> None:
        self._partition = partition
        self._ask = ask

    def __repr__(self) -> str:
        return f"<RemoteHistory of partition {self._partition}>"

    async def newest_first(self, selection: AttemptQuery, before: int | None, limit: int) -> AttemptPage:
        call = HistoryCall(self._partition, HistoryVerb.NEWEST, selection, limit=limit, before=before)
        return await self._call(call, unpack_page) or AttemptPage([], None, 0)

    async def oldest_first(self, selection: AttemptQuery, after: int, limit: int) -> AttemptPage:
        call = HistoryCall(self._partition, HistoryVerb.OLDEST, selection, limit=limit, after=after)
        return await self._call(call, unpack_page) or AttemptPage([], None, 0)

    async def series(self, selection: AttemptQuery, width: int, after: int, before: int | None) -> SeriesPage:
        call = HistoryCall(self._partition, HistoryVerb.SERIES, selection, width=width, after=after, before=before)
        return await self._call(call, partial(unpack_series, width=width)) or SeriesPage(Series(width), None, 0)

    async def extent(self) -> HistoryExtent:
        call = HistoryCall(self._partition, HistoryVerb.EXTENT)
        return await self._call(call, decode_extent) or HistoryExtent(None, 0, 0)

    async def close(self) -> None:
        """The connections belong to `NodeHistories`."""

    async def _call(self, call: HistoryCall, decode: Callable[[bytes], T]) -> T | None:
        """The answer; None if that node never owned the partition."""
        try:
            async with asyncio.timeout(limits.HISTORY_ASK_NS / SECOND):
                answer = await self._ask(encode_history_call(call))
            if answer.status == HTTPStatus.OK:
                return decode(answer.body)
        except (NoOwner, OutcomeUnknown, TimeoutError, msgspec.MsgspecError) as error:
            raise StoreFailed("a node does not answer") from error
        if answer.status != HTTPStatus.NO_CONTENT:
            raise StoreFailed(f"a node answers with {answer.status}")
        return None


class NodeHistories:
    """The histories of a partition at all other living nodes, by their names."""

    def __init__(
        self, view: Callable[[], ClusterView], forwarder: Callable[[Callable[[], str]], Forwarder], partition: int
    ) -> None:
        self._view = view
        self._make_forwarder = forwarder
        self._partition = partition
        self._forwarders: dict[str, Forwarder] = {}

    def __repr__(self) -> str:
        return f"<NodeHistories of partition {self._partition}, {len(self._forwarders)} known>"

    def __call__(self) -> Mapping[str, HistoryReader]:
        view = self._view()
        others = [name for name in view.members if name != view.node]
        for name in self._forwarders.keys() - set(others):
            self._forwarders.pop(name).owner_changed()  # its URL is gone: the connections end
        return {name: RemoteHistory(self._partition, partial(self._ask, name)) for name in others}

    async def close(self) -> None:
        for forwarder in self._forwarders.values():
            await forwarder.close()

    async def _ask(self, name: str, body: bytes) -> GatheredAnswer:
        if name not in self._forwarders:
            self._forwarders[name] = self._make_forwarder(lambda: self._view().urls.get(name, ""))
        return await self._forwarders[name].ask(call_scope(name_caller(self._partition), HISTORY), body)


class HistoryDesk:
    """Answers the other nodes out of the files of this one.

    open_one: opens the history of a partition; None while this node has none.
    """

    def __init__(self, open_one: Callable[[int], HistoryReader | None], partitions: int) -> None:
        self._open = open_one
        self._partitions = partitions
        self._histories: dict[int, HistoryReader] = {}
        self._bodies = BodyReader()

    def __repr__(self) -> str:
        return f"<HistoryDesk, {len(self._histories)} open>"

    def is_asked(self, scope: Scope) -> bool:
        """Whether a node of the cluster asks for attempts; for all others the path does not exist."""
        return scope["path"] == HISTORY and read_caller(peer_of(scope) or "") is not None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            body = await self._bodies.read(plain(scope["headers"]), receive, limits.MANAGE_BODY_BYTES)
        except ClientGone:
            return
        except CallerError as error:
            await refuse(send, error, publishes=False)
            return
        answer = await self.answer(body)
        head = [(b"content-type", b"application/msgpack"), (b"content-length", b"%d" % len(answer.body))]
        await answer._replace(headers=head).send(send)

    async def close(self) -> None:
        for history in self._histories.values():
            await history.close()

    async def answer(self, body: bytes) -> GatheredAnswer:
        try:
            call = decode_history_call(body)
        except msgspec.MsgspecError:
            return GatheredAnswer(HTTPStatus.BAD_REQUEST, [], b"")
        if not 0 <= call.partition < self._partitions:
            return GatheredAnswer(HTTPStatus.NOT_FOUND, [], b"")
        history = self._histories.get(call.partition) or self._open(call.partition)
        if history is None:
            return GatheredAnswer(HTTPStatus.NO_CONTENT, [], b"")
        self._histories[call.partition] = history
        try:
            return GatheredAnswer(HTTPStatus.OK, [], await answer_history_call(call, history))
        except StoreFailed:
            return GatheredAnswer(HTTPStatus.SERVICE_UNAVAILABLE, [], b"")
