"""The histories of other nodes: asked over HTTP by nodes alone, merged in the order of marks, and named when silent."""

import asyncio
import socket
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial

import pytest

from recapito.api.auth.access import Access
from recapito.api.router.app import make_standby
from recapito.api.router.forward import Forwarder
from recapito.api.router.histories import HistoryDesk, NodeHistories, RemoteHistory
from recapito.api.router.merge import missing_nodes
from recapito.api.server.protocol import HttpProtocol
from recapito.api.wire.history_call import HISTORY
from recapito.contracts.history import AttemptPage, HistoryExtent, HistoryReader
from recapito.domain.cluster.member import NodeState
from recapito.domain.cluster.view import ClusterView
from recapito.domain.history.attempt import AttemptQuery
from recapito.domain.instant import SECOND
from recapito.errors import StoreFailed
from recapito.identity.cluster_secret import FORWARDED, ClusterSecret
from recapito.intake.explain.event_lookup import EventLookup
from recapito.intake.explain.merged_history import MergedHistory
from recapito.process.app_server import AppServer
from recapito.stores.memory import MemoryHistory, MemoryLog
from tests.api.router.asking import ask_at
from tests.stores.attempts import KEEP, NOON, attempt

ALL = AttemptQuery()
SECRET = ClusterSecret.new()


def kept(first_mark: int, *names: str, kind: type[MemoryHistory] = MemoryHistory) -> MemoryHistory:
    history = kind(KEEP, lambda: NOON, first_mark)
    for name in names:
        history.record(attempt(name))
    return history


class Silent(MemoryHistory):
    """A node that does not answer."""

    async def newest_first(self, selection: AttemptQuery, before: int | None, limit: int) -> AttemptPage:
        raise StoreFailed("it does not answer")


class Short(MemoryHistory):
    """A history that searches two attempts for each page."""

    async def newest_first(self, selection: AttemptQuery, before: int | None, limit: int) -> AttemptPage:
        page = await super().newest_first(ALL, before, 2)
        return page._replace(value=[each for each in page.value if selection.takes(each.attempt)])


def ids(page: AttemptPage) -> list[str]:
    return [each.attempt.ids[0] for each in page.value]


async def walk(history: HistoryReader, selection: AttemptQuery, limit: int) -> list[str]:
    """All pages back in time."""
    seen, before = list[str](), None
    for _ in range(50):
        page = await history.newest_first(selection, before, limit)
        seen += ids(page)
        before = page.next
        if before is None:
            return seen
    raise AssertionError("the pages never end")


@pytest.mark.parametrize("limit", [1, 2, 3, 7])
def test_pages_of_former_owners(limit: int) -> None:
    """Marks order the attempts of all nodes; a short page of one holds back older ones of the others."""

    async def story() -> None:
        others = {"one": kept(10, "d", "e", "x", "x", "f", kind=Short), "two": kept(1, "a", "b", "c")}
        merged = MergedHistory(kept(20, "g"), lambda: others)
        assert await walk(merged, ALL, limit) == ["g", "f", "x", "x", "e", "d", "c", "b", "a"]
        assert await walk(merged, AttemptQuery(search="d"), limit) == ["d"]
        assert await walk(merged, AttemptQuery(event="a"), limit) == ["a"]

    asyncio.run(story())


def test_a_silent_node_is_named() -> None:
    """The others' attempts are shown, and an explanation says that some are missing."""

    async def story() -> None:
        silent = Silent(KEEP, lambda: NOON)
        merged = MergedHistory(kept(9, "a"), lambda: {"two": silent, "one": kept(1, "b")})
        page = await merged.newest_first(ALL, None, 10)
        assert (ids(page), page.missing) == (["a", "b"], ("two",))
        log = MemoryLog()
        found = await EventLookup(log, log, merged).find("b", None)
        assert found is not None
        (note,) = found.notes
        assert note == "Node 'two' of the cluster does not answer: attempts that were made there are missing here."

    asyncio.run(story())


