"""The value of the fixture `recapito`: topics, receivers and the clock of one test, removed when it ends."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any
from urllib.parse import urlencode

from recapito.domain.profiles import profile as profiles
from recapito.testing.answer import Script, Step
from recapito.testing.client import ServerRefused
from recapito.testing.clock import ServerClock
from recapito.testing.receiver import Receiver
from recapito.testing.server import RunningServer
from recapito.testing.story import FilterLine
from recapito.testing.switchboard import Switchboard
from recapito.testing.topic import Topic, topic_body

_GROUP = "/subscriptions/00000000-0000-0000-0000-000000000000/resourceGroups/test/providers/Microsoft.EventGrid"


class Recapito:
    """Event Grid for one test. `url` is the server's, `clock` moves its time."""

    def __init__(self, server: RunningServer, switchboard: Switchboard) -> None:
        self.url = server.url
        self.clock = ServerClock(server.client)
        self._server = server
        self._switchboard = switchboard
        self._topics: dict[str, Topic] = {}
        self._receivers: list[Receiver] = []
        self._published: dict[str, datetime] = {}

    def __repr__(self) -> str:
        return f"<Recapito at {self.url}>"

    def topic(
        self,
        name: str,
        *,
        input_schema: str = "EventGridSchema",
        profile: str | None = None,
        input_schema_mapping: Mapping[str, Any] | None = None,
    ) -> Topic:
        """A new topic. `profile` is Event Grid's behaviour at a date; schemas have ARM's names."""
        if name in self._topics:
            raise ValueError(f"This test has a topic '{name}' already.")
        body = topic_body(input_schema, profile, input_schema_mapping)
        self._server.client.arm("PUT", f"{_GROUP}/topics/{name}", body)
        shown = self._server.client.arm("GET", f"{_GROUP}/topics/{name}")
        self._topics[name] = Topic(self._server.client, self.clock, self._published, shown)
        return self._topics[name]

    def receiver(self, *script: Step, name: str = "hook") -> Receiver:
        """A webhook that answers by the script, request by request, and repeats its last step; without a script, 200.

        A step is a status, an `answer(…)`, `hang()`, `drop()`, or a function of the request that returns one of these.
        """
        settings = self._server.settings.delivery
        jitter = profiles.load(settings.profile).schedule.jitter if settings.jitter else 0.0
        url = self._switchboard.next_url(name)
        receiver = Receiver(url, Script(script), self.clock, self._published, jitter, self._explain)
        self._switchboard.connect(receiver)
        self._receivers.append(receiver)
        return receiver

    def _explain(self, event_id: str) -> list[FilterLine]:
        """The decision of each filter about an event."""
        try:
            explained = self._server.client.call("GET", f"/deliveries/explain?{urlencode({'event': event_id})}")
        except ServerRefused:
            return [FilterLine("No event of this id was published.")]
        lines = [_line(part) for part in explained["subscriptions"]]
        return lines or [FilterLine(f"Topic {explained['event']['topic']} has no subscription.")]

    def close(self) -> None:
        """Forget everything: the next test finds neither topics nor events."""
        for topic in self._topics.values():
            self._server.client.arm("DELETE", topic.id)
        self.clock.until_idle()  # waiting dead letters are written before their topics are deleted
        for receiver in self._receivers:
            self._switchboard.disconnect(receiver)


def _line(part: Mapping[str, Any]) -> FilterLine:
    did = "took" if part["matched"] else "refused"
    clause, text = part["decidedBy"]["clause"], part["decidedBy"]["text"]
    return FilterLine(
        f"Subscription {part['topic']}/{part['subscription']} {did} it: {text} ({clause}).", part["matched"]
    )
