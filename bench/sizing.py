"""`python -m bench.sizing`: the tables of the guide *Sizing*: memory, disk and rate by subscriptions and event size.

It takes eight minutes. `--write` puts the tables into the guide; `--quick` tries it with few subscriptions in one.
"""

import argparse
import os
import platform
import re
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from bench import estate
from bench.lab import Lab, Measure, Receiver
from bench.process import cpu_s, dead_port
from bench.report import BUSY
from bench.scenarios import LARGE
from bench.server import Recapito

GUIDE = Path(__file__).parents[1] / "docs" / "guides" / "sizing.md"
SUBSCRIPTIONS, QUICK_SUBSCRIPTIONS = (10, 1_000, 10_000), (10, 20, 30)
SIZES_KB = (1, 16, 64)
OPENING_S = 30.0  # in which dispatch opens the lanes of all subscriptions, after the server is ready
IDLE_S = 30.0
WAITING_MB = 50
REQUEST_KB = 900  # of a publish in batches
KB = 1024


class Standing(NamedTuple):
    """A server with N idle subscriptions after a restart, and its rates beside them, by event size."""

    count: int
    idle_mb: float
    loaded_mb: float
    disk_mb: float
    start_s: float
    idle: float
    rates: dict[int, tuple[Measure, Measure]]


class Table(NamedTuple):
    """A table of the guide."""

    head: str
    rows: Sequence[str]

    @property
    def text(self) -> str:
        rule = "|" + "---|" * (self.head.count("|") + 1)
        return "\n".join([f"| {self.head} |", rule, *(f"| {row} |" for row in self.rows)])


def main() -> int:
    """Measure and print; progress goes to stderr."""
    chosen = _arguments()
    with Lab(quick=True, say=lambda text: print(text, file=sys.stderr)) as lab:
        counts = QUICK_SUBSCRIPTIONS if chosen.quick else SUBSCRIPTIONS
        standing = [_stand(lab, count) for count in counts]
        waiting = {size_kb: _waiting(lab, size_kb) for size_kb in SIZES_KB}
        tables = [_by_subscriptions(standing), _by_size(standing, waiting)]
        about = _about(max(lab.others))
    print(about, *(table.text for table in tables), sep="\n\n")
    if chosen.write:
        GUIDE.write_text(put_into(GUIDE.read_text("utf-8"), about, tables), "utf-8")
    return 0


def put_into(guide: str, about: str, tables: Sequence[Table]) -> str:
    """The guide with these tables in the places of its tables with the same first column, and with that sentence."""
    for table in tables:
        first = re.escape(table.head.partition("|")[0].strip())
        guide, changed = re.subn(rf"^\| {first} \|.*\n(\|.*\n)*", f"{table.text}\n", guide, count=1, flags=re.MULTILINE)
        assert changed, table.head
    return re.sub(r"^Measured .*$", about, guide, count=1, flags=re.MULTILINE)


def _about(others: float) -> str:
    day, machine = time.strftime("%Y-%m-%d"), f"{os.cpu_count()} processors, Python {platform.python_version()}"
    busy = f", of which other programs used up to {others:.0%}" if others > BUSY else ""
    return f"Measured {day} on a machine with {machine}{busy}; it also ran the load and the receiver."


