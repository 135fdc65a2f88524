"""Dead letters: a page of them, and the buttons that redrive or purge them, with a preview and progress."""

from typing import Any
from urllib.parse import quote

from nicegui import ui
from nicegui.elements.mixins.text_element import TextElement

from recapito.portal import format
from recapito.portal.api_types import DeadLetterPage, ShownDeadLetter, ShownProgress
from recapito.portal.client import PAGE
from recapito.portal.page import Page
from recapito.portal.widgets.paged_list import PagedList
from recapito.portal.widgets.pieces import attribute, bar, button, confirm, empty, note, text
from recapito.portal.widgets.table import Cell, Row, Table

_COLUMNS = ("Event", "Reason", "Type", "Attempts#", "Last outcome", "Published (UTC)", "Redriven")
_STEP = 500
_WHICH = {"": "All", "false": "Not redriven", "true": "Redriven"}


class DeadLetterList:
    """The letters of one subscription, or of all, with their actions."""

    def __init__(self, page: Page, topic: str | None = None, subscription: str | None = None) -> None:
        self._page = page
        self._where = {"topic": topic, "subscription": subscription}
        with bar():
            self._which = ui.select(_WHICH, label="Show", value="").props("outlined dense").classes("grow")
            button("Redrive…", page.doing(self._redrive), "primary")
            button("Purge…", page.doing(self._purge), "danger")
        self._progress: TextElement = text("p", "", "note")
        attribute(self._progress, role="status")
        self._progress.set_visibility(False)
        columns = _COLUMNS if subscription else ("Subscription", *_COLUMNS)
        self._table = Table("Dead letters", columns)
        hint = "Undelivered events are kept here if their subscription has a dead-letter destination."
        with empty("There are no dead letters.", hint) as self._none:
            pass
        self._problems = ui.element("div")
        self.listing = PagedList(page, self._load, self._show)
        self._which.on_value_change(self.listing.restart)

    async def _load(self, start: str | None) -> DeadLetterPage:
        return await self._page.server.letters(**self._where, redriven=self._which.value, after=start, limit=str(PAGE))

    async def _show(self, found: DeadLetterPage) -> str | None:
        self._none.set_visibility(not found.value)
        self._table.show([_row(one, self._where["subscription"] is None) for one in found.value])
        self._problems.clear()
        with self._problems:
            for problem in found.problems:
                note(problem, "bad")
        return found.next

    async def _redrive(self) -> None:
        meant = await self._go_through("redrive", dry_run=True)
        if not meant.selected - meant.refused:
            self._say(f"There is nothing to redrive.{_refused(meant)}")
            return
        count = meant.selected - meant.refused
        detail = f"{_letters(count)} would be delivered again, each to its own subscription.{_refused(meant)}"
        if await confirm(f"Redrive {_letters(count)}?", detail, "Redrive", danger=False):
            done = await self._go_through("redrive", dry_run=False)
            self._say(f"Done: {_letters(done.done)} redriven.{_refused(done)}")
            await self.listing.restart()

    async def _purge(self) -> None:
        meant = await self._go_through("purge", dry_run=True)
        if not meant.selected:
            self._say("There is nothing to purge.")
            return
        detail = f"{_letters(meant.selected)} would be removed for good. They cannot be restored."
        if await confirm(f"Purge {_letters(meant.selected)}?", detail, "Purge"):
            done = await self._go_through("purge", dry_run=False)
            self._say(f"Done: {_letters(done.done)} removed; {format.number(done.kept)} files stay.{_refused(done)}")
            await self.listing.restart()

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


def _sum(total: ShownProgress, turn: ShownProgress) -> ShownProgress:
    return ShownProgress(
        selected=total.selected + turn.selected,
        done=total.done + turn.done,
        refused=total.refused + turn.refused,
        kept=total.kept + turn.kept,
        problems=[*total.problems, *turn.problems][:5],
    )


def _letters(count: int) -> str:
    return f"{format.number(count)} dead letter{'' if count == 1 else 's'}"


def _refused(progress: ShownProgress) -> str:
    if not progress.refused:
        return ""
    return f" {format.number(progress.refused)} were refused: {'; '.join(progress.problems)}"


def _row(letter: ShownDeadLetter, with_subscription: bool) -> Row:
    cells = (
        Cell(letter.event_id or "(no id)", f"/dead-letter/{quote(letter.name)}"),
        Cell(letter.reason, tone="bad"),
        Cell(letter.event_type or ""),
        Cell("" if letter.delivery_attempts is None else str(letter.delivery_attempts)),
        Cell(letter.last_delivery_outcome or ""),
        Cell(format.instant(letter.publish_time)),
        Cell(format.instant(letter.redriven["at"]) if letter.redriven else "no"),
    )
    name = Cell(f"{letter.topic} / {letter.subscription}")
    return Row(letter.name, (name, *cells) if with_subscription else cells)
