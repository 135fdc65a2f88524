"""A cluster of four partitions: they are spread over the nodes, any node answers for all, and nothing is lost."""

import json
import threading
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from functools import partial
from itertools import count, islice, product
from pathlib import Path
from typing import Any

import pytest
from azure.core.credentials import AzureKeyCredential
from azure.eventgrid import EventGridEvent, EventGridPublisherClient
from azure.mgmt.eventgrid.models import Domain, TopicUpdateParameters
from playwright.sync_api import expect

from recapito.domain.cluster.partition import home_of
from recapito.domain.connections.connection import AzureService
from recapito.domain.connections.parse_storage import AZURITE_ACCOUNT, AZURITE_KEY
from tests.azurite.place import ACCOUNT, new_container
from tests.azurite.server import Azurite
from tests.clients.az import Az
from tests.clients.service import run
from tests.clients.topics import MAPPING, make_topic, subscribe
from tests.clients.webhook import webhook
from tests.kit.nats_cluster import running
from tests.portal.browser import CHROMIUM, Window, launched, lone_portal, window
from tests.system.machine import GROUP, VERSION, Receiver, Server, events, receiver, server, until
from tests.system.nodes import TAKEOVER_S, Nodes
from tests.system.partition_clients import lose, managing, public_node, publish

pytestmark = pytest.mark.xdist_group("nats")
TOPICS = [f"orders-{number}" for number in range(8)]
WATCH = f"{ACCOUNT}/providers/Microsoft.EventGrid/eventSubscriptions"
SYSTEM_TOPIC = {
    "location": "local",
    "properties": {"source": ACCOUNT, "topicType": "Microsoft.Storage.StorageAccounts"},
}
NO_SUBSCRIPTION = "/subscriptions/00000000-0000-0000-0000-000000000000"
FILE = """
topics: [{name: demo, keys: {key1: {file: key}}}]
resourceGroups: [{name: filed, tags: {of: %s}}]
"""
KEYS = ["MDEyMzQ1Njc4OWFiY2RlZg==", "QUJDREVGR0hJSktMTU5PUA=="]


class Spread:
    """Nodes that share four partitions and an estate file, eight topics over them, and one webhook for all events."""

    def __init__(self, nodes: Nodes, hook: Receiver, mute: Receiver, told: Receiver) -> None:
        self.nodes = nodes
        self.hook = hook
        self.mute = mute
        self.told = told
        self.keys: dict[str, str] = {}
        self.container = ""

    def doom(self, azurite: Azurite) -> None:
        """Have events wait behind others that a mute endpoint does not answer, once; after a minute one dies untried.

        Its letter goes to an account whose system topic is in another partition, and has a subscription.
        """
        if self.container:
            return
        assert home_of("doomed", 4) != home_of("blobs", 4)
        self.container = new_container(azurite).rpartition("/")[2]
        one, two = (self.nodes.servers[name] for name in tuple(self.nodes.servers)[:2])
        text = f"AccountName={AZURITE_ACCOUNT};AccountKey={AZURITE_KEY};BlobEndpoint={azurite.url(AzureService.BLOB)}"
        one.call("PUT", f"/connections{ACCOUNT}", {"connectionString": text})
        one.call("PUT", f"{ACCOUNT}?api-version=2023-01-01", {"location": "local"})
        one.call("PUT", f"{GROUP}/systemTopics/blobs?{VERSION}", SYSTEM_TOPIC)
        watch = {"destination": {"endpointType": "WebHook", "properties": {"endpointUrl": self.told.url}}}
        two.call("PUT", f"{WATCH}/watch?{VERSION}", {"properties": watch})
        two.call("PUT", f"{GROUP}/topics/doomed?{VERSION}", {"location": "westus2"})
        blobs = {"resourceId": ACCOUNT, "blobContainerName": self.container}
        one.subscribe(
            "mute",
            self.mute.url,
            "doomed",
            deadLetterDestination={"endpointType": "StorageBlob", "properties": blobs},
            retryPolicy={"eventTimeToLiveInMinutes": 1, "maxDeliveryAttempts": 30},
        )
        (lane,) = one.call("GET", "/lanes?topic=doomed")["value"]
        one.call("POST", f"/lanes/{lane['id']}/limits", {"maxRequests": 1})
        key = one.call("POST", f"{GROUP}/topics/doomed/listKeys?{VERSION}")["key1"]
        assert one.request("POST", "/topics/doomed/api/events", events("1", "2", "3"), aeg_sas_key=key)[0] == 200

    def url(self, name: str) -> str:
        """The URL of a node itself; the public one is that of node two."""
        return f"https://127.0.0.1:{self.nodes.servers[name].port}"

    def letters(self, *words: str) -> Any:
        """The answer of `recapito deadletter` at node two, which must succeed."""
        two = self.nodes.servers["two"]
        flags = ("--server", self.url("two"), "--ca-file", str(two.authority))
        return json.loads(run("deadletter", *words, *flags))

    def names(self, owner: str, prefix: str) -> Iterator[str]:
        """Names of topics whose partitions this node owns."""
        owned = self.owned(owner)
        return (name for name in map(f"{prefix}-{{}}".format, count()) if home_of(name, 4) in owned)

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