def _stand(lab: Lab, count: int) -> Standing:
    with lab.receiver() as receiver, lab.recapito() as server:
        began_at = time.monotonic()
        each = min(count, estate.SUBSCRIPTIONS_EACH)
        estate.subscribe(server, count // each, receiver.url(), receiver.url(), each)
        lab.say(f"{count:,} subscriptions made in {time.monotonic() - began_at:.0f} s")
        server.stop()
        began_at = time.monotonic()
        server.start_again()
        start_s = time.monotonic() - began_at
        pids = server.pids().values()
        time.sleep(OPENING_S)
        spent_s = sum(map(cpu_s, pids))
        time.sleep(IDLE_S)
        idle = (sum(map(cpu_s, pids)) - spent_s) / IDLE_S
        idle_mb, disk_mb = server.resident_mb(), _megabytes(server)
        with server.memory() as looks:
            rates = {size_kb: _rates(lab, server, receiver, size_kb) for size_kb in SIZES_KB}
        return Standing(count, idle_mb, max(looks), disk_mb, start_s, idle, rates)


def _rates(lab: Lab, server: Recapito, receiver: Receiver, size_kb: int) -> tuple[Measure, Measure]:
    """One more subscription gets events of one size, one by one and then in batches."""
    pids = {**server.pids(), "receiver": receiver.pid}
    target = server.topic(f"single-{size_kb}")
    server.subscribe(f"single-{size_kb}", "only", receiver.url())
    single = lab.run(target, receiver, pids, size=size_kb * KB)
    target = server.topic(f"batches-{size_kb}")
    server.subscribe(f"batches-{size_kb}", "only", receiver.url(), LARGE)
    batches = lab.run(target, receiver, pids, size=size_kb * KB, batch=_batch(size_kb))
    faults = [made.fault for made in (single, batches) if made.fault]
    said = f"{single.rate:,.0f} and {batches.rate:,.0f} events a second of {size_kb} KB"
    lab.say(f"{said}: {faults or 'everything was delivered once'}; others used {lab.others[-1]:.0%}")
    return single, batches


def _batch(size_kb: int) -> int:
    return min(100, REQUEST_KB // size_kb)


def _waiting(lab: Lab, size_kb: int) -> float:
    """The kilobytes on disk of an event that waits behind a dead endpoint."""
    with lab.receiver() as receiver, lab.recapito() as server, dead_port() as dead:
        target = server.topic("dying")
        server.subscribe("dying", "only", f"http://127.0.0.1:{dead}/")
        before, batch = _megabytes(server), _batch(size_kb)
        events = WAITING_MB * KB // size_kb // batch * batch
        lab.pile_up(target, receiver, events, size_kb * KB, batch)
        server.stop()  # the write-ahead log goes into the file
        return (_megabytes(server) - before) * KB / events


def _megabytes(server: Recapito) -> float:
    """The size of its databases; the ballast is room that is given back."""
    return sum(file.stat().st_size for file in Path(server.data).glob("*.db*")) / KB / KB


def _by_subscriptions(standing: Sequence[Standing]) -> Table:
    rows = [
        f"{one.count:,} | {one.idle_mb:.0f} MB | {one.loaded_mb:.0f} MB | {one.disk_mb:.0f} MB"
        f" | {one.start_s:.1f} s | {one.idle:.1%}"
        for one in standing
    ]
    return Table("subscriptions | memory, idle | memory, under load | disk | start | idle, of a core", rows)


def _by_size(standing: Sequence[Standing], waiting: dict[int, float]) -> Table:
    counts = [f"{one.count:,}" for one in standing]
    head = [*(f"one by one, {count}" for count in counts), *(f"in batches, {count}" for count in counts)]
    rows = []
    for size_kb, waiting_kb in waiting.items():
        pairs = [one.rates[size_kb] for one in standing]
        cells = [_rate(single) for single, _ in pairs] + [_rate(batches) for _, batches in pairs]
        rows.append(" | ".join([f"{size_kb} KB", *cells, f"{waiting_kb:.1f} KB"]))
    return Table(" | ".join(["event", *head, "disk of a waiting event"]), rows)


def _rate(made: Measure) -> str:
    """To two digits: a repeated run differs in the third."""
    digits = 10 ** max(len(f"{made.rate:.0f}") - 2, 0)
    return f"{round(made.rate / digits) * digits:,.0f}/s"


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m bench.sizing", description="Measure the tables of docs/guides/sizing.md."
    )
    parser.add_argument("--write", action="store_true", help="put the tables into the guide")
    parser.add_argument("--quick", action="store_true", help="try it with few subscriptions")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
