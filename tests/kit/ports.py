"""Ports of loopback for the servers that tests and benchmarks start."""

import contextlib
import random
import socket


def free_port() -> int:
    """A port that nothing listens on."""
    return free_ports(1)[0]


def free_ports(count: int) -> list[int]:
    """Ports that nothing listens on, and that no client gets: below those that Linux gives out."""
    chosen: list[int] = []
    while len(chosen) < count:
        port = random.randrange(10_000, 32_000)
        with contextlib.suppress(OSError), socket.socket() as each:
            each.bind(("127.0.0.1", port))
            chosen += [] if port in chosen else [port]
    return chosen
