"""The router of several partitions: it asks the right owners, and says so when one is missing."""

import asyncio
import json
import socket
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

from recapito.api.auth.access import Access
from recapito.api.router.app import make_router, readiness_of_all
from recapito.api.router.forward import PARTITION, Forwarder, GatheredAnswer
from recapito.api.router.histories import HistoryDesk
from recapito.api.router.partitions import MISSING, PartitionRouter
from recapito.api.server.protocol import HttpProtocol
from recapito.domain.cluster.member import NodeState
from recapito.domain.cluster.partition import Partition, home_of
from recapito.domain.cluster.view import ClusterView, PartitionView
from recapito.identity.cluster_secret import FORWARDED, ClusterSecret
from recapito.process.app_server import AppServer
from tests.api.router.asking import Answer, ask_at
from tests.kit.http_server import ArrivedRequest, CannedReply, LoopbackServer

SECRET = ClusterSecret.new()
P = 3
GROUP = "/subscriptions/0/resourceGroups/g"
LIST = f"{GROUP}/providers/Microsoft.EventGrid/topics?api-version=2022-06-15"
Talk = Callable[[Callable[[str], Awaitable[Answer]]], Awaitable[None]]


class Partitions:
    """The owners of all partitions; a URL that is empty is that of a partition without an owner."""

    def __init__(self) -> None:
        self.seen: list[tuple[int, ArrivedRequest]] = []
        self.answers: dict[int, CannedReply] = {}
        self.servers = [LoopbackServer(partial(self._take, number)) for number in range(P)]
        self.urls = [server.url for server in self.servers]

    def _take(self, number: int, request: ArrivedRequest) -> CannedReply:
        self.seen.append((number, request))
        return self.answers.get(number, CannedReply(200, b"{}", {"Content-Type": "application/json"}))

    @property
    def asked(self) -> list[int]:
        return [number for number, _ in self.seen]


@contextmanager
def partitions() -> Iterator[Partitions]:
    it = Partitions()
    try:
        yield it
    finally:
        for server in it.servers:
            server.close()


def at_router(them: Partitions, talk: Talk) -> None:
    """Serve a router on a free port, and talk to it."""

    async def run() -> None:
        forwarders = [
            Forwarder(partial(them.urls.__getitem__, number), SECRET, partition=number) for number in range(P)
        ]
        router = PartitionRouter(forwarders, SECRET)
        view = ClusterView(
            "b",
            NodeState.STANDBY,
            partitions=[
                PartitionView(number, NodeState.STANDBY, "a" if them.urls[number] else "", them.urls[number])
                for number in range(P)
            ],
        )
        app = make_router(router, lambda: view, Access(status_authenticated=False), HistoryDesk({}.get, 1))
        server = AppServer(app, HttpProtocol)
        with socket.create_server(("127.0.0.1", 0)) as listener:
            port = listener.getsockname()[1]
            serving = asyncio.create_task(server.serve(sockets=[listener]))
            try:
                await asyncio.wait_for(talk(lambda request: ask_at(port, request)), 15)
            finally:
                server.stop()
                await serving
                await router.close()

    asyncio.run(run())


def request(method: str, path: str, *headers: str, body: str = "") -> str:
    lines = [f"{method} {path} HTTP/1.1", "Host: here", f"Content-Length: {len(body)}", *headers, "", body]
    return "\r\n".join(lines)


def listed(*names: str) -> CannedReply:
    value = [{"id": f"{GROUP}/{name}", "name": name} for name in names]
    return CannedReply(200, json.dumps({"value": value}).encode(), {"Content-Type": "application/json"})


def test_a_publish_goes_to_the_home_of_its_topic() -> None:
    """By path and by host name, whatever the case; the owner is told the partition and the client's address."""
    home = home_of("orders", P)

    async def talk(ask: Callable[[str], Awaitable[Answer]]) -> None:
        await ask(request("POST", "/topics/Orders/api/events", body="[]"))
        host = "POST /api/events HTTP/1.1\r\nHost: ORDERS.westus2-1.eventgrid.azure.net\r\nContent-Length: 0\r\n\r\n"
        await ask(host)

    with partitions() as them:
        at_router(them, talk)
        assert them.asked == [home, home]
        headers = them.seen[0][1].headers
        assert headers[PARTITION.decode()] == str(home)
        assert headers[FORWARDED.decode()].startswith("127.0.0.1 ")


def test_a_list_that_lacks_a_partition_says_so() -> None:
    """The others are shown; a header and a field name the missing one."""

    async def talk(ask: Callable[[str], Awaitable[Answer]]) -> None:
        got = await ask(request("GET", LIST))
        body = json.loads(got.body)
        assert [each["name"] for each in body["value"]] == ["a", "b", "c"]
        assert body["missingPartitions"] == [2]
        assert got.headers[MISSING.decode()] == "2"
        assert (await ask(request("GET", "/readyz"))).status == 503

    with partitions() as them:
        them.answers = {0: listed("a", "c"), 1: listed("b")}
        them.urls[2] = ""
        at_router(them, talk)


