"""The notice of a dead-letter blob."""

import json

from msgspec.structs import replace

from recapito.domain.dead_letter.blob_notice import (
    BlobNotice,
    CrossedMark,
    blob_created,
    decode_mark,
    decode_notice,
    encode_mark,
    encode_notice,
)
from recapito.domain.instant import SECOND

ACCOUNT = "/subscriptions/s/resourceGroups/g/providers/Microsoft.Storage/storageAccounts/myegteststgfoo"
NOTICE = BlobNotice(
    account=ACCOUNT.lower(),
    container="deadletter",
    path="ORDERS/2020/8/13/17/1.json",
    at=1_597_339_093 * SECOND,
    length=7,
    url="https://myegteststgfoo.blob.core.windows.net/deadletter/ORDERS/2020/8/13/17/1.json",
    etag="0x8D83FACDC0C3402",
    request_id="93902694-901e-008f-6f95-7153a8000000",
    client_request_id="c0d879ad-88c8-4bbe-8774-d65888dc2038",
)


def test_the_event_is_that_of_the_sample() -> None:
    """Names, order and kinds of all members are those of Event Grid's sample of a BlobCreated event."""
    stamped = blob_created(NOTICE, 3, ACCOUNT)
    event = json.loads(stamped.body)
    assert list(event) == [
        "id", "eventTime", "eventType", "dataVersion", "metadataVersion", "topic", "subject", "data",
    ]  # fmt: skip
    assert list(event["data"]) == [
        "api", "clientRequestId", "requestId", "eTag", "contentType", "contentLength", "blobType", "url", "sequencer",
        "storageDiagnostics",
    ]  # fmt: skip
    batch = event["data"].pop("storageDiagnostics")
    assert list(batch) == ["batchId"] and len(batch["batchId"]) == 36
    assert len(event["data"].pop("sequencer")) == len("00000000000000000000000000015508000000000005101c")
    assert len(event.pop("id")) == 36
    assert event == {
        "eventTime": "2020-08-13T17:18:13.0000000Z",
        "eventType": "Microsoft.Storage.BlobCreated",
        "dataVersion": "",
        "metadataVersion": "1",
        "topic": ACCOUNT,
        "subject": "/blobServices/default/containers/deadletter/blobs/ORDERS/2020/8/13/17/1.json",
        "data": {
            "api": "PutBlob",
            "clientRequestId": NOTICE.client_request_id,
            "requestId": NOTICE.request_id,
            "eTag": "0x8D83FACDC0C3402",
            "contentType": "application/octet-stream",
            "contentLength": 7,
            "blobType": "BlockBlob",
            "url": NOTICE.url,
        },
    }
    assert stamped.type == event["eventType"]
    assert stamped.subject == event["subject"]


def test_a_repeated_notice_is_recognised() -> None:
    """One blob has one event id; the sequencer orders events as their blobs were written."""
    one, again, later = (json.loads(blob_created(NOTICE, n, ACCOUNT).body) for n in (1, 1, 2))
    assert one == again and one["id"] == later["id"]
    assert one["data"]["sequencer"] < later["data"]["sequencer"]


def test_a_notice_is_kept_whole() -> None:
    """A stored notice is read back unchanged."""
    assert decode_notice(encode_notice(NOTICE)) == NOTICE


def test_a_mark_knows_what_was_taken() -> None:
    """Notices up to its number and instant are known; a later number or instant is new. A mark never shrinks."""

    def notice(at: int) -> BlobNotice:
        return replace(NOTICE, at=at)

    mark = CrossedMark().with_taken([(6, notice(120)), (7, notice(110))])
    assert mark == decode_mark(encode_mark(mark)) == (7, 120)
    assert mark.knows(6, notice(120)) and mark.knows(7, notice(110))
    assert not mark.knows(8, notice(110)) and not mark.knows(6, notice(121))
    assert not CrossedMark().knows(1, notice(1))
    assert mark.with_taken([(6, notice(121))]) == (7, 121)
    assert mark.with_taken([(8, notice(100))]) == (8, 120)
