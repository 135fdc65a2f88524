"""Builders of topics and subscriptions: a test names only the settings that it is about."""

from typing import Any

from recapito.domain.filters.filter import TAKE_ALL, Filter
from recapito.domain.resources.destination import WebHook
from recapito.domain.resources.subscription import FilterSince, Subscription
from recapito.domain.resources.topic import Topic


def a_topic(**settings: Any) -> Topic:
    """The topic `orders`, created at the instant 0, with these settings changed."""
    plain = {
        "name": "orders",
        "azure_subscription": "s",
        "resource_group": "g",
        "location": "l",
        "key1": "1",
        "key2": "2",
        "created_at": 0,
        "modified_at": 0,
    }
    return Topic(**(plain | settings))


def a_subscription(topic: int = 1, name: str = "sub", filter: Filter = TAKE_ALL, **settings: Any) -> Subscription:
    """A subscription to a webhook, created at the instant 0, with these settings changed.

    `filter` is in force from the first position on; `filters` replaces it.
    """
    plain = {
        "destination": WebHook(url="http://sub/"),
        "filters": (FilterSince(0, filter),),
        "created_at": 0,
        "modified_at": 0,
    }
    return Subscription(topic=topic, name=name, **(plain | settings))
