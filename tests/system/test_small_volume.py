"""Volumes of 64, 160 and 1,024 MB that fill up: nothing that was acknowledged is lost, and next to nothing repeated."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from recapito.domain import limits
from recapito.domain.limits import KB, MB
from tests.system.machine import server, until
from tests.system.volume import DOWN, HALF, SLOW, Burst, fill_up, sink, volume

pytestmark = pytest.mark.slow
EVENT_BYTES = {64: 30 * KB, 160: 100 * KB, 1024: 700 * KB}


@pytest.mark.parametrize("state", [DOWN, SLOW])
@pytest.mark.parametrize("megabytes", sorted(EVENT_BYTES))
def test_a_burst_fills_it(tmp_path: Path, megabytes: int, state: str) -> None:
    """Publishers meet 503 before the volume is full; what they were answered 200 arrives, and intake opens again."""
    clock = "scaled:60" if state == DOWN else "system"
    with (
        volume(tmp_path / "volume", megabytes * MB) as place,
        sink(state) as hook,
        server(place / "data", "--clock", clock, "--no-portal") as recapito,
    ):
        recapito.subscribe("sub", hook.url)
        burst = Burst(recapito, EVENT_BYTES[megabytes], enough=5).join()
        assert not burst.odd
        size = sum(len(id) + EVENT_BYTES[megabytes] for id in burst.acknowledged)
        assert size > megabytes * MB / 2, "a good part of the volume is for events"
        status, said = recapito.request("GET", "/readyz")
        assert status == 503 and b"disk" in said
        hook.recover()
        assert until(lambda: burst.acknowledged <= hook.taken.keys(), 120), len(hook.taken)
        assert hook.repeated <= limits.WINDOW_REQUESTS
        assert until(lambda: recapito.publish("after") == 200)
        assert until(lambda: "after" in hook.taken)


@pytest.mark.parametrize("megabytes", sorted(EVENT_BYTES))
def test_a_stranger_fills_it(tmp_path: Path, megabytes: int) -> None:
    """A full volume refuses publishers and repeats nothing forever; when the stranger is gone, all goes on."""
    with (
        volume(tmp_path / "volume", megabytes * MB) as place,
        sink() as hook,
        server(place / "data", "--no-portal") as recapito,
    ):
        recapito.subscribe("sub", hook.url)
        burst = Burst(recapito, 2 * KB)
        assert until(lambda: len(hook.taken) > 100)
        fill_up(place / "stranger")
        assert until(lambda: burst.refused > 50)
        assert recapito.request("GET", "/readyz")[0] == 503
        (place / "stranger").unlink()
        healed = len(burst.acknowledged)
        assert until(lambda: len(burst.acknowledged) > healed + 100)
        burst.stop()
        assert not burst.odd
        assert until(lambda: burst.acknowledged <= hook.taken.keys())
        assert hook.repeated <= limits.WINDOW_REQUESTS


def test_half_of_the_events_fail(tmp_path: Path) -> None:
    """An endpoint that refuses some events for a while has them parked; there is always room to settle the others."""
    with (
        volume(tmp_path / "volume", 64 * MB) as place,
        sink(HALF) as hook,
        server(place / "data", "--clock", "scaled:60", "--no-portal") as recapito,
    ):
        recapito.subscribe("sub", hook.url)
        burst = Burst(recapito, EVENT_BYTES[64], enough=40).join()
        assert not burst.odd
        good = {id for id in burst.acknowledged if int(id.rpartition("-")[2]) % 2}
        hook.recover()
        assert until(lambda: burst.acknowledged <= hook.taken.keys(), 120), len(hook.taken)
        assert good and hook.repeated <= limits.WINDOW_REQUESTS
        assert not [line for line in recapito.journal if "store.full" in line or "ballast_released" in line]
        assert until(lambda: recapito.publish("after") == 200)


def test_a_server_starts_on_a_full_volume(tmp_path: Path) -> None:
    """The ballast is the room in which what was acknowledged is delivered; publishers are refused meanwhile."""
    with volume(tmp_path / "volume", 64 * MB) as place, sink(DOWN) as hook:
        with server(place / "data", "--no-portal") as recapito:
            recapito.subscribe("sub", hook.url)
            assert recapito.publish("1") == recapito.publish("2") == 200
            assert until(lambda: hook.requests > 0)
        fill_up(place / "stranger")
        hook.recover()
        with server(place / "data", "--clock", "scaled:60", "--no-portal") as recapito:
            assert recapito.publish("3") == 503
            assert until(lambda: hook.taken.keys() == {"1", "2"})
            assert hook.repeated == 0


def test_without_any_room_the_start_may_be_tried_again(tmp_path: Path) -> None:
    """There is no ballast and no room for the index of a WAL: an exit code after which a service manager goes on."""
    with volume(tmp_path / "volume", 64 * MB) as place:
        with server(place / "data", "--no-portal"):
            pass
        (place / "data" / "ballast").unlink()
        fill_up(place / "stranger")
        refused = subprocess.run(
            [sys.executable, "-m", "recapito", "serve", "--data", place / "data", "--port", "0"],
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert refused.returncode == os.EX_TEMPFAIL
        assert "its volume is full: make room" in refused.stderr
        (place / "stranger").unlink()
        with server(place / "data", "--no-portal") as recapito:
            assert recapito.publish("1") == 200