@contextmanager
def portal_window(server: Server) -> Iterator[Window]:
    """A window on a portal of this node."""
    with (
        launched() as browser,
        lone_portal(server, tls__enabled=True) as portal,
        window(browser, portal.url.replace("http:", "https:"), ignore_https_errors=True) as seen,
    ):
        yield seen


def explains(server: Server, event: str) -> bool:
    return b"Delivered" in server.request("GET", f"/deliveries/explain?event={event}")[1]


def has_delivered(server: Server, count: int) -> bool:
    totals = server.call("GET", "/lanes/totals")
    return bool(totals["subscriptions"] == totals["delivered"] == count)


@pytest.fixture(scope="module")
def spread(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Spread]:
    directory = tmp_path_factory.mktemp("p")
    (directory / "estate.yaml").write_text(FILE % "old", "utf-8")
    (directory / "key").write_text(KEYS[0], "utf-8")
    with (
        running(tmp_path_factory.mktemp("nats")) as nats,
        closing(Nodes(directory, nats, "recapito", "--config", str(directory / "estate.yaml"), public="two")) as nodes,
        receiver() as hook,
        receiver() as mute,
        receiver() as told,
    ):
        nodes.make(4, ("one", "two", "three"))
        nodes.start("one", "two")
        mute.answer = lambda events: None
        it = Spread(nodes, hook, mute, told)
        it.await_shares({"one": 2, "two": 2})
        for number, topic in enumerate(TOPICS):
            server = nodes.servers[("one", "two")[number % 2]]
            server.call("PUT", f"{GROUP}/topics/{topic}?{VERSION}", {"location": "westus2"})
            it.keys[topic] = server.call("POST", f"{GROUP}/topics/{topic}/listKeys?{VERSION}")["key1"]
            nodes.servers["one"].subscribe("hook", hook.url, topic)
        with pytest.MonkeyPatch.context() as environment:
            for name, value in public_node(nodes.servers["two"]).trust.items():
                environment.setenv(name, value)
            yield it


def test_any_node_takes_the_events_of_every_topic(spread: Spread) -> None:
    """Azure's own client publishes to eight topics at either node; all events arrive, and either node explains them."""
    wanted = set()
    for number, topic in enumerate(TOPICS):
        url = spread.url(("two", "one")[number % 2])
        with EventGridPublisherClient(
            f"{url}/topics/{topic}/api/events", AzureKeyCredential(spread.keys[topic])
        ) as client:
            client.send([EventGridEvent(id=f"sdk-{topic}", subject="s", event_type="t", data={}, data_version="1")])
        wanted.add(f"sdk-{topic}")
    spread.hook.wait_for(wanted)
    for node in spread.nodes.servers.values():
        assert until(partial(explains, node, "sdk-orders-5"))


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


