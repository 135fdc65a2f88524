"""Simulated endpoints behind a Sender: they record what arrived, when, and what they answered.

Nothing here judges: what it means that something arrived is the checkers' business.
"""

import asyncio
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, Protocol

import msgspec

from recapito.clock import Clock
from recapito.contracts.sender import Exchange
from recapito.domain.delivery.batch import Batch
from recapito.domain.delivery.outcome import Outcome
from recapito.domain.events.schema import BodyForm
from recapito.domain.resources.destination import Destination
from tests.sim.behaviour import HEALTHY, Behaviour

if TYPE_CHECKING:
    from tests.sim.books import Owed


class ArrivedEvent(msgspec.Struct):
    """An event as a subscriber sees it; the bytes of `data` are kept as they came. A CloudEvent has no data version."""

    id: str
    eventType: str
    subject: str
    eventTime: str
    dataVersion: str | None
    metadataVersion: str
    topic: str
    data: msgspec.Raw = msgspec.Raw(b"")


class ArrivedCloudEvent(msgspec.Struct, forbid_unknown_fields=True):
    """The same in the other schema."""

    specversion: Literal["1.0"]
    id: str
    source: str
    type: str
    time: str
    subject: str = ""
    data: msgspec.Raw = msgspec.Raw(b"")

    def plain(self) -> ArrivedEvent:
        return ArrivedEvent(self.id, self.type, self.subject, self.time, None, "1.0", self.source, self.data)


_decode = msgspec.json.Decoder(list[ArrivedEvent]).decode
_decode_cloud_event = msgspec.json.Decoder(ArrivedCloudEvent).decode
_decode_cloud_events = msgspec.json.Decoder(list[ArrivedCloudEvent]).decode


def events_of(batch: Batch) -> list[ArrivedEvent]:
    """The events of a request, in whichever form it has them."""
    match batch.form:
        case BodyForm.EVENTS:
            return _decode(batch.body)
        case BodyForm.CLOUD_EVENT:
            return [_decode_cloud_event(batch.body).plain()]
        case BodyForm.CLOUD_EVENTS:
            return [event.plain() for event in _decode_cloud_events(batch.body)]


@dataclass(eq=False)
class Arrival:
    """One request that reached an endpoint. `heard_at` is when the sender was told the answer, if it was."""

    url: str
    batch: Batch
    sent_at: int
    events: list[ArrivedEvent]
    behaviour: str
    life: int
    outcome: Outcome | None = None
    heard_at: int | None = None
    aborted_at: int | None = None
    lane: int = 0
    epoch: int = 0
    owed: "list[Owed]" = field(default_factory=list)  # the deliveries that it attempts

    def __repr__(self) -> str:
        answer = self.outcome.status or self.outcome.result if self.outcome else "no answer"
        return f"<{self.batch.events} events to {self.url} at {self.sent_at}: {answer} heard {self.heard_at}>"


class Onlooker(Protocol):
    """An observer of every request, answer and abort, at the instant at which it happens."""

    def arrived(self, arrival: Arrival) -> None:
        """A request reached its endpoint."""

    def heard(self, arrival: Arrival) -> None:
        """The sender was told the answer."""

    def aborted(self, arrival: Arrival) -> None:
        """The sender stopped listening before there was an answer."""


class Endpoint:
    """One endpoint. Its behaviour may change at any time; what was asked before is answered as before.

    One with a `judge` behaves as that says for the events of a request.
    """

    def __init__(self, behaviour: Behaviour = HEALTHY) -> None:
        self.behaviour = behaviour
        self.judge: Callable[[list[ArrivedEvent]], Behaviour] | None = None


class Network:
    """All endpoints, by the host of their URL: `http://<host>/<anything>`. An unknown host is a new, healthy one."""

    def __init__(self, loop: asyncio.AbstractEventLoop, clock: Clock, rng: random.Random, onlooker: Onlooker) -> None:
        self.endpoints: dict[str, Endpoint] = {}
        self._loop = loop
        self._clock = clock
        self._rng = rng
        self._onlooker = onlooker

    def endpoint(self, url: str) -> Endpoint:
        """The endpoint that a URL leads to."""
        return self.endpoints.setdefault(url.split("/")[2], Endpoint())

    def carry(self, url: str, batch: Batch, life: int, answer: Callable[[Outcome], None]) -> "SimExchange":
        """Bring a request to its endpoint, and the answer back when its time has come."""
        endpoint = self.endpoint(url)
        now = self._clock.now()
        events = events_of(batch)
        behaviour = endpoint.behaviour if endpoint.judge is None else endpoint.judge(events)
        arrival = Arrival(url, batch, now, events, behaviour.name, life)
        reply = behaviour.reply(self._rng, self._loop.time())
        self._onlooker.arrived(arrival)
        exchange = SimExchange(arrival, self._clock, self._onlooker, answer)
        if reply is not None:
            exchange.timer = self._loop.call_later(reply.delay_s, exchange.reply, reply.outcome)
        return exchange


class SimExchange:
    """One request on its way in the simulation."""

    def __init__(self, arrival: Arrival, clock: Clock, onlooker: Onlooker, answer: Callable[[Outcome], None]) -> None:
        self.timer: asyncio.TimerHandle | None = None
        self._arrival = arrival
        self._clock = clock
        self._onlooker = onlooker
        self._answer: Callable[[Outcome], None] | None = answer

    @property
    def listening(self) -> bool:
        """True while the sender wants to hear the answer."""
        return self._answer is not None

    def reply(self, outcome: Outcome) -> None:
        """The endpoint answers; who stopped listening does not hear it."""
        self._arrival.outcome = outcome
        answer, self._answer = self._answer, None
        if answer is not None:
            self._arrival.heard_at = self._clock.now()
            self._onlooker.heard(self._arrival)
            answer(outcome)

    def abort(self) -> None:
        if self._answer is not None:
            self._answer = None
            self._arrival.aborted_at = self._clock.now()
            self._onlooker.aborted(self._arrival)

    def vanish(self) -> None:
        """The process that listened is dead: the answer is lost."""
        self._answer = None


class SilentExchange:
    """The exchange of a dead process: nothing happens."""

    def abort(self) -> None:
        """Nothing is open."""


class SimSender:
    """The Sender of one life of a process: with its death all its exchanges vanish."""

    def __init__(self, network: Network, life: int) -> None:
        self._network = network
        self._life = life
        self._open: list[SimExchange] = []
        self.alive = True

    def send(self, destination: Destination, batch: Batch, answer: Callable[[Outcome], None]) -> Exchange:
        if not self.alive:
            return SilentExchange()
        exchange = self._network.carry(destination.url, batch, self._life, answer)
        self._open = [each for each in self._open if each.listening] if len(self._open) > 500 else self._open
        self._open.append(exchange)
        return exchange

    def die(self) -> None:
        """The process is dead."""
        self.alive = False
        for exchange in self._open:
            exchange.vanish()

    async def close(self) -> None:
        self.die()
