"""The pages on which an event subscription is created and changed, with the settings of Event Grid's own portal.

What a subscription hides, the query of a URL and secret headers, never goes to the browser: where a field is left
empty, the portal asks the server for it and sends it back.
"""

import re
from typing import Any

from nicegui import ui

from recapito.domain import limits
from recapito.domain.events.schema import InputSchema
from recapito.domain.events.schema_table import DELIVERY_SCHEMAS, INPUT_SCHEMAS
from recapito.domain.resources.destination import DestinationKind
from recapito.portal.client import RequestRefused
from recapito.portal.layout import Crumb
from recapito.portal.page import Page
from recapito.portal.pages.topic import LISTS
from recapito.portal.sections.destination import DestinationSection
from recapito.portal.sections.filter import FilterSection
from recapito.portal.sections.header import HeaderSection
from recapito.portal.sections.policy import DeadLetterSection, EndSection, RetrySection
from recapito.portal.urls import Address, read_id, resource_path
from recapito.portal.widgets.form import Form
from recapito.portal.widgets.pieces import attribute, bar, button, link_button, note, panel, text

_NAME = re.compile(r"[A-Za-z0-9-]+")
_WORKING = "Working: a web hook is asked for its consent, which may take half a minute."
_CONSENT = (
    "A web hook must consent before it gets events: it answers a validation event with its code, or OPTIONS with "
    "WebHook-Allowed-Origin. `recapito listen` is an endpoint that does."
)


async def build_new(page: Page) -> None:
    """Create a subscription on the topic that the path names."""
    address = read_id("/" + page.request.path_params["id"])
    if address is None or address.subscription is not None:
        raise RequestRefused(404, "NotFound", "This is not the id of a topic or a domain.", None)
    topic = await page.server.arm("GET", address.topic_id)
    page.layout("Create an event subscription", LISTS[address.kind].path, *_way(address))
    _Editor(page, address, topic, None)


async def build_edit(page: Page, address: Address) -> None:
    """Change a subscription."""
    current = await page.server.arm("GET", address.id)
    topic = await page.server.arm("GET", address.topic_id)
    way = (*_way(address), Crumb(current["name"], resource_path(address.id)))
    page.layout(f"Edit {current['name']}", LISTS[address.kind].path, *way)
    _Editor(page, address, topic, current)


def _way(address: Address) -> tuple[Crumb, Crumb]:
    return LISTS[address.kind], Crumb(address.domain_topic or address.topic, resource_path(address.parent_id))


