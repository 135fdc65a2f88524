"""The explanation of an event as lines for people: for each subscription, from the filter to the end.

All words of others, of events, names and answers, are shown as text.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from recapito.cli.text.terminal import bold, paint, visible
from recapito.cli.text.time import seconds_between, show_distance, show_moment, show_moments
from recapito.domain.delivery.vocabulary import DEAD_LETTER_DELAY, ENDING_LABELS, HOLD, STATE_LABELS, Rule
from recapito.domain.instant import show_duration

Wire = Mapping[str, Any]

RULES: dict[str, str] = {
    Rule.SCHEDULE: "by the schedule",
    Rule.MINIMUM: "by the least delay for this answer",
    Rule.RETRY_AFTER: "as the endpoint asked by Retry-After",
    Rule.CUT: "at once, in a smaller request",
    HOLD: "when the hold of the endpoint ends",
    DEAD_LETTER_DELAY: "by the delay of dead letters",
}
_DECIDED = {True: "matched", False: "not matched", None: "not known"}
_LABEL = 10


def explanation_lines(answer: Any) -> Iterator[str]:
    """One event's story, or several events' one after the other."""
    for number, explanation in enumerate(answer if isinstance(answer, list) else [answer]):
        if number:
            yield ""
        yield from _event(explanation)


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


def _subscription(delivery: Wire, now: str, published: str | None, rehearsed: bool) -> Iterator[str]:
    state = (
        "would be sent"
        if rehearsed and delivery["state"] == "unread"
        else str(STATE_LABELS.get(delivery["state"], delivery["state"]))
    )
    yield bold(visible(delivery["subscription"])) + ": " + paint(visible(state), delivery["state"])
    decided = delivery.get("decidedBy")
    because = f": {decided['text']} ({decided['clause']})" if decided else ""
    yield from _row("filter", f"{_DECIDED[delivery['matched']]}{because}")
    for attempt in delivery["attempts"]:
        yield from _attempt(attempt, published)
    end = delivery.get("end") or {}
    if not end.get("reason") and delivery["matched"] is not False:  # those have shown it
        yield from _row("now", delivery.get("stateText") and show_moments(delivery["stateText"]))
    following = delivery.get("next")
    if following:
        when = f"{show_moment(following['at'])} UTC ({show_distance(now, following['at'])})"
        yield from _row("next", f"{when}: {following.get('text') or RULES.get(following['rule'], following['rule'])}")
    yield from _row("left", _left(delivery))
    if end.get("reason"):
        when = f"{show_moment(end['at'])} UTC: " if end.get("at") else ""
        where = f", {end['where']}" if end.get("where") else ""
        yield from _row("ended", f"{when}{end['reason']}{where}")


def _left(delivery: Wire) -> str | None:
    """The time and the attempts that are left; nothing once the delivery ended."""
    parts = []
    if delivery.get("ttlLeftSeconds") is not None:
        until = f" (until {show_moment(delivery['expiresAt'])} UTC)" if delivery.get("expiresAt") else ""
        parts.append(f"{show_duration(max(0, int(delivery['ttlLeftSeconds'])))} of its time to live{until}")
    if delivery.get("attemptsLeft") is not None:
        parts.append(f"{delivery['attemptsLeft']} attempt{'' if delivery['attemptsLeft'] == 1 else 's'}")
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
    """Time since publishing; nothing for attempts before the event was published again or redriven."""
    passed = -1 if published is None else round(seconds_between(published, at))
    return f" (+{show_duration(passed)})" if passed >= 0 else ""


def was_request(attempt: Wire) -> bool:
    """True for a request; history also keeps deliveries that ended without one."""
    return attempt["outcome"] not in ENDING_LABELS


def show_ending(attempt: Wire, event: Wire) -> str:
    """The end of a delivery without a request: the reason, and the dead letter's location."""
    why = f" ({event['reason']})" if event.get("reason") else ""
    where = f": {event['where']}" if event.get("where") else ""
    return f"{ENDING_LABELS[attempt['outcome']]}{why}{where}"


def show_outcome(attempt: Wire) -> str:
    """An outcome with its status, and what was special about the attempt."""
    status = "" if attempt.get("status") is None else f" {attempt['status']}"
    special = [text for name, text in (("probe", "a probe"), ("late", "late")) if attempt.get(name)]
    return f"{attempt['outcome']}{status}" + (f" ({', '.join(special)})" if special else "")


def _consequence(event: Wire) -> str | None:
    """The consequence of an attempt; nothing if its outcome implies it."""
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
