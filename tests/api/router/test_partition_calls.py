"""Partitions that call each other over HTTP: intakes in memory, each with its surface, behind one router."""

import asyncio
import json
import socket
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack
from functools import partial
from typing import Any

import pytest

from recapito.api.operate.partition_calls import PartitionServices
from recapito.api.router.calls import PartitionCalls
from recapito.api.router.forward import Forwarder
from recapito.api.router.partitions import PartitionRouter
from recapito.api.server.protocol import HttpProtocol
from recapito.api.wire.partition_call import NOTICES, ROUTER, SOURCES
from recapito.clock import ManualClock
from recapito.contracts.ledger import Notice
from recapito.contracts.log import EntryKind
from recapito.domain.cluster.partition import Partition, home_of
from recapito.domain.dead_letter.blob_notice import BlobNotice, encode_notice
from recapito.domain.events.segment import Segment
from recapito.domain.resources.topic import TopicKind
from recapito.errors import Busy
from recapito.identity.cluster_secret import FORWARDED, ClusterSecret
from recapito.intake.maintenance.notice_publisher import NoticePublisher
from recapito.intake.maintenance.notice_taker import NoticeTaker
from recapito.intake.resources.sources import Sources
from recapito.observability.journal import silent
from recapito.process.app_server import AppServer
from recapito.stores.memory import MemoryLog
from tests.api.client import GROUP, VERSION, World, webhook
from tests.api.router.asking import Answer, ask_at

SECRET = ClusterSecret.new()
P = 3
RG = "/subscriptions/5b4b650e/resourceGroups/examplerg"
ACCOUNT = f"{RG}/providers/Microsoft.Storage/storageAccounts/pictures"
EXTENSION = f"{ACCOUNT}/providers/Microsoft.EventGrid/eventSubscriptions"
HOME = home_of(ACCOUNT, P)
NAMES = {home_of(name, P): name for name in (f"system-{n}" for n in range(30))}
SOURCE = {
    "location": "westus2",
    "properties": {"source": ACCOUNT, "topicType": "Microsoft.Storage.StorageAccounts"},
}
NOTICE = Notice(1, encode_notice(BlobNotice(ACCOUNT, "dead", "a.json", 5, 1, "https://x/a.json", "", "", "")))


def client_of(headers: list[tuple[bytes, bytes]]) -> str | None:
    signed = [value for name, value in headers if name == FORWARDED]
    return SECRET.verify(signed[0], int(time.time())) if signed else None


class Owner:
    """The intake of one partition: its surface, and its way to the others."""

    def __init__(self, number: int, urls: Mapping[int, str]) -> None:
        self.closed: str | None = None
        log, clock, partition = MemoryLog(), ManualClock(0), Partition(number, P)
        others = {n: Forwarder(partial(urls.__getitem__, n), SECRET, partition=n) for n in range(P) if n != number}
        self.calls = PartitionCalls(number, others)
        self.sources = Sources(log, clock, partition, self.calls)
        publisher = NoticePublisher(log, log, clock, lambda: self.closed, lambda: None, silent)
        self.world = World(
            log,
            topic_options={"partition": partition, "sources": self.sources},
            partition_services=PartitionServices(NoticeTaker(publisher, log), self.sources),
        )

    async def told(self) -> list[str]:
        """The subjects of the events of this partition's system topics."""
        subjects = []
        for topic in [topic async for topic in self.world.topics.walk(TopicKind.SYSTEM)]:
            entries = await self.world.log.read(topic.id, 1, 1 << 20)
            segments = [Segment(entry.columns, entry.body) for entry in entries if entry.kind is EntryKind.SEGMENT]
            subjects += [json.loads(segment.event(n))["subject"] for segment in segments for n in range(len(segment))]
        return subjects


