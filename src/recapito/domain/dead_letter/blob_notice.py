"""The notice of a dead-letter blob, which dispatch keeps until the storage account's system topic has the event.

The event is Microsoft.Storage.BlobCreated, with the members, the names and the order of Event Grid's sample.
"""

from collections.abc import Sequence
from typing import NamedTuple
from uuid import NAMESPACE_URL, uuid5

import msgspec

from recapito.domain.events.event_grid import METADATA_VERSION
from recapito.domain.events.segment import StampedEvent
from recapito.domain.instant import stamp

BLOB_CREATED = "Microsoft.Storage.BlobCreated"
CONTENT_TYPE = "application/octet-stream"


class BlobNotice(msgspec.Struct, frozen=True, array_like=True):
    """A blob that the storage service has confirmed. `account` is the resource id of its storage account."""

    account: str
    container: str
    path: str
    at: int
    length: int
    url: str
    etag: str
    request_id: str
    client_request_id: str

    @property
    def event_id(self) -> str:
        """Always the same for one blob, so that a subscriber recognises a repeated notice."""
        return str(uuid5(NAMESPACE_URL, self.url))


encode_notice = msgspec.json.Encoder().encode
decode_notice = msgspec.json.Decoder(BlobNotice).decode


class CrossedMark(NamedTuple):
    """The notices that a partition has taken from another one: the greatest number and the greatest instant of them.

    A notice is known if neither is greater. A number alone does not prove that: a backup may hold this mark, and the
    other partition's ledger of an earlier moment, which gives the number to a later blob once it is restored.
    """

    number: int = 0
    at: int = 0

    def knows(self, number: int, notice: BlobNotice) -> bool:
        return number <= self.number and notice.at <= self.at

    def with_taken(self, notices: Sequence[tuple[int, BlobNotice]]) -> "CrossedMark":
        numbers, instants = [number for number, _ in notices], [notice.at for _, notice in notices]
        return CrossedMark(max(self.number, *numbers), max(self.at, *instants))


encode_mark = msgspec.json.Encoder().encode
decode_mark = msgspec.json.Decoder(CrossedMark).decode


def blob_created(notice: BlobNotice, number: int, source: str) -> StampedEvent:
    """The event that a system topic over the account, `source`, publishes; `number` orders notices of one instant.

    The numbers of a partition are above its `first_id`, so that no two of a cluster are equal.
    """
    subject = f"/blobServices/default/containers/{notice.container}/blobs/{notice.path}"
    event = {
        "id": notice.event_id,
        "eventTime": stamp(notice.at),
        "eventType": BLOB_CREATED,
        "dataVersion": "",
        "metadataVersion": METADATA_VERSION,
        "topic": source,
        "subject": subject,
        "data": {
            "api": "PutBlob",
            "clientRequestId": notice.client_request_id,
            "requestId": notice.request_id,
            "eTag": notice.etag,
            "contentType": CONTENT_TYPE,
            "contentLength": notice.length,
            "blobType": "BlockBlob",
            "url": notice.url,
            "sequencer": f"{notice.at:032x}{number:016x}",
            "storageDiagnostics": {"batchId": str(uuid5(NAMESPACE_URL, notice.event_id))},
        },
    }
    return StampedEvent(msgspec.json.encode(event), BLOB_CREATED, subject, "", id=notice.event_id)
