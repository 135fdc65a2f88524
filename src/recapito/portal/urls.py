"""The paths of pages. The page of a resource is at its resource id, so that a link names the resource."""

import re
from typing import NamedTuple
from urllib.parse import quote, unquote, urlencode

PREFIX = "/resource"
_ID = re.compile(
    r"(?P<group>/subscriptions/[^/]+/resourceGroups/[^/]+)/providers/Microsoft\.EventGrid/"
    r"(?P<kind>topics|domains|systemTopics)/(?P<topic>[^/]+)(?:/topics/(?P<domain_topic>[^/]+))?"
    r"(?:/eventSubscriptions/(?P<subscription>[^/]+))?",
    re.IGNORECASE,
)
_LISTED = {
    "/resource": ("Go to the topics", "/topics"),
    "/edit": ("Go to the topics", "/topics"),
    "/new-subscription": ("Go to the topics", "/topics"),
    "/explain": ("Go to the deliveries", "/deliveries"),
    "/dead-letter": ("Go to the dead letters", "/dead-letters"),
}
_KINDS = {"topics": "topics", "domains": "domains", "systemtopics": "systemTopics"}


class Address(NamedTuple):
    """A resource by its parts; `kind` is ARM's word for the kind of its topic."""

    id: str
    group: str
    kind: str
    topic: str
    domain_topic: str | None
    subscription: str | None

    @property
    def topic_id(self) -> str:
        """The id of the topic, the domain or the system topic."""
        return f"{self.group}/providers/Microsoft.EventGrid/{self.kind}/{self.topic}"

    @property
    def parent_id(self) -> str:
        """The id of the topic, domain or domain topic that the subscription belongs to."""
        return self.topic_id if self.domain_topic is None else f"{self.topic_id}/topics/{self.domain_topic}"


def read_id(id: str) -> Address | None:
    """The parts of a resource id, None if it is not one of ours."""
    parts = _ID.fullmatch(id.rstrip("/"))
    if parts is None:
        return None
    kind = _KINDS[parts["kind"].lower()]
    if kind == "systemTopics" and parts["domain_topic"]:
        return None
    return Address(id.rstrip("/"), parts["group"], kind, parts["topic"], parts["domain_topic"], parts["subscription"])


def resource_path(id: str, **query: str) -> str:
    """The page of a resource."""
    return f"{PREFIX}{quote(id)}" + (f"?{urlencode(query)}" if query else "")


def ways_back(path: str) -> list[tuple[str, str]]:
    """The pages above one that is not there, the nearest first."""
    ways = [("Go to the overview", "/")]
    _, _, rest = unquote(path).partition("/subscriptions/")
    address = read_id(f"/subscriptions/{rest}") if rest else None
    if address is not None and (address.subscription or address.domain_topic):
        ways = [(f"Go to {address.topic}", resource_path(address.topic_id)), *ways]
    for start, way in _LISTED.items():
        if path.startswith(start):
            ways.append(way)
    return ways


def explain_path(event: str, topic: str | None = None) -> str:
    """The page that explains an event. Its id is in the query: it may hold any characters."""
    return "/explain?" + urlencode({"event": event, **({"topic": topic} if topic else {})}, quote_via=quote)
