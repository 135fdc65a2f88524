"""The explanation of an event by subscription, published or not."""

import json
from functools import partial

from nicegui import ui

from recapito.portal import format
from recapito.portal.api_types import ShownExplanation
from recapito.portal.client import RequestRefused
from recapito.portal.layout import Crumb
from recapito.portal.page import Page
from recapito.portal.panels.explanation import ExplanationPanel
from recapito.portal.urls import explain_path
from recapito.portal.widgets.form import Form, check_required
from recapito.portal.widgets.pieces import bar, button, panel, press, text

_EVENT = {
    "id": "1",
    "subject": "test",
    "eventType": "Recapito.Test",
    "eventTime": "2026-01-01T00:00:00Z",
    "data": {"hello": "world"},
    "dataVersion": "1.0",
}
_POLL_S = 3.0


async def build(page: Page) -> None:
    """Build the page: of the event that the query names, or only the forms."""
    event, topic = page.request.query_params.get("event", ""), page.request.query_params.get("topic", "")
    title = f"Event {format.short_id(event)}" if event else "Explain an event"
    page.layout(title, "/deliveries", Crumb("Deliveries", "/deliveries"))
    if event:
        fates = _published(page, event, topic or None)
        await fates.refresh()
        page.poll(fates.refresh, _POLL_S)
    else:
        _search(topic)
    _dry_run(page, topic)


def _published(page: Page, event: str, topic: str | None) -> ExplanationPanel:
    """The panel of a published event. Its payload, which may be large, is loaded once."""
    loaded = {"payload": False}

    async def ask() -> ShownExplanation:
        found = await page.server.explain(event, topic, payload=not loaded["payload"])
        loaded["payload"] = True
        return found

    async def resend(subscription: int, topic: str) -> None:
        await page.server.resend(event, topic, subscription)

    return ExplanationPanel(page, ask, resend)


def _search(topic: str) -> None:
    with panel("Explain a published event"):
        form = Form()
        with ui.element("div").classes("form"):
            id = form.text("event", "Event id", check=check_required)
            name = form.text("topic", "Topic", topic, hint="Empty: any topic.")

        def go() -> None:
            if form.is_valid:
                ui.navigate.to(explain_path(id.value.strip(), (name.value or "").strip() or None))

        with bar("end"):
            button("Explain", go, "primary")
        id.on("keydown.enter", go)


def _dry_run(page: Page, topic: str) -> None:
    with panel("Try an event without publishing it"):
        text("p", "Nothing is published; the event is only matched against every filter of the topic.", "muted")
        form = Form()
        with ui.element("div").classes("form"):
            name = form.text("topic", "Topic", topic, check=check_required).classes("wide")
            sample = json.dumps(_EVENT, indent=2)
            event = form.text("event", "Event, as JSON", sample, lines=True, check=_check_object).classes("wide")
        with bar("end"):
            pressed = button("Try it", kind="primary")
        place = ui.element("div")

        async def ask() -> None:
            if not form.is_valid:
                return
            tried = partial(page.server.dry_run, (name.value or "").strip(), json.loads(event.value or ""))
            place.clear()
            with place:
                fates = ExplanationPanel(page, tried)
            try:
                await fates.refresh()
            except RequestRefused as error:
                place.clear()
                form.blame(error)

        press(pressed, page.doing(ask))


def _check_object(given: str) -> str | None:
    try:
        return None if isinstance(json.loads(given), dict) else "This must be one JSON object."
    except ValueError as error:
        return f"This is not JSON: {error}."