def test_a_document_spans_partitions(spread: Spread) -> None:
    """Either node plans, applies and exports estates, and deploys templates, with resources of all partitions."""
    one, two = spread.nodes.servers["one"], spread.nodes.servers["two"]
    names = [f"whole-{number}" for number in range(8)]
    hook = {"name": "hook", "endpoint": spread.hook.url}
    document = {"resourceGroup": "apart", "topics": [{"name": name, "subscriptions": [hook]} for name in names]}
    assert two.call("POST", "/estate", {"document": document, "dryRun": True})["counts"]["create"] == 16
    assert two.call("POST", "/estate", {"document": document})["counts"]["create"] == 16
    assert one.call("POST", "/estate", {"document": document})["counts"]["keep"] == 16
    document["topics"][3]["inputSchema"] = document["topics"][6]["tags"] = "wrong"
    status, answer = one.request("POST", "/estate", json.dumps({"document": document}).encode())
    assert (status, json.loads(answer)["error"]["target"]) == (400, "topics[3].inputSchema"), answer
    whole = one.call("POST", "/estate/export", {})
    assert {each["name"] for each in whole["topics"]} >= {"demo", *TOPICS, *names}
    assert two.call("POST", "/estate", {"document": whole, "prune": True, "dryRun": True})["steps"] == []
    outputs = {name: {"type": "string", "value": f"[listKeys('{name}', '2022-06-15').key1]"} for name in names}
    topics = [{"type": "Microsoft.EventGrid/topics", "name": name, "tags": {"a": "b"}} for name in names]
    deployment = {"properties": {"mode": "Incremental", "template": {"resources": topics, "outputs": outputs}}}
    place = f"{NO_SUBSCRIPTION}/resourceGroups/apart/providers/Microsoft.Resources/deployments"
    made = two.call("PUT", f"{place}/first?{VERSION}", deployment)["properties"]
    keys = {each["name"]: each["keys"]["key1"] for each in whole["topics"]}
    assert {name: output["value"] for name, output in made["outputs"].items()} == {name: keys[name] for name in names}
    assert [each["name"] for each in one.call("GET", f"{place}?{VERSION}")["value"]] == ["first"]
    one.call("DELETE", f"{NO_SUBSCRIPTION}/resourceGroups/apart?{VERSION}")
    assert one.request("GET", f"{place}?{VERSION}")[0] == 404


def test_a_server_of_its_own_moves_in_by_an_estate_file(spread: Spread, tmp_path: Path) -> None:
    """Its keys hold here; what was published there is delivered by it, what is published here from here, each once."""
    moving, one, file = [f"moving-{number}" for number in range(4)], spread.nodes.servers["one"], tmp_path / "all.yaml"
    with receiver() as hook, server(tmp_path / "old") as old:
        hook.answer = lambda events: 503
        old.request("DELETE", f"{GROUP}/topics/demo?{VERSION}")  # the cluster has one already
        keys: dict[str, str] = {}
        taken: list[str] = []

        def take(events: list[dict[str, Any]]) -> int:
            taken.extend(event["id"] for event in events)
            return 200

        for topic in moving:
            old.call("PUT", f"{GROUP}/topics/{topic}?{VERSION}", {"location": "westus2"})
            keys[topic] = old.call("POST", f"{GROUP}/topics/{topic}/listKeys?{VERSION}")["key1"]
            old.subscribe("hook", hook.url, topic)
            body = events(f"old-{topic}")
            assert old.request("POST", f"/topics/{topic}/api/events", body, aeg_sas_key=keys[topic])[0] == 200
        assert until(lambda: old.call("GET", "/lanes/totals")["failed"] >= len(moving))
        file.write_text(run("export", "--secrets", "--server", old.url))
        run("apply", str(file), "--yes", "--server", spread.url("one"), "--ca-file", str(one.authority))
        hook.answer = take
        for topic in moving:
            body = events(f"new-{topic}")
            assert one.request("POST", f"/topics/{topic}/api/events", body, aeg_sas_key=keys[topic])[0] == 200
        for lane in old.call("GET", "/lanes")["value"]:
            old.call("POST", f"/lanes/{lane['id']}/retry-now", {})
        assert until(lambda: len(taken) >= 2 * len(moving) and old.call("GET", "/lanes/totals")["pending"] == 0)
        assert sorted(taken) == sorted(f"{side}-{topic}" for side in ("old", "new") for topic in moving)
    for topic in moving:
        one.call("DELETE", f"{GROUP}/topics/{topic}?{VERSION}")


def test_the_owners_follow_the_estate_file(spread: Spread) -> None:
    """Each applies its part, at start, after a change and on SIGHUP. A wrong file is left alone."""
    group, keys = f"{NO_SUBSCRIPTION}/resourceGroups/filed?{VERSION}", f"{GROUP}/topics/demo/listKeys?{VERSION}"
    one, two = spread.nodes.servers["one"], spread.nodes.servers["two"]
    assert one.call("GET", group)["tags"] == {"of": "old"}
    assert one.call("POST", keys)["key1"] == KEYS[0]
    (spread.nodes.directory / "estate.yaml").write_text(FILE % "new", "utf-8")
    plan = {"document": {"resourceGroups": [{"name": "filed", "tags": {"of": "new"}}]}, "dryRun": True}
    assert until(lambda: two.call("POST", "/estate", plan)["counts"]["keep"] == 1)
    (spread.nodes.directory / "key").write_text(KEYS[1], "utf-8")
    for node in spread.nodes.servers.values():
        node.hang_up()
    assert until(lambda: one.call("POST", keys)["key1"] == KEYS[1])
    (spread.nodes.directory / "estate.yaml").write_text("topics: [{name: demo, nonsense: 1}]", "utf-8")


