"""`python -m bench.sizing`: the tables of the guide *Sizing*: memory, disk and rate by subscriptions and event size."""

import sys
import time
from collections.abc import Iterator
from pathlib import Path

from bench import estate
from bench.lab import Lab
from bench.process import cpu_s, dead_port
from bench.scenarios import LARGE
from bench.server import Recapito

SUBSCRIPTIONS = (0, 500, 5_000, 10_000)
SIZES_KB = (1, 10, 100)
IDLE_S = 10.0
WAITING_MB = 50
KB = 1024


def main() -> int:
    """Measure and print; progress goes to stderr."""
    with Lab(quick=True, say=lambda text: print(text, file=sys.stderr)) as lab:
        _print(
            "subscriptions | memory of all processes | start | idle, of a core | data directory", _by_subscriptions(lab)
        )
        _print("event | one by one | in batches | disk of a waiting event", _by_size(lab))
    return 0


def _print(head: str, rows: Iterator[str]) -> None:
    lines = [f"| {row} |" for row in rows]
    print("\n".join(["", f"| {head} |", "|" + "---|" * (head.count("|") + 1), *lines]))


def _by_subscriptions(lab: Lab) -> Iterator[str]:
    for count in SUBSCRIPTIONS:
        with lab.receiver() as receiver, lab.recapito() as server:
            estate.subscribe(server, count // estate.SUBSCRIPTIONS_EACH, receiver.url(), receiver.url())
            server.stop()
            began_at = time.monotonic()
            server.start_again()
            start_s = time.monotonic() - began_at
            pids = server.pids().values()
            spent_s = sum(map(cpu_s, pids))
            time.sleep(IDLE_S)
            idle = (sum(map(cpu_s, pids)) - spent_s) / IDLE_S
            memory_mb, disk_mb = server.resident_mb(), _megabytes(server)
            yield f"{count:,} | {memory_mb:.0f} MB | {start_s:.1f} s | {idle:.1%} | {disk_mb:.0f} MB"


def _by_size(lab: Lab) -> Iterator[str]:
    for size_kb in SIZES_KB:
        size, batch = size_kb * KB, min(100, 900 // size_kb)
        with lab.receiver() as receiver, lab.recapito() as server:
            pids = {**server.pids(), "receiver": receiver.pid}
            target = server.topic("single")
            server.subscribe("single", "only", receiver.url())
            single = lab.run(target, receiver, pids, size=size)
            target = server.topic("batches")
            server.subscribe("batches", "only", receiver.url(), LARGE)
            batches = lab.run(target, receiver, pids, size=size, batch=batch)
        faults = [made.fault for made in (single, batches) if made.fault]
        lab.say(f"{size_kb} KB: {faults or 'everything was delivered once'}; others used {lab.others[-1]:.0%}")
        yield f"{size_kb} KB | {single.rate:,.0f}/s | {batches.rate:,.0f}/s | {_waiting(lab, size, batch):.1f} KB"


def _waiting(lab: Lab, size: int, batch: int) -> float:
    """The kilobytes on disk of an event that waits behind a dead endpoint."""
    with lab.receiver() as receiver, lab.recapito() as server, dead_port() as dead:
        target = server.topic("dying")
        server.subscribe("dying", "only", f"http://127.0.0.1:{dead}/")
        before = _megabytes(server)
        events = WAITING_MB * KB * KB // size // batch * batch
        lab.pile_up(target, receiver, events, size, batch)
        server.stop()  # the write-ahead log goes into the file
        return (_megabytes(server) - before) * KB / events


def _megabytes(server: Recapito) -> float:
    """The size of its databases; the ballast is room that is given back."""
    return sum(file.stat().st_size for file in Path(server.data).glob("*.db*")) / KB / KB


if __name__ == "__main__":
    sys.exit(main())
