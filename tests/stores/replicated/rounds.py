"""`python -m tests.stores.replicated.rounds --rounds N`: faults of three real NATS servers under a replicated store.

Each round kills, pauses, wipes or damages servers during appends and settles. The oracle of `tests.sim.cluster` follows
every verb, and after each round the whole content must be that of a possible history.
"""

import argparse
import asyncio
import contextlib
import faulthandler
import shutil
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

from recapito.contracts.stream import StreamMissing, StreamUnknown
from recapito.errors import StoreFailed
from recapito.stores.jetstream.streams import JetStreamStreams
from recapito.stores.replicated.database import ReplicatedDatabase
from tests.kit.nats_cluster import NAMES, NatsCluster, running
from tests.kit.replicated import COPY, CompactingDatabase
from tests.sim.cluster import Cluster, Side, Violation

RECOVERY_S = 60.0
BEFORE_S = (0.0, 0.6)  # of a round, before its fault
FAULT_S = (0.1, 1.5)
LOOK_S = 0.05

_pause = threading.Event().wait  # real servers need real time


class Rounds(Cluster):
    """The nodes of the simulation, on real servers and with the threads of a server."""

    def __init__(self, seed: int, directory: Path, servers: NatsCluster) -> None:
        super().__init__(seed, directory, CompactingDatabase)
        self.rng = self._rng
        self._stormy = False
        self._servers = servers
        self.streams: JetStreamStreams = servers.new_streams()

    async def begin(self) -> None:
        for side in self._sides:
            self._owners.append(await self._start(side, "a", founding=True))

    async def round(self, fault: Callable[[], None]) -> None:
        """Work; the fault, while the work goes on; work until every file has committed again; then compare."""
        fault_thread = threading.Thread(target=fault)
        begin = time.monotonic() + self.rng.uniform(*BEFORE_S)
        while time.monotonic() < begin:
            await self._work()
        fault_thread.start()
        while fault_thread.is_alive():
            await self._work()
        deadline = time.monotonic() + RECOVERY_S
        for n in range(2):
            done = self.told.counts["verbs"]
            while self.told.counts["verbs"] < done + 3:
                if time.monotonic() > deadline:
                    raise Violation(f"{self._sides[n].server.name} does not recover")
                await self._work(n)
            await self._compare(n, patient=True)

    async def hand_over(self) -> None:
        """The other node claims; the former owner must find out."""
        for n in range(2):
            await self._take_over(n)
            await self._resist(n)

    async def end(self) -> None:
        await self._end()
        self.streams.close()

    def wait_healthy(self) -> None:
        """Until every replica has everything."""
        deadline = time.monotonic() + RECOVERY_S
        while time.monotonic() < deadline:
            with contextlib.suppress(StreamUnknown, StreamMissing):
                states = [self.streams.log.state(), self.streams.lanes.state()]
                if all(len(s.replicas) == 2 and all(r.current and not r.lag for r in s.replicas) for s in states):
                    return
            _pause(LOOK_S)
        raise Violation("the replicas do not become current")

    async def _work(self, n: int | None = None) -> None:
        n = self.rng.choice([0, 1]) if n is None else n
        database = self._owners[n][2]
        if database.in_doubt:  # every verb fails at once, and is certainly not done
            self.told.counts["refused in doubt"] += 1
            await asyncio.sleep(LOOK_S)
            return
        self._sides[n].failures = 0
        await self._try(n, await self._sides[n].verb())

    def _database(self, side: Side, name: str, founding: bool = False) -> ReplicatedDatabase:
        directory = self._directory / name
        directory.mkdir(exist_ok=True)
        stream = self.streams.log if side.is_log else self.streams.lanes
        return self._make(directory / side.kind.file, side.kind, stream, name, COPY, threaded=True, founding=founding)

    async def _settle_doubt(self, side: Side) -> None:
        """The doubt lasts: the comparison at the end of the round ends it."""
        deadline = time.monotonic() + RECOVERY_S
        database = self._owners[self._sides.index(side)][2]
        while database.in_doubt and time.monotonic() < deadline:
            await asyncio.sleep(LOOK_S)
        await self._compare(self._sides.index(side), patient=True)


def faults(servers: NatsCluster, story: Rounds) -> dict[str, Callable[[], None]]:
    """The faults of a round, by name; each heals itself."""
    rng = story.rng

    def wait() -> None:
        _pause(rng.uniform(*FAULT_S))

    def kill(count: int) -> None:
        chosen = rng.sample(NAMES, count)
        for name in chosen:
            servers.kill(name)
        wait()
        servers.start(*chosen)

    def pause(count: int) -> None:
        chosen = rng.sample(NAMES, count)
        for name in chosen:
            servers.pause(name)
        wait()
        _pause(2 * rng.random())
        for name in chosen:
            servers.go_on(name)

    def wipe() -> None:
        name = rng.choice(NAMES)
        servers.kill(name)
        shutil.rmtree(servers.store(name))
        wait()
        servers.start(name)

    def flip() -> None:
        name = rng.choice(NAMES)
        servers.kill(name)
        blocks = [path for path in servers.store(name).rglob("*.blk") if path.stat().st_size]
        for path in rng.sample(blocks, min(2, len(blocks))):
            content = bytearray(path.read_bytes())
            content[rng.randrange(len(content))] ^= 1 << rng.randrange(8)
            path.write_bytes(content)
        servers.start(name)
        wait()

    def fill() -> None:
        streams = story.streams
        sizes = {stream: stream.info()["config"]["max_bytes"] for stream in (streams.log, streams.lanes)}
        for stream in sizes:
            servers.resize(stream, stream.state().bytes + 500)
        wait()
        for stream, size in sizes.items():
            servers.resize(stream, size)

    return {
        "fill both streams": fill,
        "kill one": lambda: kill(1),
        "kill two": lambda: kill(2),
        "kill all": lambda: kill(3),
        "pause one": lambda: pause(1),
        "pause two": lambda: pause(2),
        "pause all": lambda: pause(3),
        "wipe one": wipe,
        "flip bits of one": flip,
    }


async def play(seed: int, rounds: int, directory: Path, say: Callable[[str], None] = print) -> Rounds:
    """Rounds of faults in turn; a hand-over after every fourth. Violation if something is wrong."""
    (directory / "nats").mkdir()
    with running(directory / "nats") as servers:
        story = Rounds(seed, directory, servers)
        kinds = faults(servers, story)
        await story.begin()
        for number in range(rounds):
            name = list(kinds)[number % len(kinds)]
            began = time.monotonic()
            await story.round(kinds[name])
            await asyncio.to_thread(story.wait_healthy)
            if number % 4 == 3:
                await story.hand_over()
            say(f"round {number + 1}: {name}, {time.monotonic() - began:.1f} s, {dict(story.told.counts)}")
        await story.end()
        return story


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.stores.replicated.rounds", description=__doc__)
    parser.add_argument("--rounds", type=int, default=24)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    faulthandler.dump_traceback_later(60 * (options.rounds + 2), exit=True)  # a hang is a finding too
    with TemporaryDirectory() as directory:
        try:
            asyncio.run(play(options.seed, options.rounds, Path(directory)))
        except (Violation, StoreFailed) as violation:
            print(f"SEED={options.seed}: {violation}")
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
