"""Requests to the blob service: those that change a blob, and the events that they make."""

import json

import pytest

from recapito.domain.storage.blob_change import BlobChange, read_change
from recapito.domain.storage.blob_event import BlobFacts, blob_event

HOST = {"host": "127.0.0.1:10000"}
BLOCK = {"x-ms-blob-type": "BlockBlob", "content-length": "5", "x-ms-blob-content-type": "text/plain"}
SOURCE = "/subscriptions/s/resourceGroups/g/providers/Microsoft.Storage/storageAccounts/orders"


def change(method: str, target: str, **headers: str) -> BlobChange | None:
    return read_change(method, target, {**HOST, **{name.replace("_", "-"): value for name, value in headers.items()}})


@pytest.mark.parametrize(
    ("method", "target", "headers", "api"),
    [
        ("PUT", "/acc/box/a.txt", BLOCK, "PutBlob"),
        ("PUT", "/acc/box/a.txt?timeout=5&sig=x", {"x-ms-blob-type": "AppendBlob"}, "PutBlob"),
        ("PUT", "/acc/box/a.txt", {"x-ms-blob-type": "PageBlob", "x-ms-blob-content-length": "512"}, "PutBlob"),
        ("PUT", "/acc/box/a.txt?comp=blocklist", {}, "PutBlockList"),
        ("PUT", "/acc/box/a.txt", {"x-ms-copy-source": "http://x/y"}, "CopyBlob"),
        ("PUT", "/acc/box/a.txt?resource=file", {}, "CreateFile"),
        ("PATCH", "/acc/box/a.txt?action=flush&close=true&position=9", {}, "FlushWithClose"),
        ("PUT", "/acc/box/a.txt", {"x-ms-rename-source": "/box/b.txt"}, "RenameFile"),
        ("DELETE", "/acc/box/a.txt", {}, "DeleteBlob"),
        ("DELETE", "/box/a.txt", {"host": "acc.dfs.localhost:10000"}, "DeleteFile"),
    ],
)
def test_a_change(method: str, target: str, headers: dict[str, str], api: str) -> None:
    """Each operation that commits, deletes or renames a blob is recognised."""
    found = change(method, target, **headers)
    assert found is not None and (found.api, found.account, found.container, found.blob) == (api, "acc", "box", "a.txt")


@pytest.mark.parametrize(
    ("method", "target", "headers"),
    [
        ("PUT", "/acc/box/a.txt?comp=block&blockid=x", {"content-length": "5"}),
        ("PUT", "/acc/box/a.txt?comp=metadata", {}),
        ("PUT", "/acc/box/a.txt?comp=lease", {}),
        ("PUT", "/acc/box/a.txt?comp=appendblock", {}),
        ("PUT", "/acc/box/a.txt?comp=page", {}),
        ("PUT", "/acc/box?restype=container", {}),
        ("DELETE", "/acc/box?restype=container", {}),
        ("DELETE", "/acc/box/a.txt?snapshot=2026", {}),
        ("DELETE", "/acc/box/a.txt", {"x-ms-delete-snapshots": "only"}),
        ("PATCH", "/acc/box/a.txt?action=flush&position=9", {}),
        ("PATCH", "/acc/box/a.txt?action=append", {}),
        ("PUT", "/acc/box/a?resource=directory", {}),
        ("DELETE", "/box/a?recursive=true", {"host": "acc.dfs.localhost:10000"}),
        ("GET", "/acc/box/a.txt", {}),
        ("PUT", "/", BLOCK),
        ("PUT", "/acc", BLOCK),
    ],
)
def test_no_change(method: str, target: str, headers: dict[str, str]) -> None:
    """Parts of uploads, metadata, leases, snapshots, containers and reads have no event."""
    assert change(method, target, **headers) is None


def test_names() -> None:
    """Names are decoded in the subject, and stay as they were sent in the URL; an account may be in the host."""
    found = read_change("PUT", "/box/a%20b/%C3%A4.txt", {"host": "acc1.blob.localhost:10000", **BLOCK})
    assert found is not None
    assert (found.account, found.subject) == ("acc1", "/blobServices/default/containers/box/blobs/a b/ä.txt")
    assert found.path == "/box/a%20b/%C3%A4.txt"
    root = change("PUT", "/acc/a.txt", **BLOCK)
    assert root is not None and (root.container, root.blob) == ("$root", "a.txt")


