"""A few rounds of faults of real NATS servers; `python -m tests.stores.replicated.rounds` plays more."""

import asyncio
from pathlib import Path

import pytest

from tests.stores.replicated.rounds import play


@pytest.mark.slow
def test_faulty_servers_lose_nothing(tmp_path: Path) -> None:
    """The streams are full, then one and two servers are killed, during appends and settles: no commit is lost."""
    story = asyncio.run(play(seed=7, rounds=3, directory=tmp_path, say=lambda line: None))
    assert story.told.counts["verbs"] > 20
