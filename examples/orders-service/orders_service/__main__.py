"""Run the service: `TOPIC_ENDPOINT=… TOPIC_KEY=… python -m orders_service`."""

import os

from orders_service.announcer import TopicAnnouncer
from orders_service.reservations import Reservations
from orders_service.webhook import make_server


class Shelf:
    """A warehouse of one shelf."""

    def reserve(self, article: str, quantity: int) -> None:
        """Set so much aside."""
        print(f"{quantity} of {article} reserved", flush=True)


if __name__ == "__main__":
    announcer = TopicAnnouncer(os.environ["TOPIC_ENDPOINT"], os.environ["TOPIC_KEY"])
    make_server(int(os.environ.get("PORT", "9000")), Reservations(Shelf(), announcer)).serve_forever()
