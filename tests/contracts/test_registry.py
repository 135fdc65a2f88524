"""The contract of the Registry."""

from typing import Any

import pytest
from msgspec.structs import replace

from recapito.contracts.log import EntryKind
from recapito.contracts.registry import Document
from recapito.domain.filters.filter import Filter
from recapito.domain.resources.destination import WebHook
from recapito.domain.resources.subscription import FilterSince
from recapito.domain.resources.topic import TopicKind
from recapito.errors import Conflict
from tests.stores.values import new_subscription, new_topic, segment

LARGE = 1 << 20
BY_TYPE = Filter(event_types=("a",))


def test_a_topic_is_found_by_name_and_id(log: Any, run: Any) -> None:
    """A stored topic is found whole, without regard to the case of its name."""
    stored = run(log.put_topic(new_topic("Orders", tags={"k": "v"}, profile="2020-10")))
    assert stored == new_topic("Orders", tags={"k": "v"}, profile="2020-10", id=stored.id, version=1)
    assert stored.id > 0
    assert run(log.topic("oRDERS")) == run(log.topic_by_id(stored.id)) == stored
    assert run(log.topic("other")) is None
    assert run(log.topic_by_id(999)) is None


def test_topic_names_are_unique_without_regard_to_case(log: Any, run: Any) -> None:
    """A second topic of a name is a conflict, and nothing happens."""
    run(log.put_topic(new_topic("orders")))
    mark = run(log.news(0)).mark
    with pytest.raises(Conflict):
        run(log.put_topic(new_topic("ORDERS")))
    assert run(log.news(0)).mark == mark


def test_a_topic_is_replaced(log: Any, run: Any) -> None:
    """A put of the stored version replaces it, its version grows, its id stays; its name may change its case."""
    stored = run(log.put_topic(new_topic("orders")))
    changed = run(log.put_topic(replace(stored, name="Orders", key1="new")))
    assert changed == replace(stored, name="Orders", key1="new", version=stored.version + 1)
    assert run(log.topic("orders")) == changed


def test_a_renamed_topic_frees_its_name(log: Any, run: Any) -> None:
    """The old name is free again, a name that another has is a conflict."""
    one, two = (run(log.put_topic(new_topic(name))) for name in ("one", "two"))
    with pytest.raises(Conflict):
        run(log.put_topic(replace(two, name="ONE")))
    run(log.put_topic(replace(one, name="three")))
    run(log.put_topic(replace(two, name="ONE")))
    assert run(log.topic("one")).id == two.id
    assert run(log.topic("two")) is None


@pytest.mark.parametrize("off", [-1, 1])
def test_an_old_version_of_a_topic_is_a_conflict(log: Any, run: Any, off: int) -> None:
    """A writer that did not see the latest version cannot replace it."""
    stored = run(log.put_topic(new_topic()))
    with pytest.raises(Conflict):
        run(log.put_topic(replace(stored, version=stored.version + off)))
    assert run(log.topic_by_id(stored.id)) == stored


def test_topics_are_listed_by_name(log: Any, run: Any) -> None:
    """A page starts behind a key and follows the lower-cased names; deleted topics are not in it."""
    for name in ("delta", "Alpha", "charlie", "Bravo"):
        run(log.put_topic(new_topic(name)))
    run(log.delete_topic(run(log.topic("charlie")).id))
    names = lambda after, limit: [topic.name for topic in run(log.topics(after, limit))]  # noqa: E731
    assert names("", 10) == ["Alpha", "Bravo", "delta"]
    assert names("", 2) == ["Alpha", "Bravo"]
    assert names("topics/ALPHA", 1) == ["Bravo"]
    assert names("topics/bz", 10) == ["delta"]
    assert names("topics/delta", 10) == []


def test_topics_of_two_kinds_may_share_a_name(log: Any, run: Any) -> None:
    """A name is unique in its kind; the kinds are listed one after the other."""
    for kind in (TopicKind.CUSTOM, TopicKind.DOMAIN, TopicKind.SYSTEM):
        run(log.put_topic(new_topic("orders", kind=kind)))
    assert run(log.topic("Orders", TopicKind.DOMAIN)).kind is TopicKind.DOMAIN
    assert [topic.kind for topic in run(log.topics("", 9))] == ["domains", "systemTopics", "topics"]
    assert [topic.kind for topic in run(log.topics("domains/orders", 1))] == ["systemTopics"]


