"""The explanation of an event by subscription: a page at a time, failures first.

A topic may have hundreds of subscriptions; the counts above the page are of all of them.
"""

import json
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

from nicegui import ui

from recapito.domain.delivery.vocabulary import ENDING_LABELS, STATE_LABELS, State
from recapito.portal import format
from recapito.portal.api_types import AttemptEvent, ShownAttempt, ShownExplanation, SubscriptionOutcome
from recapito.portal.page import Page
from recapito.portal.panels.attempts import number_text, outcome_text, then_cell, tone_of, utc, when
from recapito.portal.widgets.paged_list import PagedList
from recapito.portal.widgets.pieces import (
    Fact,
    attribute,
    bar,
    button,
    chip,
    code,
    confirm,
    facts,
    note,
    panel,
    say_empty,
    text,
)
from recapito.portal.widgets.table import Cell, Row, Table

Resend = Callable[[int, str], Awaitable[None]]
"""Delivers the event to the subscription of an id, of a topic, once more."""

PAGE = 10  # a fate is some ten lines, and more with its attempts
_HEADERS_SHOWN = 6  # one more than the newest attempts whose headers are shown
_EVENT_FACTS = {
    "id": "Id",
    "type": "Type",
    "subject": "Subject",
    "topic": "Topic",
    "publishedAt": "Published",
    "position": "Position",
}
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
    """The explanation of an event, loaded again at each refresh.

    `resend` delivers the event to a subscription once more; None for an event that is not published.
    """

    def __init__(
        self, page: Page, ask: Callable[[], Awaitable[ShownExplanation]], resend: Resend | None = None
    ) -> None:
        self._page = page
        self._ask = ask
        self._resend = resend
        self._shown: object = None
        self._payload: Any = None
        self._views: list[FateView] = []
        self._head = ui.element("div")
        self._tally = text("p", "", "muted")
        self._search = ui.input("Search by subscription").props("outlined dense clearable debounce=150")
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
        event = dict(found.event or {})
        self._payload = event.pop("payload", None) or self._payload
        seen = (found.note, event, len(found.subscriptions), part.fates)
        if seen != self._shown:
            self._shown = seen
            self._rebuild(part)
        for view, fate in zip(self._views, part.fates, strict=True):
            view.update(fate, found.now)
        self._tally.text = tally(found.subscriptions)
        self._search.set_visibility(len(found.subscriptions) > PAGE)
        following = part.first + PAGE
        return str(following) if following < part.chosen else None

    def _rebuild(self, part: OutcomePage) -> None:
        self._head.clear()
        with self._head:
            _event(part.found, self._payload)
        self._place.clear()
        with self._place:
            self._views = [FateView(fate, self._button(fate)) for fate in part.fates]
            if not part.found.subscriptions:
                hint = "Create one on its topic; it gets the events published from then on."
                say_empty("No subscription has seen this event.", hint)
            elif not part.fates:
                say_empty("There is no such subscription.", "Search for another name.")

    def _button(self, fate: SubscriptionOutcome) -> Callable[[], Awaitable[None]] | None:
        """The handler that resends the event to the subscription of a fate; None where that is not possible."""
        resend, id = self._resend, fate.subscription_id
        if resend is None or id is None or not fate.matched or fate.decided_by is None:
            return None
        if fate.decided_by.clause == "deleted":
            return None

        async def press() -> None:
            detail = "It is a new delivery to this subscription alone; other subscriptions do not get the event again."
            if await confirm(f"Resend to '{fate.subscription}'?", detail, "Resend", danger=False):
                await resend(id, fate.topic)
                self._page.say(f"Resent to {fate.subscription}.")
                await self.refresh()

        return self._page.doing(press)


