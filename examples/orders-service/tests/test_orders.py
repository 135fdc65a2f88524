"""What the service does when Event Grid calls it, and when things go wrong."""

from orders_service.announcer import TopicAnnouncer

from recapito.testing.environment import Recapito
from recapito.testing.topic import Topic
from tests.conftest import FakeWarehouse

SOCKS = {"article": "socks", "quantity": 2}


def test_a_reservation_is_announced(
    recapito: Recapito, orders: Topic, reservations: Topic, warehouse: FakeWarehouse
) -> None:
    """An order is reserved, and everybody who subscribed hears of it."""
    partner = recapito.receiver()
    reservations.subscribe(partner, included_event_types=["Order.Reserved"])
    orders.publish("Order.Created", SOCKS, subject="order-7")
    recapito.clock.settle()
    assert warehouse.reserved == [("socks", 2)]
    request = partner.assert_delivered("order-7-reserved", attempt=1)
    assert request.events[0]["data"] == {"article": "socks"}


def test_a_warehouse_that_is_down_for_a_while(recapito: Recapito, orders: Topic, warehouse: FakeWarehouse) -> None:
    """An order that comes while the warehouse is down is reserved when it is up again."""
    warehouse.down = True
    orders.publish("Order.Created", SOCKS, subject="order-7")
    assert recapito.clock.advance(minutes=5).attempts == 3
    assert warehouse.reserved == []
    warehouse.down = False
    assert recapito.clock.until_idle().delivered == 1
    assert warehouse.reserved == [("socks", 2)]


def test_a_repeated_delivery_reserves_once(recapito: Recapito, orders: Topic, warehouse: FakeWarehouse) -> None:
    """Event Grid may deliver an event twice; its stock is reserved once."""
    for _ in range(2):
        orders.publish("Order.Created", SOCKS, subject="order-7", id="the-same")
    assert recapito.clock.until_idle().pending == 0
    assert warehouse.reserved == [("socks", 2)]


def test_an_order_that_makes_no_sense_is_not_tried_again(recapito: Recapito, service_url: str) -> None:
    """It becomes a dead letter after one attempt, for people to look at."""
    topic = recapito.topic("orders")
    subscription = topic.subscribe(service_url, dead_letter=True)
    id = topic.publish("Order.Created", {"article": "socks", "quantity": "many"}, subject="order-8")
    recapito.clock.until_idle()
    letter = subscription.assert_dead_lettered(id, reason="UndeliverableDueToHttpBadRequest", attempts=1)
    assert letter.data["quantity"] == "many"


def test_a_partner_that_is_down_gets_it_later(recapito: Recapito, reservations: Topic) -> None:
    """A partner that answers 503 three times gets the announcement on the fourth attempt, two minutes later."""
    partner = recapito.receiver(503, 503, 503, 200)
    reservations.subscribe(partner)
    TopicAnnouncer(reservations.endpoint, reservations.key).announce("order-7", "socks")
    recapito.clock.until_idle()
    partner.assert_delivered("order-7-reserved", attempt=4, after="2m", times=1)