def test_the_sdks_at_a_node_that_does_not_own(spread: Spread) -> None:
    """Topics of three schemas, a domain and subscriptions are made, paged, changed and deleted; their events arrive."""
    schemas = ("EventGridSchema", "CloudEventSchemaV1_0", "CustomEventSchema")
    names = {owner: spread.names(owner, "sdk") for owner in ("one", "two")}
    with webhook() as hook, managing(public_node(spread.nodes.servers["two"])) as management:
        made = {}
        for schema, owner in product(schemas, names):
            mapping = {"input_schema_mapping": MAPPING} if schema == "CustomEventSchema" else {}
            name = next(names[owner])
            made[name] = make_topic(management, name, schema, **mapping)
            delivered = schema.replace("CustomEventSchema", "CustomInputSchema")
            subscribe(management, made[name].id, "sdk", hook.url(name), delivered)
            publish(made[name], schema, name)
        for name in made:
            assert name in hook.deliveries(name, 1)[0].body.decode()
        assert sorted(str(topic.name) for topic in management.topics.list_by_resource_group("python")) == sorted(made)
        paged = management.topics.list_by_resource_group("python", top=2).by_page()
        assert [len(list(page)) for page in paged] == [2, 2, 2]
        listed = management.event_subscriptions.list_global_by_resource_group("python", top=4)
        assert len({each.id for each in listed}) == len(made)
        domain = next(names["one"])
        management.domains.begin_create_or_update("python", domain, Domain(location="local")).result()
        assert [each.name for each in management.domains.list_by_resource_group("python")] == [domain]
        management.domains.begin_delete("python", domain).result()
        for name, topic in made.items():
            changed = management.topics.begin_update("python", name, TopicUpdateParameters(tags={"n": name})).result()
            assert changed.tags == {"n": name}
            management.event_subscriptions.begin_delete(topic.id, "sdk").result()
            management.topics.begin_delete("python", name).result()
        assert list(management.topics.list_by_resource_group("python")) == []


def test_az_at_a_node_that_does_not_own(spread: Spread, tmp_path: Path) -> None:
    """az signs in, and creates, lists, shows and deletes a topic, its subscription and a domain of another node."""
    node, names = public_node(spread.nodes.servers["two"]), spread.names("one", "az")
    topic, domain, az = next(names), next(names), Az(node, tmp_path)
    az("cloud register -n Recapito --endpoint-resource-manager {}", node.url)
    az("cloud set -n Recapito")
    az(
        "login --service-principal -u {} -p {} --tenant {}",
        node.principal.client,
        node.principal.secret,
        node.principal.tenant,
    )
    made = az("eventgrid topic create -g az -n {} -l local", topic)
    az(
        "eventgrid event-subscription create --name az-hook --source-resource-id {} --endpoint {}",
        made["id"],
        spread.hook.url,
    )
    [listed] = az("eventgrid event-subscription list --source-resource-id {}", made["id"])
    assert (listed["name"], listed["provisioningState"]) == ("az-hook", "Succeeded")
    az("eventgrid event-subscription delete --name az-hook --source-resource-id {}", made["id"])
    az("eventgrid domain create -g az -n {} -l local", domain)
    assert az("eventgrid domain show -g az -n {}", domain)["provisioningState"] == "Succeeded"
    assert [each["name"] for each in az("eventgrid topic list -g az")] == [topic]
    assert [each["name"] for each in az("eventgrid domain list -g az")] == [domain]
    az("eventgrid topic delete -g az -n {}", topic)
    az("group delete -n az --yes")
    assert "could not be found" in az.fails("eventgrid domain show -g az -n {}", domain)


def test_letters_of_all_partitions(spread: Spread) -> None:
    """Without a topic all letters are redriven once, each to its own subscription, and purged."""
    wanted, box = set(), {"endpointType": "Directory", "properties": {"name": "box"}}
    for owner in ("one", "two"):
        for topic in islice(spread.names(owner, "lost"), 3):
            made = spread.nodes.servers["two"].call("PUT", f"{GROUP}/topics/{topic}?{VERSION}", {"location": "westus2"})
            spread.nodes.servers["one"].subscribe("lost", spread.hook.url, topic, deadLetterDestination=box)
            ids = {f"{topic}-letter-{number}" for number in range(2)}
            lose(spread.nodes.servers[owner].data, "lost", made["id"], *sorted(ids))
            wanted |= ids
    assert spread.letters("redrive", "--dry-run")["selected"] == len(wanted)
    assert spread.letters("redrive")["done"] == len(wanted)
    spread.hook.wait_for(wanted)
    assert spread.letters("redrive", "--event-subscription", "lost")["selected"] == 0
    assert spread.letters("purge", "--yes", "--redriven")["done"] == len(wanted)
    status, answer = spread.nodes.servers["two"].request("POST", "/deadletters/purge", b'{"subscription":"nobody"}')
    assert (status, json.loads(answer)["error"]["code"]) == (404, "EventSubscriptionNotFound")