def test_a_refusal_of_one_partition_is_the_answer() -> None:
    """A client that may not list gets 403, not a part of a list; a partition that fails counts as missing."""

    async def talk(ask: Callable[[str], Awaitable[Answer]]) -> None:
        assert (await ask(request("GET", LIST))).status == 403

    with partitions() as them:
        them.answers = {0: listed("a"), 1: CannedReply(403, b"{}"), 2: CannedReply(503, b"{}")}
        at_router(them, talk)


def test_a_resource_is_not_missing_while_a_partition_is() -> None:
    """404 needs the word of all partitions; with a partition missing it is 503."""

    async def talk(ask: Callable[[str], Awaitable[Answer]]) -> None:
        assert (await ask(request("GET", f"{GROUP}?api-version=2022-06-15"))).status == expected

    with partitions() as them:
        them.answers = dict.fromkeys(range(P), CannedReply(404, b"{}"))
        expected = 404
        at_router(them, talk)
        them.urls[1] = ""
        expected = 503
        at_router(them, talk)
        them.answers[2] = CannedReply(200, b"{}")
        expected = 200
        at_router(them, talk)


def test_a_write_everywhere_begins_only_with_all_owners() -> None:
    """Without one owner nothing is sent; with all, the first partition is last, and a refusal ends it."""

    async def talk(ask: Callable[[str], Awaitable[Answer]]) -> None:
        assert (await ask(request("PUT", f"{GROUP}?api-version=2022-06-15", body="{}"))).status == expected

    with partitions() as them:
        them.urls[1], url, expected = "", them.urls[1], 503
        at_router(them, talk)
        assert them.asked == []
        them.urls[1], expected = url, 200
        at_router(them, talk)
        assert them.asked == [1, 2, 0]
        them.seen.clear()
        them.answers[2], expected = CannedReply(409, b"{}"), 409
        at_router(them, talk)
        assert them.asked == [1, 2]
        them.seen.clear()
        them.answers[2], expected = CannedReply(404, b"{}"), 200
        at_router(them, talk)
        assert them.asked == [1, 2, 0]


def turn(selected: int = 0, done: int = 0, following: str | None = None) -> CannedReply:
    """One page of a redrive or a purge, as a partition answers."""
    body = {"selected": selected, "done": done, "refused": 0, "kept": 0, "problems": [], "next": following}
    return CannedReply(200, json.dumps(body).encode(), {"Content-Type": "application/json"})


def go_through(them: Partitions, after: str = "", path: str = "/deadletters/redrive") -> tuple[int, dict[str, Any]]:
    """One page of a redrive without a topic, as the router answers."""
    found: list[tuple[int, dict[str, Any]]] = []

    async def talk(ask: Callable[[str], Awaitable[Answer]]) -> None:
        body = json.dumps({"subscription": "hook", "limit": 7} | ({"after": after} if after else {}))
        got = await ask(request("POST", path, body=body))
        found.append((got.status, json.loads(got.body)))

    them.seen.clear()
    at_router(them, talk)
    return found[0]


def test_letters_are_redriven_in_one_partition_after_the_other() -> None:
    """Each page is of one partition; those without letters are passed over, and the pages end with the last."""
    letter = f"{Partition(1, P).first_id + 3}/HOOK/x/0"
    with partitions() as them:
        them.answers = {0: turn(), 1: turn(7, 7, letter), 2: turn(2, 1)}
        status, first = go_through(them)
        assert (status, first["done"], first["next"], them.asked) == (200, 7, letter, [0, 1])
        them.answers[1] = turn(3, 3)
        _, second = go_through(them, letter)
        assert (second["done"], second["next"], them.asked) == (3, "~2", [1])
        assert json.loads(them.seen[0][1].body) == {"subscription": "hook", "limit": 7, "after": letter}
        _, last = go_through(them, "~2")
        assert (last["done"], last["next"], them.asked) == (1, None, [2])
        assert "missingPartitions" not in last


def test_a_redrive_passes_over_a_partition_without_an_owner() -> None:
    """It is named in the page that would have been its own, and nothing of it is counted."""
    with partitions() as them:
        them.answers = {0: turn(1, 1), 2: turn(2, 2)}
        them.urls[1] = ""
        assert go_through(them)[1]["next"] == "~1"
        _, page = go_through(them, "~1")
        assert (page["done"], page["next"], page["missingPartitions"], them.asked) == (2, None, [1], [2])
        them.urls[2] = ""
        status, page = go_through(them, "~1")
        assert (status, page["selected"], page["next"], page["missingPartitions"]) == (200, 0, None, [1, 2])


def test_a_subscription_is_unknown_if_no_partition_knows_it() -> None:
    """404 needs the word of all partitions; one that knows it, without letters, is enough for 200."""
    unknown = CannedReply(404, b'{"error":{"code":"EventSubscriptionNotFound","message":"m"}}')
    with partitions() as them:
        them.answers = dict.fromkeys(range(P), unknown)
        assert go_through(them)[0] == 404
        assert go_through(them, "~1") == (200, json.loads(turn().body))
        url, them.urls[1] = them.urls[1], ""
        assert go_through(them)[0] == 503
        them.answers[2] = turn()
        assert go_through(them)[1]["missingPartitions"] == [1]
        them.urls[1] = url
        assert go_through(them) == (200, json.loads(turn().body))


