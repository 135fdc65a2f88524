"""The pages on which a topic is created and changed."""

import re
from typing import Any
from urllib.parse import quote

from nicegui import ui

from recapito.domain import limits
from recapito.domain.events.schema import InputSchema
from recapito.domain.events.schema_table import INPUT_SCHEMAS
from recapito.domain.profiles import profile
from recapito.portal.client import PROVIDER, RequestRefused
from recapito.portal.layout import Crumb
from recapito.portal.page import Page
from recapito.portal.urls import Address, resource_path
from recapito.portal.widgets.form import Form, check_required
from recapito.portal.widgets.pieces import bar, button, link_button, panel, text

PROFILE_TAG = "recapito-profile"
_SCHEMAS = {schema.value: row.title for schema, row in INPUT_SCHEMAS.items()}
_TOPICS = Crumb("Topics", "/topics")
_NAME = re.compile(r"[A-Za-z0-9-]+")


async def build_new(page: Page) -> None:
    """Create a topic."""
    subscriptions = await page.server.azure_subscriptions()
    page.layout("Create a topic", "/topics", _TOPICS)
    with panel():
        form = Form()
        with ui.element("div").classes("form"):
            name = form.text("name", "Name", hint="3 to 50 letters, digits and hyphens", check=check_topic_name)
            schema = form.choice("properties.inputSchema", "Input schema", _SCHEMAS, InputSchema.EVENT_GRID.value)
            azure = form.text("subscriptionId", "Azure subscription", subscriptions[0], check=_check_part)
            group = form.text("resourceGroupName", "Resource group", "local", check=_check_part)
            chosen, tags = _behaviour(page, form, {})

        async def create() -> None:
            if not form.is_valid:
                return
            given = f"/subscriptions/{azure.value.strip()}/resourceGroups/{group.value.strip()}"
            id = f"{given}{PROVIDER}/topics/{name.value.strip()}"
            if await _exists(page, id):
                refused = RequestRefused(409, "Conflict", "A topic with this name exists; choose another name.", "name")
                form.blame(refused)
                return
            body = {"properties": {"inputSchema": schema.value}, "tags": _tags(tags, chosen)}
            await _send(page, form, "PUT", id, body)

        with bar("end"):
            button("Create", page.doing(create), "primary")
            link_button("Cancel", "/topics")


async def build_edit(page: Page, address: Address) -> None:
    """Change a topic: its tags and its profile."""
    topic = await page.server.arm("GET", address.topic_id)
    page.layout(f"Edit {topic['name']}", "/topics", _TOPICS, Crumb(topic["name"], resource_path(topic["id"])))
    with panel():
        form = Form()
        text("p", "A topic's name and input schema stay as they are.", "muted")
        with ui.element("div").classes("form"):
            chosen, tags = _behaviour(page, form, topic.get("tags") or {})

        async def change() -> None:
            if form.is_valid:
                await _send(page, form, "PATCH", topic["id"], {"tags": _tags(tags, chosen)})

        with bar("end"):
            button("Save", page.doing(change), "primary")
            link_button("Cancel", resource_path(topic["id"]))


def _behaviour(page: Page, form: Form, tags: dict[str, str]) -> tuple[ui.select, Any]:
    default = page.settings.delivery.profile
    profiles = {"": f"Default of the server ({default})"} | {
        name: f"{name}: {profile.load(name).title}" for name in profile.known()
    }
    current = tags.get(PROFILE_TAG, "")
    chosen = form.choice(f"tags.{PROFILE_TAG}", "Profile", profiles, current if current in profiles else "")
    lines = "\n".join(f"{name}={value}" for name, value in tags.items() if name != PROFILE_TAG)
    return chosen, form.text(
        "tags", "Tags", lines, lines=True, hint="One name=value on each line", check=_check_tags
    ).classes("wide")


async def _exists(page: Page, id: str) -> bool:
    try:
        await page.server.arm("GET", id)
    except RequestRefused as error:
        if error.status == 404:
            return False
        raise
    return True


async def _send(page: Page, form: Form, method: str, id: str, body: dict[str, Any]) -> None:
    try:
        topic = await page.server.arm(method, id, body)
    except RequestRefused as error:
        form.blame(error)
        return
    ui.navigate.to(resource_path(topic["id"]))


def _tags(field: Any, chosen: ui.select) -> dict[str, str]:
    lines = [line.partition("=") for line in (field.value or "").splitlines() if line.strip()]
    tags = {name.strip(): value.strip() for name, _, value in lines}
    return tags | ({PROFILE_TAG: chosen.value} if chosen.value else {})


def check_topic_name(given: str) -> str | None:
    """The fault of a topic's name, or None."""
    least, most = limits.TOPIC_NAME_CHARS
    if not least <= len(given) <= most or not _NAME.fullmatch(given):
        return f"A name has {least} to {most} letters, digits and hyphens."
    return None


def _check_part(given: str) -> str | None:
    if not given:
        return check_required(given)
    return None if quote(given, safe="()") == given else "This text cannot be part of a resource id."


def _check_tags(given: str) -> str | None:
    lines = [line for line in given.splitlines() if line.strip()]
    if any("=" not in line for line in lines):
        return "Each line must be name=value."
    return None if len(lines) < limits.TAGS else f"There may be {limits.TAGS} tags at most, the profile's included."
