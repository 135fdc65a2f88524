"""Dead letters: a page of them, and the buttons that redrive or purge them, with a preview and progress."""

from collections.abc import Callable
from typing import Any, NamedTuple
from urllib.parse import quote

from nicegui import ui
from nicegui.elements.mixins.text_element import TextElement

from recapito.domain.cluster.partition import silent
from recapito.portal import format
from recapito.portal.api_types import DeadLetterPage, ShownDeadLetter, ShownProgress
from recapito.portal.client import PAGE
from recapito.portal.page import Page
from recapito.portal.panels.attempts import event_cell, when
from recapito.portal.widgets.paged_list import PagedList
from recapito.portal.widgets.pieces import attribute, bar, button, confirm, empty, note, text
from recapito.portal.widgets.table import Cell, CellAction, Row, Table

_COLUMNS = ("Event", "Reason", "Attempts#", "Last outcome", "Published", "Redriven", "Action")
_STEP = 500
_SHORT = 10  # rows beside the other parts of a page
_READ = 500  # letters that are read and sorted together
_WHICH = {"": "All", "false": "Not redriven", "true": "Redriven"}
_ORDERS: dict[str, Callable[[ShownDeadLetter], str]] = {
    "Newest first": lambda letter: letter.publish_time or "",
    "Reason": lambda letter: letter.reason,
    "Event type": lambda letter: letter.event_type or "",
    "Subject": lambda letter: letter.subject or "",
    "Subscription": lambda letter: f"{letter.topic} / {letter.subscription}",
}
_NEWEST = next(iter(_ORDERS))


