"""The parts of the portal that need no browser: words, addresses, what people type, samples, sessions."""

import pytest

from recapito.clock import SECOND
from recapito.domain.filters.filter import Operator
from recapito.portal import format
from recapito.portal.api_types import (
    SeriesBucket,
    ShownAttempt,
    ShownExplanation,
    ShownHold,
    ShownLane,
    ShownOptions,
    SubscriptionOutcome,
)
from recapito.portal.client import Tokens
from recapito.portal.pages.subscription_facts import settings_facts
from recapito.portal.panels.explanation import PAGE, choose, tally
from recapito.portal.panels.retry_chart import ANSWERS, answer_of, sentence, timetable_of
from recapito.portal.session import COOKIE, Sessions
from recapito.portal.urls import explain_path, read_id, resource_path, ways_back
from recapito.portal.widgets.chart import points
from recapito.portal.widgets.condition_text import check_values, read_values, show_values
from recapito.portal.widgets.form import check_number
from recapito.portal.widgets.table import Pager
from recapito.portal.widgets.timeline import RANGES, Timeline, shortest_range
from tests.system.machine import GROUP


@pytest.mark.parametrize(
    ("seconds", "said"), [(0, "0 s"), (59.6, "1 min"), (400, "6 min 40 s"), (3600, "1 h"), (90061, "1 d 1 h")]
)
def test_durations_have_two_units_at_most(seconds: float, said: str) -> None:
    """A duration is told by its two largest units."""
    assert format.duration(seconds) == said


def test_instants_are_told_from_now() -> None:
    """An instant is so far ahead or behind; what is none is told as nothing."""
    noon = "2026-01-01T12:00:00.0000000Z"
    assert format.relative("2026-01-01T12:05:00.0000000Z", noon) == "in 5 min"
    assert format.relative("2026-01-01T11:00:00.0000000Z", noon) == "1 h ago"
    assert format.relative(None, noon) == "" and format.instant("nonsense") == "–"


def test_every_operator_is_typed_and_shown_alike() -> None:
    """The value read from a condition's text is shown as that text again, for all 19 operators."""
    typed = {
        Operator.BOOL_EQUALS: "true",
        Operator.IS_NOT_NULL: "",
        Operator.IS_NULL_OR_UNDEFINED: "",
        Operator.NUMBER_IN: "1\n2.5",
        Operator.NUMBER_NOT_IN: "-1",
        Operator.NUMBER_IN_RANGE: "1, 5\n10, 20.5",
        Operator.NUMBER_NOT_IN_RANGE: "0, 0",
    }
    assert len(Operator) == 19
    for operator in Operator:
        default = "3" if operator.startswith("Number") else "one, two\nthree"
        text = typed.get(operator, default)
        assert show_values(read_values(operator, text)) == text


@pytest.mark.parametrize(
    ("operator", "typed", "said"),
    [
        (Operator.STRING_IN, " \n", "Enter a value."),
        (Operator.NUMBER_IN, "one", "'one' is not a number."),
        (Operator.NUMBER_IN, "nan", "'nan' is not a number."),
        (Operator.NUMBER_IN_RANGE, "5", "two numbers"),
        (Operator.NUMBER_IN_RANGE, "5, 1", "smaller number comes first"),
        (Operator.NUMBER_LESS_THAN, "1\n2", "one value only"),
        (Operator.BOOL_EQUALS, "yes", "true or false"),
    ],
)
def test_wrong_values_are_explained(operator: Operator, typed: str, said: str) -> None:
    """A text that cannot be a value of an operator is refused in words."""
    assert said in (check_values(operator, typed) or "")


@pytest.mark.parametrize("given", ["", "0", "31", "1.5", "x", "-1", "９", "1" * 40])
def test_numbers_out_of_range_are_refused(given: str) -> None:
    """Only whole numbers within the range are taken."""
    assert check_number(given, (1, 30)) is not None
    assert check_number("30", (1, 30)) is None


