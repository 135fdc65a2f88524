"""The router of a node of several partitions: each request goes to the partitions that `domain/cluster/routing` names.

The law: an answer that lacks a partition says so, in a header and, where it is an object, in a field; a resource is
not reported as missing while a partition that may have it does not answer; a write to every partition begins only if
all have an owner; a redrive or a purge passes over a partition without an owner, and names it. A request that another
node forwards goes to its partition here, or is refused.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from http import HTTPStatus
from typing import Any, NamedTuple
from urllib.parse import parse_qs, parse_qsl, urlencode, urlsplit

import msgspec
from starlette.types import Receive, Scope, Send

from recapito.api.body import BodyReader, ClientGone
from recapito.api.errors import OutcomeUnknown
from recapito.api.publish.route import target_of
from recapito.api.router import merge
from recapito.api.router.calls import call_scope, find_call, found_name
from recapito.api.router.forward import (
    PARTITION,
    RETRY_S,
    ForwardCounts,
    Forwarder,
    GatheredAnswer,
    NoOwner,
    is_forwarded,
    most_bytes,
    plain,
    refuse,
)
from recapito.api.wire.partition_call import ROUTER, SOURCES
from recapito.domain import limits
from recapito.domain.cluster.partition import home_of, silent
from recapito.domain.cluster.routing import (
    Anywhere,
    AskedRequest,
    BySource,
    Everywhere,
    Found,
    InTurn,
    Merge,
    Merged,
    One,
    Unserved,
    route,
)
from recapito.errors import Busy, CallerError, InvalidInput
from recapito.identity.cluster_secret import ClusterSecret
from recapito.intake.dead_letters.redrive import Progress

MISSING = b"x-recapito-missing-partitions"
ASK_S = 20.0
NEAR_S = 2.0
_JSON = b"application/json; charset=utf-8"
_OF_ARM = ("$skiptoken", "$top")
_OF_OURS = ("after", "limit")
_SIZES = {
    "/counts": limits.COUNT_PAGE_DEFAULT,
    "/damaged": limits.DAMAGED_PAGE_DEFAULT,
    "/deliveries": limits.HISTORY_PAGE_DEFAULT,
    "/lanes": limits.LANE_PAGE_DEFAULT,
    "/deadletters": limits.LETTER_PAGE_DEFAULT,
}
_decode = msgspec.json.Decoder(dict[str, Any]).decode


class PartitionRefusal(Exception):
    """A partition refused a part of a merged request: its answer is the answer."""

    def __init__(self, answer: GatheredAnswer) -> None:
        super().__init__(answer.status)
        self.answer = answer


class Incoming(NamedTuple):
    """A request that was read whole."""

    scope: Scope
    body: bytes

    @property
    def asked(self) -> AskedRequest:
        return AskedRequest(self.scope["method"], self.scope["path"], self.query, self.body)

    @property
    def query(self) -> dict[str, str]:
        """The first value of each parameter; names in lower case."""
        pairs = parse_qsl(self.scope["query_string"].decode("latin-1"), keep_blank_values=True)
        return {name.lower(): value for name, value in reversed(pairs)}

    def with_query(self, changes: Mapping[str, str | None]) -> Scope:
        """The scope with other parameters; None removes one."""
        pairs = parse_qsl(self.scope["query_string"].decode("latin-1"), keep_blank_values=True)
        kept = [(name, value) for name, value in pairs if name.lower() not in changes]
        added = [(name, value) for name, value in changes.items() if value is not None]
        return {**self.scope, "query_string": urlencode([*kept, *added]).encode()}

    def url(self, changes: Mapping[str, str | None]) -> str:
        """The URL by which the client asks again."""
        scope = self.with_query(changes)
        host = next((value for name, value in scope["headers"] if name == b"host"), b"localhost").decode("latin-1")
        return f"{scope['scheme']}://{host}{scope['raw_path'].decode('latin-1')}?{scope['query_string'].decode()}"

    def size(self, name: str) -> int:
        """The wanted length of a page; a wrong one is refused by the partitions."""
        given = self.query.get(name, "")
        default = _SIZES.get(self.scope["path"], limits.LIST_PAGE_DEFAULT)
        return int(given) if given.isascii() and given.isdigit() and len(given) < 10 else default


class PartitionRouter:
    """An ASGI application over one forwarder for each partition."""

    def __init__(self, forwarders: Sequence[Forwarder], secret: ClusterSecret) -> None:
        self._forwarders = forwarders
        self._secret = secret
        self._bodies = BodyReader()
        self._open = 0

    def __repr__(self) -> str:
        return f"<PartitionRouter of {len(self._forwarders)} partitions, {self._open} open>"

    @property
    def counts(self) -> ForwardCounts:
        """The requests to all partitions."""
        total = ForwardCounts()
        for forwarder in self._forwarders:
            total.forwarded += forwarder.counts.forwarded
            total.unsent += forwarder.counts.unsent
            total.unknown += forwarder.counts.unknown
        return total

    async def close(self) -> None:
        for forwarder in self._forwarders:
            await forwarder.close()

    def owner_changed(self) -> None:
        for forwarder in self._forwarders:
            forwarder.owner_changed()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        target = target_of(scope["path"], scope["headers"])
        try:
            if self._open >= limits.FORWARDS:
                raise Busy("Too many requests wait for the owners of partitions. Try again.", RETRY_S)
            self._open += 1
            try:
                forwarded = is_forwarded(scope["headers"], self._secret)
                most = limits.PORTION_BYTES if forwarded else most_bytes(target is not None)
                body = await self._bodies.read(plain(scope["headers"]), receive, most)
                if forwarded:
                    await self._pass_on(scope, body, send, target is not None)
                elif target is not None:
                    home = self._forwarders[home_of(target.name, len(self._forwarders))]
                    await home.relay(scope, body, send, publishes=True)
                else:
                    await self._route(Incoming(scope, body), send)
            finally:
                self._open -= 1
        except ClientGone:
            return
        except (CallerError, Busy, OutcomeUnknown) as error:
            await refuse(send, error, target is not None)

    async def near(self, scope: Scope, path: str) -> dict[int, GatheredAnswer | None]:
        """The answers of this node's own partitions to a GET of another path; None: no answer."""
        asked = {**scope, "method": "GET", "path": path, "raw_path": path.encode(), "query_string": b""}
        near = [number for number, forwarder in enumerate(self._forwarders) if forwarder.is_near]
        answers = await asyncio.gather(*(self._reach(number, asked, b"", NEAR_S) for number in near))
        return dict(zip(near, answers, strict=True))

    async def _pass_on(self, scope: Scope, body: bytes, send: Send, publishes: bool) -> None:
        """Take a request that another node forwards. It is never forwarded to a third one."""
        wanted = next((value for name, value in scope["headers"] if name == PARTITION), b"")
        number = int(wanted) if wanted.isdigit() and len(wanted) < 4 else -1
        if not 0 <= number < len(self._forwarders) or not self._forwarders[number].is_near:
            raise NoOwner("This node is not the owner, and nothing was done.", RETRY_S)
        await self._forwarders[number].relay(scope, body, send, publishes)

    async def _route(self, incoming: Incoming, send: Send) -> None:
        match route(incoming.asked, len(self._forwarders)):
            case One(partition):
                await self._forwarders[partition].relay(incoming.scope, incoming.body, send, publishes=False)
            case BySource(source):
                number = await self._home_of_source(source)
                await self._forwarders[number].relay(incoming.scope, incoming.body, send, publishes=False)
            case Anywhere():
                await self._anywhere(incoming, send)
            case Found():
                await (await self._find(incoming)).send(send)
            case Everywhere():
                await (await self._write(incoming)).send(send)
            case Merged() if incoming.scope["method"] == "HEAD":
                await self._anywhere(incoming, send)
            case Merged() | InTurn() as way:
                try:
                    turn = self._take_turn(incoming) if isinstance(way, InTurn) else self._merge(incoming, way.how)
                    answer = await turn
                except PartitionRefusal as refused:
                    answer = refused.answer
                await answer.send(send)
            case Unserved(message):
                raise InvalidInput("NotSupportedOnPartitions", message)

    async def _anywhere(self, incoming: Incoming, send: Send) -> None:
        """Have a partition of this node answer, or else any that has an owner."""
        chosen = max(self._forwarders, key=lambda forwarder: (forwarder.is_near, forwarder.has_owner))
        await chosen.relay(incoming.scope, incoming.body, send, publishes=False)

    async def _home_of_source(self, source: str) -> int:
        """The partition with the system topic of a source; if there is none, the one that would create it."""
        scope, body = call_scope(ROUTER, SOURCES), find_call(source)
        answers = await asyncio.gather(*(self._ask(number, scope, body) for number in range(len(self._forwarders))))
        told = {n: answer for n, answer in enumerate(answers) if answer is not None and answer.status == HTTPStatus.OK}
        for number, answer in told.items():
            if found_name(answer) is not None:
                return number
        if len(told) < len(answers):
            raise _incomplete([number for number in range(len(answers)) if number not in told])
        return home_of(source, len(self._forwarders))

    async def _find(self, incoming: Incoming) -> GatheredAnswer:
        """The answer of the first partition that knows the resource."""
        unknown: GatheredAnswer | None = None
        missing = []
        for number in range(len(self._forwarders)):
            answer = await self._ask(number, incoming.scope, incoming.body)
            if answer is None:
                missing.append(number)
            elif answer.status != HTTPStatus.NOT_FOUND:
                return answer
            else:
                unknown = unknown or answer
        if missing or unknown is None:
            raise _incomplete(missing)
        return unknown

    async def _write(self, incoming: Incoming) -> GatheredAnswer:
        """Carry a request out in every partition, the first one last. Partitions that lack the resource pass it by."""
        missing = [number for number, forwarder in enumerate(self._forwarders) if not forwarder.has_owner]
        if missing:
            raise _incomplete(missing)
        done: GatheredAnswer | None = None
        for begun, number in enumerate([*range(1, len(self._forwarders)), 0]):
            try:
                answer: GatheredAnswer = await self._forwarders[number].ask(incoming.scope, incoming.body)
            except NoOwner as error:
                if begun:  # other partitions have carried it out
                    raise OutcomeUnknown from error
                raise
            lacks, refused = answer.status == HTTPStatus.NOT_FOUND, answer.status >= HTTPStatus.BAD_REQUEST
            if refused and not lacks:
                return answer
            if not lacks or done is None:
                done = answer
        assert done is not None
        return done

    async def _take_turn(self, incoming: Incoming) -> GatheredAnswer:
        """Redrive or purge in the next partition that selects a letter, and pass over those that select none.

        A subscription is unknown only if no partition knows it, from the first on.
        """
        wanted, count = _decode(incoming.body), len(self._forwarders)
        token = wanted.get("after") or ""
        start, place = merge.chain_start(token, count)
        missing: list[int] = []
        done: merge.Shown | None = msgspec.to_builtins(Progress()) if token else None
        unknown: GatheredAnswer | None = None
        for number in range(start, count):
            body = msgspec.json.encode({**wanted, "after": place})
            place = ""
            try:
                answer = await self._forwarders[number].ask(incoming.scope, body)
            except NoOwner:
                missing.append(number)
                continue
            if answer.status == HTTPStatus.NOT_FOUND:
                unknown = answer
                continue
            done = _body(answer)
            if done["next"] is not None:
                break
            if (done["selected"] or done["refused"]) and number + 1 < count:
                done["next"] = f"{merge.AT}{number + 1}"
                break
        if done is not None:
            return _answer(done, missing)
        if missing or unknown is None:
            raise _incomplete(missing)
        return unknown

    async def _merge(self, incoming: Incoming, how: Merge) -> GatheredAnswer:
        match how:
            case Merge.BY_NAME:
                return await self._merge_names(incoming)
            case Merge.BY_KEY:
                return await self._merge_ours(incoming, partial(merge.merge_sorted, key=merge.by_key))
            case Merge.BY_NUMBER:
                return await self._merge_ours(incoming, merge.merge_numbered)
            case Merge.CHAIN_OF_ARM:
                return await self._chain(incoming, *_OF_ARM)
            case Merge.CHAIN:
                return await self._chain(incoming, *_OF_OURS)
            case Merge.UNION:
                pages, missing = await self._ask_all(incoming)
                return _answer({"value": merge.union([page["value"] for page in pages.values()])}, missing)
            case Merge.SUM:
                pages, missing = await self._ask_all(incoming)
                return _answer(merge.add(list(pages.values())), missing)
            case Merge.SERIES:
                return await self._merge_series(incoming)
            case Merge.ATTEMPTS:
                return await self._merge_attempts(incoming)

    async def _merge_names(self, incoming: Incoming) -> GatheredAnswer:
        token, size = _OF_ARM
        pages, missing = await self._ask_all(incoming)
        values = [page["value"] for page in pages.values()]
        more = any("nextLink" in page for page in pages.values())
        page = merge.merge_sorted(values, more, incoming.size(size), merge.by_name, "id")
        body: merge.Shown = {"value": page.value}
        if page.next is not None:
            body["nextLink"] = incoming.url({token: page.value[-1]["name"]})
        return _answer(body, missing)

    async def _merge_ours(self, incoming: Incoming, gather: Callable[..., merge.MergedPage]) -> GatheredAnswer:
        pages, missing = await self._ask_all(incoming)
        values = [page["value"] for page in pages.values()]
        more = any(page["next"] is not None for page in pages.values())
        page = gather(values, more, incoming.size(_OF_OURS[1]))
        return _answer({**_last(pages), "value": page.value, "next": page.next}, missing)

    async def _chain(self, incoming: Incoming, token: str, size: str) -> GatheredAnswer:
        """One partition after the other, until the page is full."""
        wanted, missing = incoming.size(size), []
        start, place = merge.chain_start(incoming.query.get(token, ""), len(self._forwarders))
        body: merge.Shown = {}
        value: list[Any] = []
        problems: list[str] = []
        unknown: GatheredAnswer | None = None
        following: str | None = None
        for number in range(start, len(self._forwarders)):
            if len(value) >= wanted > 0:
                following = f"{merge.AT}{number}"
                break
            left = incoming.query.get(size) if not value else str(wanted - len(value))
            scope = incoming.with_query({token: place or None, size: left})
            answer = await self._ask(number, scope, incoming.body)
            place = ""
            if answer is None:
                missing.append(number)
                continue
            if answer.status == HTTPStatus.NOT_FOUND:
                unknown = unknown or answer
                continue
            body = _body(answer)
            value += body["value"]
            problems += body.get("problems", ())
            following = _following(body, token)
            if following is not None:
                break
        if not body:
            if unknown is None or missing:
                raise _incomplete(missing)
            return unknown
        body = {**body, "value": value} | ({"problems": problems} if "problems" in body else {})
        body.pop("nextLink", None)
        if token in _OF_OURS:
            body["next"] = following
        elif following is not None:
            body["nextLink"] = incoming.url({token: following})
        return _answer(body, missing)

    async def _merge_series(self, incoming: Incoming) -> GatheredAnswer:
        marks = merge.split_marks(incoming.query.get("after"), len(self._forwarders))
        pages, missing = await self._ask_all(incoming, [{"after": mark} for mark in marks])
        newest = [str(pages[number]["newest"]) if number in pages else mark for number, mark in enumerate(marks)]
        body = {
            **_last(pages),
            **merge.missing_nodes(list(pages.values())),
            "value": merge.add_series([page["value"] for page in pages.values()]),
            "newest": merge.join_marks(newest),
            "complete": all(page["complete"] for page in pages.values()),
        }
        return _answer(body, missing)

    async def _merge_attempts(self, incoming: Incoming) -> GatheredAnswer:
        """Back in time, or forward from a mark. A partition whose mark is unknown shows what comes after now."""
        after, limit = incoming.query.get("after"), incoming.size("limit")
        marks = merge.split_marks(after or incoming.query.get("before"), len(self._forwarders))
        name = "before" if after is None else "after"
        changes = [{name: mark} for mark in marks]
        pages, missing = await self._ask_all(incoming, changes)
        newest = [pages[number]["newest"] if number in pages else marks[number] for number in range(len(marks))]
        if after is None:
            value, starts = merge.merge_newest(pages, limit)
            following = None if starts is None else merge.join_marks([starts.get(n) for n in range(len(marks))])
        else:
            told = [page["value"] for number, page in pages.items() if marks[number] is not None]
            value = sorted((attempt for each in told for attempt in each), key=lambda attempt: str(attempt["at"]))
            following = None
        unknown = [page["unknown"] for page in pages.values()]
        body = {
            **_last(pages),
            **merge.missing_nodes(list(pages.values())),
            "value": value,
            "next": following,
            "newest": merge.join_marks(newest),
            "unknown": None if None in unknown else min(unknown, default=None),
            "kept": merge.merge_kept(list(pages.values())),
        }
        return _answer(body, missing)

    async def _ask_all(
        self, incoming: Incoming, changes: Sequence[Mapping[str, str | None]] | None = None
    ) -> tuple[dict[int, merge.Shown], list[int]]:
        """The bodies of all partitions that answer, and the numbers of the others. Partitions may lack the resource."""
        count = len(self._forwarders)
        scopes = [incoming.scope] * count if changes is None else [incoming.with_query(each) for each in changes]
        asked = (self._ask(number, scopes[number], incoming.body) for number in range(count))
        answers = await asyncio.gather(*asked)
        missing = [number for number, answer in enumerate(answers) if answer is None]
        known = {number: answer for number, answer in enumerate(answers) if answer is not None}
        found = {number: answer for number, answer in known.items() if answer.status != HTTPStatus.NOT_FOUND}
        if not found:
            if missing or not known:
                raise _incomplete(missing)
            raise PartitionRefusal(next(iter(known.values())))
        return {number: _body(answer) for number, answer in found.items()}, missing

    async def _ask(self, number: int, scope: Scope, body: bytes = b"") -> GatheredAnswer | None:
        """The answer of a partition to a read; None if it has no owner, or its owner fails or is slow."""
        answer = await self._reach(number, scope, body, ASK_S)
        return None if answer is None or answer.status >= HTTPStatus.INTERNAL_SERVER_ERROR else answer

    async def _reach(self, number: int, scope: Scope, body: bytes, patience_s: float) -> GatheredAnswer | None:
        """The answer of a partition, of any status; None if it gives none in time."""
        try:
            async with asyncio.timeout(patience_s):
                answer: GatheredAnswer = await self._forwarders[number].ask(scope, body)
        except (NoOwner, OutcomeUnknown, TimeoutError):
            return None
        return answer


def _body(answer: GatheredAnswer) -> merge.Shown:
    """The body of a success; PartitionRefusal if it is none."""
    if answer.status != HTTPStatus.OK:
        raise PartitionRefusal(answer)
    return _decode(answer.body)


def _last(pages: Mapping[int, merge.Shown]) -> merge.Shown:
    """The fields that all partitions have alike, such as `now`."""
    return pages[max(pages)]


def _following(body: merge.Shown, token: str) -> str | None:
    if token in _OF_OURS:
        return None if body["next"] is None else str(body["next"])
    link = parse_qs(urlsplit(body.get("nextLink", "")).query)
    return link.get(token, [None])[0]


def _incomplete(missing: Sequence[int]) -> NoOwner:
    return NoOwner(f"{silent(missing)} at this moment. Try again.", RETRY_S)


def _answer(body: merge.Shown, missing: Sequence[int]) -> GatheredAnswer:
    if missing:
        body = {**body, "missingPartitions": list(missing)}
    content = msgspec.json.encode(body)
    headers = [(b"content-type", _JSON), (b"content-length", b"%d" % len(content))]
    if missing:
        headers.append((MISSING, ",".join(map(str, missing)).encode()))
    return GatheredAnswer(HTTPStatus.OK, headers, content)