class _Editor:
    """The whole form; `current` is what is there, None for a new subscription."""

    def __init__(self, page: Page, address: Address, topic: dict[str, Any], current: dict[str, Any] | None) -> None:
        self._page = page
        self._address = address
        self._current = current
        shown = (current or {}).get("properties") or {}
        destination, dead = _destinations(shown)
        self._form = Form()
        self._help = ui.element("div")
        with panel("Basics"), ui.element("div").classes("form"):
            if current is None:
                self._name = self._form.text(
                    "name", "Name", hint="3 to 64 letters, digits and hyphens", check=_check_name
                )
            schemas = _schemas(topic)
            schema = shown.get("eventDeliverySchema", next(iter(schemas)))
            self._schema = self._form.choice("properties.eventDeliverySchema", "Event schema", schemas, schema)
        with panel("Endpoint"):
            self._destination = DestinationSection(self._form, destination, self._switch)
            if page.settings.delivery.handshake == "on":
                text("p", _CONSENT, "muted")
        with panel("Filters"):
            self._filter = FilterSection(self._form, shown.get("filter") or {})
        with panel("Retry policy and dead letters"):
            self._retry = RetrySection(self._form, shown.get("retryPolicy") or {})
            self._dead = DeadLetterSection(self._form, dead)
        with panel("Delivery headers") as self._header_panel:
            mappings = ((destination or {}).get("properties") or {}).get("deliveryAttributeMappings") or []
            self._headers = HeaderSection(self._form, mappings)
        with panel("More"):
            self._end = EndSection(self._form, shown)
        with bar():
            button("Save" if current else "Create", page.doing(self._send), "primary")
            link_button("Cancel", resource_path(address.id))
            self._working = text("span", _WORKING, "muted")
            attribute(self._working, role="status")
            self._working.set_visibility(False)
        self._switch(self._destination.row)

    def _switch(self, kind: DestinationKind) -> None:
        """Show the parts that a kind of endpoint has."""
        self._header_panel.set_visibility(kind.attributes)
        self._retry.switch(kind)

    async def _send(self) -> None:
        self._help.clear()
        if not self._form.is_valid:
            return
        id = self._address.id
        if self._current is None:
            id = f"{self._address.parent_id}/eventSubscriptions/{self._name.value.strip()}"
            if await self._is_taken(id):
                message = "There is a subscription of this name already; choose another, or edit that one."
                self._form.blame(RequestRefused(409, "Conflict", message, "name"))
                return
        self._working.set_visibility(True)
        try:
            await self._page.server.arm("PUT", id, {"properties": await self._read()})
        except RequestRefused as error:
            self._refused(error)
            return
        finally:
            self._working.set_visibility(False)
        ui.navigate.to(resource_path(id))

    async def _read(self) -> dict[str, Any]:
        url, secrets = await self._hidden()
        destination = self._destination.read(url)
        headers = self._headers.read(secrets)
        if headers and self._destination.row.attributes:
            destination["properties"]["deliveryAttributeMappings"] = headers
        dead = self._dead.read()
        shown = (self._current or {}).get("properties") or {}
        wrapped, wrapped_dead = shown.get("deliveryWithResourceIdentity"), shown.get("deadLetterWithResourceIdentity")
        body: dict[str, Any] = {
            "eventDeliverySchema": self._schema.value,
            "filter": self._filter.read(),
            "retryPolicy": self._retry.read(),
            **self._end.read(),
        }
        if wrapped:
            body["deliveryWithResourceIdentity"] = {**wrapped, "destination": destination}
        else:
            body["destination"] = destination
        if dead and wrapped_dead:
            body["deadLetterWithResourceIdentity"] = {**wrapped_dead, "deadLetterDestination": dead}
        elif dead:
            body["deadLetterDestination"] = dead
        return body

    async def _hidden(self) -> tuple[str | None, dict[str, str]]:
        """The stored URL and secrets, which are not shown, if they stay."""
        url, secrets = None, {}
        if self._current is not None and self._destination.keeps_url:
            url = (await self._page.server.arm("POST", f"{self._address.id}/getFullUrl"))["endpointUrl"]
        if self._current is not None and self._headers.needs_hidden:
            found = await self._page.server.arm("POST", f"{self._address.id}/getDeliveryAttributes")
            secrets = {one["name"].lower(): one["properties"].get("value") or "" for one in found["value"]}
        return url, secrets

    async def _is_taken(self, id: str) -> bool:
        try:
            await self._page.server.arm("GET", id)
        except RequestRefused as error:
            if error.status == 404:
                return False
            raise
        return True

    def _refused(self, error: RequestRefused) -> None:
        if "validate the provided endpoint" not in error.message:
            self._form.blame(error)
            return
        short = "The endpoint did not consent; see the advice at the top."
        self._form.blame(
            RequestRefused(error.status, error.code, short, "properties.destination.properties.endpointUrl")
        )
        self._show_help(error.message)

    def _show_help(self, message: str) -> None:
        with self._help, panel("The endpoint did not consent"):
            for part in (
                message.replace(" Sent: ", "\nSent: ")
                .replace(" Came back: ", "\nCame back: ")
                .replace(" What to change: ", "\nWhat to change: ")
                .splitlines()
            ):
                note(part, "bad" if part.startswith("What to change") else "plain")


def _destinations(shown: dict[str, Any]) -> tuple[dict[str, Any] | None, dict[str, Any] | None]:
    """The two destinations, whether they come with an identity or not."""
    wrapped = shown.get("deliveryWithResourceIdentity") or {}
    wrapped_dead = shown.get("deadLetterWithResourceIdentity") or {}
    return (
        shown.get("destination") or wrapped.get("destination"),
        shown.get("deadLetterDestination") or wrapped_dead.get("deadLetterDestination"),
    )


def _schemas(topic: dict[str, Any]) -> dict[str, str]:
    schema = InputSchema(topic["properties"].get("inputSchema", InputSchema.EVENT_GRID))
    return {one.value: DELIVERY_SCHEMAS[one].title for one in INPUT_SCHEMAS[schema].conversions}


def _check_name(given: str) -> str | None:
    least, most = limits.SUBSCRIPTION_NAME_CHARS
    if not least <= len(given) <= most or not _NAME.fullmatch(given):
        return f"A name has {least} to {most} letters, digits and hyphens."
    return None
