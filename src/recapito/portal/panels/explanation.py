"""The explanation of an event by subscription: a page at a time, failures first.

A topic may have hundreds of subscriptions; the counts above the page are of all of them.
"""

from collections import Counter
from collections.abc import Awaitable, Callable
from typing import NamedTuple

from nicegui import ui

from recapito.domain.delivery.vocabulary import ENDING_LABELS, STATE_LABELS, State
from recapito.portal import format
from recapito.portal.api_types import AttemptEvent, ShownAttempt, ShownExplanation, SubscriptionOutcome
from recapito.portal.page import Page
from recapito.portal.panels.attempts import number_text, outcome_text, then_text, tone_of
from recapito.portal.widgets.paged_list import PagedList
from recapito.portal.widgets.pieces import Fact, bar, chip, facts, note, panel, say_empty, text
from recapito.portal.widgets.table import Cell, Row, Table

PAGE = 10  # a fate is some ten lines, and more with its attempts
_TONES: dict[str, str] = {
    State.DELIVERED: "good",
    State.PARKED: "wait",
    State.HELD: "wait",
    State.UNREAD: "wait",
    State.UNDER_WAY: "wait",
    State.DEAD_LETTER_WAITING: "bad",
    State.DEAD_LETTERED: "bad",
    State.DROPPED: "bad",
}
_SHOWN_FIRST = (
    State.DROPPED,
    State.DEAD_LETTERED,
    State.DEAD_LETTER_WAITING,
    State.HELD,
    State.PARKED,
    State.UNDER_WAY,
    State.UNREAD,
    State.UNKNOWN,
    State.DELIVERED,
    State.NOT_MATCHED,
)
_ORDER = {state.value: n for n, state in enumerate(_SHOWN_FIRST)}


class OutcomePage(NamedTuple):
    """The part of an explanation that is shown: the fates of one page, and the number of all that match."""

    found: ShownExplanation
    fates: list[SubscriptionOutcome]
    first: int
    chosen: int


class ExplanationPanel:
    """The explanation of an event, loaded again at each refresh."""

    def __init__(self, page: Page, ask: Callable[[], Awaitable[ShownExplanation]]) -> None:
        self._ask = ask
        self._shown: object = None
        self._head = ui.element("div")
        self._tally = text("p", "", "muted")
        self._search = ui.input("Search by subscription").props("outlined dense clearable debounce=300")
        self._search.classes("apart")
        self._search.set_visibility(False)
        self._place = ui.element("div")
        self._listing = PagedList(page, self._load, self._show)
        self._search.on_value_change(self._listing.restart)

    async def refresh(self) -> None:
        """Load it again, and show the changes."""
        await self._listing.refresh()

    async def _load(self, start: str | None) -> OutcomePage:
        return choose(await self._ask(), self._search.value or "", int(start or 0))

    async def _show(self, part: OutcomePage) -> str | None:
        found = part.found
        seen = (found.note, found.event, len(found.subscriptions), part.fates)
        if seen != self._shown:
            self._shown = seen
            self._rebuild(part)
        self._tally.text = tally(found.subscriptions)
        self._search.set_visibility(len(found.subscriptions) > PAGE)
        following = part.first + PAGE
        return str(following) if following < part.chosen else None

    def _rebuild(self, part: OutcomePage) -> None:
        self._head.clear()
        with self._head:
            _event(part.found)
        self._place.clear()
        with self._place:
            for fate in part.fates:
                _fate(fate, part.found.now)
            if not part.found.subscriptions:
                hint = "Create one on its topic; it gets the events published from then on."
                say_empty("No subscription has seen this event.", hint)
            elif not part.fates:
                say_empty("There is no such subscription.", "Search for another name.")


def choose(found: ShownExplanation, search: str, first: int) -> OutcomePage:
    """A page of the fates whose subscriptions are searched for."""
    chosen = [fate for fate in found.subscriptions if search.lower() in fate.subscription.lower()]
    chosen.sort(key=lambda fate: _ORDER.get(fate.state, 0))
    return OutcomePage(found, chosen[first : first + PAGE], first, len(chosen))


def tally(fates: list[SubscriptionOutcome]) -> str:
    """The number of subscriptions in each state; nothing if all fit on one page."""
    if len(fates) <= PAGE:
        return ""
    counts = Counter(fate.state for fate in fates)
    states = sorted(counts, key=lambda state: _ORDER.get(state, 0))
    summary = ", ".join(f"{STATE_LABELS.get(state, state)} {format.number(counts[state])}" for state in states)
    return f"{format.number(len(fates))} subscriptions: {summary}."


def _event(found: ShownExplanation) -> None:
    if found.note:
        note(found.note)
    if found.event is not None:
        with panel("Event"):
            facts(
                Fact(name, format.instant(found.event[key]) if key == "publishedAt" else str(found.event[key]))
                for key, name in (
                    ("id", "Id"),
                    ("type", "Type"),
                    ("subject", "Subject"),
                    ("topic", "Topic"),
                    ("publishedAt", "Published"),
                    ("position", "Position"),
                )
                if found.event.get(key) is not None
            )


def _fate(fate: SubscriptionOutcome, now: str) -> None:
    with panel(classes="fate"):
        with bar():
            text("h2", f"{fate.topic} / {fate.subscription}")
            chip(STATE_LABELS.get(fate.state, fate.state).capitalize(), _TONES.get(fate.state, "plain"))
        if fate.state_text:
            text("p", fate.state_text)
        facts(_fate_facts(fate, now))
        if fate.attempts:
            text("h3", "Attempts")
            table = Table("Attempts", ("No.", "Sent (UTC)", "Outcome", "Took#", "Then", "Answer"))
            table.show([_attempt_row(attempt) for attempt in fate.attempts])


def _fate_facts(fate: SubscriptionOutcome, now: str) -> list[Fact]:
    shown: list[Fact] = []
    if fate.decided_by is not None:
        matched = {True: "Matched", False: "Not matched", None: "Unknown"}[fate.matched]
        shown.append(Fact(matched, f"{fate.decided_by.text} ({fate.decided_by.clause})"))
    if fate.next is not None:
        when = f"{format.instant(fate.next.at)}, {format.relative(fate.next.at, now)}"
        shown.append(Fact("Next attempt", f"{when}: {fate.next.text}"))
    if fate.ttl_left_seconds is not None and fate.next is not None:
        left = f"{format.duration(fate.ttl_left_seconds)} left, until {format.instant(fate.expires_at)}"
        shown.append(Fact("Time to live", left))
    if fate.attempts_left is not None and fate.next is not None:
        shown.append(Fact("Attempts left", str(fate.attempts_left)))
    if fate.end is not None:
        parts = (format.instant(fate.end.at), fate.end.reason, fate.end.where)
        shown.append(Fact("End", ", ".join(part for part in parts if part)))
    return shown


def _attempt_row(attempt: ShownAttempt) -> Row:
    event = attempt.events[0] if attempt.events else AttemptEvent()
    return Row(
        attempt.mark or attempt.at,
        (
            Cell(number_text(attempt, event)),
            Cell(format.instant(attempt.at)),
            Cell(outcome_text(attempt), tone=tone_of(attempt)),
            Cell("–" if attempt.outcome in ENDING_LABELS else format.milliseconds(attempt.took_ms)),
            Cell(then_text(event)),
            Cell(attempt.detail),
        ),
    )