def test_the_portal_shows_all_partitions(spread: Spread) -> None:
    """Its pages have the topics, subscriptions, attempts and events of both nodes, and the owners of all partitions."""
    with portal_window(spread.nodes.servers["two"]) as seen:
        page = seen.open("/")
        for number in range(4):
            expect(page.locator(".chip", has_text=f"Partition {number} ok: node")).to_be_visible()
        page = seen.open("/topics")
        for topic in TOPICS:
            expect(page.get_by_role("link", name=topic, exact=True)).to_be_visible()
        for topic in TOPICS[:4]:
            page = seen.resource(f"topics/{topic}/eventSubscriptions/hook")
            expect(page.get_by_text("Healthy").first).to_be_visible()
        page = seen.open("/deliveries")
        expect(page.get_by_role("link", name="sdk-orders-5").first).to_be_visible()
        page = seen.open("/explain?event=sdk-orders-5")
        expect(page.get_by_text("Delivered").first).to_be_visible()
        page = seen.open("/dead-letters")
        expect(page.get_by_text("There are no dead letters.")).to_be_visible()
        expect(page.locator(".banner")).to_be_hidden()
        assert not seen.errors and not seen.strangers


def test_a_source_has_one_system_topic_in_all_partitions(spread: Spread, azurite: Azurite) -> None:
    """A second one is refused at either node, whatever its home; subscriptions of the account find the first."""
    spread.doom(azurite)
    for node, name in (("one", "blobs-2"), ("two", "storage-events")):
        body = json.dumps(SYSTEM_TOPIC).encode()
        status, answer = spread.nodes.servers[node].request("PUT", f"{GROUP}/systemTopics/{name}?{VERSION}", body)
        assert (status, json.loads(answer)["error"]["code"]) == (409, "SystemTopicExists")
    for node in ("one", "two"):
        listed = spread.pages(node, f"{GROUP}/systemTopics/blobs/eventSubscriptions?{VERSION}")
        assert [each["name"] for each in listed] == ["watch"]
        assert [each["name"] for each in spread.pages(node, f"{WATCH}?{VERSION}")] == ["watch"]


def test_a_killed_node_loses_nothing_and_a_new_one_gets_its_share(spread: Spread) -> None:
    """Under load a node dies: its partitions move. A third node joins: it gets partitions. Nothing is lost.

    The estate file is wrong meanwhile, which keeps no node from owning.
    Meanwhile the portal names the partitions that its pages lack.
    """
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
        lost = ", ".join(map(str, sorted(spread.owned("one"))))
        with ExitStack() as looking:
            if CHROMIUM is not None:
                portal = looking.enter_context(portal_window(spread.nodes.servers["two"]))
                banner = portal.open("/topics").locator(".banner")
            spread.nodes.kill("one")
            if CHROMIUM is not None:
                told = f"Partitions {lost} of the cluster do not answer: nothing of them is on this page."
                expect(banner).to_have_text(told)
            spread.await_shares({"two": 4})
            if CHROMIUM is not None:
                expect(banner).to_be_hidden()
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


def test_a_dead_letter_of_one_partition_is_an_event_of_another(spread: Spread, azurite: Azurite) -> None:
    """An event that was never tried within its minute is a blob, which the account's system topic tells of, once."""
    spread.doom(azurite)
    spread.told.wait_for_requests(1, 120)
    place = f"/blobServices/default/containers/{spread.container}/blobs/"

    def blobs() -> list[str]:
        with azurite.blobs() as client:
            return sorted(place + blob.name for blob in client.get_container_client(spread.container).list_blobs())

    def told() -> list[dict[str, Any]]:
        return [event for _, events in spread.told.requests for event in events]

    assert until(lambda: sorted(event["subject"] for event in told()) == blobs()), (told(), blobs())
    assert {(event["eventType"], event["topic"]) for event in told()} == {("Microsoft.Storage.BlobCreated", ACCOUNT)}
