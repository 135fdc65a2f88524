"""Topics and subscriptions under Event Grid's rules: names, places, keys, quotas and profiles."""

import asyncio
import base64

import pytest

from recapito.domain import limits
from recapito.domain.access.egress import Egress
from recapito.domain.filters.filter import Filter
from recapito.domain.profiles import profile
from recapito.domain.resources.destination import WebHook
from recapito.domain.resources.subscription import Batching, DeadLetterDirectory, RetryPolicy
from recapito.domain.resources.topic import Domain, Topic, TopicKind
from recapito.errors import Conflict, InvalidInput, NotFound, StoreFailed
from recapito.intake.resources.domain_topics import KIND
from recapito.intake.resources.drafts import SubscriptionDraft, TopicDraft
from recapito.intake.resources.storage_accounts import StorageAccount
from recapito.stores.memory import MemoryDisk, MemoryLog
from tests.intake.provisioning import Bench, draft, refused, run
from tests.kit.resources import a_topic
from tests.stores.spoil import MemorySpoiler


def test_a_new_topic_has_two_keys_of_44_characters() -> None:
    """Keys are the base64 of 32 random bytes, and the two differ."""

    async def test(bench: Bench) -> None:
        topic = await bench.topic()
        assert [len(base64.b64decode(key)) for key in (topic.key1, topic.key2)] == [32, 32]
        assert (len(topic.key1), topic.key1 != topic.key2) == (44, True)
        assert (topic.location, topic.created_at, bench.changes) == ("local", bench.clock.instant, 1)

    run(test)


def test_an_implicit_system_topic_that_goes_is_announced() -> None:
    """Dispatch is told at once; it would otherwise go on with the topic until it looks by itself."""

    async def test(bench: Bench) -> None:
        account = StorageAccount(name="pictures", azure_subscription="sub", resource_group="group", location="local")
        topic = await bench.topics.system_topic_for(account, make=True)
        assert topic is not None and bench.changes == 1
        await bench.topics.tidy_system_topic(topic)
        assert (await bench.topics.system_topic_of(account.resource_id), bench.changes) == (None, 2)

    run(test)


def test_putting_a_topic_again_keeps_its_keys_its_name_and_its_birth() -> None:
    """An overwrite changes tags and the time of change, and nothing that others hold on to."""

    async def test(bench: Bench) -> None:
        old = await bench.topic("Orders", location="westus2")
        bench.clock.instant += 5
        new = await bench.topic("orders", tags={"a": "b"})
        assert (new.id, new.name, new.key1, new.key2, new.created_at) == (
            old.id,
            "Orders",
            old.key1,
            old.key2,
            old.created_at,
        )
        assert (new.tags, new.location, new.modified_at, new.version) == (
            {"a": "b"},
            "westus2",
            bench.clock.instant,
            old.version + 1,
        )

    run(test)


@pytest.mark.parametrize(
    "name",
    ["", "ab", "x" * 51, "a_b", "a.b", "a b", "örders", "orders\n", "a/b", "Microsoft-x", "eventgridx", "SYSTEM1"],
)
def test_bad_topic_names(name: str) -> None:
    """A topic name has 3 to 50 letters, digits and hyphens and does not start with a reserved word."""

    async def test(bench: Bench) -> None:
        await refused(bench.topic(name), InvalidInput, "name")

    run(test)


@pytest.mark.parametrize("name", ["abc", "x" * 50, "A-1", "my-microsoft", "123"])
def test_good_topic_names(name: str) -> None:
    """Names at both ends of the range are taken."""

    async def test(bench: Bench) -> None:
        assert (await bench.topic(name)).name == name

    run(test)


@pytest.mark.parametrize(
    ("name", "good"), [("ab", False), ("abc", True), ("x" * 64, True), ("x" * 65, False), ("a\r\nb", False)]
)
def test_subscription_names(name: str, good: bool) -> None:
    """A subscription name has 3 to 64 letters, digits and hyphens: it becomes a header."""

    async def test(bench: Bench) -> None:
        topic = await bench.topic()
        if good:
            assert (await bench.subscriptions.put(topic, draft(name))).name == name
        else:
            await refused(bench.subscriptions.put(topic, draft(name)), InvalidInput, "name")

    run(test)


def test_places_are_checked() -> None:
    """Names that become part of the events' topic id are checked too."""

    async def test(bench: Bench) -> None:
        await refused(bench.topic(group='g"\n'), InvalidInput, "resourceGroupName")
        await refused(bench.topic(group="x" * 91), InvalidInput, "resourceGroupName")
        wrong = TopicDraft.of(name="orders", azure_subscription="", resource_group="g")
        await refused(bench.topics.put(wrong), InvalidInput, "subscriptionId")

    run(test)


