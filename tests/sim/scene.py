"""A scene: the service on its machine, with endpoints, people and the oracle, for a script or a seed to play on."""

import asyncio
import random
from collections.abc import Callable, Coroutine, Iterable
from typing import Any

from recapito.domain.instant import SECOND
from recapito.errors import StoreFailed
from tests.sim import checkers
from tests.sim.behaviour import HEALTHY, Behaviour, answering
from tests.sim.books import Owed
from tests.sim.clock import SimClock
from tests.sim.endpoints import Arrival, ArrivedEvent, Network
from tests.sim.facts import Refusal, Watched
from tests.sim.faults import Faults
from tests.sim.loop import SimLoop, run
from tests.sim.machine import ConnectionLost, Machine, Parts
from tests.sim.oracle import Oracle
from tests.sim.workload import Workload

LOOK_EVERY_S = 300.0
Script = Callable[["Scene"], Coroutine[Any, Any, None]]


class Scene:
    """The parts of one history. Everything random in it comes from its seed."""

    def __init__(self, loop: SimLoop, seed: int, parts: Parts) -> None:
        self.loop = loop
        self.parts = parts
        self.clock = SimClock(loop, random.Random(f"{seed}/clock"))
        self.oracle = Oracle(self.clock, loop.time, parts.default_profile)
        self.network = Network(loop, self.clock, random.Random(f"{seed}/network"), self.oracle)
        self.faults = Faults(random.Random(f"{seed}/faults"))
        self.machine = Machine(
            parts, self.clock, self.network, self.faults, self.oracle, random.Random(f"{seed}/machine")
        )
        self.people = Workload(self.machine, self.oracle, random.Random(f"{seed}/people"))
        self._violated: asyncio.Future[None] = loop.create_future()
        self.oracle.on_violation = self._note_violation
        self.oracle.keep_for_ever = parts.keep_for_ever

    def _note_violation(self) -> None:
        if not self._violated.done():
            self._violated.set_result(None)

    async def play(self, history: Coroutine[Any, Any, None]) -> None:
        """Run the machine and a history on it, up to the history's end or the first violation."""
        machine = asyncio.create_task(self.machine.run(), name="machine")
        script = asyncio.create_task(history, name="history")
        await asyncio.wait([machine, script, self._violated], return_when=asyncio.FIRST_COMPLETED)
        for task in (script, machine):
            if task.done() and not task.cancelled():
                task.result()

    # What scripts say.

    async def topic(self, profile: str | None = None, name: str = "orders") -> None:
        """Create a topic, when the service is up."""
        await asyncio.sleep(0.5)
        assert await self.people.put_topic(name, profile) is not None

    async def subscribe(
        self, name: str = "sub", behaviour: Behaviour = HEALTHY, topic: str = "orders", **settings: Any
    ) -> Watched:
        """Create a subscription to an endpoint of its own, which behaves so."""
        self.network.endpoint(f"http://{name}/").behaviour = behaviour
        id = await self.people.put_subscription(topic, self.people.fixed_draft(name, name, **settings))
        assert id is not None
        return self.oracle.lanes[id]

    async def subscribe_picky(
        self, subjects: Iterable[str] = ("bad",), status: int = 500, name: str = "sub", **settings: Any
    ) -> Watched:
        """Create a subscription to an endpoint that refuses events of some subjects, and accepts all others."""
        refusal = Refusal(frozenset(subjects), status)
        self.be_picky(name, refusal)
        lane = await self.subscribe(name, **settings)
        self.oracle.picky[lane.id] = refusal
        return lane

    def be_picky(self, host: str, refusal: Refusal) -> None:
        """An endpoint refuses requests with such events, and accepts all others, from now on."""

        def judge(events: list[ArrivedEvent]) -> Behaviour:
            good = refusal.subjects.isdisjoint(event.subject for event in events)
            return HEALTHY if good else answering(refusal.status)

        self.network.endpoint(f"http://{host}/").judge = judge

    async def publish(self, count: int = 1, topic: str = "orders", **fixed: str) -> None:
        """Publish `count` events in one request; `type` and `subject` may be fixed."""
        await self.people.publish(topic, count, **fixed)

    def become(self, name: str, behaviour: Behaviour) -> None:
        """The endpoint of a subscription behaves otherwise from now on."""
        self.network.endpoint(f"http://{name}/").behaviour = behaviour

    async def wait(self, seconds: float) -> None:
        """Let time pass."""
        await asyncio.sleep(seconds)

    async def quiet(self, at_most_s: float = checkers.WORTH_WAITING_NS / SECOND) -> None:
        """Wait until nothing is left to do; that it takes longer is a violation."""
        give_up_at = self.loop.time() + at_most_s
        while not checkers.quiet(self.oracle) and self.loop.time() < give_up_at:
            await asyncio.sleep(LOOK_EVERY_S)
        checkers.check_liveness(self.oracle)

    async def look_at_damage(self) -> None:
        """A person asks for the damage, if a server is there to answer; all has been read since."""
        for _ in range(2):
            try:
                await self.machine.request(self._show_damage)
            except (ConnectionLost, StoreFailed):
                continue

    async def _show_damage(self) -> None:
        damages, storage = self.machine.damages, self.parts.storage
        assert damages is not None
        rotten = set(self.oracle.rotten)
        await self.machine.read_all()
        ledger = storage.open_ledger(write=False)
        await checkers.check_shown(self.oracle, rotten, damages, ledger)
        storage.close(ledger)

    async def close_the_books(self) -> None:
        """Let the janitor finish, and check all that must be true in the end."""
        for _ in range(6):
            try:
                await self.machine.request(self.machine.sweep)
            except ConnectionLost:
                await asyncio.sleep(90)
            self.machine.ring()
            await asyncio.sleep(10)
        await self.look_at_damage()
        checkers.check_fates(self.oracle)
        checkers.check_vault(self.oracle)
        storage = self.parts.storage
        log, ledger = storage.open_log(write=False), storage.open_ledger(write=False)
        await checkers.check_store(self.oracle, log, ledger)
        storage.close(log)
        storage.close(ledger)


def sent_at(owed: Owed) -> list[float]:
    """When a delivery was tried, in seconds since its first attempt."""
    return [(arrival.sent_at - owed.arrivals[0].sent_at) / SECOND for arrival in owed.arrivals]


def requests(lane: Watched) -> list[Arrival]:
    """All requests of a lane, in the order of sending."""
    return list(dict.fromkeys(lane.attempts.values()))


def act(script: Script, parts: Parts | None = None, seed: int = 0) -> Scene:
    """Play a script to its end, under the oracle's eyes; the scene as it is left."""
    staged: list[Scene] = []

    async def main(loop: SimLoop) -> None:
        scene = Scene(loop, seed, parts or Parts())
        staged.append(scene)
        await scene.play(script(scene))

    run(seed, main)
    assert not staged[0].oracle.violations, [str(violation) for violation in staged[0].oracle.violations[:5]]
    assert not staged[0].loop.unhandled
    return staged[0]
