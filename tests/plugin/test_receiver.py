"""The fixture `recapito` at work: scripted receivers, a clock that is moved, and what their assertions say."""

import re

import pytest

from recapito.testing import Request, answer, drop, hang
from recapito.testing.environment import Recapito

SCHEDULE = ["0s", "10s", "40s", "1m40s", "6m40s"]


def said(message: str) -> str:
    """A message without what differs from run to run."""
    return re.sub(r"<Receiver at [^,]+,", "<Receiver,", message)


def test_delivered_on_a_later_attempt(recapito: Recapito) -> None:
    """A receiver that fails four times gets its event on the fifth attempt, 6 min 40 s after publishing."""
    topic = recapito.topic("orders")
    hook = recapito.receiver(500, 500, 500, 500, 200)
    topic.subscribe(hook)
    id = topic.publish("Order.Created", {"total": 12.5})
    hook.assert_not_delivered(id)
    recapito.clock.advance(minutes=5)
    hook.assert_attempted(id, at=SCHEDULE[:4])
    recapito.clock.until_idle()
    request = hook.assert_delivered(id, attempt=5, after="6 min 40 s", times=1)
    assert request.events[0]["data"] == {"total": 12.5}
    assert [event["id"] for event in hook.events] == [id]


def test_a_day_of_retries_ends_in_a_dead_letter(recapito: Recapito) -> None:
    """An endpoint that stays down is tried for 24 hours; the letter says why it ended."""
    topic = recapito.topic("orders")
    hook = recapito.receiver(503)
    lost = topic.subscribe(hook, dead_letter=True)
    id = topic.publish("Order.Created", {"total": 1})
    passed = recapito.clock.until_idle()
    assert (passed.dead_lettered, passed.idle) == (1, True)
    letter = lost.assert_dead_lettered(id, reason="TimeToLiveExceeded", attempts=len(hook.requests))
    assert letter.data == {"total": 1}
    assert letter.last_outcome == "Busy"


def test_the_policy_of_a_subscription(recapito: Recapito) -> None:
    """Attempts and time to live are the subscription's own."""
    topic = recapito.topic("orders")
    few, short = recapito.receiver(500), recapito.receiver(500)
    lost = topic.subscribe(few, name="few", max_delivery_attempts=2, dead_letter=True)
    topic.subscribe(short, name="short", event_ttl=1)
    id = topic.publish("Order.Created")
    recapito.clock.until_idle()
    few.assert_attempted(id, at=["0s", "10s"])
    short.assert_attempted(id, at=["0s", "10s", "40s"])
    lost.assert_dead_lettered(id, reason="MaxDeliveryAttemptsExceeded", attempts=2)


def test_endpoints_that_do_not_answer(recapito: Recapito) -> None:
    """Hanging up and hanging are failed attempts; 30 seconds of hanging pass on the clock alone."""
    topic = recapito.topic("orders")
    hook = recapito.receiver(drop(), hang(), 200)
    topic.subscribe(hook)
    id = topic.publish("Order.Created")
    recapito.clock.until_idle()
    hook.assert_attempted(id, at=["0s", "10s", "1m10s"])  # 10 s + 30 s without an answer + 30 s
    hook.assert_delivered(id, attempt=3)


def test_a_late_answer_counts(recapito: Recapito) -> None:
    """A success after 35 seconds comes too late for the attempt, and makes its retry needless."""
    topic = recapito.topic("orders")
    hook = recapito.receiver(answer(200, delay="35s"), 500)
    topic.subscribe(hook)
    id = topic.publish("Order.Created")
    assert recapito.clock.until_idle().delivered == 1
    hook.assert_attempted(id, at=["0s"])


def test_answers_with_more_than_a_status(recapito: Recapito) -> None:
    """`Retry-After` is followed; a function sees the request, and what it raises is a 500."""

    def judge(request: Request) -> int:
        assert len(hook.requests) == 1
        raise LookupError(request.events[0]["data"]["total"])

    topic = recapito.topic("orders")
    hook = recapito.receiver(judge, answer(503, retry_after=120), 200)
    topic.subscribe(hook)
    id = topic.publish("Order.Created", {"total": 1})
    recapito.clock.until_idle()
    hook.assert_attempted(id, at=["0s", "10s", "2m10s"])
    assert str(hook.attempts(id)[0]) == "attempt 1 at +0 s: answered 500 (LookupError: 1)"


