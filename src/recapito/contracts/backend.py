"""The contract of a backend: it prepares the stores of a server and opens them, for both roles or for one.

Log, Registry and Ledger promise what a store does; a backend promises which stores a role gets, which of them it may
write, and which process may open them. It belongs to one server, and its constructor touches nothing.
"""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from recapito.clock import Clock
from recapito.contracts.history import History, HistoryReader
from recapito.contracts.ledger import Ledger
from recapito.contracts.log import Log
from recapito.contracts.registry import Registry
from recapito.domain.capacity import Room, Space


@dataclass(frozen=True)
class Stores:
    """The open stores of a role.

    history: the attempts of the last hours; None if none are kept.
    recording: the same history, where the role may write it.
    space: the room that intake has, and whether a file is lost or damaged; None if the store has no volume of its own.
    measure: the room alone, cheap enough for every commit.
    room: the room that dispatch has; None as above.
    trimming: a context around each trim. It yields False while the log may not be trimmed.
    no_trimming: a context in which no entry is trimmed. It yields False if a trim, or a backup, is under way.
    damage: the reason why nothing may be accepted before a person has looked; empty if there is none.
    """

    log: Log
    registry: Registry
    ledger: Ledger
    history: HistoryReader | None = None
    recording: History | None = None
    space: Callable[[], Space] | None = None
    measure: Callable[[], Space] | None = None
    room: Callable[[], Room] | None = None
    trimming: Callable[[], AbstractContextManager[bool]] = lambda: nullcontext(True)
    no_trimming: Callable[[], AbstractContextManager[bool]] = lambda: nullcontext(True)
    damage: Callable[[], str] = lambda: ""


class PreparedState(NamedTuple):
    """The state that `prepare` found: the instant of the last write (0: none), and whether a crash came after it."""

    newest: int
    doubtful: bool


class Backend(Protocol):
    """Opens the stores of one server.

    Promises: everything is refused with a SettingsError that names the setting or the file, before anything of it is
    changed. A role is open at most once at a time, over all processes: opening it again is refused, and leaving the
    context closes the stores and frees the role. A role cannot write a store of the other role: such a verb raises
    io.UnsupportedOperation. What was written is there when the stores are opened again, by this backend or by another
    one of the same server, if the backend keeps anything beyond its process.
    """

    async def prepare(self) -> PreparedState:
        """Create the stores or bring them up to date, and close them again. It comes before every `open_…`.

        A store without its log is refused: a new log would use positions again that lanes have passed.
        """

    def open_both(self, clock: Clock) -> AbstractAsyncContextManager[Stores]:
        """The stores of a server in one process, which writes all of them. Attempts are dated by `clock`."""

    def open_intake(self, clock: Clock) -> AbstractAsyncContextManager[Stores]:
        """The stores of an intake process: it writes Log and Registry, and reads Ledger and History.

        A backend that lives in one process refuses this, and `open_dispatch`.
        """

    def open_dispatch(self, clock: Clock) -> AbstractAsyncContextManager[Stores]:
        """The stores of a dispatch process: it writes Ledger and History, and reads Log and Registry."""

    async def inspect(self) -> None:
        """Search the stores for damage, beside their work; `Stores.damage` reports it. Cancelling ends the search."""
