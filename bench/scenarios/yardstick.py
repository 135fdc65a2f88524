"""A comparison for everyone: the same work, one event in and one out, with taskiq on Redis and with Celery on Redis."""

from functools import partial

from bench.lab import Lab, Measure
from bench.process import Child, module
from bench.report import Goal, Sample
from bench.scenarios import Round, ratio
from bench.scenarios.single import durable
from bench.server import Target
from bench.yardsticks import redis
from bench.yardsticks.front import KEY

NAME = "yardstick"
ROUNDS = 3
GOALS = (
    Goal("taskiq", "against taskiq on Redis, the same work", 8.0),
    Goal("celery", "against Celery on Redis, the same work", 20.0),
)
WORKERS = {
    "taskiq": module(
        "taskiq",
        "worker",
        "bench.yardsticks.taskiq_queue:broker",
        *("--workers", "2", "--max-prefetch", "100", "--no-parse"),
        *("--ack-type", "when_executed", "--log-level", "WARNING"),
    ),
    "celery": module(
        "celery", "-A", "bench.yardsticks.celery_queue", "worker", "-c", "2", "-l", "WARNING", "--without-gossip"
    ),
}


def measure(round: Round) -> list[Sample]:
    """Our rate as a multiple of theirs; without Redis there is nothing to compare with."""
    program = redis.find()
    if program is None:
        return [Sample(queue, 0.0, "", redis.HOW_TO_INSTALL) for queue in WORKERS]
    return [
        ratio(queue, durable(round), round.once(queue, partial(_queue, queue, program)), f"with {queue}")
        for queue in WORKERS
    ]


def _queue(queue: str, program: str, lab: Lab) -> Measure:
    with (
        lab.receiver() as receiver,
        lab.directory("redis") as path,
        redis.running(program, path) as url,
    ):
        environment = {"BENCH_REDIS": url, "BENCH_ENDPOINT": receiver.url()}
        with (
            Child(module("bench.yardsticks.front", queue), path / "front.log", environment) as front,
            Child(WORKERS[queue], path / "worker.log", environment),
        ):
            target = Target(int(front.line()), "/publish", KEY)
            return lab.run(target, receiver, {"front": front.pid, "receiver": receiver.pid})
