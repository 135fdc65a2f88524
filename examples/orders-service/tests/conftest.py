"""The service as it runs in production, with a warehouse that can be closed."""

import threading
from collections.abc import Iterator

import pytest
from orders_service.announcer import TopicAnnouncer
from orders_service.reservations import Reservations, WarehouseDown
from orders_service.webhook import make_server

from recapito.testing.environment import Recapito
from recapito.testing.topic import Topic


class FakeWarehouse:
    """A warehouse that notes what is reserved, unless it is down."""

    def __init__(self) -> None:
        self.down = False
        self.reserved: list[tuple[str, int]] = []

    def reserve(self, article: str, quantity: int) -> None:
        if self.down:
            raise WarehouseDown("the warehouse is down")
        self.reserved.append((article, quantity))


@pytest.fixture
def warehouse() -> FakeWarehouse:
    """The warehouse."""
    return FakeWarehouse()


@pytest.fixture
def reservations(recapito: Recapito) -> Topic:
    """The topic that the service publishes to."""
    return recapito.topic("reservations")


@pytest.fixture
def service_url(warehouse: FakeWarehouse, reservations: Topic) -> Iterator[str]:
    """Where the running service is called."""
    announcer = TopicAnnouncer(reservations.endpoint, reservations.key)
    server = make_server(0, Reservations(warehouse, announcer))
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/"
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def orders(recapito: Recapito, service_url: str) -> Topic:
    """The topic with orders, which the service is subscribed to."""
    topic = recapito.topic("orders")
    topic.subscribe(service_url, included_event_types=["Order.Created"], max_delivery_attempts=10)
    return topic
