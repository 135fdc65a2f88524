"""Directed histories: a store that fails for a while is asked again, at a pace."""

from typing import Any

from recapito.domain.filters.filter import Filter
from recapito.domain.resources.subscription import DeadLetterDirectory, RetryPolicy
from recapito.errors import StoreFailed
from tests.sim.behaviour import answering
from tests.sim.books import State
from tests.sim.faults import Role
from tests.sim.machine import Parts
from tests.sim.scene import Scene, act


class DownLog:
    """Cannot read segments while `down`; counts who tries, and who asks for what is not there."""

    def __init__(self) -> None:
        self.down = False
        self.tries = 0
        self.beyond = 0
        self._log: Any = None

    def before(self, log: Any) -> "DownLog":
        """Stand before the log of the life that begins."""
        self._log = log
        return self

    def __getattr__(self, name: str) -> Any:
        return getattr(self._log, name)

    async def read(self, topic: int, position: int, *others: Any) -> Any:
        self.tries += 1
        if self.down:
            raise StoreFailed("simulated: down")
        self.beyond += position > await self._log.end(topic)
        return await self._log.read(topic, position, *others)


def test_a_log_that_cannot_be_read_is_tried_five_times_a_second() -> None:
    """A minute of failing reads costs some hundred tries and not a million; then all is delivered."""
    log = DownLog()

    async def script(scene: Scene) -> None:
        scene.faults.quick_disk = True
        await scene.topic()
        await scene.subscribe()
        log.down = True
        await scene.publish(3)
        await scene.wait(60)
        log.down = False
        scene.oracle.disturb()
        await scene.quiet()
        await scene.close_the_books()

    scene = act(script, Parts(log=log.before))
    assert 100 < log.tries < 700
    assert {owed.state for owed in scene.oracle.lanes[1].books.owed.values()} == {State.DELIVERED}


def test_nobody_reads_what_is_not_there_yet() -> None:
    """Lanes that sleep and lanes that follow the end of the log ask for nothing beyond it."""
    log = DownLog()

    async def script(scene: Scene) -> None:
        await scene.topic()
        await scene.subscribe("all")
        await scene.subscribe("some", filter=Filter(event_types=("A",)))
        for n in range(20):
            await scene.publish(1, type="A" if n % 5 == 0 else "B")
            await scene.wait(1)
        await scene.quiet()

    act(script, Parts(log=log.before))
    assert log.tries and not log.beyond


class Trapdoor:
    """After it has written a dead letter the disk is full."""

    def __init__(self, vault: Any, staged: list[Scene]) -> None:
        self._vault = vault
        self._staged = staged

    def __getattr__(self, name: str) -> Any:
        return getattr(self._vault, name)

    async def write(self, *letter: Any) -> Any:
        receipt = await self._vault.write(*letter)
        for scene in self._staged:
            scene.faults.full_disk = True
        return receipt


def test_a_letter_whose_writing_cannot_be_stored_is_written_again_at_a_pace() -> None:
    """A minute of failing commits costs some tries and not a million; then the letter counts, once."""
    staged: list[Scene] = []

    async def script(scene: Scene) -> None:
        staged.append(scene)
        scene.faults.quick_disk = True
        await scene.topic()
        once = RetryPolicy(max_attempts=1)
        await scene.subscribe(behaviour=answering(500), retry_policy=once, dead_letter=DeadLetterDirectory(name="box"))
        await scene.publish(1)
        await scene.wait(299)
        before = scene.faults.commits[Role.DISPATCH]
        await scene.wait(60)
        assert scene.faults.full_disk
        assert 5 < scene.faults.commits[Role.DISPATCH] - before < 300
        staged.clear()
        scene.faults.full_disk = False
        await scene.quiet()
        await scene.close_the_books()

    act(script, Parts(vault=lambda vault: Trapdoor(vault, staged)))


def test_a_deleted_subscription_ends_when_its_last_letter_is_written() -> None:
    """Nothing else happens that would have its lane look again."""

    async def script(scene: Scene) -> None:
        await scene.topic()
        once = RetryPolicy(max_attempts=1)
        await scene.subscribe(behaviour=answering(500), retry_policy=once, dead_letter=DeadLetterDirectory(name="box"))
        await scene.publish(1)
        await scene.wait(5)
        await scene.people.delete_subscription("orders", "sub")
        await scene.quiet(600)
        await scene.close_the_books()

    act(script)
