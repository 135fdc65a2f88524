"""The form that sends a test event, in the schema that its topic takes."""

import json
import uuid
from datetime import UTC, datetime
from typing import Any

from nicegui import ui

from recapito.domain.events.schema import EventParts, InputSchema
from recapito.domain.events.schema_table import INPUT_SCHEMAS, InputSchemaRow
from recapito.portal.client import RequestRefused
from recapito.portal.page import Page
from recapito.portal.urls import explain_path
from recapito.portal.widgets.form import Form, check_required
from recapito.portal.widgets.pieces import bar, button, link, panel, press, text

_SOURCE = "/recapito/portal"


def sample_event(page: Page, topic: dict[str, Any], domain_topic: str | None) -> None:
    """The panel with the form."""
    schema = INPUT_SCHEMAS[InputSchema(topic["properties"]["inputSchema"])]
    in_domain = topic["type"].lower().endswith("/domains")
    with panel("Send a test event"):
        form = Form()
        with ui.element("div").classes("form"):
            fields: dict[str, Any] = {}
            if schema.compose is not None:
                fields["type"] = form.text("eventType", "Event type", "Recapito.Test", check=check_required)
                fields["subject"] = form.text("subject", "Subject", "test", check=check_required)
                fields["id"] = form.text("id", "Id", "", hint="Empty: a new id is generated.")
            if in_domain:
                fields["topic"] = form.text("topic", "Domain topic", domain_topic or "", check=check_required)
            label = "The whole event, as JSON" if schema.compose is None else "Data, as JSON"
            fields["data"] = form.text("data", label, '{"hello": "world"}', lines=True, check=_check_json)
            fields["data"].classes("wide")
        with bar():
            send = button("Send", kind="primary")
            result = ui.element("span")

        async def publish() -> None:
            if not form.is_valid:
                return
            given = {name: (field.value or "").strip() for name, field in fields.items()}
            id = given.get("id") or str(uuid.uuid4())
            content_type, body = _request(schema, id, given)
            try:
                await page.server.publish(topic, body, f"{content_type}; charset=utf-8")
            except RequestRefused as error:
                form.blame(error)
                return
            result.clear()
            with result:
                text("span", "Published. ")
                if schema.compose is not None:
                    link("Explain this event", explain_path(id, topic["name"]))

        press(send, page.doing(publish))


def _request(schema: InputSchemaRow, id: str, given: dict[str, str]) -> tuple[str, bytes]:
    """The content type and the body of a publish request."""
    data = json.loads(given["data"])
    if schema.compose is None:
        return schema.array_type, json.dumps(data if isinstance(data, list) else [data]).encode()
    now = datetime.now(UTC).isoformat()
    event = schema.compose(
        EventParts(id, given["type"], given["subject"], now, data, _SOURCE, "1.0", given.get("topic"))
    )
    return schema.request(json.dumps(event).encode())


def _check_json(given: str) -> str | None:
    try:
        json.loads(given)
    except ValueError as error:
        return f"This is not JSON: {error}."
    return None
