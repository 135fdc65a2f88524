"""Ask a server again and again: one that goes away is waited for, and the user is told of both."""

import time
from collections.abc import Callable
from typing import TypeVar

from recapito.cli.toolkit.client import NoAnswer

Asked = TypeVar("Asked")

_PAUSE_S = 1.0


def patiently(ask: Callable[[], Asked], tell: Callable[[str], None]) -> Asked:
    """What the server answers; while it does not, it is asked once a second."""
    lost = False
    while True:
        try:
            answer = ask()
        except NoAnswer as error:
            if not lost:
                tell(f"the connection is lost, trying again: {error.message}")
            lost = True
            time.sleep(_PAUSE_S)
        else:
            if lost:
                tell("connected again")
            return answer
