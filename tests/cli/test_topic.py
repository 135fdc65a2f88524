"""`recapito topic`, `domain`, `system-topic` and `topic-type` against a running server."""

import pytest

from tests.cli.terminal import lines, ok, recapito
from tests.system.machine import Server

ACCOUNT = "/subscriptions/{}/resourceGroups/local/providers/Microsoft.Storage/storageAccounts/shop"


def test_a_name_is_enough(live: Server) -> None:
    """`topic create NAME` makes a topic in the default group, and shows it as az does."""
    made = ok("topic", "create", "plain")
    assert made["endpoint"] == f"{live.url}/topics/plain/api/events"
    assert (made["name"], made["resourceGroup"], made["location"]) == ("plain", "local", "local")
    assert made["provisioningState"] == "Succeeded"
    assert "properties" not in made
    assert list(made) == sorted(made)


def test_every_flag_of_a_topic(live: Server) -> None:
    """All flags of `topic create` arrive, and `topic update` changes only what it names."""
    made = ok(
        *("topic", "create", "-n", "flags", "-g", "shop", "-l", "westus2", "--tags", "a=1", "b=x=y"),
        *("--input-schema", "customeventschema", "--input-mapping-fields", "id=myId", "eventtype=kind"),
        *("--input-mapping-default-values", "subject=none", "dataversion=2"),
        *("--inbound-ip-rules", "10.0.0.0/8", "Allow", "--inbound-ip-rules", "127.0.0.1", "allow"),
        *("--public-network-access", "enabled", "--disable-local-auth"),
    )
    assert (made["resourceGroup"], made["location"], made["tags"]) == ("shop", "westus2", {"a": "1", "b": "x=y"})
    assert made["inputSchema"] == "CustomEventSchema"
    mapping = made["inputSchemaMapping"]
    assert (mapping["id"], mapping["eventType"]["sourceField"]) == ({"sourceField": "myId"}, "kind")
    assert (mapping["subject"]["defaultValue"], mapping["dataVersion"]["defaultValue"]) == ("none", "2")
    assert [rule["ipMask"] for rule in made["inboundIpRules"]] == ["10.0.0.0/8", "127.0.0.1"]
    assert made["disableLocalAuth"] is True
    changed = ok("topic", "update", "flags", "-g", "shop", "--disable-local-auth", "false", "--tags", "")
    assert (changed["disableLocalAuth"], changed["tags"]) == (False, {})
    assert changed["inboundIpRules"] == made["inboundIpRules"]


def test_list_show_delete(live: Server) -> None:
    """A created topic is listed and shown, and gone when it is deleted; then `show` ends with 3."""
    ok("topic", "create", "brief", "-g", "lists")
    assert [one["name"] for one in ok("topic", "list", "-g", "lists")] == ["brief"]
    assert "brief" in [one["name"] for one in ok("topic", "list")]
    assert ok("topic", "list", "-g", "lists", "--odata-query", "contains(name, 'zzz')") == []
    assert ok("topic", "show", "-n", "brief", "-g", "lists")["name"] == "brief"
    id = ok("topic", "show", "brief", "-g", "lists")["id"]
    assert ok("topic", "show", "--ids", id)["name"] == "brief"
    assert ok("topic", "delete", "brief", "-g", "lists") is None
    gone = recapito("topic", "show", "brief", "-g", "lists")
    assert (gone.code, gone.out) == (3, "")
    assert lines(gone.err) == [
        "recapito: (ResourceNotFound) The Resource 'Microsoft.EventGrid/topics/brief' under resource group 'lists'"
        " was not found."
    ]


def test_long_lists_are_whole(live: Server) -> None:
    """A list of more than one page is printed whole."""
    ok("domain", "create", "many")
    for n in range(103):
        live.call("PUT", f"{_local(live)}/domains/many/topics/topic-{n}?api-version=2022-06-15", {})
    assert len(ok("domain", "topic", "list", "--domain-name", "many")) == 103


def _local(live: Server) -> str:
    path: str = ok("domain", "show", "many")["id"].rpartition("/domains/")[0]
    return path


def test_keys(live: Server) -> None:
    """Keys are listed, and one is made anew while the other stays."""
    ok("topic", "create", "keyed")
    before = ok("topic", "key", "list", "keyed")
    after = ok("topic", "key", "regenerate", "-n", "keyed", "--key-name", "key1")
    assert before["key1"] != after["key1"] and before["key2"] == after["key2"]
    assert recapito("topic", "key", "regenerate", "keyed", "--key-name", "key9").code == 1