def test_addresses_are_resource_ids() -> None:
    """A page's path is the id of its resource, whatever is in that; an id of something else is none."""
    id = f"{GROUP}/domains/shop/topics/a b?<c>/eventSubscriptions/apples"
    assert "<" not in resource_path(id) and "?" not in resource_path(id)
    address = read_id(id)
    assert address is not None
    assert (address.kind, address.topic, address.subscription) == ("domains", "shop", "apples")
    assert address.parent_id.endswith("/domains/shop/topics/a b?<c>")
    assert read_id(f"{GROUP}/systemTopics/x/topics/y") is None and read_id("/etc/passwd") is None
    assert explain_path("a&b=c", "t") == "/explain?event=a%26b%3Dc&topic=t"


def test_a_timeline_adds_up_answers_and_forgets_the_old() -> None:
    """Each answer of the server is added to its bucket; the newest bucket is last, and old ones go."""
    timeline = Timeline("15")
    bucket = SeriesBucket(at="2026-01-01T12:00:00.0000000Z", delivered=2, answers=1, took_ms=5)
    timeline.add([bucket, SeriesBucket(at="2026-01-01T11:00:00.0000000Z", failed=9)])
    timeline.add([SeriesBucket(at="2026-01-01T12:00:00.0000000Z", delivered=1, dead_lettered=4, answers=1, took_ms=15)])
    lines = timeline.lines("2026-01-01T12:00:14.0000000Z")
    assert (lines["delivered"][-1], lines["deadlettered"][-1], sum(lines["failed"])) == (3, 4, 0)
    assert timeline.latency("2026-01-01T12:00:14.0000000Z")[-2:] == [None, 10]
    later = timeline.lines("2026-01-01T12:00:31.0000000Z")["delivered"]
    assert later[-3:] == [3, 0, 0] and len(later) == 60
    assert all(Timeline(minutes).buckets <= 100 for minutes in RANGES)


@pytest.mark.parametrize(
    ("newest", "range"),
    [
        (None, "15"),
        ("2026-01-31T11:46:00.000Z", "15"),
        ("2026-01-31T11:44:00.000Z", "60"),
        ("2026-01-30T12:01:00.000Z", "1440"),
        ("2026-01-30T11:59:00.000Z", "15"),
    ],
)
def test_a_chart_opens_with_what_there_is(newest: str | None, range: str) -> None:
    """The first range is the shortest one that has the newest attempt, so that a quiet hour is no empty chart."""
    assert shortest_range(newest, "2026-01-31T12:00:00.000Z") == range


def test_a_count_is_on_one_line() -> None:
    """Thousands are apart, and no line breaks between them."""
    assert format.number(1234567) == "1\xa0234\xa0567"


def test_lines_are_drawn_to_scale() -> None:
    """The highest value is at the top; a line of zeros is not drawn, a lone point is a short stroke."""
    assert points([0, 0], 1) == "" and points([], 1) == ""
    assert points([0, 4], 4) == "44.0,130.0 480.0,8.0"
    assert points([None, 2, None], 2) == "260.0,8.0 264.0,8.0"


def test_sentences_of_the_server_are_told_from_now() -> None:
    """An instant in a sentence is given to the second, with its distance; a long id by its ends."""
    said = format.told("held until 2026-01-01T12:05:00.1234567Z, then", "2026-01-01T12:00:00.0000000Z")
    assert said == "held until 2026-01-01 12:05:00 UTC (in 5 min), then"
    assert format.short_id("first") == "first"
    assert format.short_id("0123456789abcdef0") == "01234567…def0"


def test_ways_back_name_what_is_above() -> None:
    """A page that is not there leads to its topic, to its list and to the overview."""
    assert ways_back("/nowhere") == [("Go to the overview", "/")]
    subscription = resource_path(f"{GROUP}/topics/demo/eventSubscriptions/gone")
    assert [name for name, _ in ways_back(subscription)] == ["Go to demo", "Go to the overview", "Go to the topics"]


def test_the_timetable_opens_with_the_last_answer() -> None:
    """A status of its own is among the choices; without an answer there is none."""
    assert answer_of(None) == answer_of(ShownAttempt()) == ("none", ANSWERS)
    assert answer_of(ShownAttempt(status=503)) == ("503", ANSWERS)
    given, options = answer_of(ShownAttempt(status=502))
    assert given == "502" and options["502"] == "502, as it answered last" and "503" in options


