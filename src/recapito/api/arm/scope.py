"""The scopes of event subscriptions: a topic, a domain, a domain topic, a system topic or its source.

One subscription has two names: nested under its topic, or as an extension of a scope (spec §8).
"""

import re
from enum import Enum
from typing import NamedTuple

from recapito.api.wire.decode import Shown
from recapito.api.wire.subscription import show_subscription
from recapito.domain.handshake.consent import provisioning_state
from recapito.domain.resources.subscription import Subscription
from recapito.domain.resources.topic import Topic, TopicKind

_SCOPE = re.compile(
    r"/?subscriptions/(?P<subscription>[^/]+)"
    r"(?:/resourceGroups/(?P<group>[^/]+)"
    r"(?:/providers/(?P<type>[^/]+/[^/]+)/(?P<name>[^/]+)(?:/(?P<child_type>[^/]+)/(?P<child>[^/]+))?)?)?",
    re.IGNORECASE,
)


class ArmScope(NamedTuple):
    """The parts of a resource id: an Azure subscription, a group in it, a resource in the group, a child of that.

    The types are in lower case.
    """

    subscription: str
    group: str | None
    type: str
    name: str
    child_type: str
    child: str


def parse_scope(path: str) -> ArmScope | None:
    """The parts of a resource id; None if the path is not one."""
    parts = _SCOPE.fullmatch(path)
    if parts is None:
        return None
    return ArmScope(
        parts["subscription"],
        parts["group"],
        (parts["type"] or "").lower(),
        parts["name"] or "",
        (parts["child_type"] or "").lower(),
        parts["child"] or "",
    )


class ScopeStyle(Enum):
    """The two names of a subscription."""

    NESTED = "/eventSubscriptions/"
    SCOPE = "/providers/Microsoft.EventGrid/eventSubscriptions/"


class SubscriptionScope(NamedTuple):
    """A topic, or one topic of a domain, under the name by which a client asks for it."""

    topic: Topic
    domain_topic: str | None
    form: ScopeStyle

    @property
    def id(self) -> str:
        """The resource id of the scope."""
        if self.form is ScopeStyle.SCOPE and self.topic.source is not None:
            return self.topic.source.resource_id
        return self.topic.resource_id if self.domain_topic is None else domain_topic_id(self.topic, self.domain_topic)

    @property
    def type(self) -> str:
        """The resource type of its subscriptions."""
        if self.form is ScopeStyle.SCOPE:
            return "Microsoft.EventGrid/eventSubscriptions"
        inner = "" if self.domain_topic is None else "/topics"
        return f"Microsoft.EventGrid/{self.topic.kind}{inner}/eventSubscriptions"

    def show(self, subscription: Subscription, now: int, state: str | None = None) -> Shown:
        """A subscription of this scope as ARM shows it, in its current provisioning state unless `state` names another.

        A domain topic is spelled as it was first, however the client spells it.
        """
        scope = self._replace(domain_topic=subscription.domain_topic)
        name = f"{scope.id}{self.form.value}{subscription.name}"
        state = state or provisioning_state(subscription, now)
        return show_subscription(subscription, name, scope.type, scope.id, state)


def domain_topic_id(domain: Topic, name: str) -> str:
    return f"{domain.resource_id}/topics/{name}"


def scope_of(topic: Topic, subscription: Subscription) -> SubscriptionScope:
    """The scope of a subscription, for its name as an extension."""
    return SubscriptionScope(topic, subscription.domain_topic, ScopeStyle.SCOPE)


# The resource types that are topics themselves.
TOPIC_KINDS = {f"microsoft.eventgrid/{kind}".lower(): kind for kind in TopicKind}
