"""The form sections of the retry policy, of dead letters, and of the expiry and labels."""

import re
from datetime import datetime
from typing import Any

from nicegui import ui

from recapito.domain import limits
from recapito.domain.profiles.profile import load
from recapito.domain.resources.destination import DestinationKind
from recapito.portal.widgets.form import Form
from recapito.portal.widgets.pieces import text

DEAD = "properties.deadLetterDestination"
_PLACES = {"": "None", "Directory": "A directory of the server", "StorageBlob": "A blob container"}
_CONTAINER = re.compile(r"[a-z0-9](?:[a-z0-9]|-(?!-)){1,61}[a-z0-9]")
DROPPED = (
    "Without a dead-letter destination, events that are never retried or that expire are dropped: they are counted, "
    "and cannot be restored."
)
UNLIMITED = (
    f"For this endpoint {limits.ATTEMPTS_DEFAULT} attempts and {limits.TTL_MINUTES_DEFAULT} minutes are no limits: "
    "its events are kept until they arrive."
)


class RetrySection:
    """The retry policy."""

    def __init__(self, form: Form, current: dict[str, Any]) -> None:
        with ui.element("div").classes("form"):
            self._attempts = form.number(
                "properties.retryPolicy.maxDeliveryAttempts",
                "Max delivery attempts",
                limits.ATTEMPTS,
                current.get("maxDeliveryAttempts", limits.ATTEMPTS_DEFAULT),
            )
            self._minutes = form.number(
                "properties.retryPolicy.eventTimeToLiveInMinutes",
                "Event time to live (minutes)",
                limits.TTL_MINUTES,
                current.get("eventTimeToLiveInMinutes", limits.TTL_MINUTES_DEFAULT),
            )
        self._unlimited = text("p", UNLIMITED, "note plain")

    def switch(self, kind: DestinationKind) -> None:
        """Show the meaning of the policy at a kind of endpoint."""
        self._unlimited.set_visibility(kind.profile is not None and load(kind.profile).keeps)

    def read(self) -> dict[str, Any]:
        """The policy as the API takes it."""
        return {
            "maxDeliveryAttempts": int(self._attempts.value),
            "eventTimeToLiveInMinutes": int(self._minutes.value),
        }


class DeadLetterSection:
    """Where dead letters go."""

    def __init__(self, form: Form, current: dict[str, Any] | None) -> None:
        properties = (current or {}).get("properties") or {}
        kind = (current or {}).get("endpointType", "")
        with ui.element("div").classes("form"):
            self._kind = form.choice(
                f"{DEAD}.endpointType", "Dead-letter destination", _PLACES, kind, on_change=self._switch
            )
            self._name = form.text(
                f"{DEAD}.properties.name", "Directory", properties.get("name", ""), check=_check_name
            )
            self._account = form.text(
                f"{DEAD}.properties.resourceId", "Storage account (resource id)", properties.get("resourceId", "")
            )
            self._container = form.text(
                f"{DEAD}.properties.blobContainerName",
                "Container",
                properties.get("blobContainerName", ""),
                check=_check_name,
            )
        self._warning = text("p", DROPPED, "note wait")
        self._switch()

    def read(self) -> dict[str, Any] | None:
        """The destination as the API takes it; None is none."""
        match self._kind.value:
            case "Directory":
                return {"endpointType": "Directory", "properties": {"name": (self._name.value or "").strip()}}
            case "StorageBlob":
                properties = {
                    "resourceId": (self._account.value or "").strip(),
                    "blobContainerName": (self._container.value or "").strip(),
                }
                return {"endpointType": "StorageBlob", "properties": properties}
        return None

    def _switch(self) -> None:
        self._name.set_visibility(self._kind.value == "Directory")
        self._account.set_visibility(self._kind.value == "StorageBlob")
        self._container.set_visibility(self._kind.value == "StorageBlob")
        self._warning.set_visibility(not self._kind.value)


class EndSection:
    """When the subscription ends, and its labels."""

    def __init__(self, form: Form, current: dict[str, Any]) -> None:
        with ui.element("div").classes("form"):
            self._expiry = form.text(
                "properties.expirationTimeUtc",
                "Expires at (UTC)",
                (current.get("expirationTimeUtc") or "")[:19],
                hint="Such as 2030-01-31T12:00. Empty: never.",
                check=_check_instant,
            )
            self._labels = form.text(
                "properties.labels", "Labels", ", ".join(current.get("labels") or []), hint="Separated by commas"
            )

    def read(self) -> dict[str, Any]:
        """Both as the API takes them."""
        labels = [label.strip() for label in (self._labels.value or "").split(",") if label.strip()]
        return {"expirationTimeUtc": (self._expiry.value or "").strip() or None, "labels": labels or None}


def _check_name(given: str) -> str | None:
    least, most = limits.CONTAINER_NAME_CHARS
    if _CONTAINER.fullmatch(given):
        return None
    return f"{least} to {most} lower-case letters, digits and single hyphens, with none at either end."


def _check_instant(given: str) -> str | None:
    if not given:
        return None
    try:
        datetime.fromisoformat(given)
    except ValueError:
        return "Enter a date and time, such as 2030-01-31T12:00."
    return None
