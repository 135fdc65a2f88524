"""The table of destinations: each kind has one row, and the row agrees with the struct that is stored."""

from typing import get_args

from msgspec.inspect import StructType, type_info

from recapito.domain.profiles.profile import EndpointKind
from recapito.domain.resources.destination import (
    DESTINATION_KINDS,
    NOT_BUILT,
    Destination,
    ServiceBusTopic,
    StorageQueue,
    WebHook,
    kind_of,
    service_of,
)
from recapito.domain.resources.resource_id import queue_id


def test_every_destination_has_a_row() -> None:
    """The union of destinations and the table hold the same structs."""
    assert set(get_args(Destination)) == set(DESTINATION_KINDS)


def test_a_row_has_the_name_that_is_stored() -> None:
    """The endpoint type of a row is the tag of its struct, so that the store and the API agree."""
    for struct, kind in DESTINATION_KINDS.items():
        info = type_info(struct)
        assert isinstance(info, StructType)
        assert (info.tag_field, info.tag) == ("endpoint_type", kind.endpoint_type)


def test_names_are_told_apart() -> None:
    """No two kinds share a name, in any case, and none has the name of a kind that is refused."""
    rows = DESTINATION_KINDS.values()
    for names in (
        [*(kind.endpoint_type.lower() for kind in rows), *(name.lower() for name in NOT_BUILT)],
        [kind.az_name for kind in rows],
        [kind.title for kind in rows],
    ):
        assert len(set(names)) == len(names)


def test_only_a_webhook_needs_no_connection() -> None:
    """A destination that is named by a resource id is reached by a connection, and the other way round."""
    for struct, kind in DESTINATION_KINDS.items():
        assert (not kind.resources) == (kind.service is None) == (struct is WebHook)


def test_a_destination_finds_its_row() -> None:
    """The row, the service and the profile's table of a destination come from its struct."""
    topic = ServiceBusTopic(resource_id="/subscriptions/s/…")
    assert kind_of(topic).title == "Service Bus topic"
    assert (service_of(topic), topic.endpoint_kind) == ("messaging", EndpointKind.AZURE_RESOURCE)
    assert WebHook(url="https://example.com").endpoint_kind is EndpointKind.WEBHOOK
    assert StorageQueue(account="/a", queue="q").resource_id == queue_id("/a", "q")
