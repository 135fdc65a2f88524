"""The example that copies topics between clouds, with Microsoft's management SDK on both sides."""

import importlib.util
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
from azure.mgmt.eventgrid import EventGridManagementClient
from azure.mgmt.eventgrid.models import (
    EventSubscription,
    EventSubscriptionFilter,
    NumberInAdvancedFilter,
    RetryPolicy,
    StaticDeliveryAttributeMapping,
    Topic,
    WebHookEventSubscriptionDestination,
)

from tests.clients.service import SUBSCRIPTION, Service, service
from tests.clients.webhook import Webhook

pytestmark = pytest.mark.xdist_group("python")


def example() -> ModuleType:
    path = Path(__file__).parents[2] / "examples" / "copy_topics.py"
    spec = importlib.util.spec_from_file_location("copy_topics", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def other(recapito: Service, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Service]:
    """Another cloud, trusted by Microsoft's clients beside the first; its topics take one subscription each."""
    monkeypatch.setenv("RECAPITO_QUOTA_SUBSCRIPTIONS_PER_TOPIC", "1")
    with service(tmp_path / "data") as it:
        bundle = tmp_path / "both.pem"
        trusted = [Path(one.trust["REQUESTS_CA_BUNDLE"]).read_text() for one in (recapito, it)]
        bundle.write_text("\n".join(trusted))
        monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(bundle))
        yield it


def connect(copying: ModuleType, it: Service, environment: pytest.MonkeyPatch) -> EventGridManagementClient:
    for name, value in zip(("TENANT_ID", "CLIENT_ID", "CLIENT_SECRET"), it.principal, strict=True):
        environment.setenv(f"AZURE_{name}", value)
    client: EventGridManagementClient = copying.connect(it.url, SUBSCRIPTION)
    return client


def test_a_copy_is_the_same(recapito: Service, other: Service, hook: Webhook, monkeypatch: pytest.MonkeyPatch) -> None:
    """All of a group is in the other cloud as well, what is not shown included; what cannot be copied is named."""
    copying = example()
    source, target = (connect(copying, it, monkeypatch) for it in (recapito, other))
    source.topics.begin_create_or_update("copied", "copied-a", Topic(location="local", tags={"team": "red"})).result()
    asked = EventSubscription(
        destination=WebHookEventSubscriptionDestination(
            endpoint_url=hook.url("copied?code=secret"),
            max_events_per_batch=10,
            preferred_batch_size_in_kilobytes=32,
            delivery_attribute_mappings=[StaticDeliveryAttributeMapping(name="x-key", value="k", is_secret=True)],
        ),
        filter=EventSubscriptionFilter(
            included_event_types=["Paid"], advanced_filters=[NumberInAdvancedFilter(key="data.n", values=[1, 2])]
        ),
        retry_policy=RetryPolicy(max_delivery_attempts=3, event_time_to_live_in_minutes=60),
    )
    source.topic_event_subscriptions.begin_create_or_update("copied", "copied-a", "mine", asked).result()
    more = EventSubscription(destination=WebHookEventSubscriptionDestination(endpoint_url=hook.url("copied-too")))
    source.topic_event_subscriptions.begin_create_or_update("copied", "copied-a", "too-many", more).result()

    said = list(copying.copy(source, target, "copied", "moved"))

    assert said[:2] == ["topic copied-a", "event subscription copied-a/mine"]
    assert said[2].startswith("NOT COPIED: event subscription copied-a/too-many: ")
    made = target.topics.get("moved", "copied-a")
    assert made.tags == {"team": "red"}
    assert made.input_schema == "EventGridSchema"
    names = ("moved", "copied-a", "mine")
    copied, original = (
        client.topic_event_subscriptions.get(group, "copied-a", "mine")
        for client, group in ((target, "moved"), (source, "copied"))
    )
    for part in ("filter", "retry_policy", "event_delivery_schema"):
        assert getattr(copied, part) == getattr(original, part)
    assert copied.destination.max_events_per_batch == 10
    assert target.topic_event_subscriptions.get_full_url(*names).endpoint_url == hook.url("copied?code=secret")
    [header] = target.topic_event_subscriptions.get_delivery_attributes(*names).value
    assert header.name == "x-key"
    assert header.value == "k"
