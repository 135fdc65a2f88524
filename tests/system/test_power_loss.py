"""Power loss and sick disks under the real SQLite: nothing that was acknowledged is lost, and nothing else appears."""

from collections.abc import Callable, Iterator
from pathlib import Path

import apsw
import pytest

from recapito.contracts.ledger import Drop, Settlement
from recapito.domain.delivery.delivery import DeliveryId
from recapito.errors import SettingsError, StoreFailed
from tests.stores.values import burial, new_subscription, new_topic, parked, segment, settlement
from tests.system.power_loss_disk import Disk, PowerLoss, PowerLossVFS
from tests.system.power_loss_lives import LIVES, live_and_lose_power
from tests.system.power_loss_world import EVERYTHING, NOBODY, Lost, Pair, Verb, World, finish

CUTS = 10_000
SEEDS_OF_WEAK_SETTINGS = 50
PAGE = 4096


@pytest.fixture
def vfs() -> Iterator[PowerLossVFS]:
    """The VFS, for as long as the test."""
    vfs = PowerLossVFS(Disk(0))
    yield vfs
    vfs.unregister()


@pytest.mark.slow
def test_no_acknowledged_event_is_lost(vfs: PowerLossVFS) -> None:
    """In ten thousand cuts at random moments, also during recovery, the stores show exactly what was acknowledged."""
    for seed in range(CUTS // LIVES):
        try:
            with World(vfs, seed) as world:
                live_and_lose_power(world, LIVES)
        except Lost as loss:
            pytest.fail(f"seed {seed}: {loss}")


@pytest.mark.parametrize("synchronous", ["NORMAL", "OFF"])
def test_the_harness_finds_the_loss_of_weaker_settings(vfs: PowerLossVFS, synchronous: str) -> None:
    """The same cuts lose acknowledged events when commits are not synced: so the test above can fail."""
    found = 0
    for seed in range(SEEDS_OF_WEAK_SETTINGS):
        try:
            with World(vfs, seed, synchronous) as world:
                live_and_lose_power(world, LIVES)
        except (Lost, StoreFailed):
            found += 1
    assert found > SEEDS_OF_WEAK_SETTINGS * 0.8


def script() -> Iterator[Verb]:
    """A short history with every verb that writes, some commits after which the WAL is copied, and a swept topic."""
    yield lambda pair: pair.log.put_topic(new_topic("one"))
    yield lambda pair: pair.log.put_topic(new_topic("two"))
    yield lambda pair: pair.log.put_subscription(new_subscription(2))
    yield lambda pair: pair.log.append([segment(1, b"a" * 5000), segment(2, b"b")])
    yield lambda pair: pair.log.trim(1, 2)
    yield lambda pair: pair.log.delete_topic(2)
    yield lambda pair: pair.log.forget(1)
    yield lambda pair: pair.log.append([segment(1, b"c")])
    yield lambda pair: pair.ledger.open_lane(1, 1, "log", 1)
    rows = [parked(1, n, 10, b"event" * 100) for n in range(3)]
    dead = [burial(2, 0), burial(2, 1)]
    yield lambda pair: settle(pair, matched=5, park=rows, bury=dead)
    yield lambda pair: settle(
        pair, finish=[DeliveryId(1, 0)], park=[rows[1]], drop=[Drop(DeliveryId(1, 2), "Canceled")]
    )
    for verb in ("written", "abandon"):
        yield lambda pair, path=verb: name(pair, path)
        yield lambda pair, verb=verb: end_group(pair, verb)


async def settle(pair: Pair, **parts: object) -> None:
    lane = await pair.ledger.lane(1)
    settlements: list[Settlement] = [settlement(lane, **parts)] if lane else []
    await pair.ledger.settle(settlements)


async def name(pair: Pair, path: str) -> None:
    group = await pair.ledger.burials_due(EVERYTHING, 1, EVERYTHING, NOBODY)
    if group is not None and group.path is None:
        await pair.ledger.name_group(group, path, 1)


async def end_group(pair: Pair, verb: str) -> None:
    if verb == "written":
        await pair.ledger.written(1, verb)
    else:
        await pair.ledger.abandon(1, verb, "DeadLetterUnavailable")


def test_the_power_goes_at_every_operation(vfs: PowerLossVFS) -> None:
    """A cut at each single operation of a history, from the first opening on, leaves what was acknowledged."""
    cut_at, lost_power = 0, True
    while lost_power:
        cut_at += 1
        with World(vfs, cut_at, checkpoint_bytes=8 * PAGE) as world:
            lost_power = cut_power(world, cut_at)
    assert cut_at > 150


def cut_power(world: World, cut_at: int) -> bool:
    """Cut the power at one operation of the history and check the stores; False where the history ends before."""
    world.disk.cut_at = cut_at
    under_way: Verb | None = None
    try:
        world.open()
        for under_way in script():
            world.do(under_way)
    except PowerLoss:
        world.lose_power()
        world.check(under_way)
        return True
    return False


def test_a_killed_process_leaves_names_that_are_not_durable(vfs: PowerLossVFS) -> None:
    """A process is killed at each operation of its first start; the next one works on what it finds until a cut."""
    killed_at, killed = 0, True
    while killed:
        killed_at += 1
        with World(vfs, killed_at) as world:
            killed = kill_at_start(world, killed_at)
    assert killed_at > 10


def kill_at_start(world: World, killed_at: int) -> bool:
    """Kill the process at one operation of its start, work on, cut the power and check; False where it has started."""
    world.disk.cut_at = killed_at
    try:
        world.open()
    except PowerLoss:
        world.lose_process()
        world.open()
        for verb in script():
            world.do(verb)
        world.lose_power()
        world.check()
        return True
    return False


class NamelessVFS(PowerLossVFS):
    """A planted bug: a new file's directory is not synced."""

    def sync(self, directory: Path) -> None:
        return None


class RashVFS(PowerLossVFS):
    """A planted bug: only who makes a file syncs its directory, and may not live to do it."""

    made = False

    def make(self, path: Path) -> None:
        self.made = str(path) not in self.disk.names
        super().make(path)

    def sync(self, directory: Path) -> None:
        if self.made:
            super().sync(directory)


@pytest.mark.parametrize(
    ("bug", "test"),
    [
        (NamelessVFS, test_the_power_goes_at_every_operation),
        (RashVFS, test_a_killed_process_leaves_names_that_are_not_durable),
    ],
)
def test_the_harness_finds_names_that_are_not_durable(
    bug: type[PowerLossVFS], test: Callable[[PowerLossVFS], None]
) -> None:
    """Without the sync of a directory, be it after a kill alone, what was acknowledged goes with the file's name."""
    vfs = bug(Disk(0))
    try:
        with pytest.raises(Lost):
            test(vfs)
    finally:
        vfs.unregister()


class Sick:
    """A disk that fails at the k-th operation of some kinds, once or from then on; `noticed` counts who met it."""

    def __init__(self, at: int, error: type[apsw.Error], kinds: frozenset[str], for_ever: bool) -> None:
        self.at = at
        self.error = error
        self.kinds = kinds
        self.for_ever = for_ever
        self.seen = 0
        self.noticed = 0

    def __call__(self, kind: str) -> BaseException | None:
        if kind not in self.kinds:
            return None
        self.seen += 1
        sick = self.seen == self.at or (self.for_ever and self.seen > self.at)
        return self.error("sick") if sick else None


EVERY_KIND = frozenset({"create", "delete", "read", "write", "truncate", "sync"})
THAT_TAKE_ROOM = frozenset({"create", "write"})


@pytest.mark.parametrize("for_ever", [False, True], ids=["once", "forever"])
@pytest.mark.parametrize(
    ("error", "kinds"), [(apsw.IOError, EVERY_KIND), (apsw.FullError, THAT_TAKE_ROOM)], ids=["EIO", "ENOSPC"]
)
def test_the_disk_fails_at_every_operation(
    vfs: PowerLossVFS, error: type[apsw.Error], kinds: frozenset[str], for_ever: bool
) -> None:
    """A failing commit raises StoreFailed and is stored whole or not at all; healed, the store has lost nothing."""
    at, sick = 0, Sick(0, error, kinds, for_ever)
    while sick.seen >= at:
        at += 1
        sick = Sick(at, error, kinds, for_ever)
        with World(vfs, at, checkpoint_bytes=8 * PAGE) as world:
            world.disk.fault = sick
            open_on_a_sick_disk(world)
            for verb in script():
                do_on_a_sick_disk(world, verb)
            world.lose_power()
            world.check()
    assert at > 100


def open_on_a_sick_disk(world: World) -> None:
    """Opening is refused while the disk is sick, and is done once it is well."""
    try:
        world.open()
    except SettingsError:
        world.disk.fault = None
        world.open()


def do_on_a_sick_disk(world: World, verb: Verb) -> None:
    """Do a verb. If that fails, it is done or not once the disk is well; if not, do it again."""
    try:
        world.do(verb)
    except StoreFailed:
        sick, world.disk.fault = world.disk.fault, None
        assert isinstance(sick, Sick)
        if not world.check(verb):
            world.do(verb)
        sick.noticed += 1
        if sick.noticed < 3:
            world.disk.fault = sick


def test_the_disk_stays_sick(vfs: PowerLossVFS) -> None:
    """Every call fails as long as the disk is sick, and the first one after that is served."""
    with World(vfs, 1) as world:
        world.open()
        world.do(lambda pair: pair.log.put_topic(new_topic()))
        world.disk.fault = Sick(1, apsw.IOError, EVERY_KIND, for_ever=True)
        assert world.real is not None
        for _ in range(3):
            with pytest.raises(StoreFailed):
                finish(world.real.log.append([segment(1)]))
            with pytest.raises(StoreFailed):
                finish(world.real.log.topics("", 10))
        world.disk.fault = None
        world.do(lambda pair: pair.log.append([segment(1, b"well again")]))
        world.lose_power()
        world.check()
