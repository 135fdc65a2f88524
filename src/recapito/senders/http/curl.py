"""The loop around libcurl: it drives every connection from the event loop, whatever their number.

The event loop watches one epoll, which watches the connections. Submitted POSTs start together in the next turn of the
event loop, and all events since the last turn are handled together, so that a turn takes few calls.
"""

import asyncio
import select
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from functools import cache, partial
from typing import Any

import pycurl

from recapito.domain import limits
from recapito.domain.instant import SECOND
from recapito.senders.http.transfer import CurlPost, CurlReply, OutboundTrust, Transfer

_WATCH = {
    pycurl.POLL_IN: select.EPOLLIN,
    pycurl.POLL_OUT: select.EPOLLOUT,
    pycurl.POLL_INOUT: select.EPOLLIN | select.EPOLLOUT,
}
_BODY_WAIT_S = limits.RESPONSE_BODY_WAIT_NS / SECOND
_LOOK_ROUND_S = 1.0
_NEVER = float("inf")


class CurlLoop:
    """Makes POSTs on the event loop that runs when it is made. After a failure of its own it makes no more."""

    def __init__(self, trust: OutboundTrust) -> None:
        self._trust = trust
        self._loop = asyncio.get_running_loop()
        self._failure: Exception | None = None
        self._closed = False
        self._inbox: deque[CurlPost] = deque()
        self._outbox: deque[tuple[CurlPost, CurlReply]] = deque()
        self._woken = False
        self._running: set[Transfer] = set()
        self._free: list[Transfer] = []
        self._timer_at = _NEVER  # libcurl's
        self._look_round_at = _NEVER
        self._alarm: asyncio.TimerHandle | None = None  # for the earlier of the two
        self._alarm_at = _NEVER
        self._epoll = select.epoll()
        self._watched: dict[int, int] = {}  # the events that epoll reports of each connection
        self._resting: set[int] = set()  # connections of which libcurl wants no events at present
        self._multi: Any = pycurl.CurlMulti()
        self._multi.setopt(pycurl.M_PIPELINING, 0)
        self._multi.setopt(pycurl.M_MAXCONNECTS, limits.IDLE_CONNECTIONS)
        self._multi.setopt(pycurl.M_SOCKETFUNCTION, self._watch)
        self._multi.setopt(pycurl.M_TIMERFUNCTION, self._set_timer)
        self._loop.add_reader(self._epoll.fileno(), partial(self._turn, self._look))

    def __repr__(self) -> str:
        return f"<CurlLoop, {len(self._running)} running, {len(self._free)} free>"

    def submit(self, post: CurlPost) -> None:
        """Start a POST; its `finish` is called later, on the event loop, unless it is aborted."""
        if self._failure is not None:
            raise RuntimeError("Driving libcurl failed.") from self._failure
        self._put(post)

    def abort(self, post: CurlPost) -> None:
        """Close the connection of a POST whose `over` was set; one that is over already is left alone."""
        self._put(post)

    async def close(self) -> None:
        """Drop every POST without calling `finish`, and close every connection."""
        if not self._closed:
            self._shut()

    def _put(self, post: CurlPost) -> None:
        if self._closed:
            return
        self._inbox.append(post)
        if not self._woken:
            self._woken = True
            self._loop.call_soon(self._turn, self._take)

    def _turn(self, work: Callable[[], None]) -> None:
        """Do this work and deliver the replies. A failure here is ours: it ends every POST, and the loop closes."""
        if self._closed:
            return
        try:
            work()
            self._attend()
        except Exception as error:
            self._failure = error
            self._fail_all(f"driving libcurl failed: {error!r}")
            self._shut()
        self._deliver()

    def _attend(self) -> None:
        """Run libcurl's timer, collect the transfers that ended, and set the alarm for the next event."""
        now = time.monotonic()
        if now >= self._timer_at:
            self._timer_at = _NEVER
            self._multi.socket_action(pycurl.SOCKET_TIMEOUT, 0)
        self._collect()
        if now >= self._look_round_at:
            self._look_round(now)
        next_at = min(self._timer_at, self._look_round_at)
        if next_at < self._alarm_at:
            if self._alarm is not None:
                self._alarm.cancel()
            self._alarm_at = next_at
            self._alarm = self._loop.call_later(max(next_at - now, 0), self._turn, self._ring)

    def _ring(self) -> None:
        self._alarm, self._alarm_at = None, _NEVER

    def _deliver(self) -> None:
        try:
            while self._outbox:
                post, reply = self._outbox.popleft()
                post.finish(reply)
        finally:
            if self._outbox:
                self._loop.call_soon(self._deliver)

    def _look(self) -> None:
        for fd, events in self._epoll.poll(0):
            if fd in self._resting:
                self._watch_no_more(fd)
            else:
                self._multi.socket_action(fd, _happened(events))

    def _take(self) -> None:
        self._woken = False
        while self._inbox:
            post = self._inbox.popleft()
            if not post.over:
                self._start(post)
            elif post.transfer is not None:
                self._stop(post.transfer)

    def _start(self, post: CurlPost) -> None:
        transfer = self._free.pop() if self._free else Transfer(self._trust, self._opened)
        try:
            transfer.load(post)
            self._multi.add_handle(transfer.curl)
        except pycurl.error as error:
            self._free.append(transfer)
            self._outbox.append(transfer.unload(error.args[0], str(error.args[-1])))
            return
        self._running.add(transfer)
        if self._look_round_at == _NEVER:
            self._look_round_at = time.monotonic() + _LOOK_ROUND_S

    def _stop(self, transfer: Transfer, code: int = 0, problem: str = "") -> tuple[CurlPost, CurlReply]:
        """Take a transfer out; one that is under way loses its connection."""
        self._multi.remove_handle(transfer.curl)
        self._running.discard(transfer)
        if len(self._free) < limits.IDLE_CONNECTIONS:
            self._free.append(transfer)
        return transfer.unload(code, problem)

    def _collect(self) -> None:
        left = 1
        while left:
            left, done, failed = self._multi.info_read()
            for curl in done:
                self._outbox.append(self._stop(curl.transfer))
            for curl, code, problem in failed:
                self._outbox.append(self._stop(curl.transfer, code, problem))

    def _look_round(self, now: float) -> None:
        """End transfers whose endpoint sent its status and is too slow with the rest: it has answered."""
        self._look_round_at = now + _LOOK_ROUND_S if self._running else _NEVER
        for transfer in list(self._running):
            if transfer.dawdles_since and now - transfer.dawdles_since > _BODY_WAIT_S:
                self._outbox.append(self._stop(transfer))

    def _watch(self, what: int, fd: int, multi: Any, data: Any) -> None:
        """Watch a connection as libcurl asks. One that rests between two POSTs stays watched: most rest briefly."""
        if what == pycurl.POLL_REMOVE:
            self._resting.add(fd)
            return
        self._resting.discard(fd)
        wanted, watched = _WATCH[what], self._watched.get(fd)
        if watched is None:
            self._epoll.register(fd, wanted)
        elif watched != wanted:
            self._epoll.modify(fd, wanted)
        self._watched[fd] = wanted

    def _opened(self, fd: int) -> None:
        """Forget the closed connection that had this number before; closing it ended its watch."""
        self._watched.pop(fd, None)
        self._resting.discard(fd)

    def _watch_no_more(self, fd: int) -> None:
        """Stop watching a resting connection. Its peer has probably closed it; libcurl notices before it reuses it."""
        with suppress(OSError):  # libcurl has just closed it too
            self._epoll.unregister(fd)
        self._opened(fd)

    def _set_timer(self, wait_ms: int) -> None:
        self._timer_at = time.monotonic() + wait_ms / 1000 if wait_ms >= 0 else _NEVER

    def _fail_all(self, problem: str) -> None:
        for transfer in self._running:
            self._outbox.append(transfer.unload(pycurl.E_FAILED_INIT, problem))
        while self._inbox:
            post = self._inbox.popleft()
            self._outbox.append((post, CurlReply(0, [], b"", pycurl.E_FAILED_INIT, problem, "")))

    def _shut(self) -> None:
        self._closed = True
        self._loop.remove_reader(self._epoll.fileno())
        if self._alarm is not None:
            self._alarm.cancel()
        for transfer in [*self._running, *self._free]:
            transfer.curl.close()
        self._multi.close()
        self._epoll.close()


@cache
def _happened(events: int) -> int:
    """The events of epoll as flags of libcurl."""
    happened = 0
    if events & select.EPOLLIN:
        happened |= pycurl.CSELECT_IN
    if events & select.EPOLLOUT:
        happened |= pycurl.CSELECT_OUT
    if events & (select.EPOLLERR | select.EPOLLHUP):
        happened |= pycurl.CSELECT_ERR
    return happened
