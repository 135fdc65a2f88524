"""A storage queue as a destination on the wire (spec §6): its account's id, its name, and how long messages last."""

import re

from recapito.api.wire.decode import Body, Shown, Typed, convert, invalid, read_resource_id
from recapito.domain import limits
from recapito.domain.resources.resource_id import STORAGE_ACCOUNT
from recapito.domain.resources.subscription import StorageQueue

_ATTRIBUTES = "deliveryAttributeMappings"
_QUEUE = re.compile(r"[a-z0-9](?:[a-z0-9]|-(?!-)){1,61}[a-z0-9]")


class _StorageQueue(Body):
    resource_id: str | None = None
    queue_name: str | None = None
    queue_message_time_to_live_in_seconds: int | None = None


def read_storage_queue(sent: Typed, within: str) -> StorageQueue:
    """The destination, or an error that names the field; `within` is where in the request its properties lie."""
    _refuse_attributes(sent.properties, within)
    queue = convert(sent.properties, _StorageQueue, within)
    return StorageQueue(
        account=read_resource_id(queue.resource_id, STORAGE_ACCOUNT, "a storage account", f"{within}.resourceId"),
        queue=_read_name(queue.queue_name or "", f"{within}.queueName"),
        ttl_s=_read_ttl(queue.queue_message_time_to_live_in_seconds, f"{within}.queueMessageTimeToLiveInSeconds"),
    )


def _read_name(name: str, target: str) -> str:
    if not _QUEUE.fullmatch(name):
        least, most = limits.QUEUE_NAME_CHARS
        raise invalid(
            f"'{target}' must be {least} to {most} lower-case letters, digits and single hyphens, with none at either"
            " end.",
            target,
        )
    return name


def _read_ttl(ttl_s: int | None, target: str) -> int:
    if ttl_s is None:
        return limits.QUEUE_MESSAGE_TTL_S_DEFAULT
    if ttl_s == limits.QUEUE_MESSAGE_FOREVER:
        return ttl_s
    least, most = limits.QUEUE_MESSAGE_TTL_S
    if not least <= ttl_s <= most:
        raise invalid(f"'{target}' must be between {least} and {most}, or -1: for ever.", target)
    return ttl_s


def _refuse_attributes(properties: object, within: str) -> None:
    """Other destinations have them, so it is said why this one has not (spec §1.9)."""
    for name in properties if isinstance(properties, dict) else ():
        if str(name).lower() == _ATTRIBUTES.lower():
            why = "a message of a storage queue has no headers or properties"
            raise invalid(f"'{within}.{_ATTRIBUTES}' can not be set: {why}.", f"{within}.{_ATTRIBUTES}")


def show_storage_queue(queue: StorageQueue) -> Shown:
    """The destination as ARM shows it."""
    return {
        "endpointType": "StorageQueue",
        "properties": {
            "resourceId": queue.account,
            "queueName": queue.queue,
            "queueMessageTimeToLiveInSeconds": queue.ttl_s,
        },
    }
