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
RULES = {"schedule": "schedule", "minimum": "least delay of this status", "retryAfter": "Retry-After"}
_COLUMNS = ("Sent (UTC)", "Event", "Attempt#", "Outcome", "Took#", "DispositionKind", "Answer")


def recent_deliveries(page: Page, topic: str | None = None, subscription: str | None = None) -> PagedList:
    """The table and its filters, of one subscription or of all."""
    with bar():
        search = ui.input("Search by event id").props("outlined dense clearable debounce=300").classes("grow")
        outcome = ui.select(OUTCOMES, label="Outcome", value="").props("outlined dense").classes("grow")
    columns = _COLUMNS if subscription else (*_COLUMNS[:1], "Subscription", *_COLUMNS[1:])
    table = Table("Recent deliveries", columns)
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
            limit=str(PAGE),
        )

    async def show(found: Attempts) -> str | None:
        none.set_visibility(not found.value and found.next is None)
        further.set_visibility(not found.value and found.next is not None)
        table.show([_row(one, with_subscription=subscription is None) for one in found.value])
        kept.text = _kept(found)
        return found.next

    listing = PagedList(page, load, show)
    search.on_value_change(listing.restart)
    outcome.on_value_change(listing.restart)
    return listing


def _row(attempt: ShownAttempt, with_subscription: bool) -> Row:
    event = attempt.events[0] if attempt.events else AttemptEvent()
    more = f" and {attempt.event_count - 1} more" if attempt.event_count > 1 else ""
    cells = (
        Cell(format.clock_time(attempt.at)),
        Cell(f"{event.id}{more}", explain_path(event.id, attempt.topic)),
        Cell(number_text(attempt, event)),
        Cell(outcome_text(attempt), tone=tone_of(attempt)),
        Cell("–" if attempt.outcome in ENDING_LABELS else format.milliseconds(attempt.took_ms)),
        Cell(then_text(event)),
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


def then_text(event: AttemptEvent) -> str:
    """The decision about the event."""
    decision = DISPOSITION_LABELS.get(event.then, event.then)
    if event.due_at is not None:
        rule = f", by {RULES.get(event.rule or '', event.rule)}" if event.rule else ""
        return f"{decision} at {format.clock_time(event.due_at)[:8]}{rule}"
    return f"{decision}: {event.reason}" if event.reason else decision


def _kept(found: Attempts) -> str:
    if not found.kept.attempts:
        return ""
    kept = f"{format.number(found.kept.attempts)} attempts are kept, since {format.instant(found.kept.since)}."
    return kept + (f" {format.number(found.kept.not_kept)} were not kept." if found.kept.not_kept else "")
