"""`python -m tests.soak --minutes N`: a real server under load while it is killed, paused, starved of disk, damaged.

In the end every event that was acknowledged is accounted for, at each of its subscriptions; exit code 1 if not. What
was damaged is counted as CorruptRecord and listed by `recapito damaged list`, or has arrived.
"""

import argparse
import http.client
import itertools
import random
import signal
import sys
import threading
import time
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.soak.books import Books, unaccounted, unbalanced
from tests.soak.endpoints import PATHS, Endpoints
from tests.soak.machine import Machine, small_disk
from tests.system.machine import events, until

PUBLISHERS = 4
QUIET_S = 420.0  # a dead letter is written five minutes after its last attempt
LETTERS_MINUTES = 5  # shorter runs do not wait for dead letters
READY_S = 60.0


def main() -> int:
    """Run, heal, reconcile."""
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description="A real server under load and faults.")
    parser.add_argument("--minutes", type=float, default=10.0, help="how long things go wrong")
    parser.add_argument("--seed", type=int, default=1, help="of the dice that choose faults")
    parser.add_argument("--rate", type=float, default=200.0, help="events a second")
    parser.add_argument("--pause", type=float, default=5.0, help="seconds between faults, on average")
    parser.add_argument("--disk-mb", type=int, default=1024, help="size of the volume, if one can be mounted; 0: none")
    parser.add_argument("--cluster", type=int, default=0, metavar="ROUNDS", help="rounds on a cluster; needs root")
    parser.add_argument("--partitions", type=int, default=1, help="of the cluster")
    parser.add_argument("--fault", action="append", default=[], metavar="NAME", help="of rounds; may repeat")
    parser.add_argument("--journals", type=Path, metavar="DIRECTORY", help="keep those of a cluster's machines there")
    options = parser.parse_args()
    if options.cluster:
        from tests.soak.cluster import soak_cluster
        from tests.soak.cluster_faults import FAULTS

        if unknown := set(options.fault) - FAULTS.keys():
            parser.error(f"no such fault: {', '.join(sorted(unknown))}; there are: {', '.join(FAULTS)}")
        for number in (signal.SIGINT, signal.SIGTERM):  # a run that is broken off cleans up, and prints its record
            signal.signal(number, signal.default_int_handler)
        wrong = soak_cluster(
            options.cluster, options.seed, options.partitions, options.fault or FAULTS, options.journals
        )
        print(*wrong, sep="\n")
        return 1 if wrong else 0
    with TemporaryDirectory() as place, small_disk(Path(place), options.disk_mb) as mounted:
        wrong = soak(Path(place) / "data", options.minutes, options.seed, options.rate, options.pause, mounted)
    return 1 if wrong else 0


def soak(data: Path, minutes: float, seed: int, rate: float, pause_s: float, mounted: bool) -> list[str]:
    """Soak a server in this directory; what is wrong in the end. The last line that it prints is the record."""
    began = time.monotonic()
    books = Books()
    endpoints = Endpoints(books)
    machine = Machine(data)
    letters = minutes >= LETTERS_MINUTES
    paths = PATHS if letters else PATHS[:-1]
    for path in paths:
        dead = {"deadLetterDestination": {"endpointType": "Directory", "properties": {"name": "soak"}}}
        more = dead if path == "buried" else {}
        batch = {"maxEventsPerBatch": 10} if path == "steady" else {}
        machine.server.subscribe(path, endpoints.url(path), destination=batch, **more)
    publishers = [
        threading.Thread(target=publish, args=(machine, books, n, seed, rate / PUBLISHERS)) for n in range(PUBLISHERS)
    ]
    for thread in publishers:
        thread.start()
    try:
        disturb(machine, random.Random(seed), minutes * 60, pause_s, mounted)
    finally:
        machine.end()
        for thread in publishers:
            thread.join()
    wrong = reconcile(machine, books, paths)
    print(summary(machine, books, paths, wrong, time.monotonic() - began))
    machine.server.stop()
    endpoints.close()
    return wrong


