"""The form section of a destination: the kind of endpoint, its fields, and batching."""

import re
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

from nicegui import ui
from nicegui.element import Element

from recapito.domain import limits
from recapito.domain.resources.destination import DESTINATION_KINDS, DestinationKind
from recapito.domain.resources.resource_id import parse_resource_id
from recapito.errors import CallerError
from recapito.portal.widgets.form import Form
from recapito.portal.widgets.pieces import text

AT = "properties.destination"
_KINDS = {kind.endpoint_type: kind for kind in DESTINATION_KINDS.values()}
_TITLES = {endpoint_type: kind.title for endpoint_type, kind in _KINDS.items()}
_QUEUE = re.compile(r"[a-z0-9](?:[a-z0-9]|-(?!-)){1,61}[a-z0-9]")
UNCHANGED = "Empty: the URL stays as it is. Its query is never shown."


class DestinationSection:
    """The fields of a destination. `current` is the stored one, as the API shows it.

    `on_switch` is called with the kind that a person has chosen.
    """

    def __init__(
        self, form: Form, current: dict[str, Any] | None, on_switch: Callable[[DestinationKind], None]
    ) -> None:
        self._on_switch = on_switch
        self._current = current or {}
        properties = self._current.get("properties") or {}
        kind = self._current.get("endpointType", "WebHook")
        with ui.element("div").classes("form"):
            self._kind = form.choice(f"{AT}.endpointType", "Endpoint type", _TITLES, kind, on_change=self._chosen)
            self._url = form.text(
                f"{AT}.properties.endpointUrl",
                "Endpoint URL",
                hint=f"{properties['endpointBaseUrl']}. {UNCHANGED}" if properties.get("endpointBaseUrl") else "",
                check=self._check_url,
            )
            self._id = form.text(
                f"{AT}.properties.resourceId", "Resource id", properties.get("resourceId", ""), check=self._check_id
            )
            self._queue = form.text(
                f"{AT}.properties.queueName", "Queue name", properties.get("queueName", ""), check=_check_queue
            )
            self._queue_ttl = form.number(
                f"{AT}.properties.queueMessageTimeToLiveInSeconds",
                "Messages live for (seconds)",
                limits.QUEUE_MESSAGE_TTL_S,
                properties.get("queueMessageTimeToLiveInSeconds", limits.QUEUE_MESSAGE_TTL_S_DEFAULT),
            )
        with ui.element("div") as self._batching:
            text("h3", "Batching")
            with ui.element("div").classes("form"):
                self._events = form.number(
                    f"{AT}.properties.maxEventsPerBatch",
                    "Max events per batch",
                    limits.BATCH_EVENTS,
                    properties.get("maxEventsPerBatch", limits.BATCH_EVENTS_DEFAULT),
                )
                self._kilobytes = form.number(
                    f"{AT}.properties.preferredBatchSizeInKilobytes",
                    "Preferred batch size in kilobytes",
                    limits.BATCH_KILOBYTES,
                    properties.get("preferredBatchSizeInKilobytes", limits.BATCH_KILOBYTES_DEFAULT),
                )
        with ui.element("div") as self._directory:
            text("h3", "Microsoft Entra")
            with ui.element("div").classes("form"):
                self._tenant = form.text(
                    f"{AT}.properties.azureActiveDirectoryTenantId",
                    "Tenant",
                    properties.get("azureActiveDirectoryTenantId") or "",
                    hint="With an application, deliveries carry a bearer token.",
                )
                self._application = form.text(
                    f"{AT}.properties.azureActiveDirectoryApplicationIdOrUri",
                    "Application id or URI",
                    properties.get("azureActiveDirectoryApplicationIdOrUri") or "",
                )
        self._switch()

    @property
    def row(self) -> DestinationKind:
        """The row of the kind that is chosen."""
        return _KINDS[self.kind]

    @property
    def kind(self) -> str:
        """The kind of endpoint that is chosen."""
        return str(self._kind.value)

    @property
    def keeps_url(self) -> bool:
        """True if the stored URL, which is not shown, stays."""
        return self.kind == "WebHook" and not (self._url.value or "").strip()

    def read(self, hidden_url: str | None) -> dict[str, Any]:
        """The destination as the API takes it, without its headers."""
        properties: dict[str, Any] = {}
        if self.kind == "WebHook":
            properties["endpointUrl"] = (self._url.value or "").strip() or hidden_url
            if (self._tenant.value or "").strip() or (self._application.value or "").strip():
                properties["azureActiveDirectoryTenantId"] = (self._tenant.value or "").strip()
                properties["azureActiveDirectoryApplicationIdOrUri"] = (self._application.value or "").strip()
            known = (self._current.get("properties") or {}).get("minimumTlsVersionAllowed")
            if known:
                properties["minimumTlsVersionAllowed"] = known
        else:
            properties["resourceId"] = (self._id.value or "").strip()
        if self.kind == "StorageQueue":
            properties["queueName"] = (self._queue.value or "").strip()
            properties["queueMessageTimeToLiveInSeconds"] = int(self._queue_ttl.value)
        if self.row.batches:
            properties["maxEventsPerBatch"] = int(self._events.value)
            properties["preferredBatchSizeInKilobytes"] = int(self._kilobytes.value)
        return {"endpointType": self.kind, "properties": properties}

    def _chosen(self) -> None:
        self._switch()
        self._on_switch(self.row)

    def _switch(self) -> None:
        shown: dict[Element, bool] = {
            self._url: self.kind == "WebHook",
            self._directory: self.kind == "WebHook",
            self._id: self.kind != "WebHook",
            self._queue: self.kind == "StorageQueue",
            self._queue_ttl: self.kind == "StorageQueue",
            self._batching: self.row.batches,
        }
        for element, visible in shown.items():
            element.set_visibility(visible)

    def _check_url(self, given: str) -> str | None:
        was_webhook = self._current.get("endpointType") == "WebHook"
        if not given:
            return None if was_webhook else "Enter a URL, such as https://example.com/events"
        try:
            parts = urlsplit(given)
            good = parts.scheme in ("http", "https") and bool(parts.hostname)
        except ValueError:
            good = False
        return None if good and len(given) <= limits.URL_CHARS else "This must be an http or https URL with a host."

    def _check_id(self, given: str) -> str | None:
        try:
            found = parse_resource_id(given)
        except CallerError as error:
            return error.message
        return None if found.kind in self.row.resources else f"This must be the resource id of {self.row.noun}."


def _check_queue(given: str) -> str | None:
    least, most = limits.QUEUE_NAME_CHARS
    return (
        None
        if _QUEUE.fullmatch(given)
        else f"A queue's name has {least} to {most} lower-case letters, digits, hyphens."
    )
