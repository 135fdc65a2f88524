"""Which partitions answer a request, and how their answers become one: a pure table.

The law: a request about a topic goes to the partition of its name, one about an id to the partition that gave the id
out. A resource without a topic is kept by every partition: it is written everywhere, and read where it is found first.
Lists are merged. A document about many topics goes to the first partition, which asks the others. Everything else is
the same everywhere.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, NamedTuple

import msgspec

from recapito.domain.cluster.partition import home_of, home_of_id
from recapito.domain.handshake.handshake import read_token


class AskedRequest(NamedTuple):
    """A request as far as its way depends on it. `query`: the first value of each name, the names in lower case."""

    method: str
    path: str
    query: Mapping[str, str]
    body: bytes = b""


class Merge(Enum):
    """How the answers of all partitions become one."""

    BY_NAME = "a list of ARM in the order of names, whose page starts after a name"
    BY_KEY = "counters in the order of the topics' keys"
    BY_NUMBER = "damaged records in the order of their numbers"
    CHAIN_OF_ARM = "a list of ARM in the order of ids: one partition after the other"
    CHAIN = "a list of ours in the order of ids"
    UNION = "one page with all members, each once"
    SUM = "the sums of numbers"
    SERIES = "the sums of numbers by time"
    ATTEMPTS = "attempts in the order of time"


class One(NamedTuple):
    """One partition answers."""

    partition: int


@dataclass(frozen=True)
class Anywhere:
    """Any partition answers."""


class BySource(NamedTuple):
    """The partition with the system topic of this source answers; while no partition has one, the home of its id."""

    source: str


@dataclass(frozen=True)
class Found:
    """The partitions are asked one after the other, until one knows it."""


@dataclass(frozen=True)
class Everywhere:
    """All partitions carry it out; carrying it out again changes nothing."""


class Merged(NamedTuple):
    """All partitions answer."""

    how: Merge


@dataclass(frozen=True)
class InTurn:
    """The partitions carry it out one after the other, one in each request; the answer names the start of the next."""


class Unserved(NamedTuple):
    """A cluster of several partitions does not have this."""

    message: str


Route = One | BySource | Anywhere | Found | Everywhere | Merged | InTurn | Unserved
Rule = Callable[[AskedRequest, re.Match[str], int], Route]

NOT_FOR_CLIENTS = "Partitions send each other the portions of an estate. Send the estate itself, to /estate."

_READS = ("GET", "HEAD")
_decode_object = msgspec.json.Decoder(dict[str, Any]).decode


def route(asked: AskedRequest, partitions: int) -> Route:
    """The way of a request that does not publish."""
    path = "/" + asked.path.lstrip("/")
    for pattern, rule in _TABLE:
        found = pattern.fullmatch(path)
        if found is not None:
            return rule(asked, found, partitions)
    return Anywhere()


def _always(way: Route) -> Rule:
    return lambda asked, found, partitions: way


def _reading(way: Route, otherwise: Route) -> Rule:
    return lambda asked, found, partitions: way if asked.method in _READS else otherwise


def _by_topic(asked: AskedRequest, found: re.Match[str], partitions: int) -> Route:
    return One(home_of(found["name"], partitions))


def _by_source(asked: AskedRequest, found: re.Match[str], partitions: int) -> Route:
    return BySource(found["source"])


def _by_asked_topic(otherwise: Route) -> Rule:
    """The topic is in the query, or all partitions are asked."""

    def rule(asked: AskedRequest, found: re.Match[str], partitions: int) -> Route:
        topic = asked.query.get("topic")
        return One(home_of(topic, partitions)) if topic else otherwise

    return rule


def _by_asked_topics(otherwise: Route) -> Rule:
    """The query names a topic, or several with commas between them, which may live in several partitions."""

    def rule(asked: AskedRequest, found: re.Match[str], partitions: int) -> Route:
        homes = {home_of(name, partitions) for name in asked.query.get("topic", "").split(",") if name}
        return One(homes.pop()) if len(homes) == 1 else otherwise

    return rule


def _by_id(asked: AskedRequest, found: re.Match[str], partitions: int) -> Route:
    return _home(found["id"], partitions)


def _by_consent(asked: AskedRequest, found: re.Match[str], partitions: int) -> Route:
    target = read_token(asked.query.get("token", ""))
    return Anywhere() if target is None else _home(str(target.topic), partitions)


def _by_letters(asked: AskedRequest, found: re.Match[str], partitions: int) -> Route:
    """The letters of a topic, or the one letter of a name, which begins with the id of its subscription; or all."""
    body = _object(asked.body)
    if asked.method != "POST" or body is None or not isinstance(body.get("after"), str | None):
        return Anywhere()  # its error is the same everywhere
    if isinstance(name := body.get("name"), str):
        return _home(name.partition("/")[0], partitions)
    return One(home_of(topic, partitions)) if isinstance(topic := body.get("topic"), str) else InTurn()


def _by_number(asked: AskedRequest, found: re.Match[str], partitions: int) -> Route:
    """The body has the number of a damaged record, which tells its partition as an id does."""
    return _home(str((_object(asked.body) or {}).get("number")), partitions)


def _by_body(asked: AskedRequest, found: re.Match[str], partitions: int) -> Route:
    """The body names a subscription by its id, or a topic."""
    body = _object(asked.body) or {}
    if "subscriptionId" in body:
        return _home(str(body["subscriptionId"]), partitions)
    return One(home_of(topic, partitions)) if isinstance(topic := body.get("topic"), str) else Anywhere()


def _by_explained(asked: AskedRequest, found: re.Match[str], partitions: int) -> Route:
    if asked.method not in _READS:
        return _by_body(asked, found, partitions)
    return _by_asked_topic(Found())(asked, found, partitions)


def _home(id: str, partitions: int) -> Route:
    """The partition of an id; whatever is none gets its error anywhere."""
    known = id.isascii() and id.isdigit() and len(id) < 19 and home_of_id(int(id)) < partitions
    return One(home_of_id(int(id))) if known else Anywhere()


def _object(body: bytes) -> dict[str, Any] | None:
    """The body, if it is an object of JSON; otherwise the partition that gets it refuses it."""
    try:
        return _decode_object(body)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None


_SUBSCRIPTION = "/subscriptions/[^/]+"
_GROUP = f"{_SUBSCRIPTION}/resourceGroups/[^/]+"
_PLACE = f"(?:{_GROUP}|{_SUBSCRIPTION})"
_GRID = "/providers/Microsoft[.]EventGrid"
_STORAGE = "/providers/Microsoft[.]Storage/storageAccounts"
_WITHOUT_TOPIC = _reading(Found(), Everywhere())
_COORDINATED = _always(One(0))  # the first partition plans and applies documents in all, and keeps the deployments

_TABLE: tuple[tuple[re.Pattern[str], Rule], ...] = tuple(
    (re.compile(pattern, re.IGNORECASE), rule)
    for pattern, rule in (
        (f"{_GROUP}{_GRID}/(?:topics|domains|systemTopics)/(?P<name>[^/]+)(?:/.*)?", _by_topic),
        (f"{_PLACE}{_GRID}/(?:topics|domains|systemTopics)", _reading(Merged(Merge.BY_NAME), Anywhere())),
        (f"(?P<source>{_GROUP}/providers/[^/]+/[^/]+/[^/]+){_GRID}/.*", _by_source),
        (f"(?P<source>{_PLACE}){_GRID}/eventSubscriptions/.+", _by_source),
        (
            f"{_PLACE}{_GRID}(?:/locations/[^/]+)?(?:/topicTypes/[^/]+)?/eventSubscriptions",
            _reading(Merged(Merge.CHAIN_OF_ARM), Anywhere()),
        ),
        (f"{_PLACE}/providers/Microsoft[.]Resources/deployments(?:/.*)?", _COORDINATED),
        (f"{_PLACE}{_STORAGE}", _reading(Merged(Merge.BY_NAME), Anywhere())),
        (f"{_GROUP}{_STORAGE}/[^/]+", _WITHOUT_TOPIC),
        (f"{_PLACE}/resources", _reading(Merged(Merge.UNION), Anywhere())),
        (f"{_SUBSCRIPTION}/resourceGroups", _reading(Merged(Merge.BY_NAME), Anywhere())),
        (_GROUP, _WITHOUT_TOPIC),
        ("/subscriptions", _reading(Merged(Merge.UNION), Anywhere())),
        (_SUBSCRIPTION, _reading(Found(), Anywhere())),
        ("/connections/.+/check", _always(Anywhere())),
        ("/connections/.+", _WITHOUT_TOPIC),
        ("/eventsubscriptions/[^/]+/validate", _by_consent),
        ("/lanes", _by_asked_topic(Merged(Merge.CHAIN))),
        ("/lanes/totals", _always(Merged(Merge.SUM))),
        ("/lanes/(?P<id>[^/]+)/.*", _by_id),
        ("/counts", _by_asked_topics(Merged(Merge.BY_KEY))),
        ("/deliveries", _by_asked_topic(Merged(Merge.ATTEMPTS))),
        ("/deliveries/series", _by_asked_topic(Merged(Merge.SERIES))),
        ("/deliveries/explain", _by_explained),
        ("/deliveries/resend", _by_body),
        ("/deadletters", _by_asked_topic(Merged(Merge.CHAIN))),
        ("/deadletters/(?:redrive|purge)", _by_letters),
        ("/deadletters/(?P<id>[0-9]+)/.*", _by_id),
        ("/damaged", _always(Merged(Merge.BY_NUMBER))),
        ("/damaged/dismiss", _by_number),
        ("/damaged/[a-z]+-(?P<id>[0-9]+)", _by_id),
        ("/damaged/.+", _always(Found())),
        ("/estate/portion(?:/.*)?", _always(Unserved(NOT_FOR_CLIENTS))),
        ("/estate(?:/.*)?", _COORDINATED),
    )
)
