"""The events of the simulated publishers, with odd data, and the oracle's knowledge of each."""

import random
from dataclasses import dataclass

from recapito.domain.instant import stamp

ODD_DATA = (
    b"{}",
    b"null",
    b'"text"',
    b'{"a":1,"a":2}',
    b"18446744073709551616",
    b"1e400",
    b"-0.0",
    b'{"n":1.10000000000000000000000001}',
    '{"ü":"\u2028\u2029 é"}'.encode(),
    b'"\\ud83d\\ude00 \\u0000 \\/ \\""',
    b"[ 1 ,\t2,\n3 ]",
    b'{"}":"]},{"}',
    b'{"deadLetterReason":"mine"}',
    b"[[[[[[[[[[]]]]]]]]]]",
)
TYPES = ("Order.Placed", "Order.Paid", "order.placed", "Stock.Low")
SUBJECTS = ("orders/1", "orders/2", "Orders/3.json", "stock/a", "")


@dataclass(eq=False)
class Published:
    """One event that a publisher sent. `acknowledged_at` is None while, or if forever, the publisher knows nothing.

    `refused` says that the publisher got a 503 that promises that nothing was stored.
    """

    id: str
    publish: int
    topic: int
    type: str
    subject: str
    data: bytes
    event_time: str
    data_version: str
    sent_at: int
    sent_s: float
    acknowledged_at: int | None = None
    appended_s: float | None = None
    refused: bool = False

    def wire(self) -> bytes:
        """The event as its publisher writes it."""
        head = f'{{"id":"{self.id}","eventType":"{self.type}","subject":"{self.subject}",'
        rest = f'"eventTime":"{self.event_time}","dataVersion":"{self.data_version}","data": '
        return f"{head}{rest}".encode() + self.data + b" }"


def draw_event(
    rng: random.Random, id: str, publish: int, topic: int, now: int, now_s: float, **fixed: str
) -> Published:
    """An event at random, but for what is fixed; one in ten is large."""
    data = rng.choice(ODD_DATA)
    if rng.random() < 0.1:
        data = b'"' + b"x" * rng.randrange(100, 5000) + b'"'
    return Published(
        id=id,
        publish=publish,
        topic=topic,
        type=fixed.get("type") or rng.choice(TYPES),
        subject=fixed.get("subject") or rng.choice(SUBJECTS),
        data=data,
        event_time=stamp(now - rng.randrange(10**12)),
        data_version=rng.choice(("", "1.0", "2")),
        sent_at=now,
        sent_s=now_s,
    )


def body(events: list[Published]) -> bytes:
    """The request that publishes these events together."""
    return b"[" + b",".join(event.wire() for event in events) + b"]"