def publish(machine: Machine, books: Books, number: int, seed: int, rate: float) -> None:
    """Publish until the end, one request after the other, a few events in each."""
    rng = random.Random(f"{seed}/{number}")
    connection = http.client.HTTPConnection("127.0.0.1", machine.port, timeout=30)  # connects whenever it must
    for n in itertools.count():
        count = rng.choice((1, 1, 2, 5, 20))
        if machine.wait(count / rate):
            connection.close()
            return
        ids = [f"{number}-{n}-{i}" for i in range(count)]
        status = None
        try:
            body = events(*ids, data='{"fill":"' + "x" * rng.choice((10, 100, 2000)) + '"}')
            connection.request("POST", "/topics/demo/api/events", body, {"aeg-sas-key": machine.key})
            response = connection.getresponse()
            response.read()
            status = response.status
        except ConnectionRefusedError:
            continue  # nobody is there, and nothing was sent
        except (OSError, http.client.HTTPException):
            connection.close()
        books.published(ids, status)


def disturb(machine: Machine, rng: random.Random, seconds: float, pause_s: float, mounted: bool) -> None:
    """One fault after the other, until the time is over; the last one damages something in any case."""
    faults = [machine.kill_role] * 4 + [machine.kill_newborn] * 2 + [machine.kill_both] + [machine.kill_parent] * 2
    faults += [machine.pause] * 4 + [machine.stop_politely] + [machine.damage] * 2
    faults += [machine.fill_disk] * (2 if mounted else 0)
    ends = time.monotonic() + seconds
    while time.monotonic() < ends:
        if machine.wait(min(rng.expovariate(1 / pause_s), max(ends - time.monotonic(), 0))):
            break
        rng.choice(faults)(rng)
    machine.damage(rng)


def reconcile(machine: Machine, books: Books, paths: tuple[str, ...]) -> list[str]:
    """Wait until all has come to its end; what has not, or is wrong."""
    server = machine.server
    until(lambda: answers(machine), READY_S)
    held = {id for one in machine.rotten for id in one.ids}
    until(lambda: not any(books.missing(path) - held for path in paths), QUIET_S)
    until(lambda: not any(unbalanced(server.counts(path)) for path in paths), QUIET_S)
    listed = machine.listed()
    wrong = [f"{one[:4]} is not listed" for one in machine.rotten if one.table == "lane" and one[:4] not in listed]
    for path in paths:
        lost = machine.lost(path, listed)
        if said := unaccounted(books.missing(path), lost, machine.corrupt(path), machine.begun_again(path)):
            wrong.append(f"{path}: {said}")
        if invented := books.invented(path):
            wrong.append(f"{path}: {len(invented)} events arrived that nobody published, one is {min(invented)}")
        if said := unbalanced(server.counts(path)):
            wrong.append(f"{path}: {said}")
    return wrong


def answers(machine: Machine) -> bool:
    """Whether the server is ready."""
    try:
        return machine.server.request("GET", "/readyz")[0] == 200
    except (OSError, http.client.HTTPException):
        return False


def summary(machine: Machine, books: Books, paths: tuple[str, ...], wrong: list[str], took_s: float) -> str:
    """The reconciliation, and in its last line all that goes into the record."""
    lines = [f"wrong: {line}" for line in wrong]
    listed = machine.listed()
    missing = {path: books.missing(path) for path in paths}
    given_up = sum(len(missing[path] & machine.lost(path, listed)) for path in paths)
    lost = sum(map(len, missing.values())) - given_up
    for path in paths:
        counts = machine.server.counts(path)
        figures = ", ".join(f"{name} {counts.get(name, 0):,.0f}" for name in ("matched", "delivered", "dead_lettered"))
        dropped = f"dropped {counts.get('dropped', 0):,.0f}"
        lines.append(f"{path}: {figures}, {dropped}, pending {counts['pending']:,.0f}, twice {books.repeated(path):,}")
    lines.append("faults: " + ", ".join(f"{count} {what}" for what, count in sorted(machine.done.items())))
    lines.append("memory: " + ", ".join(f"{role} {mb:.0f} MB" for role, mb in sorted(machine.memory_mb().items())))
    twice = sum(books.repeated(path) for path in paths)
    lines.append(
        f"soak: {took_s / 60:.1f} min, {machine.done.total()} faults, {len(books.acknowledged):,} acknowledged,"
        f" {len(books.unknown):,} unknown or refused; at {len(paths)} subscriptions {twice:,} twice,"
        f" {given_up} given up as CorruptRecord, {lost} lost, {len(wrong)} wrong"
    )
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
