"""Faults at the contracts of store and vault: latency, crashes before and after a commit, commits that fail.

A life is one run of a role. What a dead one still tries to do has no effect: its calls never return.
"""

import asyncio
import random
from collections import Counter
from collections.abc import Awaitable, Callable
from enum import StrEnum
from functools import partial
from typing import Any, NoReturn, Protocol

from recapito.contracts.vault import Receipt, Vault, VaultUnavailable
from recapito.domain import limits
from recapito.domain.instant import SECOND
from recapito.errors import StoreFailed

LOG_COMMITS = frozenset(
    {
        "append",
        "append_marked",
        "put_document",
        "delete_document",
        "put_topic",
        "delete_topic",
        "put_subscription",
        "delete_subscription",
        "forget",
        "trim",
    }
)
LEDGER_COMMITS = frozenset(
    {"open_lane", "renew_lane", "close_lane", "settle", "name_group", "written", "abandon", "set_aside"}
)
HANGS_S = limits.VAULT_WAIT_NS / SECOND


class Role(StrEnum):
    """The two halves of the service."""

    INTAKE = "intake"
    DISPATCH = "dispatch"


class Trap(StrEnum):
    """The faults of a commit, and the one fault of a read."""

    CRASH_BEFORE = "crash before a commit"
    CRASH_AFTER = "crash after a commit"
    FAIL_LOST = "commit failed, nothing stored"
    FAIL_DONE = "commit failed, stored"
    FAIL_READ = "read failed"


class Life:
    """One run of a role, from its start to its death. `crash` is how a trap kills it."""

    def __init__(self, role: Role, number: int, crash: Callable[[], None]) -> None:
        self.role = role
        self.number = number
        self.alive = True
        self.crash = crash
        self.waits_left: int | None = None  # then it dies: while it starts, if these are few
        self.at_death: Callable[[], None] = lambda: None
        self.at_failure: Callable[[], None] = lambda: None  # of a commit

    def die(self) -> None:
        """It is over; what must happen at the same instant happens now, once."""
        if self.alive:
            self.alive = False
            self.at_death()

    def falls(self) -> bool:
        """Whether it dies at this wait."""
        if self.waits_left is None:
            return False
        self.waits_left -= 1
        return self.waits_left < 0

    async def never(self) -> NoReturn:
        """The future that a dead process waits for."""
        await asyncio.get_running_loop().create_future()
        raise AssertionError("a dead process went on")


class Faults:
    """The faults of a history: traps that spring at the n-th call from now, and a disk that is slow at times."""

    def __init__(self, rng: random.Random) -> None:
        self.counts: Counter[str] = Counter()
        self.commits: Counter[Role] = Counter()
        self.reads: Counter[Role] = Counter()
        self.slow_disk = False
        self.quick_disk = False
        self.full_disk = False  # then no commit is stored
        self.closed: set[Role] = set()  # roles whose commits are not stored, because a file is damaged
        self._rng = rng
        self._armed: dict[Role, list[tuple[int, Trap]]] = {Role.INTAKE: [], Role.DISPATCH: []}

    def arm(self, role: Role, trap: Trap, others: int) -> None:
        """Spring the trap at the commit, or read, of that role after `others` more of them."""
        calls = self.reads if trap is Trap.FAIL_READ else self.commits
        self._armed[role].append((calls[role] + others, trap))

    def disarm(self) -> None:
        """Nothing goes wrong any more."""
        self.slow_disk = self.full_disk = False
        for armed in self._armed.values():
            armed.clear()

    def at_commit(self, role: Role) -> Trap | None:
        """The trap that springs at this commit, if any."""
        self.commits[role] += 1
        sprung = self._spring(role, self.commits[role] - 1, reading=False)
        return Trap.FAIL_LOST if sprung is None and (self.full_disk or role in self.closed) else sprung

    def at_read(self, role: Role) -> Trap | None:
        """The trap that springs at this read, if any."""
        self.reads[role] += 1
        return self._spring(role, self.reads[role] - 1, reading=True)

    def _spring(self, role: Role, number: int, reading: bool) -> Trap | None:
        for at, trap in self._armed[role]:
            if at <= number and (trap is Trap.FAIL_READ) is reading:
                self._armed[role].remove((at, trap))
                self.counts[trap] += 1
                return trap
        return None

    async def pause(self) -> None:
        """As long as a disk takes for half of something: often no time at all."""
        rng = self._rng
        if self.slow_disk:
            await asyncio.sleep(rng.uniform(0.05, 1.0))
        elif not self.quick_disk and rng.random() < 0.5:
            await asyncio.sleep(rng.uniform(0.0001, 0.02))

    def coin(self) -> bool:
        """One of two, at random."""
        return self._rng.random() < 0.5


class Observer(Protocol):
    """An observer of every call of a store: at its start, when it took effect, and at its end."""

    def called(self, verb: str, args: tuple[Any, ...]) -> None:
        """A call begins."""

    async def done(self, store: Any, verb: str, args: tuple[Any, ...], result: Any) -> None:
        """The call took effect in `store`, and has not returned yet."""

    def returned(self, verb: str, args: tuple[Any, ...], error: bool) -> None:
        """The caller is about to learn of it."""


