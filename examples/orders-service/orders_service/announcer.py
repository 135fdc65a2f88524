"""Announcing reservations on an Event Grid topic, with Microsoft's client."""

from azure.core.credentials import AzureKeyCredential
from azure.eventgrid import EventGridEvent, EventGridPublisherClient


class TopicAnnouncer:
    """Publishes `Order.Reserved`."""

    def __init__(self, endpoint: str, key: str) -> None:
        self._client = EventGridPublisherClient(endpoint, AzureKeyCredential(key))

    def announce(self, order: str, article: str) -> None:
        """Tell that an order's stock is reserved."""
        event = EventGridEvent(
            id=f"{order}-reserved",
            subject=order,
            event_type="Order.Reserved",
            data={"article": article},
            data_version="1",
        )
        self._client.send(event)
