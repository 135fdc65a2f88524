"""A cluster of four partitions: they are spread over the nodes, any node answers for all, and nothing is lost."""

import json
import threading
from collections.abc import Iterator
from contextlib import closing, suppress
from functools import partial
from typing import Any

import pytest
from azure.core.credentials import AzureKeyCredential
from azure.eventgrid import EventGridEvent, EventGridPublisherClient

from tests.kit.nats_cluster import running
from tests.system.machine import GROUP, VERSION, Receiver, Server, events, receiver, until
from tests.system.nodes import TAKEOVER_S, Nodes

pytestmark = pytest.mark.xdist_group("nats")
TOPICS = [f"orders-{number}" for number in range(8)]


class Spread:
    """Nodes that share four partitions, eight topics over them, and one webhook for all events."""

    def __init__(self, nodes: Nodes, hook: Receiver) -> None:
        self.nodes = nodes
        self.hook = hook
        self.keys: dict[str, str] = {}

    def owned(self, name: str) -> list[int]:
        """The partitions that a node owns, and that answer, as the node says."""
        checks = self.nodes.ready(name).get("checks")
        told = checks if isinstance(checks, dict) else {}
        return [int(check.split()[1]) for check, state in told.items() if state == f"ok: node '{name}' owns"]

    def await_shares(self, shares: dict[str, int]) -> None:
        """Wait until each node owns as many partitions."""

        def reached() -> bool:
            return all(len(self.owned(name)) == share for name, share in shares.items())

        assert until(reached, 2 * TAKEOVER_S), {name: self.nodes.ready(name) for name in shares}

    def pages(self, node: str, path: str) -> list[Any]:
        """All members of a list, page by page."""
        members: list[Any] = []
        link: str | None = path
        while link is not None:
            page = self.nodes.servers[node].call("GET", link)
            assert "missingPartitions" not in page
            members += page["value"]
            link = page.get("nextLink")
            link = None if link is None else "/" + link.split("/", 3)[3]
        return members


def explains(server: Server, event: str) -> bool:
    return b"Delivered" in server.request("GET", f"/deliveries/explain?event={event}")[1]


def has_delivered(server: Server, count: int) -> bool:
    totals = server.call("GET", "/lanes/totals")
    return bool(totals["subscriptions"] == totals["delivered"] == count)


@pytest.fixture(scope="module")
def spread(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Spread]:
    directory = tmp_path_factory.mktemp("p")
    with (
        running(tmp_path_factory.mktemp("nats")) as nats,
        closing(Nodes(directory, nats)) as nodes,
        receiver() as hook,
    ):
        nodes.make(4, ("one", "two", "three"))
        nodes.start("one", "two")
        it = Spread(nodes, hook)
        it.await_shares({"one": 2, "two": 2})
        for number, topic in enumerate(TOPICS):
            server = nodes.servers[("one", "two")[number % 2]]
            server.call("PUT", f"{GROUP}/topics/{topic}?{VERSION}", {"location": "westus2"})
            it.keys[topic] = server.call("POST", f"{GROUP}/topics/{topic}/listKeys?{VERSION}")["key1"]
            nodes.servers["one"].subscribe("hook", hook.url, topic)
        yield it


def test_any_node_takes_the_events_of_every_topic(spread: Spread) -> None:
    """Azure's own client publishes to eight topics at either node; all events arrive, and either node explains them."""
    wanted = set()
    for number, topic in enumerate(TOPICS):
        url = spread.nodes.servers[("two", "one")[number % 2]].url
        with EventGridPublisherClient(
            f"{url}/topics/{topic}/api/events", AzureKeyCredential(spread.keys[topic]), connection_verify=False
        ) as client:
            client.send([EventGridEvent(id=f"sdk-{topic}", subject="s", event_type="t", data={}, data_version="1")])
        wanted.add(f"sdk-{topic}")
    spread.hook.wait_for(wanted)
    for server in spread.nodes.servers.values():
        assert until(partial(explains, server, "sdk-orders-5"))


