"""The wake-up between the two roles of a server, over a pair of sockets that outlives both."""

import asyncio
import socket
from collections.abc import Callable
from contextlib import suppress

from recapito.clock import SECOND, SystemClock


class Wakeup:
    """The wake-up between the roles: a datagram says "look", and that the sender lives. A full one needs no second.

    One may say more, up to `size` bytes.
    """

    def __init__(self, end: socket.socket, missed_ns: int, size: int = 64) -> None:
        self._size = size
        self._end = end
        self._end.setblocking(False)
        self._missed_ns = missed_ns
        self._wall = SystemClock()
        self._heard_at = self._wall.now()

    def ring(self) -> None:
        """Wake the other role."""
        self.tell(b"!")

    def tell(self, content: bytes) -> bool:
        """Wake the other role with something to say; whether it will hear of it."""
        try:
            self._end.send(content)
        except OSError:
            return False
        return True

    def listen(self, heard: Callable[[], None], told: Callable[[bytes], None] = lambda content: None) -> None:
        """Call `heard` whenever the other role rings, and `told` with each datagram."""

        def read() -> None:
            with suppress(BlockingIOError):
                while content := self._end.recv(self._size):
                    told(content)
            self._heard_at = self._wall.now()
            heard()

        asyncio.get_running_loop().add_reader(self._end.fileno(), read)

    def missing(self) -> str | None:
        """Why the other role is thought to be gone; None while it beats."""
        silent_ns = self._wall.now() - self._heard_at
        if silent_ns < self._missed_ns:
            return None
        return f"The dispatch process has not been heard of for {silent_ns // SECOND} s."
