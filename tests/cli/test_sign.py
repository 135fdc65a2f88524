"""`recapito sign` against a running server."""

from tests.cli.terminal import ok, recapito
from tests.system.machine import Server


def test_sign(live: Server) -> None:
    """A new secret is printed once, a given one never; a subscription must be named exactly."""
    ok("topic", "create", "--name", "sign-topic", "-g", "g", "-l", "here")
    source = ok("topic", "show", "--name", "sign-topic", "-g", "g")["id"]
    queue = "/subscriptions/s/resourceGroups/g/providers/Microsoft.Storage/storageAccounts/signed"
    ok("connection", "set", queue, "--azurite")
    ok(
        *("event-subscription", "create", "--name", "to-queue", "--source-resource-id", source),
        *("--endpoint-type", "storagequeue", "--endpoint", f"{queue}/queueServices/default/queues/orders"),
    )
    refused = recapito("sign", "to-queue")
    assert (refused.code, "Only requests to a webhook are signed" in refused.err) == (1, True)
    assert ok("sign", "TO-QUEUE", "--off")["options"] == {"signingSecrets": 0}
    assert recapito("sign", "nowhere", "--off").code == 3
    assert "on topic 'elsewhere'" in recapito("sign", "to-queue", "--topic", "elsewhere", "--off").err
    assert recapito("sign", "to-queue", "--off", "--finish").code == 2
    ok("topic", "delete", "--name", "sign-topic", "-g", "g")
    ok("connection", "remove", queue)