class Cluster:
    """Three partitions and a router. A partition whose URL is empty has no owner."""

    def __init__(self) -> None:
        self.urls = dict.fromkeys(range(P), "")
        self.owners = [Owner(number, self.urls) for number in range(P)]
        self.ports: dict[int, int] = {}

    async def arm(self, method: str, path: str, body: Any = None, headers: tuple[str, ...] = ()) -> Answer:
        """A management request of a client at the router."""
        mark = "&" if "?" in path else "?"
        return await self.ask(
            P, method, f"{path}{mark}{VERSION}", json.dumps(body) if body is not None else "", headers
        )

    async def ask(self, number: int, method: str, path: str, body: str = "", headers: tuple[str, ...] = ()) -> Answer:
        """A request at a partition, or at the router."""
        lines = [f"{method} {path} HTTP/1.1", "Host: 127.0.0.1", f"Content-Length: {len(body)}", *headers, "", body]
        return await ask_at(self.ports[number], "\r\n".join(lines))

    async def register(self) -> None:
        """Make the storage account known everywhere."""
        assert (await self.arm("PUT", ACCOUNT, {"location": "westus2", "properties": {}})).status == 200

    async def subscribe(self, name: str) -> int:
        return (await self.arm("PUT", f"{EXTENSION}/{name}", {"properties": {"destination": webhook()}})).status

    async def create(self, name: str) -> Answer:
        return await self.arm("PUT", f"{GROUP}/systemTopics/{name}", SOURCE)

    async def topics(self) -> list[str]:
        listed = json.loads((await self.arm("GET", f"{GROUP}/systemTopics")).body)["value"]
        return [topic["name"] for topic in listed]

    async def serve(self, opened: AsyncExitStack) -> None:
        """Serve every partition, and the router, on free ports."""
        forwarders = [Forwarder(partial(self.urls.__getitem__, n), SECRET, partition=n) for n in range(P)]
        router = PartitionRouter(forwarders, SECRET)
        for owner in self.owners:
            await opened.enter_async_context(owner.world)
        serving = []
        for number, app in enumerate([*(owner.world.app for owner in self.owners), router]):
            bound = socket.create_server(("127.0.0.1", 0)).detach()
            listener = opened.enter_context(socket.socket(fileno=bound))  # as a role gets it: asyncio knows it as TCP
            self.ports[number] = listener.getsockname()[1]
            if number < P:
                self.urls[number] = f"http://127.0.0.1:{self.ports[number]}"
            server = AppServer(app, partial(HttpProtocol, client_of=client_of))
            serving.append((server, asyncio.create_task(server.serve(sockets=[listener]))))

        async def stop() -> None:
            for server, _ in serving:
                server.stop()
            await asyncio.wait([task for _, task in serving])

        opened.push_async_callback(stop)
        for end in (router, *(owner.calls for owner in self.owners)):  # before the servers, which wait for connections
            opened.push_async_callback(end.close)


def act(story: Callable[[Cluster], Awaitable[None]]) -> None:
    """Tell a story of a cluster."""

    async def run() -> None:
        cluster = Cluster()
        async with asyncio.timeout(20), AsyncExitStack() as opened:
            await cluster.serve(opened)
            await story(cluster)

    asyncio.run(run())


def test_a_subscription_of_an_account_makes_its_system_topic_at_home() -> None:
    """The first makes one whose name lives where the account's id does; others find it, by either way."""

    async def story(them: Cluster) -> None:
        await them.register()
        assert json.loads((await them.arm("GET", EXTENSION)).body) == {"value": []}
        assert [await them.subscribe(name) for name in ("one", "two")] == [201, 201]
        (name,) = await them.topics()
        assert home_of(name, P) == HOME
        listed = json.loads((await them.arm("GET", EXTENSION)).body)["value"]
        nested = json.loads((await them.arm("GET", f"{GROUP}/systemTopics/{name}/eventSubscriptions")).body)["value"]
        assert [each["name"] for each in listed] == [each["name"] for each in nested] == ["one", "two"]
        for name in ("one", "two"):
            assert (await them.arm("DELETE", f"{EXTENSION}/{name}")).status == 200
        assert await them.topics() == []
        assert await them.subscribe("three") == 201

    act(story)


@pytest.mark.parametrize("home", range(P))
def test_a_subscription_of_an_account_finds_its_system_topic(home: int) -> None:
    """A system topic lives where its name does; subscriptions and the extension topic of its account find it there."""

    async def story(them: Cluster) -> None:
        await them.register()
        assert (await them.create(NAMES[home])).status == 201
        assert await them.owners[home].sources.find(ACCOUNT.upper()) == NAMES[home]
        assert await them.subscribe("one") == 201
        assert (await them.arm("GET", f"{EXTENSION}/one")).status == 200
        extension = await them.arm("GET", f"{ACCOUNT}/providers/Microsoft.EventGrid/extensionTopics/default")
        assert json.loads(extension.body)["properties"]["systemTopic"].endswith(f"/{NAMES[home]}")
        assert await them.topics() == [NAMES[home]]
        them.urls[(home + 1) % P] = ""
        assert await them.subscribe("two") == 201

    act(story)


