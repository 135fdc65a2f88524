"""Recent deliveries: attempts as the server keeps them, filtered and paged by it, each leading to its explanation."""

from nicegui import ui

from recapito.domain.delivery.outcome import Result
from recapito.domain.delivery.vocabulary import DISPOSITION_LABELS, ENDING_LABELS
from recapito.portal import format
from recapito.portal.api_types import AttemptEvent, Attempts, ShownAttempt
from recapito.portal.client import PAGE
from recapito.portal.page import Page
from recapito.portal.urls import explain_path
from recapito.portal.widgets.paged_list import PagedList
from recapito.portal.widgets.pieces import bar, empty, text
from recapito.portal.widgets.table import Cell, Row, Table

OUTCOMES: dict[str, str] = {
    "": "All outcomes",
    "Failed": "All failures",
    **{result.value: result.value for result in Result},
    **{str(ending): label.capitalize() for ending, label in ENDING_LABELS.items()},
}
_BELOW_CHARS = 120
_SHORT = 10  # rows beside the other parts of a page
RULES = {
    "schedule": "schedule",
    "minimum": "least delay of this status",
    "retryAfter": "Retry-After",
    "cut": "smaller request",
}
_COLUMNS = ("Sent", "Event", "Attempt#", "Outcome", "Took#", "Then", "Answer")


def recent_deliveries(page: Page, topic: str | None = None, subscription: str | None = None) -> PagedList:
    """The table and its filters, of one subscription or of all."""
    with bar():
        search = ui.input("Search by event id").props("outlined dense clearable debounce=150").classes("grow")
        outcome = ui.select(OUTCOMES, label="Outcome", value="").props("outlined dense").classes("grow")
    columns = _COLUMNS if subscription else (*_COLUMNS[:1], "Subscription", *_COLUMNS[1:])
    table = Table("Recent deliveries", columns, minor=("Attempt", "Took"))
    size = PAGE if subscription is None else _SHORT
    with empty("No delivery matches.", "Publish an event, or choose another outcome or id.") as none:
        pass
    further = text("p", "None of the newest attempts matches; Next searches further back.", "note")
    kept = text("p", "", "muted")

    async def load(start: str | None) -> Attempts:
        return await page.server.deliveries(
            topic=topic,
            subscription=subscription,
            outcome=outcome.value,
            search=search.value,
            before=start,
            describe="true",
            limit=str(size),
        )

    async def show(found: Attempts) -> str | None:
        none.set_visibility(not found.value and found.next is None)
        further.set_visibility(not found.value and found.next is not None)
        table.show([_row(one, found.now, with_subscription=subscription is None) for one in found.value])
        kept.text = _kept(found)
        return found.next

    listing = PagedList(page, load, show)
    search.on_value_change(listing.restart)
    outcome.on_value_change(listing.restart)
    return listing


def _row(attempt: ShownAttempt, now: str, with_subscription: bool) -> Row:
    event = attempt.events[0] if attempt.events else AttemptEvent()
    more = f" and {attempt.event_count - 1} more" if attempt.event_count > 1 else ""
    cells = (
        when(attempt.at, now),
        event_cell(event.id, attempt.topic, " · ".join(part for part in (event.type, event.subject) if part), more),
        Cell(number_text(attempt, event)),
        Cell(outcome_text(attempt), tone=tone_of(attempt)),
        Cell("–" if attempt.outcome in ENDING_LABELS else format.milliseconds(attempt.took_ms)),
        then_cell(event, now),
        Cell(attempt.detail[:200]),
    )
    name = Cell(f"{attempt.topic} / {attempt.subscription}")
    return Row(attempt.mark, (cells[0], name, *cells[1:]) if with_subscription else cells)


def tone_of(attempt: ShownAttempt) -> str:
    """How good that is."""
    return "good" if attempt.outcome == "Success" else "bad"


def number_text(attempt: ShownAttempt, event: AttemptEvent) -> str:
    """The number of the attempt; a dash for an end without a request."""
    return "–" if attempt.outcome in ENDING_LABELS else str(event.attempt)


def outcome_text(attempt: ShownAttempt) -> str:
    """How an attempt ended, in a few words."""
    named = OUTCOMES.get(attempt.outcome, attempt.outcome)
    parts = [named if attempt.status is None else f"{named} {attempt.status}"]
    if attempt.probe:
        parts.append("probe")
    if attempt.late:
        parts.append("late")
    return ", ".join(parts)


def when(stamp: str | None, now: str, prefix: str = "") -> Cell:
    """An instant as its distance from now, by the service's clock; the instant itself on hover."""
    return Cell(f"{prefix}{format.relative(stamp, now) or '–'}", title=utc(stamp))


def utc(stamp: str | None) -> str:
    """An instant in full, for hovering."""
    return f"{format.instant(stamp)} UTC" if stamp else ""


def event_cell(id: str, topic: str, below: str, more: str = "") -> Cell:
    """An event: its id, shortened, with its explanation, and a second line about it."""
    return Cell(f"{format.short_id(id)}{more}", explain_path(id, topic), title=id, below=below[:_BELOW_CHARS], copy=id)


def then_cell(event: AttemptEvent, now: str) -> Cell:
    """The decision about the event."""
    decision = DISPOSITION_LABELS.get(event.then, event.then)
    if event.due_at is not None:
        rule = f", by {RULES.get(event.rule or '', event.rule)}" if event.rule else ""
        due = format.relative(event.due_at, now)
        return Cell(f"{decision}, due {due}{rule}", title=utc(event.due_at))
    return Cell(f"{decision}: {event.reason}" if event.reason else decision)


def _kept(found: Attempts) -> str:
    if not found.kept.attempts:
        return ""
    since = format.relative(found.kept.since, found.now)
    kept = f"{format.number(found.kept.attempts)} attempts are kept, the oldest of {since}."
    return kept + (f" {format.number(found.kept.not_kept)} were not kept." if found.kept.not_kept else "")
