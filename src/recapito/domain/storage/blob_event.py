"""The event of a change that the storage service confirmed: members, names and order of Microsoft's samples."""

from collections.abc import Mapping
from typing import Any
from uuid import NAMESPACE_URL, uuid5

import msgspec

from recapito.domain.events.event_grid import METADATA_VERSION
from recapito.domain.events.segment import StampedEvent
from recapito.domain.instant import stamp
from recapito.domain.storage.blob_change import BlobChange
from recapito.domain.storage.event_names import BLOB_CREATED, BLOB_RENAMED


class BlobFacts(msgspec.Struct, frozen=True):
    """Facts of a blob that only the service knows: of its answer to a HEAD request.

    modified_s: a Unix time, by this server's clock.
    """

    content_type: str
    length: int
    blob_type: str
    etag: str
    modified_s: int


def blob_event(
    change: BlobChange,
    event_id: str,
    scheme: str,
    source: str,
    at: int,
    sequencer: int,
    answer: Mapping[str, str],
    facts: BlobFacts | None,
) -> StampedEvent:
    """The event for the system topic whose source is the storage account `source`.

    event_id: the same whenever this change is reported again.
    at: the instant of the change; `sequencer`: a number that grows from change to change.
    answer: the headers of the service's answer, in lower case; empty if the answer was lost.
    facts: of the blob, after a commit or before a deletion; None if they are not known.
    """
    url = f"{scheme}://{change.host}{change.path}"
    known = {
        "api": change.api,
        "clientRequestId": answer.get("x-ms-client-request-id") or change.client_request_id,
        "requestId": answer.get("x-ms-request-id", ""),
        **_members(change, url, answer, facts),
        "sequencer": f"{sequencer:048x}",
        "storageDiagnostics": {"batchId": str(uuid5(NAMESPACE_URL, event_id))},
    }
    version = _version(change)
    event = {
        "topic": source,
        "subject": change.subject,
        "eventType": change.event_type,
        "eventTime": stamp(at),
        "id": event_id,
        "data": known,
        "dataVersion": version,
        "metadataVersion": METADATA_VERSION,
    }
    return StampedEvent(msgspec.json.encode(event), change.event_type, change.subject, version, id=event_id)


def _version(change: BlobChange) -> str:
    """The version of `data`, which Data Lake's events have."""
    if not change.data_lake:
        return ""
    return "1" if change.event_type == BLOB_RENAMED else "2"


def _members(change: BlobChange, url: str, answer: Mapping[str, str], facts: BlobFacts | None) -> dict[str, Any]:
    """The members of `data` that differ from event type to event type."""
    if change.event_type == BLOB_RENAMED:
        account = "" if change.host.lower().startswith(f"{change.account}.") else change.path.split("/", 2)[1] + "/"
        account_url = url.removesuffix(change.path) + "/" + account
        return {"destinationUrl": url, "sourceUrl": account_url + change.source.lstrip("/")}
    kind = {
        "contentType": facts.content_type if facts else change.content_type,
        "blobType": facts.blob_type if facts else change.blob_type or "BlockBlob",
        "url": url,
    }
    if change.event_type != BLOB_CREATED:
        return kind
    etag = answer.get("etag") or (facts.etag if facts else "")
    length = facts.length if facts else change.length or 0
    return {
        "eTag": etag.strip('"'),
        "contentType": kind["contentType"],
        "contentLength": length,
        **({"contentOffset": change.offset} if change.data_lake else {}),
        "blobType": kind["blobType"],
        "accessTier": change.tier or "Default",
        "url": url,
    }