class FateView:
    """One subscription's part. `update` changes the distances of its instants from now."""

    def __init__(self, fate: SubscriptionOutcome, resend: Callable[[], Awaitable[None]] | None) -> None:
        self._facts: list[Fact] = []
        with panel(classes="fate"):
            with bar():
                text("h2", f"{fate.topic} / {fate.subscription}")
                chip(STATE_LABELS.get(fate.state, fate.state).capitalize(), _TONES.get(fate.state, "plain"))
                if resend is not None:
                    button("Resend", resend, "small")
            self._text = text("p", "")
            self._place = ui.element("div")
            self._table: Table | None = None
            if fate.attempts:
                text("h3", "Attempts")
                self._table = Table("Attempts", ("No.", "Sent", "Outcome", "Took#", "Then", "Answer"))
                for attempt in fate.attempts[:-_HEADERS_SHOWN:-1]:
                    _headers(attempt)

    def update(self, fate: SubscriptionOutcome, now: str) -> None:
        self._text.text = format.told(fate.state_text, now)
        shown = _fate_facts(fate, now)
        if shown != self._facts:
            self._facts = shown
            self._place.clear()
            with self._place:
                facts(shown)
        if self._table is not None:
            self._table.show([_attempt_row(attempt, now) for attempt in fate.attempts])


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


def _event(found: ShownExplanation, payload: Any) -> None:
    if found.note:
        note(found.note)
    event = found.event
    if event is None:
        return
    with panel("Event"):
        facts(
            Fact(name, _fact(event, key, found.now), title=utc(event[key]) if key == "publishedAt" else "", copy=copied)
            for key, name in _EVENT_FACTS.items()
            if event.get(key) is not None
            for copied in [str(event[key]) if key == "id" else ""]
        )
        if payload is not None:
            with ui.element("details") as folded:
                attribute(folded, open="")
                text("summary", "Payload")
                code(json.dumps(payload, indent=2, ensure_ascii=False))


def _fact(event: dict[str, Any], key: str, now: str) -> str:
    return format.relative(event[key], now) if key == "publishedAt" else str(event[key])


def _headers(attempt: ShownAttempt) -> None:
    """The headers of an attempt, folded."""
    if attempt.headers is None:
        return
    event = attempt.events[0] if attempt.events else AttemptEvent()
    with ui.element("details"):
        text("summary", f"Headers of attempt {number_text(attempt, event)}")
        with ui.element("div").classes("pair"):
            for name, lines in (("Request", attempt.headers.request), ("Answer", attempt.headers.answer)):
                with ui.element("div"):
                    text("h3", name)
                    code(lines or "none")


def _fate_facts(fate: SubscriptionOutcome, now: str) -> list[Fact]:
    shown: list[Fact] = []
    if fate.decided_by is not None:
        matched = {True: "Matched", False: "Not matched", None: "Unknown"}[fate.matched]
        shown.append(Fact(matched, f"{fate.decided_by.text} ({fate.decided_by.clause})"))
    if fate.next is not None:
        when_next = f"{format.relative(fate.next.at, now)}: {fate.next.text}"
        shown.append(Fact("Next attempt", when_next, title=utc(fate.next.at)))
    if fate.ttl_left_seconds is not None and fate.next is not None:
        left = f"{format.duration(fate.ttl_left_seconds)} left"
        shown.append(Fact("Time to live", left, title=utc(fate.expires_at)))
    if fate.attempts_left is not None and fate.next is not None:
        shown.append(Fact("Attempts left", str(fate.attempts_left)))
    if fate.end is not None:
        parts = (format.relative(fate.end.at, now), fate.end.reason, fate.end.where)
        shown.append(Fact("End", ", ".join(part for part in parts if part), title=utc(fate.end.at)))
    return shown


def _attempt_row(attempt: ShownAttempt, now: str) -> Row:
    event = attempt.events[0] if attempt.events else AttemptEvent()
    return Row(
        attempt.mark or attempt.at,
        (
            Cell(number_text(attempt, event)),
            when(attempt.at, now),
            Cell(outcome_text(attempt), tone=tone_of(attempt)),
            Cell("–" if attempt.outcome in ENDING_LABELS else format.milliseconds(attempt.took_ms)),
            then_cell(event, now),
            Cell(attempt.detail),
        ),
    )