class FaultyStore:
    """A store as one life of a role sees it: every verb takes time, and a commit may be the last thing that it does."""

    def __init__(self, store: Any, commits: frozenset[str], life: Life, faults: Faults, observer: Observer) -> None:
        self._store = store
        self._commits = commits
        self._life = life
        self._faults = faults
        self._observer = observer

    @property
    def id(self) -> str:
        return str(self._store.id)

    def __getattr__(self, verb: str) -> Callable[..., Awaitable[Any]]:
        return partial(self._commit if verb in self._commits else self._read, verb)

    async def _read(self, verb: str, *args: Any) -> Any:
        await self._wait()
        if self._faults.at_read(self._life.role):
            self._observer.returned(verb, args, True)
            raise StoreFailed(f"simulated: {Trap.FAIL_READ}")
        result = await self._happen(verb, args)
        await self._wait()
        self._observer.returned(verb, args, False)
        return result

    async def _commit(self, verb: str, *args: Any) -> Any:
        self._observer.called(verb, args)
        try:
            await self._wait()
        except asyncio.CancelledError:
            if self._life.alive and self._faults.coin():  # the role is being stopped: its last commit may go through
                await self._happen(verb, args)
            raise
        trap = self._faults.at_commit(self._life.role)
        if trap is Trap.CRASH_BEFORE:
            await self._die()
        result = None if trap is Trap.FAIL_LOST else await self._happen(verb, args)
        if trap is Trap.CRASH_AFTER:
            await self._die()
        if trap in (Trap.FAIL_LOST, Trap.FAIL_DONE):
            self._life.at_failure()
            self._observer.returned(verb, args, True)
            raise StoreFailed(f"simulated: {trap}")
        await self._wait()
        self._observer.returned(verb, args, False)
        return result

    async def _happen(self, verb: str, args: tuple[Any, ...]) -> Any:
        result = await getattr(self._store, verb)(*args)
        await self._observer.done(self._store, verb, args, result)
        return result

    async def _wait(self) -> None:
        if self._life.alive:
            await self._faults.pause()
        if self._life.alive and self._life.falls():
            self._life.crash()
        if not self._life.alive:
            await self._life.never()

    async def _die(self) -> NoReturn:
        self._life.crash()
        await self._life.never()


class FaultyVault:
    """A vault with outages, by container. It outlives the roles; `life` is asked whether the writer still does."""

    def __init__(self, vault: Vault, faults: Faults) -> None:
        self.down: set[str] = set()
        self.missing: set[str] = set()
        self.hung: set[str] = set()
        self._vault = vault
        self._faults = faults

    def seen_by(self, life: Life) -> "VaultOfLife":
        """The vault as one life of a role sees it."""
        return VaultOfLife(self, life)

    async def write(self, container: str, path: str, content: bytes) -> Receipt | None:
        await self._faults.pause()
        if container in self.missing:
            raise VaultUnavailable("simulated: no such container", missing=True)
        if container in self.hung:
            await asyncio.sleep(HANGS_S)
            raise VaultUnavailable("simulated: no answer")
        if container in self.down:
            if self._faults.coin():  # it was written, and the answer was lost
                await self._vault.write(container, path, content)
            raise VaultUnavailable("simulated outage")
        receipt = await self._vault.write(container, path, content)
        await self._faults.pause()
        return receipt

    async def look(self, verb: str, container: str, *args: Any) -> Any:
        """Whatever is not writing: a container that is out of reach shows nothing either."""
        await self._faults.pause()
        if container in self.missing | self.hung | self.down:
            if container in self.hung:
                await asyncio.sleep(HANGS_S)
            raise VaultUnavailable("simulated: out of reach", missing=container in self.missing)
        found = await getattr(self._vault, verb)(container, *args)
        await self._faults.pause()
        return found


class VaultOfLife:
    """The vault, until who uses it dies."""

    def __init__(self, vault: FaultyVault, life: Life) -> None:
        self._vault = vault
        self._life = life

    async def write(self, container: str, path: str, content: bytes) -> Receipt | None:
        if not self._life.alive:
            await self._life.never()
        return await self._vault.write(container, path, content)

    async def folders(self, container: str) -> frozenset[str]:
        return frozenset(await self._look("folders", container))

    async def paths(self, container: str, prefix: str, after: str, limit: int) -> list[str]:
        return list(await self._look("paths", container, prefix, after, limit))

    async def read(self, container: str, path: str) -> bytes | None:
        found: bytes | None = await self._look("read", container, path)
        return found

    async def delete(self, container: str, path: str) -> None:
        await self._look("delete", container, path)

    async def _look(self, verb: str, container: str, *args: Any) -> Any:
        if not self._life.alive:
            await self._life.never()
        found = await self._vault.look(verb, container, *args)
        if not self._life.alive:
            await self._life.never()
        return found
