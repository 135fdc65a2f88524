"""The wake-up between the two roles of a server, over a pair of sockets that outlives both processes."""

import asyncio
import socket
from collections.abc import Callable
from contextlib import suppress

from recapito.clock import SECOND, SystemClock


class Wakeup:
    """One end of the wake-up. A datagram wakes the other role and proves that this one is alive.

    A datagram may carry content, up to `size` bytes. If the socket is full, the other role will wake anyway.
    """

    def __init__(self, end: socket.socket, missed_ns: int, size: int = 64) -> None:
        self._size = size
        self._end = end
        self._end.setblocking(False)
        self._missed_ns = missed_ns
        self._wall = SystemClock()
        self._received_at = self._wall.now()

    def ring(self) -> None:
        """Wake the other role."""
        self.send(b"!")

    def send(self, content: bytes) -> bool:
        """Wake the other role with this content; return whether the datagram was sent."""
        try:
            self._end.send(content)
        except OSError:
            return False
        return True

    def listen(self, on_ring: Callable[[], None], on_content: Callable[[bytes], None] = lambda content: None) -> None:
        """Call `on_content` with each datagram, and `on_ring` once after those that came together."""

        def read() -> None:
            with suppress(BlockingIOError):
                while content := self._end.recv(self._size):
                    on_content(content)
            self._received_at = self._wall.now()
            on_ring()

        asyncio.get_running_loop().add_reader(self._end.fileno(), read)

    def missing(self) -> str | None:
        """The reason to believe that dispatch is gone; None while its heartbeats come."""
        silent_ns = self._wall.now() - self._received_at
        if silent_ns < self._missed_ns:
            return None
        return f"The dispatch process has not been heard of for {silent_ns // SECOND} s."
