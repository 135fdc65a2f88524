"""The estate file of a server: applied at start, when the file changes, and on demand (SIGHUP).

A refused file stops a server that starts. Later it changes nothing, and is shown until it is right: in the journal, in
`/readyz`, by `recapito doctor` and in the portal. Resources that failed are tried again.
"""

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from recapito.api.estate.expansion import Expander
from recapito.api.estate.manager import Action, EstateManager, Report, Step
from recapito.clock import SECOND, Clock
from recapito.domain import limits
from recapito.domain.estate.document import ParsedDocument
from recapito.domain.estate.estate import DEFAULT_GROUP, NO_SUBSCRIPTION
from recapito.domain.templates.evaluator import Surroundings
from recapito.domain.templates.faults import DocumentFault
from recapito.domain.templates.template import Declared
from recapito.errors import SettingsError, StoreFailed
from recapito.intake.resources.validation import DEFAULT_LOCATION
from recapito.observability.journal import Journal
from recapito.system.document_file import load_document, locate

LOOK_NS = SECOND
_MARKS = {Action.CREATE: "+", Action.UPDATE: "~", Action.DELETE: "-"}
_SAID_STEPS = 20
_SILENT_S = 2.0  # in which most files are applied


class FileState(NamedTuple):
    """The answer of `stat` about a file; another one means that the file changed."""

    inode: int
    size: int
    modified: int


class EstateFile:
    """Keeps a server as its estate file describes it.

    say: prints a line for people; None where no person reads along.
    """

    def __init__(
        self,
        path: Path,
        manager: EstateManager,
        expander: Expander,
        prune: bool,
        environment: Mapping[str, str],
        wall: Clock,
        journal: Journal,
        say: Callable[[str], None] | None = None,
    ) -> None:
        self._path = path
        self._manager = manager
        self._expander = expander
        self._prune = prune
        self._environment = environment
        self._wall = wall
        self._journal = journal
        self._say = say or (lambda line: None)
        self._asked = asyncio.Event()
        self._applied = asyncio.Event()
        self._state: FileState | None = None
        self._pause = limits.ESTATE_PAUSE_NS[0]
        self._patient_until = wall.now() + limits.ESTATE_PATIENCE_NS
        self.problem: str | None = None

    def __repr__(self) -> str:
        return f"<EstateFile {self._path}>"

    def waiting(self) -> str | None:
        """The reason why the server is not ready yet: the file is being applied for the first time."""
        if self._applied.is_set() or self._wall.now() >= self._patient_until:
            return None
        return f"{self._path} is being applied"

    async def until_applied(self) -> None:
        """Return when the file was applied once, or has taken too long, as with an endpoint that does not answer."""
        patience_s = limits.ESTATE_PATIENCE_NS / SECOND
        with suppress(TimeoutError):
            async with asyncio.timeout(_SILENT_S):
                await self._applied.wait()
                return
        self._say(f"{self._path} is being applied; an endpoint does not answer. Ready in {patience_s:.0f} s at most.")
        with suppress(TimeoutError):
            async with asyncio.timeout(patience_s - _SILENT_S):
                await self._applied.wait()

    def reload(self) -> None:
        """Apply the file again, also if it has not changed: a secret may have."""
        self._asked.set()

    async def check(self) -> None:
        """Raise SettingsError unless the file can be applied."""
        document, resources = await self._read()
        try:
            await self._manager.plan(resources, self._prune)
        except DocumentFault as fault:
            raise SettingsError(locate(self._path, document, fault.message, fault.path)) from None

    async def run(self) -> None:
        """Apply the file now, and whenever it changes, is asked for or has failed."""
        while True:
            self._state = self._stat()
            again = not await self._apply()
            self._applied.set()
            await self._wait(self._wall.now() + self._pause if again else None)
            self._pause = min(2 * self._pause, limits.ESTATE_PAUSE_NS[1]) if again else limits.ESTATE_PAUSE_NS[0]

    async def _wait(self, until: int | None) -> None:
        """Wait for a change, a demand, or this instant."""
        while not self._asked.is_set() and self._stat() == self._state:
            if until is not None and self._wall.now() >= until:
                return
            await self._wall.sleep_until(self._wall.now() + LOOK_NS)
        self._asked.clear()

    def _stat(self) -> FileState | None:
        try:
            found = self._path.stat()
        except OSError:
            return None
        return FileState(found.st_ino, found.st_size, found.st_mtime_ns)

    async def _read(self) -> tuple[ParsedDocument, list[Declared]]:
        document = await asyncio.to_thread(load_document, self._path, self._environment)
        place = Surroundings(NO_SUBSCRIPTION, DEFAULT_GROUP, DEFAULT_LOCATION)
        try:
            return document, (await self._expander.expand(document.data, {}, place)).resources
        except DocumentFault as fault:
            raise SettingsError(locate(self._path, document, fault.message, fault.path)) from None

    async def _apply(self) -> bool:
        """Whether nothing is left to do until the file changes."""
        document = ParsedDocument(None, {})
        try:
            document, resources = await self._read()
            report = await self._manager.apply(resources, self._prune)
        except SettingsError as error:
            return self._refuse(str(error))
        except DocumentFault as fault:
            return self._refuse(locate(self._path, document, fault.message, fault.path))
        except StoreFailed as error:
            self.problem = f"{self._path} could not be applied: {error}"
            return False
        self._tell(report)
        if not report.failed:
            self.problem = None
            return True
        first = report.failed[0]
        line = document.line(first.step.wish.declared.path) if first.step.wish is not None else 1
        self.problem = (
            f"{self._path}: {len(report.failed)} of {len(report.steps)} resources failed and are tried again;"
            f" line {line}, {first.step.address.title}: {first.message}"
        )
        return False

    def _refuse(self, reason: str) -> bool:
        if reason != self.problem:
            self._journal("estate.refused", reason=reason)
            self._say(f"{reason} Nothing was changed.")
        self.problem = reason
        return True

    def _tell(self, report: Report) -> None:
        counts = report.counts()
        self._journal("estate.applied", file=str(self._path), **counts)
        changing = [step for step in report.steps if step.action is not Action.KEEP]
        for step in changing[:_SAID_STEPS]:
            self._say(describe(step))
        if len(changing) > _SAID_STEPS:
            self._say(f"… and {len(changing) - _SAID_STEPS} more")
        told = ", ".join(f"{count} {name}" for name, count in counts.items() if count) or "nothing in it"
        self._say(f"{self._path}: {told}")


def describe(step: Step) -> str:
    """A step as one line of a plan."""
    changed = f" ({', '.join(step.changed)})" if step.changed else ""
    return f"{_MARKS[step.action]} {step.address.title}{changed}"
