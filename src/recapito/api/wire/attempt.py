"""Attempts and explanations as HTTP shows them."""

from collections.abc import Sequence

import msgspec

from recapito.api.wire.decode import Shown
from recapito.contracts.history import KeptAttempt
from recapito.domain import limits
from recapito.domain.delivery.delivery import DeliveryId
from recapito.domain.delivery.state import DeliveryState
from recapito.domain.history.attempt import Attempt, AttemptedEvent, AttemptQuery
from recapito.domain.instant import MILLISECOND, SECOND, stamp
from recapito.intake.explain.explainer import Explained, Explanation


def show_attempt(kept: KeptAttempt, selection: AttemptQuery) -> Shown:
    """An attempt with its first events; the events that were asked for come first."""
    attempt = kept.attempt
    return _show(kept.mark, attempt, _ordered(attempt, selection)[: limits.HISTORY_EVENTS_SHOWN])


def places_of(kept: Sequence[KeptAttempt], selection: AttemptQuery) -> dict[int, dict[DeliveryId, list[int]]]:
    """The place of the first event that each attempt shows, by topic, with the indexes of its attempts."""
    places: dict[int, dict[DeliveryId, list[int]]] = {}
    for index, each in enumerate(kept):
        for event in _ordered(each.attempt, selection)[:1]:
            places.setdefault(each.attempt.label.topic, {}).setdefault(event.identity, []).append(index)
    return places


def _ordered(attempt: Attempt, selection: AttemptQuery) -> list[AttemptedEvent]:
    """The events of an attempt; those that were asked for come first."""
    events = list(attempt.events())
    if selection.event is not None or selection.search is not None:
        events.sort(key=lambda event: not _is_meant(event, selection))
    return events


def show_explanation(explanation: Explanation, now: int, with_payload: bool = False) -> Shown:
    return {
        "event": _show_event(explanation, with_payload),
        "note": " ".join(explanation.notes),
        "subscriptions": [_show_explained(part, explanation.id, now) for part in explanation.subscriptions],
        "now": stamp(now),
    }


def _is_meant(event: AttemptedEvent, selection: AttemptQuery) -> bool:
    by_event = selection.event is None or event.id == selection.event
    return by_event and (selection.search is None or selection.search in event.id)


def missing_nodes(names: Sequence[str]) -> Shown:
    """The field for nodes of a cluster that did not answer, if there are any."""
    return {"missingNodes": list(names)} if names else {}


def _show(mark: int, attempt: Attempt, events: Sequence[AttemptedEvent]) -> Shown:
    return {
        "mark": str(mark),
        "at": stamp(attempt.at),
        "tookMs": attempt.took / MILLISECOND,
        "topic": attempt.label.topic_name,
        "subscription": attempt.label.subscription,
        "subscriptionId": attempt.label.lane,
        "outcome": attempt.outcome,
        "status": attempt.status,
        "detail": attempt.detail,
        "probe": attempt.probe,
        "late": attempt.late,
        "events": [_show_told(event) for event in events],
        "eventCount": len(attempt.ids),
    }


def _show_told(event: AttemptedEvent) -> Shown:
    disposition = event.disposition
    return {
        "id": event.id,
        "attempt": event.number,
        "then": disposition.kind,
        "dueAt": None if disposition.due_at is None else stamp(disposition.due_at),
        "rule": disposition.rule,
        "reason": disposition.reason,
        "where": disposition.where,
    }


def _show_headers(attempt: Attempt) -> Shown | None:
    text = attempt.header_text()
    return None if text is None else {"request": text.request, "answer": text.answer}


def _show_event(explanation: Explanation, with_payload: bool) -> Shown | None:
    event, place = explanation.event, explanation.place
    if event is None and place is None:
        return None
    payload = {"payload": None if event is None else msgspec.Raw(event.seen.body)} if with_payload else {}
    return payload | {
        "id": explanation.id,
        "type": None if event is None else event.seen.type,
        "subject": None if event is None else event.seen.subject,
        "topic": explanation.topic,
        "publishedAt": None if event is None else stamp(event.published_at),
        "position": None if place is None else place.position,
        "offset": None if place is None else place.offset,
    }


def _show_explained(explained: Explained, id: str, now: int) -> Shown:
    verdict, standing = explained.verdict, explained.standing
    return {
        "subscription": explained.label.subscription,
        "subscriptionId": explained.label.lane,
        "topic": explained.label.topic_name,
        "matched": verdict.matched,
        "decidedBy": {"clause": verdict.clause, "text": verdict.text},
        "attempts": [
            _show(kept.mark, kept.attempt, [event for event in kept.attempt.events() if event.id == id])
            | {"headers": _show_headers(kept.attempt)}
            for kept in explained.kept
        ],
        **_show_standing(standing, now),
    }


def _show_standing(standing: DeliveryState, now: int) -> Shown:
    following, end, expires_at = standing.next, standing.end, standing.expires_at
    return {
        "state": standing.state,
        "stateText": standing.text,
        "next": None
        if following is None
        else {"at": stamp(following.at), "rule": following.rule, "text": following.text},
        "expiresAt": None if expires_at is None else stamp(expires_at),
        "ttlLeftSeconds": None if expires_at is None else max(expires_at - now, 0) / SECOND,
        "attemptsLeft": standing.attempts_left,
        "end": None
        if end is None
        else {"at": None if end.at is None else stamp(end.at), "reason": end.reason, "where": end.where},
    }
