"""The way of requests in a cluster of several partitions."""

import base64
import json
import re
from pathlib import Path

import pytest

from recapito.domain.cluster.partition import Partition, home_of
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

P = 7
S = "/subscriptions/0"
G = f"{S}/resourceGroups/g"
GRID = "/providers/Microsoft.EventGrid"
ORDERS = One(home_of("orders", P))
LANE = Partition(5, P).first_id + 3


def way(method: str, path: str, body: bytes = b"") -> object:
    path, _, query = path.partition("?")
    pairs = dict(pair.split("=", 1) for pair in query.split("&") if pair)
    found = route(AskedRequest(method, path, pairs, body), P)
    return type(found) if isinstance(found, Unserved) else found


@pytest.mark.parametrize("kind", ["topics", "domains", "systemTopics", "TOPICS"])
def test_whatever_a_topic_has_lives_with_it(kind: str) -> None:
    """A topic, its keys, its subscriptions under both names and a domain's topics have one home, by the name alone."""
    topic = f"{G}{GRID}/{kind}/Orders"
    for path in (
        topic,
        f"/{topic}",
        f"{topic}/listKeys",
        f"{topic}/topics/one",
        f"{topic}/eventSubscriptions",
        f"{topic}/eventSubscriptions/hook",
        f"{topic}/topics/one/eventSubscriptions/hook",
        f"{topic}{GRID}/eventSubscriptions/hook/getFullUrl",
        f"{topic.lower()}",
    ):
        assert {way(method, path) for method in ("GET", "PUT", "DELETE", "POST")} == {ORDERS}


@pytest.mark.parametrize(
    ("path", "how"),
    [
        (f"{S}{GRID}/topics", Merge.BY_NAME),
        (f"{G}{GRID}/domains", Merge.BY_NAME),
        (f"{S}/resourceGroups", Merge.BY_NAME),
        (f"{G}/providers/Microsoft.Storage/storageAccounts", Merge.BY_NAME),
        (f"{G}{GRID}/eventSubscriptions", Merge.CHAIN_OF_ARM),
        (f"{S}{GRID}/locations/westus2/topicTypes/t/eventSubscriptions", Merge.CHAIN_OF_ARM),
        (f"{G}/resources", Merge.UNION),
        ("/subscriptions", Merge.UNION),
        ("/lanes", Merge.CHAIN),
        ("/deadletters", Merge.CHAIN),
        ("/lanes/totals", Merge.SUM),
        ("/counts", Merge.BY_KEY),
        ("/deliveries", Merge.ATTEMPTS),
        ("/deliveries/series", Merge.SERIES),
        ("/damaged", Merge.BY_NUMBER),
    ],
)
def test_lists_are_merged(path: str, how: Merge) -> None:
    """Lists over topics ask every partition."""
    assert way("GET", path) == Merged(how)


@pytest.mark.parametrize("path", ["/lanes", "/counts", "/deliveries", "/deliveries/series", "/deadletters"])
def test_a_topic_in_the_query_names_its_home(path: str) -> None:
    """One partition answers about one topic."""
    assert way("GET", f"{path}?topic=ORDERS") == ORDERS


def test_several_topics_may_live_in_several_partitions() -> None:
    """Counters of topics of one partition come from there; those of others are merged."""
    others = [name for name in map(str, range(99)) if One(home_of(name, P)) == ORDERS]
    assert way("GET", f"/counts?topic=orders,{others[0]},{others[1]}") == ORDERS
    assert way("GET", "/counts?topic=orders,a,b,c,d,e,f,g") == Merged(Merge.BY_KEY)


def test_ids_name_their_partition() -> None:
    """Lanes, dead letters and validations are found by the ids in their names."""
    token = base64.urlsafe_b64encode(f"[{LANE},null]".encode()).decode().rstrip("=")
    assert way("POST", f"/lanes/{LANE}/retry-now") == One(5)
    assert way("GET", f"/deadletters/{LANE}/HOOK/2026/1/1/1/x.json/0") == One(5)
    assert way("POST", "/deadletters/redrive", b'{"name":"%d/HOOK/x/0"}' % LANE) == One(5)
    assert way("POST", "/deliveries/resend", b'{"event":"e","subscriptionId":%d}' % LANE) == One(5)
    assert way("GET", f"/eventsubscriptions/hook/validate?id=c&token={token}") == One(5)
    assert way("POST", "/lanes/x/retry-now") == Anywhere()
    assert way("POST", f"/lanes/{Partition(P, P).first_id}/retry-now") == Anywhere()


def test_numbers_of_damaged_records_name_their_partition() -> None:
    """A record is shown and dismissed where it was found; one of a resource, which has no number, is looked for."""
    assert way("GET", f"/damaged/entry-{LANE}") == One(5)
    assert way("POST", "/damaged/dismiss", b'{"number":%d}' % LANE) == One(5)
    assert way("GET", "/damaged/document:group/x-7") == Found()
    assert way("POST", "/damaged/dismiss", b"{}") == Anywhere()
    assert way("POST", "/damaged/dismiss", b"\xff") == Anywhere()


