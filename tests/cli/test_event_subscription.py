"""`recapito event-subscription` against a running server: az's flags, and what they become."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from recapito.cli.receiver.receiver import WebhookReceiver
from recapito.cli.receiver.script import from_flags
from tests.cli.terminal import ok, recapito
from tests.system.machine import Server, receiver

CONTAINER = "/subscriptions/s/resourceGroups/g/providers/Microsoft.Storage/storageAccounts/sa1/blobServices/default"
DROPS = (
    "recapito: without --deadletter-endpoint, events that are never retried, expire or run out of attempts are"
    " dropped. (This note appears once.)\n"
)


class Hook(NamedTuple):
    """A webhook that consents to everything."""

    url: str


@pytest.fixture(scope="module")
def hook() -> Iterator[Hook]:
    it = WebhookReceiver("127.0.0.1", 0, from_flags(None, None, 0), lambda arrival: None, lambda events: None)
    it.start()
    yield Hook(f"http://127.0.0.1:{it.port}/hook")
    it.stop()


@pytest.fixture
def topic(live: Server) -> Iterator[str]:
    made = ok("topic", "create", "subscribed")
    yield made["id"]
    ok("topic", "delete", "subscribed")


def create(hook: Hook, *words: str) -> Any:
    """A subscription of the topic; the endpoint is asked for its consent later."""
    return ok("event-subscription", "create", "mine", "--topic-name", "subscribed", "--endpoint", hook.url, *words)


def test_no_dead_letters_is_said_once(topic: str, hook: Hook) -> None:
    """Without a place for dead letters one line says what will be dropped; with one nothing is said of it."""
    words = ["event-subscription", "create", "mine", "--source-resource-id", topic, "--endpoint", hook.url]
    assert recapito(*words, "--only-show-errors").err == ""
    bare = recapito(*words)
    assert bare.code == 0
    assert bare.err == DROPS
    assert recapito(*words).err == ""
    assert bare.json["provisioningState"] == "Succeeded"
    kept = recapito(*words, "--deadletter-endpoint", "lost")
    assert kept.err == ""
    assert kept.json["deadLetterDestination"] == {"endpointType": "Directory", "name": "lost"}


def test_what_can_not_be_remembered_is_said_again(topic: str, hook: Hook, tmp_path: Path) -> None:
    """Where nothing can be written, the line is said each time, and nothing fails."""
    (tmp_path / "told").mkdir()
    words = ["event-subscription", "create", "mine", "--source-resource-id", topic, "--endpoint", hook.url]
    assert recapito(*words).err == recapito(*words).err == DROPS


def test_an_endpoint_that_must_still_consent(topic: str) -> None:
    """When consent is awaited the command says what must happen, and shows the state."""
    with receiver() as silent:
        words = ["--topic-name", "subscribed", "--endpoint", silent.url, "--deadletter-endpoint", "lost"]
        said = recapito("event-subscription", "create", "mine", *words)
    assert said.code == 0
    assert said.json["provisioningState"] == "AwaitingManualAction"
    assert said.err.startswith("recapito: ") and len(said.err.splitlines()) == 1


def test_an_endpoint_that_refuses(topic: str) -> None:
    """When an endpoint refuses, the command fails, and says what came back and what to change."""
    with receiver() as deaf:
        deaf.answer = lambda events: 404
        said = recapito("event-subscription", "create", "mine", "--topic-name", "subscribed", "--endpoint", deaf.url)
    assert (said.code, said.out) == (1, "")
    assert "Came back: status 404" in said.err and "What to change" in said.err
    assert "dropped" not in said.err


def test_every_flag(topic: str, hook: Hook) -> None:
    """All flags of az's `create` arrive where they belong."""
    account = CONTAINER.partition("/blobServices")[0]
    ok("connection", "set", account, "--azurite")
    made = create(
        hook,
        *("--included-event-types", "Created", "Deleted", "--subject-begins-with", "/a", "--subject-ends-with", "z"),
        *("--subject-case-sensitive", "--advanced-filter", "data.n", "NumberIn", "1", "-2", "3.5"),
        *("--advanced-filter", "data.c", "stringin", "red", "blue", "--advanced-filter", "data.b", "BoolEquals"),
        *("true", "--advanced-filter", "data.r", "NumberInRange", "1,10", "-5,-1", "--advanced-filter", "data.x"),
        *("IsNotNull", "--advanced-filter", "data.l", "NumberLessThan", "7"),
        *("--enable-advanced-filtering-on-arrays", "true", "--max-events-per-batch", "10"),
        *("--preferred-batch-size-in-kilobytes", "128", "--max-delivery-attempts", "5", "--event-ttl", "60"),
        *("--deadletter-endpoint", f"{CONTAINER}/containers/lost", "--expiration-date", "2100-01-31T12:00:00Z"),
        *("--delivery-attribute-mapping", "X-Key", "static", "s3cret", "true", "--labels", "one", "two"),
        *("--delivery-attribute-mapping", "X-Kind", "dynamic", "data.kind"),
        *("--event-delivery-schema", "cloudeventschemav1_0"),
    )
    ok("connection", "remove", account)
    wanted = made["filter"]
    assert wanted["includedEventTypes"] == ["Created", "Deleted"]
    assert (wanted["subjectBeginsWith"], wanted["subjectEndsWith"]) == ("/a", "z")
    assert wanted["isSubjectCaseSensitive"] is True and wanted["enableAdvancedFilteringOnArrays"] is True
    conditions = {
        one["key"]: (one["operatorType"], one.get("values", one.get("value")))
        for one in made["filter"]["advancedFilters"]
    }
    assert conditions == {
        "data.n": ("NumberIn", [1, -2, 3.5]),
        "data.c": ("StringIn", ["red", "blue"]),
        "data.b": ("BoolEquals", True),
        "data.r": ("NumberInRange", [[1, 10], [-5, -1]]),
        "data.x": ("IsNotNull", None),
        "data.l": ("NumberLessThan", 7),
    }
    place = made["destination"]
    assert (place["endpointType"], place["endpointBaseUrl"]) == ("WebHook", hook.url)
    assert (place["maxEventsPerBatch"], place["preferredBatchSizeInKilobytes"]) == (10, 128)
    assert place["deliveryAttributeMappings"] == [
        {"isSecret": True, "name": "X-Key", "type": "Static", "value": None},
        {"name": "X-Kind", "sourceField": "data.kind", "type": "Dynamic"},
    ]
    assert made["retryPolicy"] == {"eventTimeToLiveInMinutes": 60, "maxDeliveryAttempts": 5}
    assert made["deadLetterDestination"]["blobContainerName"] == "lost"
    assert made["labels"] == ["one", "two"]
    assert made["expirationTimeUtc"].startswith("2100-01-31T12:00:00")
    assert made["eventDeliverySchema"] == "CloudEventSchemaV1_0"


