"""Subscriptions: the filter in force at a position, the default policy, and no secret in any repr."""

from collections.abc import Callable

import pytest
from rich.pretty import pretty_repr

from recapito.domain.filters.filter import Filter
from recapito.domain.instant import HOUR, MINUTE
from recapito.domain.profiles.profile import EndpointKind
from recapito.domain.resources.destination import WebHook
from recapito.domain.resources.subscription import DeadLetterDirectory, FilterSince, RetryPolicy
from tests.kit.resources import a_subscription

OLD, NEW = Filter(event_types=("old",)), Filter(event_types=("new",))
HOOK = WebHook(url="https://example.test/hook?code=SECRET")
SUBSCRIPTION = a_subscription(
    id=4, topic=2, name="audit", destination=HOOK, filters=(FilterSince(5, OLD), FilterSince(9, NEW))
)


@pytest.mark.parametrize(("position", "filter"), [(1, OLD), (5, OLD), (8, OLD), (9, NEW), (10**9, NEW)])
def test_filter_at(position: int, filter: Filter) -> None:
    """A segment is matched with the filter in force at its position; the last one is the one of now."""
    assert SUBSCRIPTION.filter_at(position) == filter
    assert SUBSCRIPTION.filter == NEW


@pytest.mark.parametrize("show", [repr, str, pretty_repr])
def test_the_query_of_a_webhook_is_never_shown(show: Callable[[object], str]) -> None:
    """However a webhook or its subscription is printed, the query of the URL is left out."""
    assert "https://example.test/hook" in show(HOOK)
    assert "SECRET" not in show(HOOK) + show(SUBSCRIPTION)


def test_a_webhook_is_a_webhook() -> None:
    """A webhook falls under the profiles' rules for webhooks."""
    assert HOOK.endpoint_kind is EndpointKind.WEBHOOK


@pytest.mark.parametrize(
    ("policy", "default"),
    [(RetryPolicy(), True), (RetryPolicy(30, 1440), True), (RetryPolicy(29), False), (RetryPolicy(30, 1439), False)],
)
def test_default_policy(policy: RetryPolicy, default: bool) -> None:
    """Only 30 attempts and 1440 minutes are the default policy, whether given or left out."""
    assert policy.is_default is default


def test_durations() -> None:
    """The time to live is given in minutes, and a dead-letter directory is its own container."""
    assert RetryPolicy(ttl_minutes=1).ttl_ns == MINUTE
    assert RetryPolicy().ttl_ns == 24 * HOUR
    assert DeadLetterDirectory("orders").container == "orders"