def test_domain_topics_have_subscription_names_of_their_own(log: Any, run: Any) -> None:
    """A name is unique in its domain topic, and each domain topic lists its own."""
    domain = run(log.put_topic(new_topic("orders", kind=TopicKind.DOMAIN))).id
    for domain_topic, name in [(None, "one"), ("Alpha", "one"), ("alpha", "Two"), ("alpha0", "one"), ("alp", "one")]:
        run(log.put_subscription(new_subscription(domain, name, domain_topic=domain_topic)))
    with pytest.raises(Conflict):
        run(log.put_subscription(new_subscription(domain, "ONE", domain_topic="ALPHA")))
    assert run(log.subscription(domain, "one")).domain_topic is None
    assert run(log.subscription(domain, "one", "alpha")).domain_topic == "Alpha"
    under = lambda after, limit: [s.name for s in run(log.domain_topic_subscriptions(domain, "ALPHA", after, limit))]  # noqa: E731
    assert under("", 9) == ["one", "Two"]
    assert (under("", 1), under("One", 9), under("two", 9)) == (["one"], ["Two"], [])
    run(log.delete_subscription(run(log.subscription(domain, "two", "alpha")).id))
    assert under("", 9) == ["one"]


def test_documents_are_kept_by_kind_and_key(stores: Any, run: Any) -> None:
    """A document is what was last put, is listed in the order of keys, leaves no mark, and outlives a restart."""
    mark = run(stores.log.news(0)).mark
    for kind, key, content in [("a", "2", b"x"), ("a", "1", b"y"), ("b", "1", b"z"), ("a", "2", b"w"), ("a", "3", b"")]:
        run(stores.log.put_document(kind, key, content))
    assert [run(stores.log.delete_document("a", key)) for key in ("3", "3")] == [True, False]
    run(stores.reopen())
    assert run(stores.log.document("a", "2")) == b"w"
    assert run(stores.log.document("a", "3")) is None
    assert run(stores.log.documents("a", "", 9)) == [("1", b"y"), ("2", b"w")]
    assert run(stores.log.documents("a", "1", 1)) == [("2", b"w")]
    assert run(stores.log.news(0)).mark == mark


def test_ids_are_never_used_again(stores: Any, run: Any) -> None:
    """A topic or subscription that takes a free name gets a new id, after a restart too."""
    topic = run(stores.log.put_topic(new_topic()))
    subscription = run(stores.log.put_subscription(new_subscription(topic.id)))
    run(stores.log.delete_topic(topic.id))
    run(stores.log.forget(subscription.id))
    run(stores.reopen())
    again = run(stores.log.put_topic(new_topic()))
    assert again.id > topic.id
    assert run(stores.log.put_subscription(new_subscription(again.id))).id > subscription.id


@pytest.mark.parametrize("verb", ["put_topic", "delete_topic", "put_subscription"])
def test_what_is_gone_can_not_be_changed(log: Any, run: Any, verb: str) -> None:
    """A verb on a deleted or unknown topic is a KeyError."""
    topic = run(log.put_topic(new_topic()))
    run(log.put_subscription(new_subscription(topic.id)))
    run(log.delete_topic(topic.id))
    mark = run(log.news(0)).mark
    for id in (topic.id, 999):
        argument = {
            "put_topic": replace(topic, id=id),
            "delete_topic": id,
            "put_subscription": new_subscription(id, "another"),
        }[verb]
        with pytest.raises(KeyError):
            run(getattr(log, verb)(argument))
    assert run(log.news(0)).mark == mark


def test_a_subscription_begins_at_its_change_mark(log: Any, run: Any) -> None:
    """Creating gives an id, and the position of the mark to the subscription and to its filter."""
    topic = run(log.put_topic(new_topic())).id
    run(log.append([segment(topic)]))
    stored = run(log.put_subscription(new_subscription(topic, "Shop", BY_TYPE)))
    created = replace(new_subscription(topic, "Shop"), filters=(FilterSince(3, BY_TYPE),), created_position=3)
    assert stored == replace(created, id=stored.id, version=1)
    assert stored.id > 0
    assert run(log.read(topic, 3, LARGE))[0].kind is EntryKind.CHANGE
    assert run(log.subscription(topic, "sHOP")) == run(log.subscription_by_id(stored.id)) == stored


def test_subscription_names_are_unique_in_their_topic(log: Any, run: Any) -> None:
    """A name can be used once in each topic, without regard to case."""
    a, b = (run(log.put_topic(new_topic(name))).id for name in ("aaa", "bbb"))
    one = run(log.put_subscription(new_subscription(a, "shop")))
    other = run(log.put_subscription(new_subscription(b, "Shop")))
    with pytest.raises(Conflict):
        run(log.put_subscription(new_subscription(a, "SHOP")))
    assert run(log.subscription(a, "shop")) == one
    assert run(log.subscription(b, "shop")) == other
    assert run(log.subscription(a, "none")) is None


