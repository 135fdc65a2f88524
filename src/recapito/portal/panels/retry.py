"""The panel with a subscription's retry timetable, for an endpoint that always answers the same."""

from typing import Any

from nicegui import ui

from recapito.domain.instant import SECOND
from recapito.domain.resources.destination import kind_named
from recapito.portal import format
from recapito.portal.api_types import ShownAttempt
from recapito.portal.page import Page
from recapito.portal.panels.retry_chart import answer_of, draw, sentence, timetable_of
from recapito.portal.widgets.pieces import panel, text


def retry_panel(page: Page, topic: dict[str, Any], shown: dict[str, Any], last_failure: ShownAttempt | None) -> None:
    """The chart, one sentence, and the list of all attempts. It opens with the answer of the last failure."""
    properties = shown["properties"]
    policy = properties["retryPolicy"]
    wrapped = properties.get("deliveryWithResourceIdentity") or {}
    destination = properties.get("destination") or wrapped.get("destination") or {}
    kind = kind_named(destination.get("endpointType", ""))
    is_webhook = destination.get("endpointType") == "WebHook"
    dead_letters = bool(properties.get("deadLetterDestination") or properties.get("deadLetterWithResourceIdentity"))
    of_topic = (topic.get("tags") or {}).get("recapito-profile") or page.settings.delivery.profile
    profile = (kind and kind.profile) or of_topic
    with panel("Retry timetable", "retry"):
        text(
            "p",
            f"For an endpoint that keeps failing, by profile {profile}, without random delays and probation.",
            "muted",
        )
        given, options = answer_of(last_failure)
        answer = ui.select(options, label="The endpoint answers", value=given).props("outlined dense")
        summary = text("p", "")
        picture = ui.element("div")
        with ui.element("details"):
            text("summary", "Every attempt")
            listed = text("p", "", "mono")

        def show() -> None:
            attempts, minutes = policy["maxDeliveryAttempts"], policy["eventTimeToLiveInMinutes"]
            times = timetable_of(profile, is_webhook, attempts, minutes, str(answer.value), dead_letters)
            summary.text = sentence(times, dead_letters)
            draw(picture, times)
            steps = (f"{n}: {format.duration(at / SECOND)}" for n, at in enumerate(times.attempts, 1))
            listed.text = " · ".join(steps)

        answer.on_value_change(show)
        show()
