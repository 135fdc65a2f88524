"""The form that sends a test event, in the schema that its topic takes."""

import json
import uuid
from datetime import UTC, datetime
from typing import Any

from nicegui import ui

from recapito.domain.events.schema import InputSchema
from recapito.portal.client import Refused
from recapito.portal.page import Page
from recapito.portal.urls import explain_path
from recapito.portal.widgets.form import Form, check_required
from recapito.portal.widgets.pieces import bar, button, link, panel, press, text

_CLOUD_EVENT = "application/cloudevents+json; charset=utf-8"
_JSON = "application/json; charset=utf-8"


def sample_event(page: Page, topic: dict[str, Any], domain_topic: str | None) -> None:
    """The panel with the form."""
    schema = InputSchema(topic["properties"]["inputSchema"])
    in_domain = topic["type"].lower().endswith("/domains")
    with panel("Send a test event"):
        form = Form()
        with ui.element("div").classes("form"):
            fields: dict[str, Any] = {}
            if schema is not InputSchema.CUSTOM:
                fields["type"] = form.text("eventType", "Event type", "Recapito.Test", check=check_required)
                fields["subject"] = form.text("subject", "Subject", "test", check=check_required)
                fields["id"] = form.text("id", "Id", "", hint="Empty: a new id is generated.")
            if in_domain:
                fields["topic"] = form.text("topic", "Domain topic", domain_topic or "", check=check_required)
            label = "The whole event, as JSON" if schema is InputSchema.CUSTOM else "Data, as JSON"
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
            body = _event(schema, id, given, topic["id"] if in_domain else None)
            try:
                content_type = _CLOUD_EVENT if schema is InputSchema.CLOUD_EVENT else _JSON
                await page.server.publish(topic, body, content_type)
            except Refused as error:
                form.blame(error)
                return
            result.clear()
            with result:
                text("span", "Published. ")
                if schema is not InputSchema.CUSTOM:
                    link("Explain this event", explain_path(id, topic["name"]))

        press(send, page.doing(publish))


def _event(schema: InputSchema, id: str, given: dict[str, str], domain_id: str | None) -> bytes:
    data = json.loads(given["data"])
    now = datetime.now(UTC).isoformat()
    if schema is InputSchema.CUSTOM:
        return json.dumps([data] if not isinstance(data, list) else data).encode()
    if schema is InputSchema.CLOUD_EVENT:
        source = given.get("topic") or "/recapito/portal"
        event = {"specversion": "1.0", "id": id, "source": source, "type": given["type"], "subject": given["subject"]}
        return json.dumps({**event, "time": now, "data": data}).encode()
    event = {"id": id, "subject": given["subject"], "eventType": given["type"], "eventTime": now, "dataVersion": "1.0"}
    if domain_id is not None:
        event["topic"] = given["topic"]
    return json.dumps([{**event, "data": data}]).encode()


def _check_json(given: str) -> str | None:
    try:
        json.loads(given)
    except ValueError as error:
        return f"This is not JSON: {error}."
    return None
