"""SIGHUP: a demand to read files again, or the news that the terminal is gone."""

import asyncio
import os
import signal
from collections.abc import Callable


def on_hang_up(reload: Callable[[], None], stop: Callable[[], None]) -> None:
    """Call `reload` on SIGHUP; call `stop` if the process had a terminal and has lost it."""
    had_terminal = _has_terminal()

    def hang_up() -> None:
        if had_terminal and not _has_terminal():
            stop()
        else:
            reload()

    asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, hang_up)


def _has_terminal() -> bool:
    try:
        os.close(os.open("/dev/tty", os.O_RDONLY | os.O_NOCTTY))
    except OSError:
        return False
    return True
