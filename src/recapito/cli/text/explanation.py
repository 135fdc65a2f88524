"""What became of an event, told in lines for people: by subscription, from the filter to the end.

All words of others, of events, names and answers, are shown as text.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from recapito.cli.text.colour import bold, paint
from recapito.cli.text.duration import show_duration
from recapito.cli.text.escape import visible
from recapito.cli.text.time import seconds_between, show_distance, show_moment, show_moments
from recapito.domain.delivery.state import LABELS
from recapito.domain.history.attempt import ENDING_LABELS

Wire = Mapping[str, Any]

RULES = {
    "schedule": "by the schedule",
    "minimum": "by the least delay for this answer",
    "retryAfter": "as the endpoint asked by Retry-After",
    "hold": "when the hold of the endpoint ends",
    "deadLetterDelay": "by the delay of dead letters",
}
_DECIDED = {True: "matched", False: "not matched", None: "not known"}
_LABEL = 10


def explanation_lines(answer: Any) -> Iterator[str]:
    """One event's story, or several events' one after the other."""
    for number, one in enumerate(answer if isinstance(answer, list) else [answer]):
        if number:
            yield ""
        yield from _event(one)


def _event(answer: Wire) -> Iterator[str]:
    event = answer["event"]
    published = event and event.get("publishedAt")
    if event:
        yield bold(visible(f"Event {event['id']} of topic {event['topic']}"))
        yield from _row("type", event.get("type"))
        yield from _row("subject", event.get("subject"))
        if published:
            place = f", position {event['position']}" if event.get("position") is not None else ""
            ago = show_distance(answer["now"], published)
            yield from _row("published", f"{show_moment(published)} UTC ({ago}){place}")
    yield from _row("note", answer.get("note"))
    if not answer["subscriptions"]:
        yield from _row("", "no event subscription of the topic takes part")
    for subscription in answer["subscriptions"]:
        yield ""
        yield from _subscription(subscription, answer["now"], published, bool(event and event["position"] is None))


def _subscription(one: Wire, now: str, published: str | None, rehearsed: bool) -> Iterator[str]:
    state = "would be sent" if rehearsed and one["state"] == "unread" else str(LABELS.get(one["state"], one["state"]))
    yield bold(visible(one["subscription"])) + ": " + paint(visible(state), one["state"])
    decided = one.get("decidedBy")
    because = f": {decided['text']} ({decided['clause']})" if decided else ""
    yield from _row("filter", f"{_DECIDED[one['matched']]}{because}")
    for attempt in one["attempts"]:
        yield from _attempt(attempt, published)
    end = one.get("end") or {}
    if not end.get("reason") and one["matched"] is not False:  # those have said it
        yield from _row("now", one.get("stateText") and show_moments(one["stateText"]))
    following = one.get("next")
    if following:
        when = f"{show_moment(following['at'])} UTC ({show_distance(now, following['at'])})"
        yield from _row("next", f"{when}: {following.get('text') or RULES.get(following['rule'], following['rule'])}")
    yield from _row("left", _left(one))
    if end.get("reason"):
        when = f"{show_moment(end['at'])} UTC: " if end.get("at") else ""
        where = f", {end['where']}" if end.get("where") else ""
        yield from _row("ended", f"{when}{end['reason']}{where}")


def _left(one: Wire) -> str | None:
    """How long and how often it may still be tried; nothing once it ended."""
    parts = []
    if one.get("ttlLeftSeconds") is not None:
        until = f" (until {show_moment(one['expiresAt'])} UTC)" if one.get("expiresAt") else ""
        parts.append(f"{show_duration(max(0, int(one['ttlLeftSeconds'])))} of its time to live{until}")
    if one.get("attemptsLeft") is not None:
        parts.append(f"{one['attemptsLeft']} attempt{'' if one['attemptsLeft'] == 1 else 's'}")
    return ", ".join(parts) if parts else None


def _attempt(attempt: Wire, published: str | None) -> Iterator[str]:
    mine = attempt["events"][0] if attempt["events"] else {}
    when = f"{show_moment(attempt['at'])} UTC{_after(published, attempt['at'])}  "
    if not was_request(attempt):
        yield from _row("then", f"{when}{show_ending(attempt, mine)}")
        return
    outcome = paint(visible(show_outcome(attempt)), attempt["outcome"])
    batch = f", with {attempt['eventCount'] - 1} more in one request" if attempt["eventCount"] > 1 else ""
    yield from _row(f"attempt {mine.get('attempt', '')}", when, f"{outcome} in {attempt['tookMs']:.0f} ms{batch}")
    if attempt.get("detail"):
        yield from _row("", f'"{attempt["detail"]}"')
    yield from _row("", _consequence(mine))


def _after(published: str | None, at: str) -> str:
    """How long after publishing; nothing for what was attempted before the event was published again or redriven."""
    passed = -1 if published is None else round(seconds_between(published, at))
    return f" (+{show_duration(passed)})" if passed >= 0 else ""


def was_request(attempt: Wire) -> bool:
    """Whether it was a request; history also keeps what ended without one."""
    return attempt["outcome"] not in ENDING_LABELS


def show_ending(attempt: Wire, event: Wire) -> str:
    """What ended without a request: why, and where it lies."""
    why = f" ({event['reason']})" if event.get("reason") else ""
    where = f": {event['where']}" if event.get("where") else ""
    return f"{ENDING_LABELS[attempt['outcome']]}{why}{where}"


def show_outcome(attempt: Wire) -> str:
    """An outcome with its status, and what was special about the attempt."""
    status = "" if attempt.get("status") is None else f" {attempt['status']}"
    special = [text for name, text in (("probe", "a probe"), ("late", "late")) if attempt.get(name)]
    return f"{attempt['outcome']}{status}" + (f" ({', '.join(special)})" if special else "")


def _consequence(event: Wire) -> str | None:
    """What an attempt led to; nothing if that is plain from its outcome."""
    match event.get("then"):
        case "retry":
            at = f" at {show_moment(event['dueAt'])} UTC" if event.get("dueAt") else ""
            rule = f", {RULES.get(event['rule'], event['rule'])}" if event.get("rule") else ""
            return f"to be tried again{at}{rule}"
        case "deadLetter":
            return f"given up ({event.get('reason')}), to its dead letters"
        case "drop":
            return f"given up ({event.get('reason')}) and dropped"
    return None


def _row(label: str, text: str | None, painted: str = "") -> Iterator[str]:
    """A line of a subscription. What is painted is safe already: it holds the terminal's own words."""
    if text:
        yield f"  {label:<{_LABEL}}  {visible(text)}{painted}".rstrip()
