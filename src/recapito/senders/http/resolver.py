"""Our own name lookups: every lookup is answered within five seconds, and no name waits for another.

Each host has at most one lookup under way, and each lookup has a thread; one that hangs is given up and its slot is
free again. It must be used on one event loop.
"""

import asyncio
import socket
import threading
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable
from ipaddress import ip_address
from pathlib import Path
from typing import NamedTuple

from recapito.domain import limits
from recapito.domain.instant import SECOND

Lookup = Callable[[str], Iterable[str]]
"""Blocking: the addresses of a host name. OSError if there are none."""


class Resolved(NamedTuple):
    """The addresses of a host name, or none and the reason."""

    addresses: tuple[str, ...]
    problem: str = ""


def system_lookup(host: str) -> list[str]:
    """The addresses of a name, as the system knows them, without its search domains.

    The final dot keeps search domains away, and the system's hosts file too: so that is read here.
    """
    if host == "localhost" or host.endswith(".localhost"):
        return ["127.0.0.1", "::1"]
    if listed := hosts_file(host):
        return listed
    answers = socket.getaddrinfo(f"{host}.", None, type=socket.SOCK_STREAM)
    return [str(address[0]) for *_, address in answers]


def hosts_file(host: str, path: Path = Path("/etc/hosts")) -> list[str]:
    """The addresses that the hosts file gives a name."""
    try:
        lines = path.read_text("utf-8", "replace").splitlines()
    except OSError:
        return []
    rows = [line.partition("#")[0].lower().split() for line in lines]
    return [row[0] for row in rows if host in row[1:]]


class Resolver:
    """Answers from its cache, or from a lookup in a thread."""

    def __init__(self, lookup: Lookup = system_lookup) -> None:
        self._lookup = lookup
        self._known: OrderedDict[str, tuple[Resolved, float]] = OrderedDict()
        self._waiting: dict[str, list[Callable[[Resolved], None]]] = {}
        self._queue: deque[str] = deque()
        self._looking: set[str] = set()
        self._lost: set[str] = set()

    def __repr__(self) -> str:
        return f"<Resolver knows {len(self._known)}, looks up {len(self._looking)}, lost {len(self._lost)}>"

    def known(self, host: str) -> Resolved | None:
        """The result that is known now: of a literal address, or of a recent lookup."""
        known = self._known.get(host)
        if known is None:
            return _literal(host)
        resolved, expires_at = known
        if asyncio.get_running_loop().time() < expires_at:
            return resolved
        return None

    def ask(self, host: str, answer: Callable[[Resolved], None]) -> None:
        """Look up a name, and call `answer` later with its addresses or the problem."""
        loop = asyncio.get_running_loop()
        if host in self._waiting:
            self._waiting[host].append(answer)
            return
        self._waiting[host] = [answer]
        if host in self._lost:
            loop.call_soon(self._settle, host, Resolved((), "the name service still does not answer"))
            return
        loop.call_later(limits.LOOKUP_WAIT_NS / SECOND, self._give_up, host, self._waiting[host])
        if host not in self._looking:
            self._queue.append(host)
        self._start_some()

    def _start_some(self) -> None:
        loop = asyncio.get_running_loop()
        while self._queue and len(self._looking) < limits.LOOKUP_THREADS:
            host = self._queue.popleft()
            self._looking.add(host)
            try:
                threading.Thread(target=self._look_up, args=(host, loop), name=f"lookup {host}", daemon=True).start()
            except RuntimeError:
                loop.call_soon(self._finish, host, Resolved((), "no thread could be started for the look-up"))

    def _look_up(self, host: str, loop: asyncio.AbstractEventLoop) -> None:
        try:
            resolved = Resolved(tuple(dict.fromkeys(self._lookup(host)))[: limits.ADDRESSES])
        except (OSError, UnicodeError) as error:
            resolved = Resolved((), getattr(error, "strerror", None) or str(error))
        try:
            loop.call_soon_threadsafe(self._finish, host, resolved)
        except RuntimeError:
            pass  # the loop ended during the lookup

    def _finish(self, host: str, resolved: Resolved) -> None:
        self._looking.discard(host)
        self._lost.discard(host)
        self._settle(host, resolved if resolved.addresses or resolved.problem else Resolved((), "no address"))
        self._start_some()

    def _give_up(self, host: str, waiting: list[Callable[[Resolved], None]]) -> None:
        if self._waiting.get(host) is not waiting:
            return
        if host in self._looking and len(self._lost) < limits.LOST_LOOKUP_THREADS:
            self._looking.discard(host)
            self._lost.add(host)
        elif host in self._queue:
            self._queue.remove(host)
        self._settle(host, Resolved((), "the name service did not answer in time"))
        self._start_some()

    def _settle(self, host: str, resolved: Resolved) -> None:
        life_ns = limits.RESOLVED_NS if resolved.addresses else limits.UNRESOLVED_NS
        self._known[host] = (resolved, asyncio.get_running_loop().time() + life_ns / SECOND)
        self._known.move_to_end(host)
        if len(self._known) > limits.RESOLVED_NAMES:
            self._known.popitem(last=False)
        for answer in self._waiting.pop(host, ()):
            answer(resolved)


def _literal(host: str) -> Resolved | None:
    try:
        return Resolved((str(ip_address(host)),))
    except ValueError:
        return None
