"""A real server whose files are damaged: it says so, passes what is lost, and delivers all the rest."""

import json
import os
import signal
from contextlib import closing
from pathlib import Path
from typing import Any

import apsw
import pytest

from tests.system.machine import Server, receiver, server, until
from tests.system.spoiled import recapito, spoil


def readiness(running: Server) -> tuple[int, Any]:
    """The status of /readyz, and what it says."""
    status, body = running.request("GET", "/readyz")
    return status, json.loads(body)


def test_a_damaged_segment(tmp_path: Path) -> None:
    """It is passed and counted by every subscription, shown in every place, saved byte for byte; all else arrives."""
    with receiver() as hook, server(tmp_path / "data") as running:
        running.subscribe("orders", hook.url)
        assert until(lambda: "dispatch" in running.roles())
        dispatch = running.roles()["dispatch"]
        os.kill(dispatch, signal.SIGSTOP)
        assert [running.publish("a"), running.publish("b1", "b2"), running.publish("c")] == [200, 200, 200]
        spoil(tmp_path / "data" / "log.db", "UPDATE entry SET body = CAST(x'ff' || body AS BLOB) WHERE events = 2")
        os.kill(dispatch, signal.SIGCONT)
        hook.wait_for({"a", "c"})
        books = {"matched": 4, "delivered": 2, "dropped": 2, "pending": 0}
        assert until(lambda: books.items() <= running.counts("orders").items()), running.counts("orders")
        assert until(lambda: readiness(running)[1]["status"] == "degraded")
        warning = "1 damaged record was set aside: see `recapito damaged list`"
        assert readiness(running)[0] == 200
        assert readiness(running)[1]["checks"]["damage"] == warning
        assert 'recapito_damaged_records{table="entry"} 1' in running.request("GET", "/metrics")[1].decode()
        assert any('"store.damaged"' in line for line in running.journal)
        doctor = recapito("doctor", "--server", running.url, "--data", str(tmp_path / "data"), "-o", "json")
        assert doctor.returncode == 1
        assert warning in doctor.stdout
        explained = recapito("explain", "b1", "--server", running.url)
        assert "damaged" in explained.stdout + explained.stderr
        (listed,) = json.loads(recapito("damaged", "list", "--server", running.url, "-o", "json").stdout)
        assert listed["name"] == "entry-1"
        assert listed["topic"] == "demo"
        assert listed["events"] == 2
        exported = recapito("damaged", "export", "--server", running.url, "--to", str(tmp_path / "saved"))
        assert exported.returncode == 0, exported.stderr
        content = (tmp_path / "saved" / "entry-1.content").read_bytes()
        assert content.startswith(b'\xff{"id":"b1"') and b'"b2"' in content
        assert recapito("damaged", "dismiss", "--server", running.url).returncode == 0
        assert readiness(running)[1]["status"] == "ready"
    (offline,) = json.loads(recapito("damaged", "list", "--data", str(tmp_path / "data"), "-o", "json").stdout)
    assert offline["name"] == "entry-1"
    recapito("damaged", "export", "entry-1", "--data", str(tmp_path / "data"), "--to", str(tmp_path / "offline"))
    assert (tmp_path / "offline" / "entry-1.content").read_bytes() == content


def test_a_file_that_was_removed_takes_nothing(tmp_path: Path) -> None:
    """No publish is answered 200 from the very moment, and all is well when the file is back."""
    with server(tmp_path / "data") as running:
        assert running.publish("a") == 200
        (tmp_path / "data" / "log.db").rename(tmp_path / "elsewhere")
        assert {running.publish(f"b{n}") for n in range(20)} == {503}
        assert until(lambda: readiness(running)[0] == 503)
        (tmp_path / "elsewhere").rename(tmp_path / "data" / "log.db")
        assert until(lambda: readiness(running)[0] == 200)
        assert running.publish("c") == 200


