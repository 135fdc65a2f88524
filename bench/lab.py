"""The lab: starts receivers and load generators, and turns one run of a load into a Measure."""

import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import fmean
from typing import NamedTuple

import msgspec

from bench.event import SIZE
from bench.load import Order, Result
from bench.process import Child, Machine, cpu_s, module
from bench.server import Recapito, Target
from bench.tally import Tally

LEFT_OVER_S = 2.0  # a run counts only if what is undelivered at its end is done so much later
WARM_UP_S = 1.5
TURN_S = 2.0
WARM_UP_LEFT_OVER_S = 15.0


class Measure(NamedTuple):
    """The result of one run. Rates are events (or deliveries) a second from the first publish to the last delivery."""

    rate: float
    publish_p99_ms: float
    p50_ms: float
    p99_ms: float
    fault: str  # why the run does not count; empty if it does
    cpu_us: dict[str, float]  # processor time per event, by process


class Receiver:
    """A running receiver: its ports, and its tally."""

    def __init__(self, child: Child, tally_path: Path) -> None:
        said = child.json()
        self.ports: list[int] = said["ports"]
        self.hung: list[int] = said["hung"]
        self.pid = child.pid
        self.path = tally_path
        self.tally = Tally(tally_path)

    def url(self, n: int = 0) -> str:
        """The URL of its n-th endpoint."""
        return f"http://127.0.0.1:{self.ports[n]}/"


class Stand(NamedTuple):
    """A server that stands ready: where to publish, who receives, and its processes.

    A request has `batch` events, and each is delivered `fan_out` times.
    """

    target: Target
    receiver: Receiver
    pids: Mapping[str, int]
    batch: int = 1
    fan_out: int = 1


class Lab:
    """A temporary directory, and how long and loud things are. A context: it leaves nothing behind."""

    def __init__(self, quick: bool, say: Callable[[str], None], directory: Path | None = None) -> None:
        self.quick = quick
        self.say = say
        self.others: list[float] = []  # the share of the machine that something else used, run by run
        self._directory = Path(tempfile.mkdtemp(prefix="recapito-bench-", dir=directory))
        self._made = 0

    def __enter__(self) -> "Lab":
        return self

    def __exit__(self, *error: object) -> None:
        shutil.rmtree(self._directory, ignore_errors=True)

    @property
    def seconds(self) -> float:
        """How long a run lasts."""
        return 3.0 if self.quick else 6.0

    @contextmanager
    def directory(self, name: str) -> Iterator[Path]:
        """A new directory, removed afterwards."""
        self._made += 1
        path = self._directory / f"{name}-{self._made}"
        path.mkdir()
        try:
            yield path
        finally:
            shutil.rmtree(path, ignore_errors=True)

    @contextmanager
    def receiver(self, ports: int = 1, hung: int = 0, delay_ms: float = 0) -> Iterator[Receiver]:
        """A receiver on free ports, which answers after a delay."""
        with self.directory("receiver") as path:
            tally = path / "tally"
            Tally(tally).close()
            arguments = (str(tally), str(ports), str(hung), str(delay_ms))
            with Child(module("bench.receiver", *arguments), path / "errors") as child:
                receiver = Receiver(child, tally)
                try:
                    yield receiver
                finally:
                    receiver.tally.close()

    @contextmanager
    def recapito(
        self,
        environment: Mapping[str, str] | None = None,
        flags: Sequence[str] = (),
        portal_port: int | None = None,
    ) -> Iterator[Recapito]:
        """A server with a data directory of its own."""
        with self.directory("server") as path, Recapito(path, environment, flags, portal_port) as server:
            yield server

    def load(self, order: Order) -> Result:
        """Run a load generator to its end."""
        with self.directory("load") as path, Child(module("bench.load"), path / "errors") as child:
            child.tell(msgspec.json.encode(order))
            return msgspec.convert(child.json(order.seconds + 60), Result)

    def pile_up(self, target: Target, receiver: Receiver, events: int, size: int = SIZE, batch: int = 100) -> None:
        """Publish `events` events as fast as they are taken, whether or not they are delivered."""
        order = Order(
            *target,
            tally=str(receiver.path),
            seconds=300,
            connections=16,
            batch=batch,
            fan_out=0,
            events=events,
            size=size,
        )
        result = self.load(order)
        if result.events != events:
            raise RuntimeError(f"only {result.events} events of {events} were accepted: {result.first_failure}")

    def run(
        self, target: Target, receiver: Receiver, pids: Mapping[str, int], warm: bool = True, **options: float
    ) -> Measure:
        """Publish for a while, wait for what is left, and say what came of it. The first second warms everything up."""
        order, stand = _order(target, receiver, self.seconds, options), Stand(target, receiver, pids)
        if warm:
            self._warm_up(stand, order)
        machine = Machine()
        measure = self._load(stand, order)
        self.others.append(machine.others())
        return measure

    def alternate(self, stands: Sequence[Stand]) -> list[Measure]:
        """Measure several servers that run side by side, each alone, in short turns; which is first changes."""
        orders = [
            _order(stand.target, stand.receiver, TURN_S, {"batch": stand.batch, "fan_out": stand.fan_out})
            for stand in stands
        ]
        for stand, order in zip(stands, orders, strict=True):
            self._warm_up(stand, order)
        machine = Machine()
        made: list[list[Measure]] = [[] for _ in stands]
        for turn in range(3 if self.quick else 6):
            for n in range(len(stands))[:: -1 if turn % 2 else 1]:
                made[n].append(self._load(stands[n], orders[n]))
        self.others.append(machine.others())
        return [_mean(measures) for measures in made]

    def _warm_up(self, stand: Stand, order: Order) -> None:
        tally = stand.receiver.tally
        tally.reset()
        warmed = self.load(msgspec.structs.replace(order, seconds=WARM_UP_S))
        _await_left_over(tally, warmed, order.fan_out, WARM_UP_LEFT_OVER_S)

    def _load(self, stand: Stand, order: Order) -> Measure:
        tally = stand.receiver.tally
        tally.reset()
        before = {name: cpu_s(pid) for name, pid in stand.pids.items()}
        result = self.load(order)
        left = _await_left_over(tally, result, order.fan_out, LEFT_OVER_S)
        spent = {name: cpu_s(pid) - before[name] for name, pid in stand.pids.items()}
        spent["load"] = result.cpu_s
        return _measure(result, tally, order.fan_out, left, spent)


