"""A few rounds of faults of real NATS servers; `python -m tests.stores.replicated.rounds` plays more."""

import asyncio
from pathlib import Path

import pytest

from tests.stores.replicated.rounds import play

ROUNDS = 16


@pytest.mark.slow
def test_faulty_servers_lose_nothing(tmp_path: Path) -> None:
    """No commit is lost, whichever fault comes, each of them twice, during appends and settles.

    One to three servers die or pause, one is wiped, bits flip, streams are full.
    """
    story = asyncio.run(play(seed=7, rounds=ROUNDS, directory=tmp_path, say=lambda line: None))
    assert story.told.counts["verbs"] > 20