def client_of(headers: Sequence[tuple[bytes, bytes]]) -> str | None:
    signed = [value for name, value in headers if name == FORWARDED]
    return SECRET.verify(signed[0], int(time.time())) if signed else None


Talk = Callable[[int, RemoteHistory], Awaitable[None]]


def at_standby(histories: Mapping[int, HistoryReader], talk: Talk) -> None:
    """A standby that serves its history, and the way of another node to it."""

    async def run() -> None:
        view = ClusterView("b", NodeState.STANDBY)
        forwarder, desk = Forwarder(lambda: "", SECRET), HistoryDesk(histories.get, 2)
        app = make_standby(forwarder, lambda: view, Access(scrape_token="s" * 20), desk)

        server = AppServer(app, partial(HttpProtocol, client_of=client_of))
        with socket.create_server(("127.0.0.1", 0)) as listener:
            port = listener.getsockname()[1]
            serving = asyncio.create_task(server.serve(sockets=[listener]))
            asker = ClusterView(
                "a", NodeState.OWNER, members={"a": "owner", "b": "standby"}, urls={"b": f"http://127.0.0.1:{port}"}
            )
            others = NodeHistories(lambda: asker, lambda url: Forwarder(url, SECRET), 1)
            try:
                (remote,) = others().values()
                assert isinstance(remote, RemoteHistory)
                await talk(port, remote)
            finally:
                await others.close()
                server.stop()
                await serving
                await forwarder.close()

    asyncio.run(run())


def test_a_standby_answers_nodes() -> None:
    """Each verb passes over HTTP; a partition that this node never owned has no attempts; a damaged file is told."""

    class Damaged(MemoryHistory):
        async def extent(self) -> HistoryExtent:
            raise StoreFailed("it cannot be read")

    async def talk(port: int, remote: RemoteHistory) -> None:
        assert ids(await remote.newest_first(ALL, None, 2)) == ["c", "b"]
        assert ids(await remote.oldest_first(ALL, 1, 1)) == ["b"]
        counted = await remote.series(ALL, SECOND, 0, None)
        assert (counted.series.buckets[NOON // SECOND].delivered, counted.newest) == (3, 3)
        with pytest.raises(StoreFailed):
            await remote.extent()

    at_standby({1: kept(1, "a", "b", "c", kind=Damaged)}, talk)

    async def talk_to_new(port: int, remote: RemoteHistory) -> None:
        assert await remote.newest_first(ALL, None, 2) == AttemptPage([], None, 0)
        assert await remote.extent() == HistoryExtent(None, 0, 0)

    at_standby({}, talk_to_new)


def test_pages_of_partitions_name_all_silent_nodes() -> None:
    """The router shows each once; without one there is no field."""
    pages = [{"missingNodes": ["b"]}, {}, {"missingNodes": ["a", "b"]}]
    assert missing_nodes(pages) == {"missingNodes": ["a", "b"]}
    assert missing_nodes([{}]) == {}


def test_clients_cannot_ask() -> None:
    """For a client the path is one of the owner's, and there is none now."""

    async def talk(port: int, remote: RemoteHistory) -> None:
        answer = await ask_at(port, f"POST {HISTORY} HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n")
        assert (answer.status, answer.headers["x-recapito-not-owner"]) == (503, "1")

    at_standby({1: kept(1, "a")}, talk)


def test_a_node_that_is_gone_is_silent() -> None:
    """A node that cannot be reached does not hold up the others for long."""

    async def story() -> None:
        with socket.create_server(("127.0.0.1", 0)) as closed:
            port = closed.getsockname()[1]
        view = ClusterView("a", NodeState.OWNER, members={"a": "", "b": ""}, urls={"b": f"http://127.0.0.1:{port}"})
        others = NodeHistories(lambda: view, lambda url: Forwarder(url, SECRET), 0)
        page = await MergedHistory(kept(1, "a"), others).newest_first(ALL, None, 5)
        assert (ids(page), page.missing) == (["a"], ("b",))
        await others.close()

    asyncio.run(story())
