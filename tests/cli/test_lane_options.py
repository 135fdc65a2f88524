"""`recapito sign`, `limit` and `retry-now` against a running server."""

from collections.abc import Iterator

import pytest

from tests.cli.terminal import ok, recapito
from tests.system.machine import Server

ACCOUNT = "/subscriptions/s/resourceGroups/g/providers/Microsoft.Storage/storageAccounts/optional"
TOPICS = ("options-one", "options-two")


@pytest.fixture
def subscribed(live: Server) -> Iterator[None]:
    """Two topics, each with a subscription `paced` to a queue, which is asked for no consent."""
    ok("connection", "set", ACCOUNT, "--azurite")
    to = ("--endpoint-type", "storagequeue", "--endpoint", f"{ACCOUNT}/queueServices/default/queues/orders")
    for topic in TOPICS:
        source = ok("topic", "create", "--name", topic, "-g", "g", "-l", "here")["id"]
        ok("event-subscription", "create", "--name", "paced", "--source-resource-id", source, *to)
    yield
    for topic in TOPICS:
        ok("topic", "delete", "--name", topic, "-g", "g")
    ok("connection", "remove", ACCOUNT)


@pytest.mark.usefixtures("subscribed")
def test_options() -> None:
    """Signatures are for webhooks; limits are set, shown by `top` and lifted; two topics with one name need --topic."""
    refused = recapito("sign", "paced", "--topic", "options-one")
    assert (refused.code, "Only requests to a webhook are signed" in refused.err) == (1, True)
    assert ok("sign", "PACED", "--topic", "options-one", "--off")["options"]["signingSecrets"] == 0
    assert "several topics" in recapito("limit", "paced", "--off").err
    limited = ok("limit", "paced", "--topic", "options-one", "--rate", "50", "--requests", "4")
    assert (limited["options"]["eventsPerSecond"], limited["options"]["maxRequests"]) == (50, 4)
    [row] = ok("top", "--interval", "0", "--topic", "options-one", "-o", "json")["value"]
    assert (row["maxPerSecond"], row["maxRequests"]) == (50, 4)
    assert ok("limit", "paced", "--topic", "options-one", "--off")["options"]["maxRequests"] is None
    assert ok("retry-now", "paced", "--topic", "options-two")["parked"] == 0


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (("sign", "nowhere", "--off"), 3, "no event subscription 'nowhere'"),
        (("limit", "paced", "--topic", "elsewhere", "--off"), 3, "on topic 'elsewhere'"),
        (("sign", "paced", "--off", "--finish"), 2, "give one of --rotate"),
        (("limit", "paced", "--off", "--rate", "5"), 2, "give --requests"),
        (("limit", "paced"), 2, "give --requests"),
        (("replay", "paced"), 2, "give --since or --position"),
    ],
)
def test_wrong_words(live: Server, words: tuple[str, ...], code: int, says: str) -> None:
    """Whatever is wrong is said in a line."""
    said = recapito(*words)
    assert (said.code, says in " ".join(said.err.split())) == (code, True), said
