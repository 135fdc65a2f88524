"""How the events of one subscription are sent: in which schema, in which form, with which headers.

It is made anew when the subscription changes. Stored events stay as they are: they are converted when they are sent.
"""

from collections import Counter

from recapito.domain.delivery.attributes import Attributes
from recapito.domain.delivery.forwarding import conversion_for
from recapito.domain.events.conversion import Convert
from recapito.domain.events.schema import BodyForm, InputSchema
from recapito.domain.events.schema_table import DELIVERY_SCHEMAS, conversion
from recapito.domain.resources.destination import EventGrid, kind_of
from recapito.domain.resources.subscription import Subscription
from recapito.observability.journal import Journal

_JOURNALLED = frozenset(10**power for power in range(12))


class DeliveryFormat:
    """`convert` is None where events are sent as they are stored, `attributes` where there are no custom headers.

    `bare`: an event is sent without an array. `versioned`: a header has the version of the data. `signing`: the
    encrypted secrets that sign its requests. `forwards`: requests publish to another Event Grid.
    """

    __slots__ = (
        "_journal",
        "_left",
        "attributes",
        "bare",
        "convert",
        "form",
        "forwards",
        "lane",
        "signing",
        "subscription",
        "versioned",
    )

    def __init__(self, subscription: Subscription, published: InputSchema, journal: Journal) -> None:
        self.subscription = subscription.name
        self.lane = subscription.id
        self.signing = subscription.options.signing
        self.convert: Convert | None = conversion(published, subscription.delivery_schema)
        destination = subscription.destination
        self.forwards = isinstance(destination, EventGrid)
        if isinstance(destination, EventGrid):  # no schema that has a topic is converted from another one
            self.convert = conversion_for(destination, subscription.delivery_schema) or self.convert
        self.form: BodyForm = DELIVERY_SCHEMAS[subscription.delivery_schema].form(subscription.batching.on)
        self.bare = not self.form.is_array
        self.versioned = not self.form.has_cloud_events
        self._journal = journal
        self._left: Counter[str] = Counter()
        attributes = subscription.attributes
        keys = kind_of(subscription.destination).sort_keys
        self.attributes = Attributes(attributes, published, self._left_out, keys) if attributes else None

    def body(self, stored: bytes) -> bytes:
        """A stored event as it is sent."""
        return stored if self.convert is None else self.convert(stored)

    def _left_out(self, name: str) -> None:
        """Count a left-out header, and journal the first, the tenth, the hundredth: such events are seldom alone."""
        self._left[name] += 1
        if self._left[name] in _JOURNALLED:
            self._journal(
                "delivery.header_left_out", subscription=self.subscription, header=name, count=self._left[name]
            )
