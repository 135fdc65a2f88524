"""Dead-letter destinations on the wire: a blob container of a storage account, or a directory of ours (spec §1.8)."""

import re

from recapito.api.wire.decode import Body, Shown, Typed, check_choice, check_length, convert, invalid
from recapito.domain import limits
from recapito.domain.resources.subscription import DeadLetterBlobs, DeadLetterDestination, DeadLetterDirectory

_TYPES = ("StorageBlob", "Directory")
_CONTAINER = re.compile(r"[a-z0-9](?:[a-z0-9]|-(?!-)){1,61}[a-z0-9]")
_DIRECTORY = re.compile(r"[a-z0-9](?:[a-z0-9-]{1,61}[a-z0-9])")
_ACCOUNT = re.compile(
    r"/subscriptions/[A-Za-z0-9._()-]{1,90}/resourceGroups/[A-Za-z0-9._()-]{1,90}"
    r"/providers/Microsoft\.Storage/storageAccounts/[a-z0-9]{3,24}",
    re.IGNORECASE,
)


class _Directory(Body):
    name: str


class _Blobs(Body):
    resource_id: str | None = None
    blob_container_name: str | None = None


def read_dead_letter(sent: Typed, within: str) -> DeadLetterDestination:
    """The dead-letter destination, or an error that names the field; `within` is its path in the request."""
    kind = check_choice(sent.endpoint_type, _TYPES, f"{within}.endpointType")
    within = f"{within}.properties"
    if kind == "Directory":
        name = convert(sent.properties, _Directory, within).name
        if not _DIRECTORY.fullmatch(name):
            raise _no_name(f"{within}.name")
        return DeadLetterDirectory(name)
    blobs = convert(sent.properties, _Blobs, within)
    account, container = blobs.resource_id or "", blobs.blob_container_name or ""
    check_length(account, limits.RESOURCE_ID_CHARS, f"{within}.resourceId", 1)
    if not _ACCOUNT.fullmatch(account):
        target = f"{within}.resourceId"
        raise invalid(f"'{target}' must be the resource id of a storage account.", target)
    if not _CONTAINER.fullmatch(container):
        raise _no_name(f"{within}.blobContainerName")
    return DeadLetterBlobs(account, container)


def _no_name(target: str) -> Exception:
    least, most = limits.CONTAINER_NAME_CHARS
    return invalid(
        f"'{target}' must be {least} to {most} lower-case letters, digits and single hyphens, with none at either end.",
        target,
    )


def show_dead_letter(destination: DeadLetterDestination | None) -> Shown | None:
    match destination:
        case None:
            return None
        case DeadLetterDirectory(name):
            return {"endpointType": "Directory", "properties": {"name": name}}
        case DeadLetterBlobs(account, container):
            return {
                "endpointType": "StorageBlob",
                "properties": {"resourceId": account, "blobContainerName": container},
            }