def _order(target: Target, receiver: Receiver, seconds: float, options: Mapping[str, float]) -> Order:
    plain = {"port": target.port, "path": target.path, "key": target.key, "tally": str(receiver.path)}
    return msgspec.convert({**plain, "seconds": seconds, **options}, Order)


def _await_left_over(tally: Tally, result: Result, fan_out: int, wait_s: float) -> int:
    """Wait for what is undelivered, no longer than allowed; how many events are left then."""
    patient_until = result.ended_ns + int(wait_s * 1e9)
    while (left := result.events * fan_out - tally.events) > 0 and time.monotonic_ns() < patient_until:
        time.sleep(0.01)
    return left


def _mean(measures: Sequence[Measure]) -> Measure:
    """Runs that were equally long, as one."""
    return Measure(
        rate=fmean(one.rate for one in measures),
        publish_p99_ms=max(one.publish_p99_ms for one in measures),
        p50_ms=fmean(one.p50_ms for one in measures),
        p99_ms=max(one.p99_ms for one in measures),
        fault="; ".join(one.fault for one in measures if one.fault),
        cpu_us={name: fmean(one.cpu_us[name] for one in measures) for name in measures[0].cpu_us},
    )


def _measure(result: Result, tally: Tally, fan_out: int, left: int, spent: Mapping[str, float]) -> Measure:
    events = result.events * fan_out if fan_out else result.events
    last_ns = max(tally.last_ns, result.ended_ns) if fan_out else result.ended_ns
    elapsed_s = (last_ns - result.started_ns) / 1e9
    faults = {
        f"{left} undelivered after {LEFT_OVER_S:.0f} s": left > 0,
        f"{-left} delivered twice": left < 0,
        f"{result.failed} requests failed: {result.first_failure}": result.failed,
        f"{result.refused} requests refused": result.refused,
        "nothing was accepted": not result.events,
    }
    return Measure(
        rate=events / elapsed_s,
        publish_p99_ms=result.p99_ms,
        p50_ms=tally.percentile_ms(50),
        p99_ms=tally.percentile_ms(99),
        fault="; ".join(text for text, true in faults.items() if true),
        cpu_us={name: seconds / max(events, 1) * 1e6 for name, seconds in spent.items()},
    )