def test_lists_show_all_partitions(spread: Spread) -> None:
    """Pages of topics, subscriptions, lanes, counters and attempts have each member once, at either node."""
    one = spread.nodes.servers["one"]
    assert until(
        lambda: len(one.call("GET", "/deliveries")["value"]) == len(TOPICS)
    )  # history is stored a moment later
    for node in ("one", "two"):
        server = spread.nodes.servers[node]
        topics = [topic["name"] for topic in spread.pages(node, f"{GROUP}/topics?{VERSION}&$top=3")]
        assert topics == ["demo", *TOPICS]
        listed = [each["id"] for each in spread.pages(node, f"{GROUP}/eventSubscriptions?{VERSION}&$top=3")]
        assert len({id.lower() for id in listed}) == len(listed) == len(TOPICS)
        lanes, after = [], ""
        while after is not None:
            page = server.call("GET", f"/lanes?limit=3&after={after}")
            lanes += page["value"]
            after = page["next"]
        assert sorted(lane["topic"] for lane in lanes) == TOPICS
        assert len({lane["id"] for lane in lanes}) == len(lanes)
        assert server.call("POST", f"/lanes/{lanes[5]['id']}/retry-now", {}) is not None
        assert [each["topic"] for each in server.call("GET", "/counts")["value"]] == sorted(["demo", *TOPICS])
        assert until(partial(has_delivered, server, len(TOPICS)))
        attempts, before = [], ""
        while before is not None:
            page = server.call("GET", f"/deliveries?limit=3{before and '&before='}{before}")
            attempts += page["value"]
            before = page["next"]
        assert sorted(each["topic"] for each in attempts) == TOPICS
        assert [each["at"] for each in attempts] == sorted((each["at"] for each in attempts), reverse=True)
        assert server.call("GET", "/deliveries?after=" + page["newest"])["value"] == []
        status, text = server.request("GET", "/metrics")
        assert status == 200
        assert {f'partition="{number}"' in text.decode() for number in spread.owned(node)} == {True}


def test_a_resource_without_a_topic_is_everywhere(spread: Spread) -> None:
    """A connection that one node stores is known at the other; a group that is deleted takes its topics with it."""
    one, two = spread.nodes.servers["one"], spread.nodes.servers["two"]
    group = "/subscriptions/00000000-0000-0000-0000-000000000000/resourceGroups/gone"
    for topic in ("gone-1", "gone-2", "gone-3", "gone-4"):
        one.call("PUT", f"{group}/providers/Microsoft.EventGrid/topics/{topic}?{VERSION}", {"location": "westus2"})
    two.call("DELETE", f"{group}?{VERSION}")
    assert one.request("GET", f"{group}?{VERSION}")[0] == 404
    assert [topic["name"] for topic in spread.pages("one", f"{GROUP}/topics?{VERSION}")] == ["demo", *TOPICS]
    status, answer = one.request("PUT", f"{GROUP}/systemTopics/s?{VERSION}", b"{}")
    assert (status, json.loads(answer)["error"]["code"]) == (400, "NotSupportedOnPartitions")


def test_a_killed_node_loses_nothing_and_a_new_one_gets_its_share(spread: Spread) -> None:
    """Under load a node dies: its partitions move. A third node joins: it gets partitions. Nothing is lost."""
    acknowledged: set[str] = set()
    ending = threading.Event()

    def publish() -> None:
        number = 0
        while not ending.wait(0.02):
            number += 1
            topic, id = TOPICS[number % 8], f"load-{number}"
            with suppress(OSError, KeyError):
                server, path = spread.nodes.servers["two"], f"/topics/{topic}/api/events"
                if server.request("POST", path, events(id), aeg_sas_key=spread.keys[topic])[0] == 200:
                    acknowledged.add(id)

    publishing = threading.Thread(target=publish)
    publishing.start()
    try:
        assert until(lambda: len(acknowledged) >= 100, 30)
        spread.nodes.kill("one")
        spread.await_shares({"two": 4})
        seen = len(acknowledged)
        assert until(lambda: len(acknowledged) >= seen + 100, 30)
        spread.nodes.start("three")
        spread.await_shares({"two": 2, "three": 2})
        seen = len(acknowledged)
        assert until(lambda: len(acknowledged) >= seen + 100, 30)
    finally:
        ending.set()
        publishing.join()
    spread.hook.wait_for(acknowledged, 60)
