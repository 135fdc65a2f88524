"""The orders of a parent to its processes, on standard input, and their last words."""

import os
import subprocess
import sys

from recapito.process.child import Restarts

ROLE = """
import msgspec
from recapito.system.service import run_configured, stop_order

class Config(msgspec.Struct):
    name: str

async def run(config):
    assert await stop_order()
    print(config.name)

raise SystemExit(run_configured(Config, run))
"""


FAILING = """
from recapito.errors import StoreFailed
from recapito.system.service import run_configured

async def run(config):
    raise StoreFailed("the stream does not answer")

raise SystemExit(run_configured(dict, run))
"""


def test_a_process_that_ends_again_and_again_fails() -> None:
    """The pauses grow to five seconds; eight ends in a row are a failure, and a steady run makes up for all of them."""
    restarts, paused = Restarts(), 0.0
    while not restarts.fail:
        restarts = restarts.after(0.5)
        paused += restarts.pause_s
    assert (restarts.falls, restarts.pause_s, round(paused)) == (8, 5, 16)
    assert restarts.after(11) == Restarts()


def test_a_process_whose_store_does_not_answer_says_so_in_one_line() -> None:
    """Its exit code says that another try may help."""
    failed = subprocess.run([sys.executable, "-c", FAILING], input=b"{}\n", capture_output=True, timeout=60)
    assert failed.stderr.decode() == "recapito: the stream does not answer\n"
    assert failed.returncode == os.EX_TEMPFAIL


def test_an_order_to_stop_that_came_with_the_configuration_is_heard() -> None:
    """A parent may stop a process that is still being loaded; it does not wait until it is killed."""
    role = subprocess.Popen([sys.executable, "-c", ROLE], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert role.stdin is not None and role.stdout is not None
    with role.stdin, role.stdout:
        role.stdin.write(b'{"name":"standby"}\nstop\n')
        role.stdin.flush()
        try:
            assert role.stdout.read() == b"standby\n"
            assert role.wait(20) == 0
        finally:
            role.kill()
