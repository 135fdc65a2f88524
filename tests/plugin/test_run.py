"""Test runs with the plugin, in processes of their own: as users have it."""

import os
import re
import select
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

PATIENCE_S = 300.0


def command(folder: Path, *flags: str) -> list[str]:
    return [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--rootdir", str(folder), str(folder), *flags]


def run(folder: Path, tests: str, *flags: str) -> str:
    """The output of pytest about a file of tests."""
    folder.joinpath("test_it.py").write_text(textwrap.dedent(tests), "utf-8")
    done = subprocess.run(command(folder, *flags), capture_output=True, text=True, timeout=PATIENCE_S, cwd=folder)
    return done.stdout + done.stderr


def test_who_does_not_use_it_pays_nothing(tmp_path: Path) -> None:
    """A run without the fixture loads neither the server nor any of its libraries."""
    said = run(
        tmp_path,
        """
        import sys

        def test_nothing_is_loaded():
            loaded = [name for name in sys.modules if name.startswith("recapito.")]
            assert set(loaded) <= {
                "recapito.testing", "recapito.testing.plugin", "recapito.testing.answer", "recapito.domain",
                "recapito.domain.instant",
            }
            assert not {"msgspec", "uvloop", "starlette", "typer", "azure"} & set(sys.modules)
        """,
    )
    assert "1 passed" in said, said


def test_with_xdist_and_with_jitter(tmp_path: Path) -> None:
    """Each worker has a server of its own; where jitter is on, assertions on time allow for it."""
    said = run(
        tmp_path,
        """
        import pytest

        @pytest.fixture(scope="session")
        def recapito_settings():
            return {"delivery.jitter": True, "delivery.profile": "2026-02"}

        @pytest.mark.parametrize("turn", range(4))
        def test_retries(recapito, turn):
            topic = recapito.topic("orders")
            hook = recapito.receiver(500, 500, 500, 200)
            topic.subscribe(hook)
            id = topic.publish("Order.Created", turn)
            recapito.clock.until_idle()
            hook.assert_delivered(id, attempt=4, after="1m40s")
            assert hook.attempts(id)[-1].after_s != 100
            assert [event["data"] for event in hook.events] == [turn]
        """,
        "--numprocesses=2",
    )
    assert "4 passed" in said, said


def test_settings_that_are_wrong(tmp_path: Path) -> None:
    """The message names the setting, without a traceback."""
    said = run(
        tmp_path,
        """
        import pytest

        @pytest.fixture(scope="session")
        def recapito_settings():
            return {"delivery.profile": "1999-01"}

        def test_it(recapito):
            pass
        """,
    )
    assert "delivery.profile: Profile '1999-01' is unknown" in said
    assert "Traceback" not in said and "server.py" not in said


def test_a_server_that_can_not_start(tmp_path: Path) -> None:
    """The server's last words are in the message."""
    tmp_path.joinpath("starlette.py").write_text("raise ImportError('a broken installation')")
    said = run(
        tmp_path,
        """
        import os, sys
        import pytest

        @pytest.fixture(scope="session", autouse=True)
        def broken():
            os.environ["PYTHONPATH"] = os.path.dirname(__file__)

        def test_it(broken, recapito):
            pass
        """,
    )
    assert "Recapito's server for tests did not start" in said
    assert "ImportError: a broken installation" in said


def test_a_server_that_ends_meanwhile(tmp_path: Path) -> None:
    """The message says what was asked, and where the server's last words are."""
    said = run(
        tmp_path,
        """
        import os, signal

        def test_it(recapito, recapito_server):
            os.kill(recapito_server.pid, signal.SIGKILL)
            os.waitpid(recapito_server.pid, 0)
            recapito.topic("orders")
        """,
    )
    assert re.search(r"Recapito did not answer PUT .+topics/orders.+The server's log is .+server\.log", said), said


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_no_server_outlives_the_run(tmp_path: Path, number: signal.Signals) -> None:
    """However pytest ends, its server ends with it."""
    tmp_path.joinpath("test_it.py").write_text(
        textwrap.dedent(
            """
            def test_it(recapito, recapito_server):
                topic = recapito.topic("orders")
                hook = recapito.receiver(503)
                topic.subscribe(hook)
                topic.publish("Order.Created")
                print(f"server {recapito_server.pid}", flush=True)
                input()
            """
        )
    )
    with subprocess.Popen(
        command(tmp_path, "-s"), stdout=subprocess.PIPE, stdin=subprocess.PIPE, text=True, cwd=tmp_path
    ) as pytest_run:
        assert pytest_run.stdout is not None
        line = next(line for line in pytest_run.stdout if "server " in line)
        found = re.search(r"server (\d+)", line)
        assert found
        watched = os.pidfd_open(int(found[1]))
        pytest_run.send_signal(number)
    try:
        assert wait_for_end(watched), "the server is still there"
    finally:
        os.close(watched)


def wait_for_end(pidfd: int) -> bool:
    """Whether a process ends in time."""
    return bool(select.select([pidfd], [], [], PATIENCE_S)[0])