def test_states_are_named_by_the_worst() -> None:
    """A subscription on probation is not merely retrying, and one that waits for consent is neither."""
    assert ShownLane().state == ("Healthy", "good")
    assert ShownLane(failures_in_a_row=2).state == ("Failing", "bad")  # whatever failed was given up
    assert ShownLane(parked=1).state == ("Retrying", "wait")
    assert ShownLane(parked=1, hold=ShownHold(on=True)).state == ("Probation", "bad")
    assert ShownLane(provisioning_state="AwaitingManualAction").state[1] == "wait"


def test_options_are_among_the_settings() -> None:
    """Limits and signatures are shown where they are set, and the secrets are counted."""
    shown = {
        "id": "/id",
        "systemData": {"createdAt": "2026-01-01T00:00:00Z"},
        "properties": {
            "eventDeliverySchema": "EventGridSchema",
            "retryPolicy": {"maxDeliveryAttempts": 1, "eventTimeToLiveInMinutes": 1},
            "provisioningState": "Succeeded",
        },
    }
    options = ShownOptions(signing_secrets=2, max_requests=4, events_per_second=50)
    facts = {fact.name: fact.value for fact in settings_facts(shown, options)}
    assert facts["Limits"] == "4 requests in flight, 50 events per second"
    assert facts["Signatures"] == "Standard Webhooks, 2 secrets"
    assert not {"Limits", "Signatures"} & {fact.name for fact in settings_facts(shown, ShownOptions())}


def test_timetable_in_a_sentence() -> None:
    """The sentence under the picture says how often, for how long and to what end."""
    times = timetable_of("2021-03", True, 3, 1440, "503", dead_letters=False)
    assert len(times.attempts) == 3
    dropped = "is dropped after 1 min (MaxDeliveryAttemptsExceeded), since there is no dead-letter destination."
    assert sentence(times, dead_letters=False) == f"An event is tried 3 times, and {dropped}"
    assert "dead-lettered at once" in sentence(timetable_of("2021-03", True, 30, 1440, "400", True), True)


def test_sessions_end() -> None:
    """A session ends with its tokens, by signing out, or when there are too many."""
    now = {"at": 0}
    sessions = Sessions(lambda: now["at"], secure=True)
    cookie = sessions.begin("me", Tokens("t", None), 60)
    assert "HttpOnly" in cookie and "SameSite=Strict" in cookie and "Secure" in cookie
    sent = cookie.partition(";")[0].encode()
    found = sessions.find(b"other=1; " + sent)
    assert found is not None and found.principal == "me" and "t" not in repr(found.tokens).replace("Tokens", "")
    now["at"] = 60 * SECOND
    assert sessions.find(sent) is None
    again = sessions.begin("me", Tokens("t", None), 60).partition(";")[0].encode()
    assert "Max-Age=0" in sessions.end(again)
    assert sessions.find(again) is None and sessions.find(f"{COOKIE}=".encode()) is None


def test_pages_go_back_and_forth() -> None:
    """A pager goes on where the server says, back where it came from, and starts over."""
    pager = Pager()
    pager.follow("b")
    pager.forward()
    pager.follow(None)
    pager.forward()
    assert pager.start == "b" and pager.has_before and not pager.has_next
    pager.back()
    pager.back()
    assert pager.start is None and not pager.has_before


def test_fates_are_paged_and_what_is_not_well_comes_first() -> None:
    """Of many subscriptions a page shows some, those that gave up before those that wait; the counts are of all."""
    states = ["notMatched", "delivered", "parked", "dropped"]
    fates = [SubscriptionOutcome(subscription=f"Sub-{n}", state=states[n % 4]) for n in range(40)]
    found = ShownExplanation(subscriptions=fates)
    pages = [choose(found, "", first) for first in range(0, 40, PAGE)]
    assert [{fate.state for fate in page.fates} for page in pages] == [{state} for state in reversed(states)]
    assert {page.chosen for page in pages} == {40}
    assert [fate.subscription for fate in choose(found, "SUB-39", 0).fates] == ["Sub-39"]
    assert tally(fates) == "40 subscriptions: dropped 10, waits for its next attempt 10, delivered 10, not matched 10."
    assert tally(fates[:PAGE]) == ""
