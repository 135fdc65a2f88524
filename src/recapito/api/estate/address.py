"""The resources of this server by their ids: the kind, the parts of the name, and one spelling for each resource."""

import re
from enum import IntEnum
from typing import NamedTuple

from recapito.api.arm.scope import TOPIC_KINDS, parse_scope
from recapito.domain.cluster.partition import home_of
from recapito.domain.estate.estate import CONNECTION
from recapito.domain.resources.topic import TopicKind
from recapito.domain.resources.topic_type import STORAGE

_SUBSCRIPTION = re.compile(
    r"(?P<scope>/subscriptions/.+?)(?P<style>/providers/Microsoft\.EventGrid)?/eventSubscriptions/(?P<name>[^/]+)",
    re.IGNORECASE,
)
_ACCOUNT = STORAGE.resource_type.lower()


class Stage(IntEnum):
    """The kinds of resources, in the order in which they are made."""

    GROUP = 0
    ACCOUNT = 1
    CONNECTION = 2
    TOPIC = 3
    DOMAIN_TOPIC = 4
    SUBSCRIPTION = 5


class ResourceAddress(NamedTuple):
    """The place of a resource.

    `name` is its own; `topic` names the topic of a domain topic or a subscription; `account` is the id of the storage
    account that a subscription is on.
    """

    stage: Stage
    name: str
    azure_subscription: str = ""
    group: str = ""
    kind: TopicKind = TopicKind.CUSTOM
    topic: str = ""
    domain_topic: str | None = None
    account: str = ""

    @property
    def id(self) -> str:
        """The id in its one spelling: a subscription's is nested in its topic's, unless it is on an account."""
        group = f"/subscriptions/{self.azure_subscription}/resourceGroups/{self.group}"
        topics = f"{group}/providers/Microsoft.EventGrid/{self.kind}"
        match self.stage:
            case Stage.GROUP:
                return group
            case Stage.ACCOUNT:
                return f"{group}/providers/{STORAGE.resource_type}/{self.name}"
            case Stage.CONNECTION:
                return f"{CONNECTION}{self.name}"
            case Stage.TOPIC:
                return f"{topics}/{self.name}"
            case Stage.DOMAIN_TOPIC:
                return f"{topics}/{self.topic}/topics/{self.name}"
        if self.account:
            return f"{self.account}/providers/Microsoft.EventGrid/eventSubscriptions/{self.name}"
        inner = "" if self.domain_topic is None else f"/topics/{self.domain_topic}"
        return f"{topics}/{self.topic}{inner}/eventSubscriptions/{self.name}"

    def home_among(self, partitions: int) -> int | None:
        """The partition that keeps the resource; None if every one does, for it has no topic.

        A subscription on an account lives with the system topic of the account, wherever that is; this is the home of
        the implicit one that an account without a system topic gets.
        """
        if self.stage < Stage.TOPIC:
            return None
        return home_of(self.account or self.topic or self.name, partitions)

    @property
    def type(self) -> str:
        """The type as ARM names it."""
        match self.stage:
            case Stage.GROUP:
                return "Microsoft.Resources/resourceGroups"
            case Stage.ACCOUNT:
                return STORAGE.resource_type
            case Stage.CONNECTION:
                return "connections"
            case Stage.TOPIC:
                return f"Microsoft.EventGrid/{self.kind}"
            case Stage.DOMAIN_TOPIC:
                return "Microsoft.EventGrid/domains/topics"
        if self.account:
            return "Microsoft.EventGrid/eventSubscriptions"
        inner = "" if self.domain_topic is None else "/topics"
        return f"Microsoft.EventGrid/{self.kind}{inner}/eventSubscriptions"

    @property
    def title(self) -> str:
        """The resource as people read it in a plan."""
        words = {
            Stage.GROUP: "resource group",
            Stage.ACCOUNT: "storage account",
            Stage.CONNECTION: "connection",
            Stage.DOMAIN_TOPIC: "domain topic",
            Stage.SUBSCRIPTION: "subscription",
        }
        kinds = {TopicKind.CUSTOM: "topic", TopicKind.DOMAIN: "domain", TopicKind.SYSTEM: "system topic"}
        word = words.get(self.stage) or kinds[self.kind]
        parts = (self.topic or self.account.rpartition("/")[2], self.domain_topic, self.name)
        return f"{word} {'/'.join(part for part in parts if part)}"


def address_of(id: str) -> ResourceAddress | None:
    """The resource that an id names; None if resources of its type are not served here."""
    if id.startswith(f"{CONNECTION}/"):
        return ResourceAddress(Stage.CONNECTION, id.removeprefix(CONNECTION))
    found = _SUBSCRIPTION.fullmatch(id)
    if found is not None:
        return _subscription(found["scope"], found["name"], bool(found["style"]))
    scope = parse_scope(id)
    if scope is None or scope.group is None:
        return None
    group = ResourceAddress(Stage.GROUP, scope.group, scope.subscription, scope.group)
    if not scope.type:
        return group
    kind = TOPIC_KINDS.get(scope.type)
    if kind is not None and not scope.child:
        return group._replace(stage=Stage.TOPIC, name=scope.name, kind=kind)
    if kind is TopicKind.DOMAIN and scope.child_type == "topics":
        return group._replace(stage=Stage.DOMAIN_TOPIC, name=scope.child, kind=kind, topic=scope.name)
    if scope.type == _ACCOUNT and not scope.child:
        return group._replace(stage=Stage.ACCOUNT, name=scope.name)
    return None


def _subscription(scope: str, name: str, extension: bool) -> ResourceAddress | None:
    """The subscription of that name on a scope."""
    on = address_of(scope)
    if on is None or (on.stage is Stage.ACCOUNT and not extension):
        return None
    found = on._replace(stage=Stage.SUBSCRIPTION, name=name)
    match on.stage:
        case Stage.TOPIC:
            return found._replace(topic=on.name)
        case Stage.DOMAIN_TOPIC:
            return found._replace(domain_topic=on.name)
        case Stage.ACCOUNT:
            return found._replace(kind=TopicKind.SYSTEM, account=on.id)
    return None