def test_a_source_has_one_system_topic_in_the_whole_cluster() -> None:
    """A second one is refused with the error of one server, wherever both live; the first can be changed."""

    async def story(them: Cluster) -> None:
        assert (await them.create(NAMES[0])).status == 201
        for name in (NAMES[1], NAMES[2]):
            refused = await them.create(name)
            assert (refused.status, json.loads(refused.body)["error"]["code"]) == (409, "SystemTopicExists")
            assert NAMES[0] in json.loads(refused.body)["error"]["message"]
        assert (await them.create(NAMES[0])).status in (200, 201)
        assert await them.topics() == [NAMES[0]]
        await them.arm("DELETE", f"{GROUP}/systemTopics/{NAMES[0]}")
        assert (await them.create(NAMES[1])).status == 201

    act(story)


def test_of_two_system_topics_at_once_one_succeeds() -> None:
    """Two requests for one source in two partitions at the same moment: the home of the source decides."""

    async def story(them: Cluster) -> None:
        await them.register()
        answers = await asyncio.gather(*(them.create(name) for name in NAMES.values()), them.subscribe("one"))
        made = [answer for answer in answers[:P] if isinstance(answer, Answer) and answer.status == 201]
        assert len(made) <= 1
        assert len(await them.topics()) == 1

    act(story)


def test_a_partition_that_does_not_answer_may_have_the_system_topic() -> None:
    """While one has no owner, no system topic is created, by either way; afterwards it is."""

    async def story(them: Cluster) -> None:
        await them.register()
        missing = next(number for number in range(P) if number != HOME)
        url, them.urls[missing] = them.urls[missing], ""
        refused = await them.create(NAMES[HOME])
        assert (refused.status, json.loads(refused.body)["error"]["code"]) == (503, "ServerBusy")
        assert f"partition {missing} of" in json.loads(refused.body)["error"]["message"]
        assert await them.subscribe("one") == 503
        them.urls[missing] = url
        assert (await them.create(NAMES[HOME])).status == 201

    act(story)


def test_a_notice_crosses() -> None:
    """A partition takes a notice once, and refuses it with its reason; one without an owner does not answer."""

    async def story(them: Cluster) -> None:
        await them.register()
        await them.create(NAMES[2])
        await them.subscribe("one")
        calls = them.owners[0].calls
        them.owners[2].closed = "The disk is nearly full."
        assert await calls.cross(2, [NOTICE]) == "it answers with 503: The disk is nearly full."
        them.owners[2].closed = None
        assert [await calls.cross(number, [NOTICE]) for number in (1, 2, 2)] == [None, None, None]
        assert [await owner.told() for owner in them.owners] == [
            [], [], ["/blobServices/default/containers/dead/blobs/a.json"],
        ]  # fmt: skip
        them.urls[1] = ""
        assert await calls.cross(1, [NOTICE]) == "it has no owner that can be reached"
        with pytest.raises(Busy, match="it has no owner that can be reached"):
            await calls.find_topic(1, "/another")

    act(story)


def test_only_nodes_reach_the_calls_of_partitions() -> None:
    """For a client the paths do not exist: at the router, at a partition, and with a header that it made up."""

    def signed(name: str) -> tuple[str]:
        return (f"{FORWARDED.decode()}: {SECRET.sign(name, int(time.time())).decode()}",)

    async def story(them: Cluster) -> None:
        forged = (f"{FORWARDED.decode()}: partition-0 {int(time.time())} 00",)
        for path in (NOTICES, SOURCES):
            for number, headers in ((P, ()), (P, forged), (0, ()), (0, forged), (0, signed("127.0.0.1"))):
                assert (await them.ask(number, "POST", path, "{}", headers)).status == 404
        assert (await them.ask(0, "POST", NOTICES, "{}", signed(ROUTER))).status == 404
        assert (await them.ask(0, "POST", NOTICES, "{}", signed("partition-1"))).status == 400

    act(story)