def test_a_file_that_was_cut_is_remembered(tmp_path: Path) -> None:
    """Nothing is accepted into it, also after a restart, until a person has looked; doctor names the remedy."""
    data = tmp_path / "data"
    with server(data) as running:
        assert running.publish("a") == 200
    with server(data) as running:
        os.truncate(data / "log.db", (data / "log.db").stat().st_size - 1)
        assert {running.publish(f"b{n}") for n in range(5)} == {503}
        assert until(lambda: readiness(running)[0] == 503)
        assert "log.db may be damaged (it was truncated)" in readiness(running)[1]["checks"]["store"]
        running.kill("intake")
        assert until(lambda: "intake" in running.roles())
        assert running.publish("c") == 503
        said = recapito("doctor", "--server", running.url, "--data", str(data), "-o", "json")
        assert said.returncode == 1
        assert "it was truncated" in said.stdout and f"recapito damaged clear --data {data}" in said.stdout
        assert recapito("damaged", "clear", "--data", str(data)).returncode == 0
        assert until(lambda: readiness(running)[0] == 200)
        assert running.publish("d") == 200
    assert recapito("damaged", "clear", "--data", str(data)).returncode == 3


def test_a_file_that_was_overwritten_takes_nothing(tmp_path: Path) -> None:
    """Another program writes over the database of a running server: it stops accepting before its next answer."""
    data = tmp_path / "data"
    with server(data) as running:
        assert running.publish("a") == 200
        with (data / "log.db").open("r+b") as opened:
            opened.write(bytes(4096))
        assert {running.publish(f"b{n}") for n in range(5)} == {503}
        assert until(lambda: readiness(running)[0] == 503)
        said = readiness(running)[1]["checks"]["store"]  # by whichever role saw it first
        assert "another program wrote to it" in said or "file is not a database" in said


@pytest.mark.parametrize("table", ["sqlite_autoindex_entry_1", "subscription"])
def test_a_damaged_page_on_the_way_to_events(tmp_path: Path, table: str) -> None:
    """Sound events behind it wait, which is reported once; after a backup is restored, every event arrives."""
    data = tmp_path / "data"
    ids = {f"e{n}" for n in range(30)}
    with receiver() as hook:
        with server(data) as running:
            running.subscribe("orders", hook.url)
            assert until(lambda: "dispatch" in running.roles())
            os.kill(running.roles()["dispatch"], signal.SIGSTOP)
            assert {running.publish(id) for id in sorted(ids)} == {200}
            running.kill("dispatch")
            running.kill("parent")
        sound = zero_page(data / "log.db", table)
        with server(data) as running:
            assert until(lambda: readiness(running)[0] == 503)
            dispatch = running.roles()["dispatch"]
            assert until(lambda: sum('"store.failed"' in line for line in running.journal) >= 2)
            assert running.publish("late") == 503
            assert not hook.ids
            assert running.roles()["dispatch"] == dispatch
            assert not any(line.startswith("Traceback") for line in running.journal)  # of a role that ends
        (data / "log.db").write_bytes(sound)
        for extra in ("-wal", "-shm"):
            (data / f"log.db{extra}").unlink(missing_ok=True)
        assert recapito("damaged", "clear", "--data", str(data)).returncode == 0
        with server(data) as running:
            hook.wait_for(ids)
            assert until(lambda: running.counts("orders")["pending"] == 0)
            assert "dropped" not in running.counts("orders")


def zero_page(file: Path, table: str) -> bytes:
    """Overwrite the root page of a table or index with zeros; the content of the file before."""
    with closing(apsw.Connection(str(file))) as connection:
        connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
        root: Any = connection.execute("SELECT rootpage FROM sqlite_schema WHERE name = ?", (table,)).get
        size: Any = connection.pragma("page_size")
    sound = file.read_bytes()
    file.write_bytes(sound[: (root - 1) * size] + bytes(size) + sound[root * size :])
    return sound