def test_a_redrive_that_a_partition_refuses_ends_there() -> None:
    """The refusal is the answer, whether it is the caller's fault or the vault is away; nothing else is asked."""
    for status in (400, 403, 503):
        with partitions() as them:
            them.answers = {0: CannedReply(status, b'{"error":{"code":"c","message":"m"}}')}
            assert go_through(them)[0] == status
            assert them.asked == [0]


def test_damaged_records_of_all_partitions_are_paged() -> None:
    """Records of resources come first; then those of one partition after the other, by the numbers that tell it."""
    numbers = [[0, 1, 2], [0], [Partition(2, P).first_id + 1]]

    async def talk(ask: Callable[[str], Awaitable[Answer]]) -> None:
        page = json.loads((await ask(request("GET", "/damaged?limit=2"))).body)
        assert [each["number"] for each in page["value"]] == [0, 0, 1, 2]
        assert page["next"] == 2

    with partitions() as them:
        for number, own in enumerate(numbers):
            body = {"value": [{"number": each} for each in own], "next": None}
            them.answers[number] = CannedReply(200, json.dumps(body).encode(), {"Content-Type": "application/json"})
        at_router(them, talk)


def test_readiness_shows_the_warnings_of_own_partitions() -> None:
    """A partition that is ready with a warning leaves the node ready, and is told; a failing one is named."""

    def answers(status: int, damage: str, store: str = "ok") -> GatheredAnswer:
        body = json.dumps({"checks": {"store": store, "damage": damage}}).encode()
        return GatheredAnswer(status, [], body)

    view = ClusterView("b", NodeState.OWNER, partitions=[PartitionView(n, NodeState.OWNER, "b") for n in range(2)])
    status, told = readiness_of_all(view, {0: answers(200, "ok"), 1: answers(200, "one record")}, True)
    assert (status, told["status"]) == (200, "degraded")
    assert told["checks"]["partition 1 damage"] == "one record"
    status, told = readiness_of_all(view, {0: None, 1: answers(503, "ok", "full")}, True)
    assert (status, told["status"]) == (503, "not ready")
    assert told["checks"] == {"partition 0": "it starts, or does not answer", "partition 1": "store: full"}


def test_a_server_that_is_away_takes_no_node_out_of_service() -> None:
    """A problem that all nodes share is shown once, and leaves them ready."""
    answer = GatheredAnswer(200, [], json.dumps({"checks": {"store": "ok", "cluster monitors": "it is away"}}).encode())
    owned = [PartitionView(number, NodeState.OWNER, "b") for number in range(2)]
    view = ClusterView("b", NodeState.OWNER, partitions=owned, problems={"monitors": "it is away"})
    status, told = readiness_of_all(view, {0: answer, 1: answer}, True)
    assert (status, told["status"]) == (200, "degraded")
    assert [name for name, why in told["checks"].items() if why == "it is away"] == ["monitors"]


def test_a_forwarded_request_is_not_forwarded_again() -> None:
    """A node that does not own its partition refuses it. A header that no node signed changes nothing."""

    async def talk(ask: Callable[[str], Awaitable[Answer]]) -> None:
        signed = SECRET.sign("10.0.0.9", int(time.time())).decode()
        path, number = "/topics/orders/api/events", f"{PARTITION.decode()}: 0"
        got = await ask(request("POST", path, f"{FORWARDED.decode()}: {signed}", number))
        assert got.status == 503
        assert "x-recapito-not-owner" in got.headers
        forged = await ask(request("POST", path, f"{FORWARDED.decode()}: 127.0.0.1 1 00", f"{PARTITION.decode()}: 9"))
        assert forged.status == 200

    with partitions() as them:
        at_router(them, talk)
        assert them.asked == [home_of("orders", P)]
        assert them.seen[0][1].headers[PARTITION.decode()] == str(home_of("orders", P))


def test_documents_may_be_larger_than_publishes() -> None:
    """A document of 2 MB is forwarded to the first partition; a publish of that size is refused."""
    body = "x" * 2_000_000

    async def talk(ask: Callable[[str], Awaitable[Answer]]) -> None:
        assert (await ask(request("POST", "/estate", body=body))).status == 200
        assert (await ask(request("POST", "/topics/orders/api/events", body=body))).status == 413
        assert (await ask(request("POST", "/estate", body=body * 3))).status == 413

    with partitions() as them:
        at_router(them, talk)
        assert them.asked == [0]


def test_what_partitions_do_not_have_is_refused() -> None:
    """The refusal is ARM's error with a code of its own, and nothing is sent."""

    async def talk(ask: Callable[[str], Awaitable[Answer]]) -> None:
        got = await ask(request("POST", "/estate/portion", body="{}"))
        assert got.status == 400
        assert json.loads(got.body)["error"]["code"] == "NotSupportedOnPartitions"

    with partitions() as them:
        at_router(them, talk)
        assert them.asked == []
