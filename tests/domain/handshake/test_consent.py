"""The settings in force before, while and after an endpoint is asked."""

from typing import Any

import pytest
from msgspec.structs import replace

from recapito.domain import limits
from recapito.domain.events.schema import DeliverySchema
from recapito.domain.filters.filter import TAKE_ALL, TAKE_NONE, Filter
from recapito.domain.handshake import consent
from recapito.domain.resources.delivery_options import DeliveryOptions
from recapito.domain.resources.destination import StorageQueue, WebHook
from recapito.domain.resources.subscription import FilterSince, Handshake, Subscription

A, B = "https://a.test/hook", "https://b.test/hook"
EG, CUSTOM, CE = DeliverySchema.EVENT_GRID, DeliverySchema.CUSTOM, DeliverySchema.CLOUD_EVENT
WAITING = Handshake("code", 100)


def subscription(url: str = A, schema: DeliverySchema = EG, filter: Filter = TAKE_ALL, **more: Any) -> Subscription:
    return Subscription(
        topic=1,
        name="mine",
        destination=WebHook(url=url),
        delivery_schema=schema,
        filters=(FilterSince(0, filter),),
        created_at=more.pop("created_at", 1),
        modified_at=1,
        **more,
    )


def waiting_new(wanted: Subscription) -> Subscription:
    return consent.await_consent(None, wanted, WAITING)


def waiting_change(old: Subscription, wanted: Subscription) -> Subscription:
    return consent.await_consent(old, wanted, WAITING)


ESTABLISHED = subscription(A, id=7, version=3)


@pytest.mark.parametrize(
    ("old", "wanted", "needed"),
    [
        (None, subscription(A), True),
        (ESTABLISHED, subscription(A), False),
        (ESTABLISHED, subscription(A, filter=Filter(subject_begins_with="x")), False),
        (ESTABLISHED, subscription(A, CUSTOM), False),
        (ESTABLISHED, subscription(A, CE), True),
        (ESTABLISHED, subscription(A + "?code=2"), True),
        (ESTABLISHED, subscription(B), True),
        (waiting_new(subscription(A)), subscription(A), True),
        (waiting_new(subscription(A)), subscription(B), True),
        (waiting_change(ESTABLISHED, subscription(B)), subscription(B), True),
        (waiting_change(ESTABLISHED, subscription(B)), subscription(A), False),
        (waiting_change(ESTABLISHED, subscription(A, CE)), subscription(A), False),
        (waiting_change(ESTABLISHED, subscription(A, CE)), subscription(A, CE), True),
        (waiting_change(waiting_new(subscription(A)), subscription(B)), subscription(A), True),
        (waiting_change(waiting_new(subscription(A)), subscription(B)), subscription(B), True),
    ],
)
def test_when_an_endpoint_is_asked(old: Subscription | None, wanted: Subscription, needed: bool) -> None:
    """An endpoint is asked when it is new, another one, asked in another way, or has not consented yet."""
    assert consent.needs_consent(old, wanted) is needed


def test_only_webhooks_have_an_endpoint_in_common() -> None:
    """Consent to a webhook is no consent to a queue, nor the other way round."""
    queue = replace(ESTABLISHED, destination=StorageQueue(account="/a", queue="q"))
    assert consent.have_one_endpoint(ESTABLISHED, ESTABLISHED) is True
    assert consent.have_one_endpoint(ESTABLISHED, queue) is False
    assert consent.have_one_endpoint(queue, ESTABLISHED) is False
    assert consent.have_one_endpoint(queue, queue) is False


def test_a_new_subscription_takes_nothing_while_it_waits() -> None:
    """Before consent, what is in force is the subscription as wanted, but without events."""
    wanted = subscription(A, filter=Filter(subject_begins_with="x"))
    stored = waiting_new(wanted)
    assert stored.filter == TAKE_NONE
    assert stored.handshake == WAITING
    assert stored.proposed == wanted
    assert consent.is_consented(stored) is False
    assert consent.shown(stored) == wanted


def test_a_changed_subscription_goes_on_as_it_was() -> None:
    """Before consent to a change, everything in force is as before."""
    stored = waiting_change(ESTABLISHED, subscription(B, filter=TAKE_NONE))
    assert replace(stored, handshake=None, proposed=None) == ESTABLISHED
    assert consent.is_consented(stored) is True
    assert consent.shown(stored).destination.url == B


def test_consent_puts_what_was_wanted_in_force() -> None:
    """With consent the proposal replaces what is stored, under its id, version and birth."""
    wanted = subscription(B, created_at=1, filter=Filter(subject_begins_with="x"))
    stored = waiting_change(replace(ESTABLISHED, created_at=-5), wanted)
    now = consent.with_consent(stored, 50)
    assert now.id == 7
    assert now.version == 3
    assert now.created_at == -5
    assert now.modified_at == 50
    assert now.destination.url == B
    assert now.filter == wanted.filter
    assert now.handshake is None
    assert now.proposed is None


@pytest.mark.parametrize(
    ("stored", "at", "state"),
    [
        (ESTABLISHED, 10**30, "Succeeded"),
        (waiting_new(subscription()), 0, "AwaitingManualAction"),
        (waiting_new(subscription()), 100, "AwaitingManualAction"),
        (waiting_new(subscription()), 101, "Failed"),
        (waiting_change(ESTABLISHED, subscription(B)), 101, "Failed"),
    ],
)
def test_provisioning_state(stored: Subscription, at: int, state: str) -> None:
    """Consent that does not come in time is a failure, without anybody having to write it down."""
    assert consent.provisioning_state(stored, at) == state


def test_event_grids_numbers() -> None:
    """Ten minutes to consent by hand (spec A17), three tries five seconds apart."""
    assert limits.HANDSHAKE_WINDOW_NS == 600 * 10**9
    assert limits.HANDSHAKE_TRIES == 3
    assert limits.HANDSHAKE_PAUSE_NS == 5 * 10**9


def test_options_set_while_waiting_stay() -> None:
    """Options that an operator sets before the endpoint consents are in force afterwards."""
    options = DeliveryOptions(events_per_second=5)
    for waiting in (waiting_new(subscription(A)), waiting_change(ESTABLISHED, subscription(B))):
        assert consent.with_consent(replace(waiting, own_options=options), 50).options == options