def test_update_changes_what_is_named(topic: str, hook: Hook) -> None:
    """`update` leaves the rest as it is: other parts of the filter, the URL's query, the secret."""
    words = [
        "--subject-begins-with",
        "/a",
        "--event-ttl",
        "60",
        "--delivery-attribute-mapping",
        "K",
        "static",
        "s",
        "true",
    ]
    ok(
        *("event-subscription", "create", "mine", "--topic-name", "subscribed"),
        *("--endpoint", f"{hook.url}?code=secret", *words),
    )
    name = ["mine", "--resource-id", topic]
    changed = ok("event-subscription", "update", *name, "--subject-ends-with", "z", "--max-delivery-attempts", "3")
    assert (changed["filter"]["subjectBeginsWith"], changed["filter"]["subjectEndsWith"]) == ("/a", "z")
    assert changed["retryPolicy"] == {"eventTimeToLiveInMinutes": 60, "maxDeliveryAttempts": 3}
    ok("event-subscription", "update", *name, "--max-events-per-batch", "7", "--labels", "x")
    shown = ok("event-subscription", "show", *name, "--include-full-endpoint-url", "--include-attrib-secret", "true")
    assert shown["destination"]["endpointUrl"] == f"{hook.url}?code=secret"
    assert shown["destination"]["maxEventsPerBatch"] == 7
    assert shown["destination"]["deliveryAttributeMappings"][0]["value"] == "s"
    assert shown["labels"] == ["x"]
    hidden = recapito("event-subscription", "show", *name).out
    assert "secret" not in hidden.replace("isSecret", "")


