"""A name service that never answers, for names under hung.invalid only; Python imports this at start, by its name.

It is on the PYTHONPATH of a server under test, because the system's resolver cannot be told to hang without root.
"""

import socket
import threading
from typing import Any

_look_up = socket.getaddrinfo


def _hang_or_look_up(host: Any, *arguments: Any, **options: Any) -> Any:
    if str(host).rstrip(".").endswith(".hung.invalid"):
        threading.Event().wait()
    return _look_up(host, *arguments, **options)


socket.getaddrinfo = _hang_or_look_up
