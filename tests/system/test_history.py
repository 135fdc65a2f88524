"""History of a real server on two processes: written by one, read by the other, lost without harm."""

from pathlib import Path
from typing import Any

from tests.system.machine import Server, receiver, server, until


def outcomes(recapito: Server, id: str) -> list[str]:
    """How the attempts of an event ended, oldest first; the newest may take half a second to be seen."""
    page = recapito.call("GET", f"/deliveries?event={id}")
    return [one["outcome"] for one in reversed(page["value"])]


def state(recapito: Server, id: str) -> Any:
    """How the only subscription stands to an event."""
    (one,) = recapito.call("GET", f"/deliveries/explain?event={id}")["subscriptions"]
    return one["state"]


def test_attempts_are_seen_by_the_other_process(tmp_path: Path) -> None:
    """Intake shows the attempts of dispatch a moment later, and the state of each delivery."""
    with receiver() as hook, server(tmp_path / "data", "--clock", "scaled:60") as recapito:
        statuses = iter([503, 503])
        hook.answer = lambda events: next(statuses, 200)
        recapito.subscribe("mine", hook.url)
        recapito.publish("one")
        assert until(lambda: outcomes(recapito, "one") == ["Busy", "Busy", "Success"])
        assert until(lambda: state(recapito, "one") == "delivered")


def test_a_crash_of_dispatch(tmp_path: Path) -> None:
    """Older attempts are still shown, later ones are recorded, and every event arrives."""
    with receiver() as hook, server(tmp_path / "data") as recapito:
        recapito.subscribe("mine", hook.url)
        recapito.publish("before")
        assert until(lambda: outcomes(recapito, "before") == ["Success"])
        recapito.kill("dispatch")
        recapito.publish("after")
        hook.wait_for({"before", "after"})
        assert until(lambda: outcomes(recapito, "after")[-1:] == ["Success"])
        assert outcomes(recapito, "before")[0] == "Success"


def test_a_damaged_history_stops_nothing(tmp_path: Path) -> None:
    """A server starts on a history that is none: it is set aside, events are delivered, and attempts recorded."""
    data = tmp_path / "data"
    with receiver() as hook:
        with server(data) as recapito:
            recapito.subscribe("mine", hook.url)
        (data / "history.db").write_bytes(b"this is not a database" * 1000)
        with server(data) as recapito:
            recapito.publish("one")
            hook.wait_for({"one"})
            assert until(lambda: outcomes(recapito, "one") == ["Success"])
        assert (data / "history.db.damaged").exists()
        assert any("history.set_aside" in line for line in recapito.journal)


def test_without_history(tmp_path: Path) -> None:
    """Switched off, nothing is recorded or kept, and what the ledger knows is still explained."""
    off = {"RECAPITO_HISTORY_ENABLED": "false"}
    with receiver() as hook, server(tmp_path / "data", environment=off) as recapito:
        hook.answer = lambda events: 503
        recapito.subscribe("mine", hook.url)
        recapito.publish("one")
        assert until(lambda: state(recapito, "one") == "parked")
        page = recapito.call("GET", "/deliveries")
        assert page["value"] == [] and page["kept"] == {"since": None, "attempts": 0, "notKept": 0}
    assert not (tmp_path / "data" / "history.db").exists()


def test_in_memory_and_by_the_manual_clock(tmp_path: Path) -> None:
    """When the clock has been moved, what was tried on the way is there to be read."""
    with receiver() as hook, server(tmp_path / "data", "--memory", "--clock", "manual") as recapito:
        statuses = iter([503])
        hook.answer = lambda events: next(statuses, 200)
        recapito.subscribe("mine", hook.url)
        recapito.publish("one")
        recapito.call("POST", "/clock/advance", {"seconds": 60})
        assert outcomes(recapito, "one") == ["Busy", "Success"]
        assert state(recapito, "one") == "delivered"