def test_replacing_a_subscription_keeps_where_it_began(log: Any, run: Any) -> None:
    """Another destination under the same filter changes neither position nor filters, whatever the argument says."""
    topic = run(log.put_topic(new_topic())).id
    stored = run(log.put_subscription(new_subscription(topic)))
    hook = WebHook(url="http://127.0.0.1/other")
    changed = replace(stored, destination=hook, created_position=77, filters=(FilterSince(99, stored.filter),))
    assert run(log.put_subscription(changed)) == replace(stored, destination=hook, version=stored.version + 1)


def test_a_new_filter_is_in_force_from_its_mark_on(log: Any, run: Any) -> None:
    """A filter that differs is added at the position of the change mark; what lies before has the old one."""
    topic = run(log.put_topic(new_topic())).id
    stored = run(log.put_subscription(new_subscription(topic)))
    run(log.append([segment(topic)]))
    changed = run(log.put_subscription(replace(stored, filters=(FilterSince(0, BY_TYPE),))))
    assert changed.filters == (*stored.filters, FilterSince(4, BY_TYPE))
    assert run(log.subscription_by_id(stored.id)) == changed
    back = run(log.put_subscription(replace(changed, filters=stored.filters)))
    assert [since.position for since in back.filters] == [2, 4, 5]


def test_filters_that_nothing_can_need_are_let_go(log: Any, run: Any) -> None:
    """When the log is trimmed beyond a filter's time, the next change of the filter drops it."""
    topic = run(log.put_topic(new_topic())).id
    subscription = run(log.put_subscription(new_subscription(topic)))
    for n in range(3):
        filter = Filter(event_types=(str(n),))
        subscription = run(log.put_subscription(replace(subscription, filters=(FilterSince(0, filter),))))
    assert [since.position for since in subscription.filters] == [2, 3, 4, 5]
    run(log.trim(topic, 4))
    last = run(log.put_subscription(replace(subscription, filters=(FilterSince(0, BY_TYPE),))))
    assert [since.position for since in last.filters] == [4, 5, 6]


@pytest.mark.parametrize("off", [-1, 1])
def test_an_old_version_of_a_subscription_is_a_conflict(log: Any, run: Any, off: int) -> None:
    """A writer that did not see the latest version cannot replace it, and no mark is left."""
    topic = run(log.put_topic(new_topic())).id
    stored = run(log.put_subscription(new_subscription(topic)))
    with pytest.raises(Conflict):
        run(log.put_subscription(replace(stored, version=stored.version + off)))
    assert run(log.subscription_by_id(stored.id)) == stored
    assert run(log.end(topic)) == 2


def test_a_subscription_does_not_move(log: Any, run: Any) -> None:
    """Replacing a subscription under another topic is a KeyError: it is not there."""
    a, b = (run(log.put_topic(new_topic(name))).id for name in ("aaa", "bbb"))
    stored = run(log.put_subscription(new_subscription(a)))
    with pytest.raises(KeyError):
        run(log.put_subscription(replace(stored, topic=b)))


def test_a_deleted_subscription_stays_by_id(log: Any, run: Any) -> None:
    """Deleting frees the name and keeps the subscription, with the position of its mark, until it is forgotten."""
    topic = run(log.put_topic(new_topic())).id
    stored = run(log.put_subscription(new_subscription(topic)))
    run(log.delete_subscription(stored.id))
    assert run(log.subscription(topic, "shop")) is None
    assert run(log.subscription_by_id(stored.id)) == replace(stored, deleted_position=3)
    again = run(log.put_subscription(new_subscription(topic)))
    assert (again.id, again.created_position) == (stored.id + 1, 4)
    run(log.forget(stored.id))
    assert run(log.subscription_by_id(stored.id)) is None
    assert run(log.subscription(topic, "shop")) == again


def test_what_is_deleted_can_not_be_deleted_or_put_again(log: Any, run: Any) -> None:
    """A deleted subscription is a KeyError for each change."""
    topic = run(log.put_topic(new_topic())).id
    stored = run(log.put_subscription(new_subscription(topic)))
    run(log.delete_subscription(stored.id))
    for step in (log.delete_subscription(stored.id), log.delete_subscription(999), log.put_subscription(stored)):
        with pytest.raises(KeyError):
            run(step)
    assert run(log.end(topic)) == 3


def test_only_the_deleted_are_forgotten(log: Any, run: Any) -> None:
    """Forgetting a living subscription is a conflict, an unknown one a KeyError."""
    topic = run(log.put_topic(new_topic())).id
    stored = run(log.put_subscription(new_subscription(topic)))
    with pytest.raises(Conflict):
        run(log.forget(stored.id))
    with pytest.raises(KeyError):
        run(log.forget(999))
    assert run(log.end(topic)) == 2


