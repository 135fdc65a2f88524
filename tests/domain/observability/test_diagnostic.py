"""Records in the shape of Azure's diagnostic logs."""

from recapito.domain.delivery.delivery import Delivery, DeliveryId
from recapito.domain.delivery.hold import Hold
from recapito.domain.delivery.outcome import Outcome, Result, answered
from recapito.domain.instant import MILLISECOND, SECOND
from recapito.domain.observability.diagnostic import delivery_failure, publish_failure
from recapito.domain.resources.destination import StorageQueue, WebHook
from recapito.domain.resources.subscription import Subscription
from tests.kit.resources import a_subscription

TOPIC = "/subscriptions/s/resourceGroups/g/providers/Microsoft.EventGrid/topics/orders"
HOOK = WebHook(url="https://example.com/hook?code=secret")
NOON = 1_572_567_430 * SECOND  # 2019-11-01 00:17:10


def subscription(destination: WebHook | StorageQueue = HOOK) -> Subscription:
    """One with this destination."""
    return a_subscription(name="Billing", destination=destination)


def test_a_failed_delivery_is_told_as_azure_tells_it() -> None:
    """Names in capitals, the facts in their order, one line, never the query of the URL."""
    delivery = Delivery(DeliveryId(3, 1), NOON - SECOND, b'{"id":"e-1","data":{}}', attempts=2)
    record = delivery_failure(
        TOPIC,
        subscription(),
        delivery,
        "guid",
        answered(503, detail="very\nbusy"),
        NOON,
        NOON + 5 * MILLISECOND,
        Hold(),
    )
    assert record == {
        "time": "2019-11-01T00:17:10.0050000Z",
        "resourceId": TOPIC.upper(),
        "eventSubscriptionName": "BILLING",
        "category": "DeliveryFailures",
        "operationName": "Deliver",
        "message": (
            "Message:outcome=Busy, latencyInMs=5, id=e-1, systemId=guid, state=FilteredFailingDelivery, "
            "deliveryTime=11/1/2019 12:17:10 AM, deliveryCount=2, probationCount=0, deliverySchema=EventGridSchema, "
            "publishTime=11/1/2019 12:17:09 AM, size=22, url=https://example.com/hook, "
            "deliveryResponse=503: very busy"
        ),
    }


def test_what_is_not_known_is_left_empty() -> None:
    """An event without an id, an endpoint that did not answer, a destination that has no URL; a hold counts."""
    queue = StorageQueue(account="/subscriptions/s/resourceGroups/g/providers/Microsoft.Storage/a/b", queue="q")
    delivery = Delivery(DeliveryId(3, 1), NOON, b"[]")
    outcome = Outcome(Result.TIMED_OUT, detail="no answer")
    held = Hold(10, NOON, SECOND, Result.TIMED_OUT)
    message = delivery_failure(TOPIC, subscription(queue), delivery, "guid", outcome, NOON, NOON, held)["message"]
    assert "outcome=TimedOut" in message and ", id=, " in message and "probationCount=1" in message
    assert f"url={queue.resource_id}" in message and message.endswith("deliveryResponse=: no answer")


def test_a_failed_publish_is_told() -> None:
    """It has no subscription; the id is that of the failure, which the publisher was told too."""
    record = publish_failure(TOPIC, "BadRequest", "report-1", "http://x/topics/orders/api/events", "400: no\nid", NOON)
    assert record["category"] == "PublishFailures"
    assert record["operationName"] == "Publish"
    assert "eventSubscriptionName" not in record
    assert record["message"] == (
        "Message:outcome=BadRequest, id=report-1, url=http://x/topics/orders/api/events, publishResponse=400: no id"
    )