def test_list_and_delete(topic: str, hook: Hook) -> None:
    """Subscriptions are listed by what they are of, by group and at large; a deleted one is gone."""
    create(hook)
    for words in (
        ["--source-resource-id", topic],
        ["--topic-name", "subscribed"],
        ["-g", "local"],
        ["-l", "local"],
        [],
    ):
        assert "mine" in [one["name"] for one in ok("event-subscription", "list", *words)]
    assert ok("event-subscription", "list", "--topic-type-name", "Microsoft.Storage.StorageAccounts") == []
    assert ok("event-subscription", "delete", "mine", "--topic-name", "subscribed") is None
    assert recapito("event-subscription", "show", "mine", "--topic-name", "subscribed").code == 3
    assert ok("topic", "event-subscription", "list", "--topic-name", "subscribed") == []


def test_of_a_domain_and_its_topic(live: Server, hook: Hook) -> None:
    """A subscription may be of a domain or of one topic of it."""
    ok("domain", "create", "malls")
    for words in (["--domain-name", "malls"], ["--domain-name", "malls", "--domain-topic-name", "west"]):
        ok("event-subscription", "create", "mine", *words, "--endpoint", hook.url)
        assert ok("event-subscription", "show", "mine", *words)["name"] == "mine"
    assert [one["name"] for one in ok("domain", "topic", "list", "--domain-name", "malls")] == ["west"]
    ok("domain", "delete", "malls")


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        ([], 2, "--endpoint: name the endpoint to deliver events to"),
        (
            ["--endpoint", "http://127.0.0.1/", "--topic-name", "demo", "--domain-name", "x"],
            2,
            "give one of --source-resource-id",
        ),
        (["--endpoint", "http://127.0.0.1/"], 2, "give one of --source-resource-id"),
        (["--endpoint", "http://127.0.0.1/", "--topic-name", "nope"], 3, "nope"),
        (["--endpoint", "ftp://x", "--topic-name", "demo"], 1, "endpoint"),
        (["--endpoint", "http://127.0.0.1/", "--topic-name", "demo", "--event-ttl", "0"], 1, "between 1 and 1440"),
        (["--endpoint", "http://127.0.0.1/", "--topic-name", "demo", "--event-ttl", "x"], 2, "--event-ttl"),
        (["--endpoint", "q", "--endpoint-type", "pigeon", "--topic-name", "demo"], 2, "is not one of webhook"),
        (["--endpoint", "q", "--endpoint-type", "storagequeue", "--topic-name", "demo"], 2, "queueServices"),
        (["--endpoint", "x", "--topic-name", "demo", "--deadletter-endpoint", "/x"], 2, "blobServices"),
        (["--endpoint", "x", "--topic-name", "demo", "--deadletter-endpoint", ""], 2, "it cannot be empty"),
        (["--endpoint", "x", "--topic-name", "demo", "--advanced-filter", "a"], 2, "it is KEY OPERATOR VALUE"),
        (["--endpoint", "x", "--topic-name", "demo", "--advanced-filter", "a", "StringIs", "b"], 2, "mean StringIn?"),
        (["--endpoint", "x", "--topic-name", "demo", "--advanced-filter", "a", "NumberIn", "b"], 2, "not a number"),
        (["--endpoint", "x", "--topic-name", "demo", "--advanced-filter", "a", "NumberInRange", "1"], 2, "like 1,10"),
        (["--endpoint", "x", "--topic-name", "demo", "--advanced-filter", "a", "IsNotNull", "1"], 2, "takes no value"),
        (["--endpoint", "x", "--topic-name", "demo", "--advanced-filter", "a", "BoolEquals"], 2, "takes one value"),
        (["--endpoint", "x", "--topic-name", "demo", "--delivery-attribute-mapping", "a", "b"], 2, "NAME static VALUE"),
    ],
)
def test_wrong_words(live: Server, words: list[str], code: int, said: str) -> None:
    """Whatever is wrong is said in a line that names the flag or the field, and nothing is made."""
    done = recapito("event-subscription", "create", "wrong", *words)
    assert done.code == code, done
    assert said in done.err
    assert not done.out and "Traceback" not in done.err
    assert "wrong" not in [one["name"] for one in ok("event-subscription", "list")]