class DeadLetterList:
    """The letters of one subscription, or of all, with their actions.

    The server lists letters in the order of their files. The panel reads some hundred of them at once, sorts these, and
    shows them a page at a time.
    """

    def __init__(self, page: Page, topic: str | None = None, subscription: str | None = None) -> None:
        self._page = page
        self._where = {"topic": topic, "subscription": subscription}
        self._read: tuple[str, DeadLetterPage] | None = None
        with bar():
            self._which = ui.select(_WHICH, label="Show", value="").props("outlined dense").classes("grow")
            self._order = ui.select(list(_ORDERS), label="Sort by", value=_NEWEST).props("outlined dense")
            self._order.classes("grow")
            button("Redrive…", page.doing(self._redrive), "primary")
            button("Purge…", page.doing(self._purge), "danger")
        self._progress: TextElement = text("p", "", "note")
        attribute(self._progress, role="status")
        self._progress.set_visibility(False)
        self._count = text("p", "", "muted counted")
        columns = _COLUMNS if subscription else ("Subscription", *_COLUMNS)
        self._table = Table("Dead letters", columns, minor=("Attempts", "Last outcome"))
        self._size = _SHORT if subscription else PAGE
        hint = "Undelivered events are kept here if their subscription has a dead-letter destination."
        with empty("There are no dead letters.", hint) as self._none:
            pass
        self._none.set_visibility(False)
        self._problems = ui.element("div")
        self._listing = PagedList(page, self._load, self._show)
        self._which.on_value_change(self._restart)
        self._order.on_value_change(self._restart)

    async def refresh(self) -> None:
        """Read the letters again."""
        self._read = None
        await self._listing.refresh()

    async def _restart(self) -> None:
        self._read = None
        await self._listing.restart()

    async def _load(self, start: str | None) -> "LettersShown":
        first, _, after = (start or "0 ").partition(" ")
        if self._read is None or self._read[0] != after:
            self._read = (
                after,
                await self._page.server.letters(
                    **self._where, redriven=self._which.value, after=after, limit=str(_READ)
                ),
            )
        now = (await self._page.server.clock()).now
        return LettersShown(self._read[1], int(first), after, now)

    async def _show(self, part: "LettersShown") -> str | None:
        found = part.found
        order = str(self._order.value)
        letters = sorted(found.value, key=_ORDERS[order], reverse=order == _NEWEST)
        self._none.set_visibility(not letters)
        self._count.text = _counted(len(letters), found.next is not None or bool(part.after))
        self._table.show([self._row(one, part.now) for one in letters[part.first : part.first + self._size]])
        self._problems.clear()
        with self._problems:
            for problem in found.problems:
                note(problem, "bad")
        following = part.first + self._size
        if following < len(letters):
            return f"{following} {part.after}"
        return None if found.next is None else f"0 {found.next}"

    def _row(self, letter: ShownDeadLetter, now: str) -> Row:
        async def redrive() -> None:
            done = await self._page.server.turn("redrive", {"name": letter.name})
            self._say(f"Done: {_letters(done.done)} redriven.{_left(done)}")
            await self.refresh()

        again = Cell("", actions=(CellAction("Redrive", self._page.doing(redrive)),))
        about = " · ".join(part for part in (letter.event_type, letter.subject) if part)
        event = event_cell(letter.event_id or "(no id)", letter.topic, about)
        cells = (
            event._replace(path=f"/dead-letter/{quote(letter.name)}"),
            Cell(letter.reason, tone="bad"),
            Cell("" if letter.delivery_attempts is None else str(letter.delivery_attempts)),
            Cell(letter.last_delivery_outcome or ""),
            when(letter.publish_time, now),
            when(letter.redriven["at"], now) if letter.redriven else Cell("no"),
            Cell("") if letter.redriven else again,
        )
        name = Cell(f"{letter.topic} / {letter.subscription}")
        return Row(letter.name, cells if self._where["subscription"] else (name, *cells))

    async def _redrive(self) -> None:
        meant = await self._go_through("redrive", dry_run=True)
        if not meant.selected - meant.refused:
            self._say(f"There is nothing to redrive.{_left(meant)}")
            return
        count = meant.selected - meant.refused
        detail = f"{_letters(count)} would be delivered again, each to its own subscription.{_left(meant)}"
        if await confirm(f"Redrive {_letters(count)}?", detail, "Redrive", danger=False):
            done = await self._go_through("redrive", dry_run=False)
            self._say(f"Done: {_letters(done.done)} redriven.{_left(done)}")
            await self._restart()

    async def _purge(self) -> None:
        meant = await self._go_through("purge", dry_run=True)
        if not meant.selected:
            self._say(f"There is nothing to purge.{_left(meant)}")
            return
        detail = f"{_letters(meant.selected)} would be removed for good. They cannot be restored.{_left(meant)}"
        if await confirm(f"Purge {_letters(meant.selected)}?", detail, "Purge"):
            done = await self._go_through("purge", dry_run=False)
            self._say(f"Done: {_letters(done.done)} removed; {format.number(done.kept)} files stay.{_left(done)}")
            await self._restart()

    async def _go_through(self, verb: str, dry_run: bool) -> ShownProgress:
        """Page by page, with the progress of each."""
        total = ShownProgress()
        body: dict[str, Any] = {name: value for name, value in self._where.items() if value}
        body |= {"limit": _STEP, "dryRun": dry_run}
        if verb == "purge" and self._which.value:
            body["redriven"] = self._which.value == "true"
        while True:
            turn = await self._page.server.turn(verb, body)
            total = _sum(total, turn)
            counted = f"{format.number(total.selected)} looked at" if dry_run else f"{format.number(total.done)} done"
            self._say(f"{'Counting' if dry_run else 'Working'}: {counted} …")
            if turn.next is None:
                self._progress.set_visibility(False)
                return total
            body["after"] = turn.next

    def _say(self, what: str) -> None:
        self._progress.text = what
        self._progress.set_visibility(True)


class LettersShown(NamedTuple):
    """The letters that were read after a name, and the first that the page shows."""

    found: DeadLetterPage
    first: int
    after: str
    now: str


def _counted(count: int, partly: bool) -> str:
    if not count:
        return ""
    return f"{_letters(count)} of more are sorted here; Next goes on." if partly else f"{_letters(count)}."


def _sum(total: ShownProgress, turn: ShownProgress) -> ShownProgress:
    return ShownProgress(
        selected=total.selected + turn.selected,
        done=total.done + turn.done,
        refused=total.refused + turn.refused,
        kept=total.kept + turn.kept,
        problems=[*total.problems, *turn.problems][:5],
        missing_partitions=[*total.missing_partitions, *turn.missing_partitions],
    )


def _letters(count: int) -> str:
    return f"{format.number(count)} dead letter{'' if count == 1 else 's'}"


def _left(progress: ShownProgress) -> str:
    """The letters that are left, and why."""
    said = ""
    if progress.refused:
        said += f" {format.number(progress.refused)} were refused: {'; '.join(progress.problems)}"
    if progress.missing_partitions:
        said += f" {silent(progress.missing_partitions)}: the letters there stay as they are."
    return said