def test_success() -> None:
    """A refused change, and a copy that is still pending, are not made."""
    put, copy = change("PUT", "/a/b/c", **BLOCK), change("PUT", "/a/b/c", **{"x-ms-copy-source": "http://x/y"})
    assert put is not None and copy is not None
    assert put.succeeded(201, {}) and not put.succeeded(409, {})
    assert copy.succeeded(202, {"x-ms-copy-status": "success"})
    assert not copy.succeeded(202, {"x-ms-copy-status": "pending"})


def test_the_event_of_a_created_blob() -> None:
    """It has the members of Microsoft's sample."""
    made = change("PUT", "/acc/box/a.txt", **BLOCK, **{"x-ms-client-request-id": "mine"})
    assert made is not None and made.complete
    answer = {"etag": '"0x8D"', "x-ms-request-id": "theirs"}
    event = json.loads(blob_event(made, "id-1", "http", SOURCE, 0, 7, answer, None).body)
    assert event == {
        "topic": SOURCE,
        "subject": "/blobServices/default/containers/box/blobs/a.txt",
        "eventType": "Microsoft.Storage.BlobCreated",
        "eventTime": "1970-01-01T00:00:00.0000000Z",
        "id": "id-1",
        "data": {
            "api": "PutBlob",
            "clientRequestId": "mine",
            "requestId": "theirs",
            "eTag": "0x8D",
            "contentType": "text/plain",
            "contentLength": 5,
            "blobType": "BlockBlob",
            "accessTier": "Default",
            "url": "http://127.0.0.1:10000/acc/box/a.txt",
            "sequencer": f"{7:048x}",
            "storageDiagnostics": {"batchId": event["data"]["storageDiagnostics"]["batchId"]},
        },
        "dataVersion": "",
        "metadataVersion": "1",
    }


def test_events_by_facts_and_of_other_types() -> None:
    """A block list takes its facts from the blob; a deletion has no ETag and no length; a rename has two URLs."""
    facts = BlobFacts("image/png", 99, "BlockBlob", '"0x9"', 5)
    listed, deleted = change("PUT", "/acc/box/a?comp=blocklist"), change("DELETE", "/acc/box/a")
    renamed = change("PUT", "/acc/box/a%20c", **{"x-ms-rename-source": "/box/b?sv=secret"})
    assert listed is not None and deleted is not None and renamed is not None and not listed.complete

    def data(of: BlobChange) -> dict[str, object]:
        found: dict[str, object] = json.loads(blob_event(of, "i", "http", SOURCE, 0, 1, {}, facts).body)["data"]
        return found

    assert (data(listed)["contentLength"], data(listed)["eTag"]) == (99, "0x9")
    assert data(deleted)["contentType"] == "image/png" and not {"eTag", "contentLength"} & set(data(deleted))
    assert data(renamed)["sourceUrl"] == "http://127.0.0.1:10000/acc/box/b"
    assert data(renamed)["destinationUrl"] == "http://127.0.0.1:10000/acc/box/a%20c"
    elsewhere = {"host": "acc.dfs.localhost", "x-ms-rename-source": "/box/b"}
    by_host = read_change("PUT", "/box/a", elsewhere)
    assert by_host is not None and data(by_host)["sourceUrl"] == "http://acc.dfs.localhost/box/b"
    tiered = change("PUT", "/acc/box/a", **BLOCK, **{"x-ms-access-tier": "Cool"})
    assert tiered is not None and data(tiered)["accessTier"] == "Cool"


@pytest.mark.parametrize(
    ("method", "target", "headers", "version", "offset"),
    [
        ("PUT", "/box/a?resource=file", {}, "2", 0),
        ("PATCH", "/box/a?action=flush&position=9&retainUncommittedData=false&close=true", {}, "2", 9),
        ("DELETE", "/box/a", {}, "2", None),
        ("PUT", "/box/a?mode=legacy", {"x-ms-rename-source": "/box/b"}, "1", None),
    ],
)
def test_events_of_data_lake(
    method: str, target: str, headers: dict[str, str], version: str, offset: int | None
) -> None:
    """Their data has a version, and that of a created blob the offset of its last write."""
    made = read_change(method, target, {"host": "acc.dfs.core.windows.net", **headers})
    assert made is not None and made.account == "acc"
    stored = blob_event(made, "i", "https", SOURCE, 0, 1, {}, BlobFacts("text/plain", 9, "BlockBlob", "", 5))
    event = json.loads(stored.body)
    assert event["dataVersion"] == stored.data_version == version
    assert event["data"].get("contentOffset") == offset
    assert (
        event["data"].get("url", "https://acc.dfs.core.windows.net/box/a") == "https://acc.dfs.core.windows.net/box/a"
    )