def test_a_topic_is_found_only_at_its_place() -> None:
    """The same name in another group is a conflict to create and not there to get; case does not matter."""

    async def test(bench: Bench) -> None:
        await bench.topic()
        await refused(bench.topic(group="other"), Conflict, "name")
        await refused(bench.topics.get("sub", "other", "orders"), NotFound)
        assert (await bench.topics.get("SUB", "Group", "ORDERS")).name == "orders"

    run(test)


def test_a_topic_can_not_move() -> None:
    """Another location than the one it has is a conflict."""

    async def test(bench: Bench) -> None:
        await bench.topic(location="westus")
        await refused(bench.topic(location="eastus"), Conflict, "location")
        await bench.topic(location="WestUS")

    run(test)


def test_regenerated_keys_are_seen_at_once() -> None:
    """After a key was regenerated the hot path knows the new one, and the other key is as it was."""

    async def test(bench: Bench) -> None:
        topic = await bench.topic()
        assert await bench.topics.find("ORDERS") == topic
        fresh = await bench.topics.regenerate_key(topic, "key2")
        assert (fresh.key1 == topic.key1, fresh.key2 == topic.key2) == (True, False)
        assert await bench.topics.find("orders") == fresh

    run(test)


def test_a_deleted_topic_is_gone_everywhere() -> None:
    """After deletion neither the hot path nor a change finds the topic; its name is free."""

    async def test(bench: Bench) -> None:
        topic = await bench.topic()
        await bench.topics.find("orders")
        await bench.topics.delete(topic)
        assert await bench.topics.find("orders") is None
        await refused(bench.topics.delete(topic), NotFound)
        await refused(bench.topics.regenerate_key(topic, "key1"), NotFound)
        await refused(bench.subscriptions.put(topic, draft()), NotFound)
        assert (await bench.topic()).id != topic.id

    run(test)


def test_the_profile_tag() -> None:
    """The tag names the topic's profile, in any case of its letters; an unknown name is refused."""

    async def test(bench: Bench) -> None:
        assert bench.topics.profile_of(await bench.topic()).name == profile.DEFAULT
        tagged = await bench.topic(tags={"Recapito-Profile": "2019-05"})
        assert bench.topics.profile_of(tagged).name == "2019-05"
        assert "2021-03" in await refused(bench.topic(tags={"recapito-profile": "1999"}), InvalidInput, "profile")

    run(test)


def test_the_default_profile_is_the_servers() -> None:
    """A topic without the tag follows the profile that the server was started with."""

    async def test(bench: Bench) -> None:
        assert bench.topics.profile_of(await bench.topic()).name == "2026-02"

    run(test, default_profile="2026-02")


@pytest.mark.parametrize("year", ["2019-05", "2019-07"])
@pytest.mark.parametrize(
    ("batching", "field"), [(Batching(10), "maxEventsPerBatch"), (Batching(None, 64), "preferredBatchSizeInKilobytes")]
)
def test_batching_is_refused_where_the_profile_has_none(year: str, batching: Batching, field: str) -> None:
    """The error names the field and the profile."""

    async def test(bench: Bench) -> None:
        topic = await bench.topic(tags={"recapito-profile": year})
        said = await refused(bench.subscriptions.put(topic, draft(batching=batching)), InvalidInput, field)
        assert year in said and field in said

    run(test)


def test_one_event_a_batch_is_no_batching() -> None:
    """The default that the SDKs always send, 1 event and 64 KB, is taken under every profile."""

    async def test(bench: Bench) -> None:
        topic = await bench.topic(tags={"recapito-profile": "2019-05"})
        assert await bench.subscriptions.put(topic, draft(batching=Batching(1, 64)))

    run(test)


def test_a_profile_without_batching_is_refused_while_a_subscription_batches() -> None:
    """A later PUT of the topic cannot take away what a subscription uses."""

    async def test(bench: Bench) -> None:
        topic = await bench.topic()
        await bench.subscriptions.put(topic, draft("batcher", batching=Batching(10)))
        said = await refused(bench.topic(tags={"recapito-profile": "2019-07"}), InvalidInput, "profile")
        assert "batcher" in said and "2019-07" in said
        await bench.subscriptions.delete(topic, "batcher")
        await bench.topic(tags={"recapito-profile": "2019-07"})

    run(test)


