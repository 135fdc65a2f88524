"""Quotas: how many of each kind there may be, each counted where it belongs."""

from typing import Any

import pytest

from recapito.domain.resources.topic import Domain, Source, TopicKind
from recapito.errors import Conflict
from recapito.intake.resources.validation import Quota
from tests.intake.provisioning import Bench, draft, refused, run

SOURCE = "/subscriptions/s/resourceGroups/g/providers/Microsoft.Storage/storageAccounts/account"


def of_kind(kind: TopicKind, n: int) -> dict[str, Any]:
    more: dict[str, Any] = {"kind": kind}
    if kind is TopicKind.DOMAIN:
        more["domain"] = Domain()
    if kind is TopicKind.SYSTEM:
        more["source"] = Source(f"{SOURCE}{n}", "Microsoft.Storage.StorageAccounts")
    return more


@pytest.mark.parametrize("kind", list(TopicKind))
def test_topics_of_each_kind(kind: TopicKind) -> None:
    """Each kind has its own quota; a change is always possible, and a deleted one makes room."""
    quota = Quota(topics=2, domains=2, system_topics=2)

    async def test(bench: Bench) -> None:
        for other in TopicKind:
            if other is not kind:
                await bench.topic("other", **of_kind(other, 9))
        made = [await bench.topic(f"topic-{n}", **of_kind(kind, n)) for n in range(2)]
        await refused(bench.topic("topic-2", **of_kind(kind, 2)), Conflict)
        await bench.topic("topic-1", **of_kind(kind, 1))
        await bench.topics.delete(made[0])
        await bench.topic("topic-2", **of_kind(kind, 2))

    run(test, quota=quota)


def test_subscriptions_of_a_domain_and_of_its_topics() -> None:
    """A domain counts its own subscriptions, and each of its topics its own."""

    async def test(bench: Bench) -> None:
        domain = await bench.topic("shop", **of_kind(TopicKind.DOMAIN, 0))
        put = bench.subscriptions.put
        for topic in ("north", "south"):
            for name in ("one", "two"):
                await put(domain, draft(name, domain_topic=topic))
            await refused(put(domain, draft("three", domain_topic=topic)), Conflict)
        await put(domain, draft("one"))
        await refused(put(domain, draft("two")), Conflict)
        await put(domain, draft("one"))

    run(test, quota=Quota(subscriptions_per_topic=2, subscriptions_per_domain=1))


def test_topics_of_a_domain() -> None:
    """A domain has a bounded number of topics, made by name or by a subscription; a deleted one makes room."""

    async def test(bench: Bench) -> None:
        domain = await bench.topic("shop", **of_kind(TopicKind.DOMAIN, 0))
        topics = bench.topics.domain_topics
        await topics.put(domain, "north")
        await bench.subscriptions.put(domain, draft(domain_topic="south"))
        await topics.put(domain, "NORTH")
        await refused(topics.put(domain, "east"), Conflict)
        await refused(bench.subscriptions.put(domain, draft(domain_topic="east")), Conflict)
        await bench.topics.delete_domain_topic(domain, "north")
        await topics.put(domain, "east")

    run(test, quota=Quota(topics_per_domain=2))
