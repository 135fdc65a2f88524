"""Programs under test use Microsoft's own client, as in production."""

from azure.core.credentials import AzureKeyCredential
from azure.eventgrid import EventGridEvent, EventGridPublisherClient

from recapito.testing.environment import Recapito


def test_the_sdk_publishes_to_a_topic_of_a_test(recapito: Recapito) -> None:
    """Endpoint and key are all that azure-eventgrid needs; times count from the first attempt then."""
    topic = recapito.topic("orders")
    hook = recapito.receiver(503, 200)
    topic.subscribe(hook)
    event = EventGridEvent(subject="/orders/7", event_type="Order.Created", data={"total": 12}, data_version="1")
    with EventGridPublisherClient(topic.endpoint, AzureKeyCredential(topic.key)) as client:
        client.send(event)
    recapito.clock.until_idle()
    hook.assert_delivered(event.id, attempt=2, after="30s")