def test_a_subscription_is_stored_as_asked() -> None:
    """Everything in the draft is in the subscription, which starts at its change mark."""

    async def test(bench: Bench) -> None:
        topic = await bench.topic()
        asked = draft(
            batching=Batching(10, 100),
            retry_policy=RetryPolicy(3, 60),
            dead_letter=DeadLetterDirectory("orders"),
            filter=Filter(subject_begins_with="/a"),
            labels=("x",),
        )
        stored, wanted = await bench.subscriptions.put(topic, asked), asked.wanted
        assert stored == await bench.subscriptions.get(topic, "MINE")
        assert (stored.batching, stored.retry_policy, stored.dead_letter) == (
            wanted.batching,
            wanted.retry_policy,
            wanted.dead_letter,
        )
        assert (stored.filter, stored.labels, stored.created_position) == (wanted.filter, ("x",), 2)

    run(test)


def test_changing_a_subscription_keeps_its_identity_and_adds_its_filter() -> None:
    """An overwrite keeps id, name and birth; a new filter holds from its mark on, what is left out gets its default."""

    async def test(bench: Bench) -> None:
        topic = await bench.topic()
        old = await bench.subscriptions.put(topic, draft("Mine", dead_letter=DeadLetterDirectory("orders")))
        bench.clock.instant += 1
        new = await bench.subscriptions.put(topic, draft("mine", filter=Filter(subject_begins_with="/a")))
        assert (new.id, new.name, new.created_at, new.created_position) == (
            old.id,
            "Mine",
            old.created_at,
            old.created_position,
        )
        assert [since.filter for since in new.filters] == [Filter(), Filter(subject_begins_with="/a")]
        assert (new.dead_letter, new.modified_at) == (None, bench.clock.instant)

    run(test)


@pytest.mark.parametrize(
    "url",
    ["ftp://example.com/", "https://user:pw@example.com/", "http://169.254.169.254/", "https://e.com/\r\nX: 1", ""],
)
def test_endpoints_that_can_not_be_dialled_are_refused(url: str) -> None:
    """A URL that the sender would never dial is refused when it is put."""

    async def test(bench: Bench) -> None:
        wanted = SubscriptionDraft.of(name="mine", destination=WebHook(url=url))
        await refused(bench.subscriptions.put(await bench.topic(), wanted), InvalidInput, "endpointUrl")

    run(test)


def test_loopback_is_refused_under_public_egress() -> None:
    """With --egress public a loopback endpoint is refused, which is fine by default."""
    local = SubscriptionDraft.of(name="mine", destination=WebHook(url="http://127.0.0.1:9000/"))

    async def strict(bench: Bench) -> None:
        await refused(bench.subscriptions.put(await bench.topic(), local), InvalidInput, "endpointUrl")

    async def relaxed(bench: Bench) -> None:
        assert await bench.subscriptions.put(await bench.topic(), local)

    run(strict, egress=Egress.PUBLIC)
    run(relaxed)


def test_quota_of_subscriptions() -> None:
    """A topic takes 500 subscriptions; deleted ones do not count, and an overwrite is always possible."""

    async def test(bench: Bench) -> None:
        topic = await bench.topic()
        for n in range(limits.SUBSCRIPTIONS_PER_TOPIC):
            await bench.subscriptions.put(topic, draft(f"sub-{n}"))
        await refused(bench.subscriptions.put(topic, draft("one-more")), Conflict)
        await bench.subscriptions.put(topic, draft("sub-7"))
        await bench.subscriptions.delete(topic, "sub-7")
        await bench.subscriptions.put(topic, draft("one-more"))

    run(test)


class CrowdedRegistry(MemoryLog):
    """A registry that says it has as many topics as are allowed, less one."""

    async def topics(self, after: str, limit: int) -> list[Topic]:
        real = await super().topics(after, limit)
        return real if after != "topics/" else [await self._any()] * (limits.TOPICS - 1)

    async def _any(self) -> Topic:
        return a_topic(name="zzz", key1="k", key2="k")


def test_quota_of_topics() -> None:
    """When all topics are there no more are made, until one is deleted."""

    async def test(bench: Bench) -> None:
        last = await bench.topic("last-one")
        await refused(bench.topic("too-many"), Conflict)
        await bench.topic("last-one")
        await bench.topics.delete(last)
        await bench.topic("not-too-many")

    run(test, registry=CrowdedRegistry())


def test_pages_of_topics() -> None:
    """A walk goes through all topics of a kind in the order of their names, from any name on."""

    async def test(bench: Bench) -> None:
        for name in ("delta", "alpha", "Charlie", "bravo", "echo"):
            await bench.topic(name)
        await bench.topic("other", group="elsewhere")
        walk = bench.topics.walk(TopicKind.CUSTOM)
        assert [topic.name async for topic in walk] == ["alpha", "bravo", "Charlie", "delta", "echo", "other"]
        rest = bench.topics.walk(TopicKind.CUSTOM, "CHARLIE")
        assert [topic.name async for topic in rest] == ["delta", "echo", "other"]
        assert not [topic async for topic in bench.topics.walk(TopicKind.DOMAIN)]

    run(test)


