"""What became of an event, subscription by subscription; or what would, before it is published."""

import json

from msgspec.structs import replace
from nicegui import ui

from recapito.portal import words
from recapito.portal.address import explain_path
from recapito.portal.attempts import ENDINGS, number_text, outcome_text, then_text, tone_of
from recapito.portal.client import Refused
from recapito.portal.form import Form, check_required
from recapito.portal.piece import Fact, bar, button, chip, facts, note, panel, say_empty, text
from recapito.portal.shape import Attempt, AttemptEvent, Explanation, Fate
from recapito.portal.table import Cell, Row, Table
from recapito.portal.visit import Visit

_TONES = {
    "delivered": "good",
    "parked": "wait",
    "held": "wait",
    "unread": "wait",
    "underWay": "wait",
    "deadLetterWaiting": "bad",
    "deadLettered": "bad",
    "dropped": "bad",
}
_STATES = {
    "unread": "Not read yet",
    "underWay": "Under way",
    "parked": "Waits for a retry",
    "held": "Held back",
    "deadLetterWaiting": "Waits to be dead-lettered",
    "deadLettered": "Dead-lettered",
    "dropped": "Dropped",
    "delivered": "Delivered",
    "notMatched": "Not matched",
    "unknown": "Unknown",
}
_EVENT = {
    "id": "1",
    "subject": "test",
    "eventType": "Recapito.Test",
    "eventTime": "2026-01-01T00:00:00Z",
    "data": {"hello": "world"},
    "dataVersion": "1.0",
}
_POLL_S = 3.0


async def build(visit: Visit) -> None:
    """Build the page: of the event that the query names, or only the forms."""
    event, topic = visit.request.query_params.get("event", ""), visit.request.query_params.get("topic", "")
    visit.frame(f"Event {event}" if event else "Explain an event", "/deliveries")
    if not event:
        _search(topic)
    place = ui.element("div")
    if event:

        async def refresh() -> None:
            found = await visit.server.explain(event, topic or None)
            text = str(replace(found, now=""))
            if text != shown["text"]:
                shown["text"] = text
                place.clear()
                with place:
                    show_explanation(found)

        shown = {"text": ""}
        await refresh()
        visit.poll(refresh, _POLL_S)
    _dry_run(visit, topic)


def _search(topic: str) -> None:
    with panel("What became of it?"):
        form = Form()
        with ui.element("div").classes("form"):
            id = form.text("event", "Event id", check=check_required)
            name = form.text("topic", "Topic", topic, hint="Empty: wherever it is known.")

        def go() -> None:
            if form.is_valid:
                ui.navigate.to(explain_path(id.value.strip(), (name.value or "").strip() or None))

        with bar("end"):
            button("Explain", go, "primary")
        id.on("keydown.enter", go)


def show_explanation(found: Explanation) -> None:
    """All that is known, as it is now."""
    if found.note:
        note(found.note)
    if found.event is not None:
        with panel("Event"):
            facts(
                Fact(name, words.instant(found.event[key]) if key == "publishedAt" else str(found.event[key]))
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
    if not found.subscriptions:
        say_empty("No subscription knows of it.", "Create one on its topic; it gets what is published from then on.")
    for fate in found.subscriptions:
        _fate(fate, found.now)


def _fate(fate: Fate, now: str) -> None:
    with panel(classes="fate"):
        with bar():
            text("h2", f"{fate.topic} / {fate.subscription}")
            chip(_STATES.get(fate.state, fate.state), _TONES.get(fate.state, "plain"))
        if fate.state_text:
            text("p", fate.state_text)
        facts(_fate_facts(fate, now))
        if fate.attempts:
            text("h3", "Attempts")
            table = Table("Attempts", ("No.", "Sent (UTC)", "Outcome", "Took#", "Then", "Answer"))
            table.show([_attempt_row(attempt) for attempt in fate.attempts])


def _fate_facts(fate: Fate, now: str) -> list[Fact]:
    shown: list[Fact] = []
    if fate.decided_by is not None:
        matched = {True: "Matched", False: "Not matched", None: "Unknown"}[fate.matched]
        shown.append(Fact(matched, f"{fate.decided_by.text} ({fate.decided_by.clause})"))
    if fate.next is not None:
        when = f"{words.instant(fate.next.at)}, {words.relative(fate.next.at, now)}"
        shown.append(Fact("Next attempt", f"{when}: {fate.next.text}"))
    if fate.ttl_left_seconds is not None and fate.next is not None:
        left = f"{words.duration(fate.ttl_left_seconds)} left, until {words.instant(fate.expires_at)}"
        shown.append(Fact("Time to live", left))
    if fate.attempts_left is not None and fate.next is not None:
        shown.append(Fact("Attempts left", str(fate.attempts_left)))
    if fate.end is not None:
        parts = (words.instant(fate.end.at), fate.end.reason, fate.end.where)
        shown.append(Fact("End", ", ".join(part for part in parts if part)))
    return shown


def _attempt_row(attempt: Attempt) -> Row:
    event = attempt.events[0] if attempt.events else AttemptEvent()
    return Row(
        attempt.mark or attempt.at,
        (
            Cell(number_text(attempt, event)),
            Cell(words.instant(attempt.at)),
            Cell(outcome_text(attempt), tone=tone_of(attempt)),
            Cell("–" if attempt.outcome in ENDINGS else words.milliseconds(attempt.took_ms)),
            Cell(then_text(event)),
            Cell(attempt.detail),
        ),
    )


def _dry_run(visit: Visit, topic: str) -> None:
    with panel("What would become of an event?"):
        text("p", "Nothing is published: the event is held against every filter of the topic.", "muted")
        form = Form()
        with ui.element("div").classes("form"):
            name = form.text("topic", "Topic", topic, check=check_required).classes("wide")
            sample = json.dumps(_EVENT, indent=2)
            event = form.text("event", "Event, as JSON", sample, lines=True, check=_check_object).classes("wide")
        with bar("end"):
            press = button("Try it", kind="primary")
        place = ui.element("div")

        async def ask() -> None:
            if not form.is_valid:
                return
            try:
                found = await visit.server.dry_run((name.value or "").strip(), json.loads(event.value or ""))
            except Refused as error:
                form.blame(error)
                return
            place.clear()
            with place:
                show_explanation(found)

        press.on_click(visit.doing(ask))


def _check_object(given: str) -> str | None:
    try:
        return None if isinstance(json.loads(given), dict) else "This must be one JSON object."
    except ValueError as error:
        return f"This is not JSON: {error}."
