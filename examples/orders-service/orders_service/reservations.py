"""Reserving stock for an order, once, however often the order comes."""

import threading
from dataclasses import dataclass
from typing import Any, Protocol


class WarehouseDown(Exception):
    """The warehouse does not answer; try again later."""


class BadOrder(Exception):
    """The order makes no sense; trying again would not help."""


class Warehouse(Protocol):
    """Where the stock is."""

    def reserve(self, article: str, quantity: int) -> None:
        """Set so much aside. Raises WarehouseDown."""


class Announcer(Protocol):
    """Who is told about reservations."""

    def announce(self, order: str, article: str) -> None:
        """Tell that an order's stock is reserved."""


@dataclass
class Reservations:
    """Takes orders, one after the other: the same event may come twice at once. Those taken are known by its id."""

    warehouse: Warehouse
    announcer: Announcer

    def __post_init__(self) -> None:
        self._taken: set[str] = set()
        self._one_at_a_time = threading.Lock()

    def take(self, event: dict[str, Any]) -> None:
        """Reserve what an order wants, and announce it. Raises BadOrder and WarehouseDown."""
        with self._one_at_a_time:
            self._take(event)

    def _take(self, event: dict[str, Any]) -> None:
        if event["id"] in self._taken:
            return
        try:
            order, article, quantity = event["subject"], event["data"]["article"], int(event["data"]["quantity"])
        except (KeyError, TypeError, ValueError) as error:
            raise BadOrder(f"no order: {error!r}") from None
        self.warehouse.reserve(article, quantity)
        self.announcer.announce(order, article)
        self._taken.add(event["id"])
