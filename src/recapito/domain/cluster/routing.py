"""Which partitions answer a request, and how their answers become one: a pure table.

The law: a request about a topic goes to the partition of its name, one about an id to the partition that gave the id
out. A resource without a topic is kept by every partition: it is written everywhere, and read where it is found first.
Lists are merged. Everything else is the same everywhere.
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


@dataclass(frozen=True)
class Found:
    """The partitions are asked one after the other, until one knows it."""


@dataclass(frozen=True)
class Everywhere:
    """All partitions carry it out; carrying it out again changes nothing."""


class Merged(NamedTuple):
    """All partitions answer."""

    how: Merge


class Unserved(NamedTuple):
    """A cluster of several partitions does not have this."""

    message: str


Route = One | Anywhere | Found | Everywhere | Merged | Unserved
Rule = Callable[[AskedRequest, re.Match[str], int], Route]

NO_SYSTEM_TOPICS = (
    "A cluster of several partitions has no system topics: the events of a storage account would have to reach its "
    "topic from every partition. Use a cluster of one partition for them."
)
NO_ESTATES = (
    "A cluster of several partitions takes no estates and no deployments, which span partitions. Create the resources "
    "one by one, by az or the SDKs say."
)
NAME_A_TOPIC = "Name the topic: a cluster of several partitions looks for dead letters in one partition at a time."
NO_DISMISSAL = "Dismiss damaged records in each partition: a cluster of several partitions numbers them in each."

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


def _by_system_topic(asked: AskedRequest, found: re.Match[str], partitions: int) -> Route:
    if asked.method == "PUT" and found["rest"] in (None, ""):
        return Unserved(NO_SYSTEM_TOPICS)
    return _by_topic(asked, found, partitions)


def _by_asked_topic(otherwise: Route) -> Rule:
    """The topic is in the query, or all partitions are asked."""

    def rule(asked: AskedRequest, found: re.Match[str], partitions: int) -> Route:
        topic = asked.query.get("topic")
        return One(home_of(topic, partitions)) if topic else otherwise

    return rule


def _by_id(asked: AskedRequest, found: re.Match[str], partitions: int) -> Route:
    return _home(found["id"], partitions)


def _by_consent(asked: AskedRequest, found: re.Match[str], partitions: int) -> Route:
    target = read_token(asked.query.get("token", ""))
    return Anywhere() if target is None else _home(str(target.topic), partitions)


def _by_letters(asked: AskedRequest, found: re.Match[str], partitions: int) -> Route:
    """The letters of a topic, or the one letter of a name, which begins with the id of its subscription."""
    body = _object(asked.body)
    if isinstance(name := body.get("name"), str):
        return _home(name.partition("/")[0], partitions)
    return One(home_of(topic, partitions)) if isinstance(topic := body.get("topic"), str) else Unserved(NAME_A_TOPIC)


def _by_body(asked: AskedRequest, found: re.Match[str], partitions: int) -> Route:
    """The body names a subscription by its id, or a topic."""
    body = _object(asked.body)
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


def _object(body: bytes) -> dict[str, Any]:
    """The body, if it is an object of JSON; otherwise the partition that gets it refuses it."""
    try:
        return _decode_object(body)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return {}


_SUBSCRIPTION = "/subscriptions/[^/]+"
_GROUP = f"{_SUBSCRIPTION}/resourceGroups/[^/]+"
_PLACE = f"(?:{_GROUP}|{_SUBSCRIPTION})"
_GRID = "/providers/Microsoft[.]EventGrid"
_STORAGE = "/providers/Microsoft[.]Storage/storageAccounts"
_WITHOUT_TOPIC = _reading(Found(), Everywhere())

_TABLE: tuple[tuple[re.Pattern[str], Rule], ...] = tuple(
    (re.compile(pattern, re.IGNORECASE), rule)
    for pattern, rule in (
        (f"{_GROUP}{_GRID}/(?:topics|domains)/(?P<name>[^/]+)(?:/.*)?", _by_topic),
        (f"{_GROUP}{_GRID}/systemTopics/(?P<name>[^/]+)(?P<rest>/.*)?", _by_system_topic),
        (f"{_PLACE}{_GRID}/(?:topics|domains|systemTopics)", _reading(Merged(Merge.BY_NAME), Anywhere())),
        (f"{_GROUP}{_STORAGE}/[^/]+{_GRID}/.*", _reading(Anywhere(), Unserved(NO_SYSTEM_TOPICS))),
        (
            f"{_PLACE}{_GRID}(?:/locations/[^/]+)?(?:/topicTypes/[^/]+)?/eventSubscriptions",
            _reading(Merged(Merge.CHAIN_OF_ARM), Anywhere()),
        ),
        (f"{_PLACE}/providers/Microsoft[.]Resources/deployments(?:/.*)?", _reading(Found(), Unserved(NO_ESTATES))),
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
        ("/counts", _by_asked_topic(Merged(Merge.BY_KEY))),
        ("/deliveries", _by_asked_topic(Merged(Merge.ATTEMPTS))),
        ("/deliveries/series", _by_asked_topic(Merged(Merge.SERIES))),
        ("/deliveries/explain", _by_explained),
        ("/deliveries/resend", _by_body),
        ("/deadletters", _by_asked_topic(Merged(Merge.CHAIN))),
        ("/deadletters/(?:redrive|purge)", _by_letters),
        ("/deadletters/(?P<id>[0-9]+)/.*", _by_id),
        ("/damaged", _always(Merged(Merge.BY_NUMBER))),
        ("/damaged/dismiss", _always(Unserved(NO_DISMISSAL))),
        ("/damaged/.+", _always(Found())),
        ("/estate(?:/.*)?", _always(Unserved(NO_ESTATES))),
    )
)