def test_filters_schemas_and_headers(recapito: Recapito) -> None:
    """A subscription takes what its filter lets through, in its schema, with its headers."""
    topic = recapito.topic("orders", input_schema="CloudEventSchemaV1_0")
    hook = recapito.receiver()
    topic.subscribe(
        hook,
        included_event_types=["Order.Paid"],
        subject_begins_with="/orders/",
        subject_ends_with="7",
        advanced_filters=[{"operatorType": "NumberGreaterThan", "key": "data.total", "value": 10}],
        event_delivery_schema="CloudEventSchemaV1_0",
        max_events_per_batch=10,
        preferred_batch_size_in_kilobytes=64,
        delivery_attributes={"x-team": "billing"},
    )
    taken = topic.publish("Order.Paid", {"total": 11}, subject="/orders/7")
    others = (("Order.Lost", 11, "/orders/7"), ("Order.Paid", 9, "/orders/7"), ("Order.Paid", 11, "7"))
    for type, total, subject in others:
        hook.assert_not_delivered(topic.publish(type, {"total": total}, subject=subject))
    request = hook.assert_delivered(taken)
    assert request.headers["x-team"] == "billing"
    assert request.events[0]["specversion"] == "1.0"
    assert len(hook.requests) == 1


def test_a_profile_of_another_year(recapito: Recapito) -> None:
    """A topic may follow Event Grid as it was at another date."""
    topic = recapito.topic("orders", profile="2019-05")
    hook = recapito.receiver(404, 200)
    topic.subscribe(hook)
    id = topic.publish("Order.Created")
    recapito.clock.until_idle()
    assert len(hook.attempts(id)) == 2


def test_a_custom_schema(recapito: Recapito) -> None:
    """Events of one's own schema are published as they are."""
    topic = recapito.topic(
        "orders",
        input_schema="CustomEventSchema",
        input_schema_mapping={
            "inputSchemaMappingType": "Json",
            "properties": {
                "eventType": {"sourceField": "kind"},
                "subject": {"defaultValue": "order"},
                "dataVersion": {},
            },
        },
    )
    hook = recapito.receiver()
    topic.subscribe(hook, event_delivery_schema="CustomInputSchema")
    assert topic.publish_events({"kind": "Order.Created", "number": 7}) == []
    recapito.clock.settle()
    assert hook.events == [{"kind": "Order.Created", "number": 7}]
    with pytest.raises(ValueError, match="use publish_events"):
        topic.publish("Order.Created")


def test_what_a_failed_assertion_says(recapito: Recapito) -> None:
    """It says what was wanted, what was seen, attempt by attempt, where the clock stands, and what to do."""
    topic = recapito.topic("orders")
    hook = recapito.receiver(503, 503, 200)
    topic.subscribe(hook)
    id = topic.publish("Order.Created", id="a1")
    with pytest.raises(AssertionError) as early:
        hook.assert_delivered(id)
    recapito.clock.until_idle()
    with pytest.raises(AssertionError) as attempt:
        hook.assert_delivered(id, attempt=4, after="6m40s")
    with pytest.raises(AssertionError, match=r"'a1' was delivered on attempt 3 at \+1 min, not at \+6 min 40 s"):
        hook.assert_delivered(id, after="6m40s")
    with pytest.raises(AssertionError, match="'a1' was delivered once, not 2 times"):
        hook.assert_delivered(id, times=2)
    with pytest.raises(AssertionError, match="'a1' was delivered, and should not have been"):
        hook.assert_not_delivered(id)
    with pytest.raises(AssertionError, match=r"was not tried at just these times: \+0 s, \+10 s, \+40 s"):
        hook.assert_attempted(id, at=["0s", "10s", "40s"])
    with pytest.raises(AssertionError, match=r"'a2' never arrived(.|\n)+Other events that arrived: a1\."):
        hook.assert_delivered("a2")
    assert said(str(early.value)) == (
        "Event 'a1' was not delivered.\n"
        "What <Receiver, 1 requests> saw of it:\n"
        "  attempt 1 at +0 s: answered 503\n"
        "The clock stands at +0 s.\n"
        "recapito.clock.advance(…) lets the next attempt come, until_idle() all that are left."
    )
    assert said(str(attempt.value)) == (
        "Event 'a1' was delivered on attempt 3 at +1 min, not on attempt 4.\n"
        "What <Receiver, 3 requests> saw of it:\n"
        "  attempt 1 at +0 s: answered 503\n"
        "  attempt 2 at +30 s: answered 503\n"
        "  attempt 3 at +1 min: answered 200\n"
        "The clock stands at +1 min."
    )


