"""Dead-lettering a hundred thousand events to blobs of an Azurite, and redriving them, on a clock that runs faster."""

import time
from collections.abc import Callable
from contextlib import ExitStack

from azure.storage.blob import ContainerClient

from bench import fixture
from bench.lab import Lab, Receiver
from bench.process import dead_port
from bench.report import Goal, Sample
from bench.scenarios import LARGE, Round, describe
from bench.server import Recapito, Target, call

NAME = "deadletters"
ROUNDS = 1
GOALS = (
    Goal("dead letter writes", "writes for 100,000 dead letters", 1000.0, "writes", at_least=False),
    Goal("dead letter memory", "memory while 100,000 are dead-lettered, against 10,000", 1.25, at_least=False),
    Goal("redrive", "a redrive of 100,000, one by one, against publishes of 1 event, one by one", 0.5),
)
FEW, MANY, QUICK_MANY = 10_000, 100_000, 20_000
SPEED = 10  # the five minutes before a dead letter is written are 30 s
LONGEST_S = 600.0
PAGE = 1000  # letters that one request redrives
PROFILE = {"recapito-profile": "2019-05"}  # which holds back nothing: each event is tried, fails, and dies
_TOPIC, _SUBSCRIPTION, _CONTAINER = "letters", "only", "dead"


def measure(round: Round) -> list[Sample]:
    """All of it, on one server."""
    lab, node = round.lab, fixture.find()
    if node is None:
        return [Sample(goal.row, 0.0, "", fixture.HOW_TO_INSTALL) for goal in GOALS]
    with ExitStack() as stack:
        connection = stack.enter_context(fixture.azurite(node, stack.enter_context(lab.directory("azurite"))))
        container = stack.enter_context(ContainerClient.from_connection_string(connection, _CONTAINER))
        container.create_container()
        receiver = stack.enter_context(lab.receiver())
        server = stack.enter_context(lab.recapito(flags=("--clock", f"scaled:{SPEED}")))
        server.connect(fixture.ACCOUNT, connection)
        _fill_caches(lab, server, receiver)
        target = server.topic(_TOPIC, PROFILE)
        _subscribe(server, f"http://127.0.0.1:{stack.enter_context(dead_port())}/")
        buried = _bury(lab, server, target, receiver, container)
        _subscribe(server, receiver.url())
        return [*buried, _redrive(lab, server, target, receiver)]


def _fill_caches(lab: Lab, server: Recapito, receiver: Receiver) -> None:
    """Deliver more events than the caches hold: what they take, they have taken before anything is dead-lettered."""
    target = server.topic("warm-up")
    server.subscribe("warm-up", "only", receiver.url(), LARGE)
    receiver.tally.reset()
    lab.pile_up(target, receiver, MANY)
    _until(lambda: receiver.tally.events, MANY, "delivered")


def _subscribe(server: Recapito, url: str) -> None:
    """One attempt, then the container."""
    blobs = {"resourceId": fixture.ACCOUNT, "blobContainerName": _CONTAINER}
    vault = {"endpointType": "StorageBlob", "properties": blobs}
    policy = {"maxDeliveryAttempts": 1}
    server.subscribe(_TOPIC, _SUBSCRIPTION, url, None, deadLetterDestination=vault, retryPolicy=policy)


def _bury(lab: Lab, server: Recapito, target: Target, receiver: Receiver, container: ContainerClient) -> list[Sample]:
    """Dead-letter few events, and then many: how many blobs the vault has more, and what memory it took."""
    many = QUICK_MANY if lab.quick else MANY
    with server.memory() as before:
        _bury_so_many(lab, server, target, receiver, FEW)
    first = len(list(container.list_blob_names()))
    began_at = time.monotonic()
    with server.memory() as meanwhile:
        _bury_so_many(lab, server, target, receiver, many)
    writes = len(list(container.list_blob_names())) - first
    lab.say(f"{many:,} events dead-lettered in {time.monotonic() - began_at:.0f} s by {writes} writes")
    fault = "the vault was out of reach at times" if server.journal("deadletter.unavailable") else ""
    memory = f"{max(meanwhile):.0f} MB with {many:,} against {max(before):.0f} MB with {FEW:,}"
    return [
        Sample("dead letter writes", writes, f"{writes} blobs with {many:,} dead letters", fault),
        Sample("dead letter memory", max(meanwhile) / max(before), memory, fault),
    ]


def _bury_so_many(lab: Lab, server: Recapito, target: Target, receiver: Receiver, events: int) -> None:
    """Publish N events, and wait until the vault has confirmed that many more."""
    before = _written(server)
    lab.pile_up(target, receiver, events)
    _until(lambda: _written(server) - before, events, "dead-lettered")


def _until(count: Callable[[], int], events: int, what: str) -> None:
    """Wait until N events are counted."""
    patient_until = time.monotonic() + LONGEST_S
    while (done := count()) < events:
        if time.monotonic() > patient_until:
            raise RuntimeError(f"only {done:,} of {events:,} were {what} within {LONGEST_S:.0f} s")
        time.sleep(0.2)


def _written(server: Recapito) -> int:
    return sum(line["events"] for line in server.journal("deadletter.written"))


def _redrive(lab: Lab, server: Recapito, target: Target, receiver: Receiver) -> Sample:
    """Redrive all that lies in the vault, page by page, and compare with plain publishing to the same subscription."""
    receiver.tally.reset()
    began_ns = time.monotonic_ns()
    done, after = 0, ""
    while True:
        wanted = {"topic": _TOPIC, "limit": PAGE} | ({"after": after} if after else {})
        progress = call(server.port, "POST", "/deadletters/redrive", wanted)
        done += progress["done"]
        if progress["next"] is None:
            break
        after = progress["next"]
    asked_s = (time.monotonic_ns() - began_ns) / 1e9
    patient_until = time.monotonic() + LONGEST_S
    while receiver.tally.events < done and time.monotonic() < patient_until:
        time.sleep(0.05)
    rate = done / ((receiver.tally.last_ns - began_ns) / 1e9)
    arrived = receiver.tally.events
    lab.say(f"redrive: {rate:,.0f}/s, all {done:,} appended after {asked_s:.1f} s")
    plain = lab.run(target, receiver, {**server.pids(), "receiver": receiver.pid})
    lab.say(f"plain: {describe(plain)}; others used {lab.others[-1]:.0%} of the machine")
    detail = f"{rate:,.0f}/s against {plain.rate:,.0f}/s published"
    fault = "" if arrived == done else f"{arrived:,} of {done:,} arrived"
    return Sample("redrive", rate / plain.rate, detail, fault or plain.fault)