def test_subscriptions_are_listed_by_id(log: Any, run: Any) -> None:
    """Pages follow the ids, of one topic or of all, deleted ones included."""
    a, b = (run(log.put_topic(new_topic(name))).id for name in ("aaa", "bbb"))
    ids = [run(log.put_subscription(new_subscription(topic, name))).id for name in ("one", "two") for topic in (a, b)]
    run(log.delete_subscription(ids[0]))
    page = lambda *args: [subscription.id for subscription in run(log.subscriptions(*args))]  # noqa: E731
    assert page(None, 0, 10) == ids
    assert page(None, ids[1], 1) == [ids[2]]
    assert page(a, 0, 10) == [ids[0], ids[2]]
    assert page(b, ids[1], 10) == [ids[3]]
    assert page(999, 0, 10) == []


def test_living_subscriptions_are_counted_by_topic(log: Any, run: Any) -> None:
    """Deleted ones are not counted, and a topic without any is left out."""
    a, b, c = (run(log.put_topic(new_topic(name))).id for name in ("aaa", "bbb", "ccc"))
    ids = [run(log.put_subscription(new_subscription(topic, name))).id for name in ("one", "two") for topic in (a, b)]
    run(log.delete_subscription(ids[0]))
    assert run(log.subscription_counts([a, c, 999])) == {a: 1}
    assert run(log.subscription_counts([a, b])) == {a: 1, b: 2}
    assert run(log.subscription_counts([])) == {}


def test_a_deleted_topic_takes_its_subscriptions_with_it(log: Any, run: Any) -> None:
    """They are deleted at the position of the topic's mark, and its log can be read until they are forgotten."""
    topic = run(log.put_topic(new_topic())).id
    early, late = (run(log.put_subscription(new_subscription(topic, name))).id for name in ("early", "late"))
    run(log.delete_subscription(early))
    run(log.append([segment(topic, b"last words")]))
    run(log.delete_topic(topic))
    assert run(log.topic("orders")) is run(log.topic_by_id(topic)) is None
    assert run(log.subscription(topic, "late")) is None
    assert run(log.subscription_by_id(early)).deleted_position == 4
    assert run(log.subscription_by_id(late)).deleted_position == 6
    run(log.forget(early))
    assert run(log.read(topic, 5, 1))[0].body == b"last words"
    assert run(log.end(topic)) == 7
    run(log.forget(late))
    with pytest.raises(LookupError):
        run(log.read(topic, 5, 1))
    assert run(log.end(topic)) == 0
    assert run(log.trim(topic, 100)) == 0


def test_a_topic_without_subscriptions_goes_at_once(log: Any, run: Any) -> None:
    """No lane reads its log any more; its name is free."""
    topic = run(log.put_topic(new_topic())).id
    run(log.append([segment(topic)]))
    run(log.delete_topic(topic))
    with pytest.raises(LookupError):
        run(log.read(topic, 1, LARGE))
    assert run(log.put_topic(new_topic())).id != topic


def test_resources_outlive_a_restart(stores: Any, run: Any) -> None:
    """Topics and subscriptions are there after a restart as they were."""
    topic = run(stores.log.put_topic(new_topic(tags={"é": "ü"})))
    subscription = run(stores.log.put_subscription(new_subscription(topic.id, filter=BY_TYPE, labels=("x",))))
    run(stores.reopen())
    assert run(stores.log.topic_by_id(topic.id)) == topic
    assert run(stores.log.subscription_by_id(subscription.id)) == subscription


def test_changes_are_counted(log: Any, run: Any) -> None:
    """The number grows with each put, delete and forget, and with nothing else."""
    seen = [log.changes]

    def grown() -> bool:
        seen.append(log.changes)
        return bool(seen[-1] > seen[-2])

    topic = run(log.put_topic(new_topic("orders")))
    assert grown()
    subscription = run(log.put_subscription(new_subscription(topic.id, "watch")))
    assert grown()
    run(log.append([segment(topic.id)]))
    run(log.topics("", 9))
    run(log.subscriptions(topic.id, 0, 9))
    run(log.document("a", "1"))
    assert not grown()
    for verb, given in (
        (log.put_document, ("a", "1", b"x")),
        (log.delete_document, ("a", "1")),
        (log.delete_subscription, (subscription.id,)),
        (log.forget, (subscription.id,)),
        (log.delete_topic, (topic.id,)),
        (log.append_marked, ([], "a", [Document("1", b"x")])),
    ):
        run(verb(*given))
        assert grown(), verb