def test_what_is_said_of_missing_letters(recapito: Recapito) -> None:
    """A test that looks for a letter too early, or where none are kept, gets that as its error."""
    topic = recapito.topic("orders")
    kept = topic.subscribe(recapito.receiver(400), name="kept", dead_letter=True)
    dropped = topic.subscribe(recapito.receiver(400), name="dropped")
    id = topic.publish("Order.Created")
    with pytest.raises(AssertionError, match="there are none\nLetters are written five minutes after"):
        kept.assert_dead_lettered(id)
    with pytest.raises(AssertionError, match="It keeps none: subscribe"):
        dropped.assert_dead_lettered(id)
    recapito.clock.advance("5m")
    with pytest.raises(AssertionError, match=r"The attempts are not 3: event .+BadRequest after 1 attempt, the"):
        kept.assert_dead_lettered(id, attempts=3)
    with pytest.raises(AssertionError, match="The reason is not Bored: event"):
        kept.assert_dead_lettered(id, reason="Bored")


def test_what_a_server_refuses_is_told(recapito: Recapito) -> None:
    """A mistake in a test is answered with the server's own words."""
    topic = recapito.topic("orders")
    with pytest.raises(AssertionError, match=r"Recapito refused PUT .+maxDeliveryAttempts"):
        topic.subscribe(recapito.receiver(), max_delivery_attempts=31)
    with pytest.raises(ValueError, match="has a topic 'orders' already"):
        recapito.topic("orders")


@pytest.mark.parametrize("turn", [1, 2])
def test_tests_do_not_see_each_other(recapito: Recapito, turn: int) -> None:
    """Everything that a test leaves behind, retries and letters included, is gone for the next one."""
    passed = recapito.clock.until_idle()
    assert passed == (0, 0, 0, 0, 0, True)
    topic = recapito.topic("orders")
    lost = topic.subscribe(recapito.receiver(400), name="lost", dead_letter=True)
    topic.subscribe(recapito.receiver(503), name="down")
    topic.publish("Order.Created")
    assert lost.dead_letters() == []
    recapito.clock.settle()


def test_a_subscription_can_go_before_the_test_does(recapito: Recapito) -> None:
    """An event published after the deletion is not delivered."""
    topic = recapito.topic("orders")
    hook = recapito.receiver()
    mine = topic.subscribe(hook)
    first = topic.publish("Order.Created")
    hook.assert_delivered(first)
    mine.delete()
    hook.assert_not_delivered(topic.publish("Order.Created"))


def test_a_failure_names_the_filter(recapito: Recapito) -> None:
    """An event that never arrived is told with the filter that refused it, or with the lack of any subscription."""
    orders, hook = recapito.topic("orders"), recapito.receiver()
    with pytest.raises(AssertionError, match=r"Topic orders has no subscription\."):
        hook.assert_delivered(orders.publish("Order.Created"))
    orders.subscribe(hook, name="billing", included_event_types=["Order.Paid"])
    orders.subscribe(hook, name="europe", subject_begins_with="/eu/")
    with pytest.raises(AssertionError) as never:
        hook.assert_delivered(orders.publish("Order.Created", subject="/us/1"))
    told = str(never.value)
    assert "Subscription orders/billing refused it: eventType 'Order.Created' is not" in told
    assert "Subscription orders/europe refused it: " in told and "(subjectBeginsWith)." in told
    assert "recapito.clock.advance" not in told
    with pytest.raises(AssertionError, match=r"No event of this id was published\."):
        hook.assert_delivered("unpublished")
