"""The change that a request to the blob service would make, read from its head alone."""

import re
from collections.abc import Mapping
from urllib.parse import parse_qsl, unquote, urlsplit

import msgspec

from recapito.domain.storage.event_names import BLOB_CREATED, BLOB_DELETED, BLOB_RENAMED

_HOST_STYLE = re.compile(r"([a-z0-9]{3,24})\.(blob|dfs)\.")
_DATA_LAKE = frozenset({"CreateFile", "FlushWithClose", "RenameFile", "DeleteFile"})
_SUCCESS = {BLOB_CREATED: (200, 201, 202), BLOB_DELETED: (200, 202), BLOB_RENAMED: (201,)}


class BlobChange(msgspec.Struct, frozen=True):
    """A blob that a request commits, deletes or renames.

    api: the name that Azure's events give to the operation.
    path: the path of the blob in its URL, as it was sent, with the account where the URL has it.
    content_type, length: as far as the request states them; None for a length that only the service knows.
    blob_type: BlockBlob, AppendBlob or PageBlob; empty if the request does not state it.
    source: the former path of a renamed blob, from its container on.
    tier: the access tier that the request sets; empty if it sets none.
    offset: where a Data Lake client ended its writes.
    """

    event_type: str
    api: str
    account: str
    container: str
    blob: str
    path: str
    host: str
    client_request_id: str = ""
    content_type: str = ""
    length: int | None = None
    blob_type: str = ""
    source: str = ""
    tier: str = ""
    offset: int = 0

    @property
    def data_lake(self) -> bool:
        """Whether a client of Data Lake Storage asked, by its own operations."""
        return self.api in _DATA_LAKE

    def same_blob(self, other: "BlobChange") -> bool:
        """Whether both change one blob."""
        return (self.blob, self.container, self.account) == (other.blob, other.container, other.account)

    @property
    def subject(self) -> str:
        return f"/blobServices/default/containers/{self.container}/blobs/{self.blob}"

    @property
    def complete(self) -> bool:
        """Whether the request states everything that its event contains; otherwise the blob must be asked."""
        return self.event_type == BLOB_RENAMED or (self.length is not None and self.blob_type != "")

    def succeeded(self, status: int, headers: Mapping[str, str]) -> bool:
        """Whether an answer says that the change is made; a copy that is still pending is not."""
        return status in _SUCCESS[self.event_type] and headers.get("x-ms-copy-status", "success") == "success"


def read_change(method: str, target: str, headers: Mapping[str, str]) -> BlobChange | None:
    """The change that a request would make; None if it changes no blob. Names of headers are in lower case."""
    parts = urlsplit(target)
    query = {name.lower(): value for name, value in parse_qsl(parts.query, keep_blank_values=True)}
    by_host = _HOST_STYLE.match(headers.get("host", "").lower())
    found = _operation(method, query, headers, by_host is not None and by_host[2] == "dfs")
    place = _place(by_host and by_host[1], parts.path)
    if found is None or place is None:
        return None
    event_type, api = found
    account, container, blob = place
    return BlobChange(
        event_type,
        api,
        account,
        container,
        blob,
        parts.path,
        headers.get("host", ""),
        headers.get("x-ms-client-request-id", ""),
        headers.get("x-ms-blob-content-type") or headers.get("content-type") or "application/octet-stream",
        _length(api, headers),
        headers.get("x-ms-blob-type", ""),
        headers.get("x-ms-rename-source", "").partition("?")[0],
        headers.get("x-ms-access-tier", ""),
        _number(query.get("position", "")) or 0,
    )


def _operation(
    method: str, query: Mapping[str, str], headers: Mapping[str, str], at_dfs: bool
) -> tuple[str, str] | None:
    """The type of the event and the name of the operation."""
    part = query.get("comp", "")
    if "restype" in query or "snapshot" in query or "versionid" in query:
        return None
    if method == "DELETE" and not part:
        if headers.get("x-ms-delete-snapshots", "").lower() == "only":
            return None
        directory = at_dfs and query.get("recursive") == "true"
        return None if directory else (BLOB_DELETED, "DeleteFile" if at_dfs else "DeleteBlob")
    if method == "PATCH" and query.get("action") == "flush":
        return (BLOB_CREATED, "FlushWithClose") if query.get("close") == "true" else None
    if method != "PUT":
        return None
    if part == "blocklist":
        return BLOB_CREATED, "PutBlockList"
    if part:
        return None
    return _put(query, headers)


def _put(query: Mapping[str, str], headers: Mapping[str, str]) -> tuple[str, str] | None:
    if "x-ms-rename-source" in headers:
        return BLOB_RENAMED, "RenameFile"
    if query.get("resource") == "file":
        return BLOB_CREATED, "CreateFile"
    if "x-ms-blob-type" in headers:
        return BLOB_CREATED, "PutBlob"
    if "x-ms-copy-source" in headers:
        return BLOB_CREATED, "CopyBlob"
    return None


def _length(api: str, headers: Mapping[str, str]) -> int | None:
    """The length of the blob, where the request states it."""
    if api == "CreateFile":
        return 0
    if api != "PutBlob" or "x-ms-copy-source" in headers:
        return None
    return _number(headers.get("x-ms-blob-content-length") or headers.get("content-length", ""))


def _number(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdigit() else None


def _place(account: str | None, path: str) -> tuple[str, str, str] | None:
    """Account, container and blob; None if the URL names no blob. A blob in the root container has none of its own."""
    names = [unquote(part) for part in path.removeprefix("/").split("/")]
    if account is not None:
        names.insert(0, account)
    if len(names) == 2 and names[1]:
        names.insert(1, "$root")
    if len(names) < 3 or not all(names[:3]):
        return None
    return names[0], names[1], "/".join(names[2:])