def test_domains(live: Server) -> None:
    """Domains have topics and keys, and flags for how topics come and go."""
    made = ok("domain", "create", "shops", "--auto-create-topic-with-first-subscription", "false", "--tags", "a=b")
    assert made["autoCreateTopicWithFirstSubscription"] is False
    assert ok("domain", "update", "shops", "--auto-create-topic-with-first-subscription")["tags"] == {"a": "b"}
    assert ok("domain", "topic", "create", "berlin", "--domain-name", "shops")["name"] == "berlin"
    assert ok("domain", "topic", "show", "berlin", "--domain-name", "shops")["resourceGroup"] == "local"
    assert [one["name"] for one in ok("domain", "topic", "list", "--domain-name", "shops")] == ["berlin"]
    ok("domain", "topic", "delete", "berlin", "--domain-name", "shops")
    assert ok("domain", "topic", "list", "--domain-name", "shops") == []
    assert set(ok("domain", "key", "list", "shops")) == {"key1", "key2"}
    assert "shops" in [one["name"] for one in ok("domain", "list")]
    ok("domain", "delete", "shops")
    assert recapito("domain", "show", "shops").code == 3


def test_topic_types(live: Server) -> None:
    """The types of system topics are listed, and the events of one."""
    assert "Microsoft.Storage.StorageAccounts" in [one["name"] for one in ok("topic-type", "list")]
    shown = ok("topic-type", "show", "Microsoft.Storage.StorageAccounts")
    assert shown["provider"] == "Microsoft.Storage"
    events = ok("topic-type", "list-event-types", "-n", "Microsoft.Storage.StorageAccounts")
    assert "Microsoft.Storage.BlobCreated" in [one["name"] for one in events]
    assert recapito("topic-type", "show", "Nothing.Known").code == 3


def test_system_topics(live: Server) -> None:
    """A system topic is made for a source, shown, changed and deleted."""
    account = ACCOUNT.format("00000000-0000-0000-0000-000000000000")
    live.call("PUT", f"{account}?api-version=2023-01-01", {"location": "local"})
    words = ["--source", account, "--topic-type", "Microsoft.Storage.StorageAccounts"]
    made = ok("system-topic", "create", "blobs", *words)
    assert (made["source"], made["topicType"]) == (account, "Microsoft.Storage.StorageAccounts")
    assert ok("system-topic", "update", "blobs", "--tags", "a=b")["tags"] == {"a": "b"}
    assert [one["name"] for one in ok("system-topic", "list")] == ["blobs"]
    ok("system-topic", "delete", "blobs")
    assert recapito("system-topic", "show", "blobs").code == 3


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["topic", "create"], 2, "--name: a name is required"),
        (["topic", "create", "one", "--name", "two"], 2, "the name is given twice, 'one' and 'two'"),
        (["topic", "create", "x"], 1, "The topic name must be 3 to 50"),
        (["topic", "create", "orders", "--tags", "novalue"], 2, "'novalue' is not KEY=VALUE"),
        (["topic", "create", "orders", "--input-schema", "xml"], 1, "must be one of EventGridSchema"),
        (["topic", "create", "orders", "--disable-local-auth=maybe"], 2, "'maybe' is neither true nor false"),
        (["topic", "create", "orders", "--input-mapping-fields", "colour=x"], 2, "'colour' is not one of id, topic"),
        (["topic", "create", "orders", "--input-mapping-default-values", "id=x"], 2, "'id' is not one of subject"),
        (["topic", "list", "-o", "xml"], 2, "xml"),
        (["topic", "list", "--query", "[?"], 2, "this is not a JMESPath expression"),
        (["topic", "show", "../../etc"], 2, "'../../etc' is not a name"),
        (["topic", "show", "demo", "-g", "elsewhere"], 3, "elsewhere"),
        (["domain", "topic", "list"], 2, "--domain-name"),
    ],
)
def test_wrong_words(live: Server, words: list[str], code: int, said: str) -> None:
    """Whatever is wrong is said in a line that names the flag or the field; nothing prints a traceback."""
    done = recapito(*words)
    assert done.code == code, done
    assert said in done.err
    assert not done.out
    assert "Traceback" not in done.err