def test_bodies_name_topics() -> None:
    """Rehearsals, redrives and purges go to the home of the topic in their body; without one, letters go in turn.

    A body that is wrong gets its error anywhere.
    """
    assert way("POST", "/deliveries/explain", b'{"topic":"orders","event":{}}') == ORDERS
    assert way("POST", "/deadletters/purge", b'{"topic":"orders"}') == ORDERS
    assert way("POST", "/deadletters/purge", b"{}") == InTurn()
    assert way("POST", "/deadletters/redrive", b'{"topic":null,"subscription":"hook","after":"~2"}') == InTurn()
    assert way("POST", "/deadletters/purge", b"\xff[") == Anywhere()
    assert way("POST", "/deadletters/purge", b'{"after":7}') == Anywhere()
    assert way("GET", "/deadletters/purge", b"{}") == Anywhere()
    assert way("GET", "/deliveries/explain?event=e") == Found()
    assert way("GET", "/deliveries/explain?event=e&topic=orders") == ORDERS


def test_resources_without_a_topic_are_everywhere() -> None:
    """Groups, accounts and connections are written everywhere, and read where they are found first."""
    account = f"{G}/providers/Microsoft.Storage/storageAccounts/a"
    for path in (G, account, "/connections/subscriptions/0/x"):
        assert (way("GET", path), way("PUT", path), way("DELETE", path)) == (Found(), Everywhere(), Everywhere())
    assert way("POST", "/connections/subscriptions/0/x/check") == Anywhere()


@pytest.mark.parametrize("rest", ["eventSubscriptions", "eventSubscriptions/x", "extensionTopics/default"])
def test_an_account_is_asked_for_where_its_system_topic_is(rest: str) -> None:
    """Subscriptions of a storage account, and its extension topic, belong to the system topic, whatever its name."""
    account = f"{G}/providers/Microsoft.Storage/storageAccounts/a"
    for method in ("GET", "PUT", "PATCH", "DELETE", "POST"):
        assert way(method, f"{account}{GRID}/{rest}") == BySource(account)
        assert way(method, f"/{account}{GRID.lower()}/{rest}") == BySource(account)


def test_what_spans_partitions_is_refused() -> None:
    """Portions of estates are refused, which partitions send each other."""
    assert way("POST", "/estate/portion") is Unserved


def test_documents_go_to_the_first_partition() -> None:
    """It plans, applies and exports estates for all, and keeps the deployments."""
    deployments = f"{G}/providers/Microsoft.Resources/deployments"
    for path in ("/estate", "/estate/export", deployments, f"{deployments}/d", f"{deployments}/d/whatIf"):
        assert {way(method, path) for method in ("GET", "PUT", "POST", "DELETE")} == {One(0)}


def test_the_rest_is_the_same_everywhere() -> None:
    """Tokens, descriptions and unknown paths are answered anywhere."""
    for path in ("/", "/server", "/openapi.json", "/t/oauth2/v2.0/token", "/metadata/endpoints", "/connections", "/x"):
        assert way("GET", path) == Anywhere()


ALIKE = {
    *("/", "/healthz", "/readyz", "/metrics", "/server", "/clock", "/clock/advance", "/clock/sleep", "/tenants"),
    "/subscriptions/{subscription}/locations",
    "/subscriptions/{subscription}/providers",
    "/subscriptions/{subscription}/providers/{namespace}",
    "/subscriptions/{subscription}/providers/{namespace}/register",
    "/subscriptions/{subscription}/providers/{namespace}/unregister",
    "/subscriptions/{subscription}/providers/Microsoft.Storage/checkNameAvailability",
    "/subscriptions/{subscription}/resourceGroups/{group}/providers/{namespace}/{type}/{name}" + GRID + "/eventTypes",
    *(f"{GRID}/{rest}" for rest in ("operations", "topicTypes", "topicTypes/{type}", "topicTypes/{type}/eventTypes")),
}
VALUES = {"scope": f"{G[1:]}{GRID}/topics/orders", "name": f"{LANE}/0"}
BODIES = {
    "/deliveries/explain": b'{"topic":"orders"}',
    "/deliveries/resend": b'{"topic":"orders"}',
    "/deadletters/redrive": b"{}",
    "/deadletters/purge": b"{}",
    "/damaged/dismiss": b'{"number":1}',
}


def test_every_route_has_its_way() -> None:
    """A route that no row of the table names would be answered by any partition: it must be one that is alike in all.

    Publishes find their topic before the table is asked.
    """
    description = json.loads((Path(__file__).parents[2] / "golden" / "files" / "openapi.json").read_text("utf-8"))
    anywhere = set()
    for pattern, verbs in description["paths"].items():
        path = re.sub(r"\{(\w+)\}", lambda found: VALUES.get(found[1], "0"), pattern)
        for verb in verbs.keys() & {"get", "put", "post", "patch", "delete"}:
            if way(verb.upper(), path, BODIES.get(pattern, b"")) == Anywhere():
                anywhere.add(pattern)
    assert anywhere == ALIKE | {"/topics/{topic}/api/events", "/domains/{topic}/api/events"}