def test_pages_of_subscriptions() -> None:
    """A walk has the living subscriptions of the topic, or of all, from any of them on."""

    async def test(bench: Bench) -> None:
        topic, other = await bench.topic(), await bench.topic("other")
        for name in ("one", "two", "three", "four"):
            await bench.subscriptions.put(topic, draft(name))
        await bench.subscriptions.put(other, draft("else"))
        await bench.subscriptions.delete(topic, "two")
        found = [one async for one in bench.subscriptions.walk(topic)]
        assert [one.name for one in found] == ["one", "three", "four"]
        assert [one.name async for one in bench.subscriptions.walk(topic, found[1].id)] == ["four"]
        assert len([one async for one in bench.subscriptions.walk()]) == 4

    run(test)


def test_deleting_a_subscription_that_is_not_there() -> None:
    """An absent subscription is not found, and a deleted name can be used again."""

    async def test(bench: Bench) -> None:
        topic = await bench.topic()
        first = await bench.subscriptions.put(topic, draft())
        await bench.subscriptions.delete(topic, "mine")
        await refused(bench.subscriptions.delete(topic, "mine"), NotFound)
        await refused(bench.subscriptions.get(topic, "mine"), NotFound)
        assert (await bench.subscriptions.put(topic, draft())).id != first.id

    run(test)


def test_changes_of_one_moment_go_one_after_the_other() -> None:
    """Ten PUTs of one topic at once all succeed, each on top of the one before."""

    async def test(bench: Bench) -> None:
        topics = await asyncio.gather(*(bench.topic(tags={"n": str(n)}) for n in range(10)))
        assert len({topic.version for topic in topics}) == 10
        assert len({topic.id for topic in topics}) == 1

    run(test)


class SlowRegistry(MemoryLog):
    """A registry whose reads by name wait until they are let go, after they have read."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = asyncio.Event()
        self.gate.set()

    async def topic(self, name: str, kind: TopicKind = TopicKind.CUSTOM) -> Topic | None:
        found = await super().topic(name, kind)
        await self.gate.wait()
        return found


def test_a_read_that_a_change_overtook_is_not_kept() -> None:
    """A look-up that read the old topic while it changed does not leave the old one behind for the next."""

    async def test(bench: Bench) -> None:
        registry = bench.registry
        assert isinstance(registry, SlowRegistry)
        topic = await bench.topic()
        registry.gate.clear()
        reading = asyncio.create_task(bench.topics.find("orders"))
        await asyncio.sleep(0)
        fresh = await bench.topics.regenerate_key(topic, "key1")
        registry.gate.set()
        assert await reading == topic
        assert await bench.topics.find("orders") == fresh

    run(test, registry=SlowRegistry())


class FailingRegistry(MemoryLog):
    """A registry that stores a topic and says that it failed."""

    failing = False

    async def put_topic(self, topic: Topic) -> Topic:
        stored = await super().put_topic(topic)
        if self.failing:
            raise StoreFailed("disk I/O error")
        return stored


def test_after_a_failed_change_the_store_is_asked_again() -> None:
    """When a change failed, what is remembered is dropped: the store knows, we do not."""

    async def test(bench: Bench) -> None:
        registry = bench.registry
        assert isinstance(registry, FailingRegistry)
        topic = await bench.topic()
        await bench.topics.find("orders")
        registry.failing = True
        with pytest.raises(StoreFailed):
            await bench.topics.regenerate_key(topic, "key1")
        found = await bench.topics.find("orders")
        assert found is not None and found.key1 != topic.key1

    run(test, registry=FailingRegistry())


def test_a_change_does_not_need_the_domain_topic() -> None:
    """Only a new subscription creates its domain topic: one whose record is damaged does not stop a change."""

    disk = MemoryDisk()

    async def test(bench: Bench) -> None:
        domain = await bench.topic("shop", kind=TopicKind.DOMAIN, domain=Domain())
        old = await bench.subscriptions.put(domain, draft(domain_topic="north"))
        assert MemorySpoiler(disk).document(KIND, f"{domain.id}/north")
        new = await bench.subscriptions.put(domain, draft(domain_topic="north", labels=("x",)))
        assert (new.id, new.labels) == (old.id, ("x",))

    run(test, registry=MemoryLog(disk))
