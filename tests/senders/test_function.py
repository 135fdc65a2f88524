"""The sender to functions, on a small host that takes events as a Functions host with Event Grid's extension does."""

import asyncio

import pytest
from msgspec.structs import replace

from recapito.domain.connections.connection import Connection as AzureConnection
from recapito.domain.connections.parse_host import from_function_host
from recapito.domain.delivery.attributes import Header
from recapito.domain.delivery.batch import Batch
from recapito.domain.delivery.outcome import Outcome, Result
from recapito.domain.events.schema import BodyForm
from recapito.domain.resources.destination import AzureFunction
from recapito.errors import SettingsError, StoreFailed
from recapito.senders.function import FunctionAdapter
from tests.senders.connecting import keyring, sending
from tests.senders.functions_host import APP, ORDERS, FunctionsHost
from tests.senders.receiver import Receiver, Request, answering, batch, silent, status

KEY = "canary/key+with=signs"


def send(
    host: FunctionsHost, *sent: Batch, code: str = "", to: AzureFunction = ORDERS
) -> tuple[list[Outcome], list[Request]]:
    """The answers of a host to batches, and the requests that it saw."""

    async def main() -> tuple[list[Outcome], list[Request]]:
        async with Receiver(host) as receiver:
            url = f"http://127.0.0.1:{receiver.port}"
            connection = from_function_host(APP, f"{url}?code={code}" if code else url)
            async with sending(FunctionAdapter(), keyring({to.resource_id.lower(): connection})) as answer_to:
                return [await answer_to(to, one) for one in sent or [batch()]], receiver.requests

    return asyncio.run(main())


def test_events_arrive_as_at_a_webhook() -> None:
    """A host without a key, as `func start` is, gets the path of its extension, the name, and a webhook's headers."""
    host = FunctionsHost()
    two = replace(batch(b'[{"id":"1"},{"id":"2"}]'), events=2, headers=(Header("x-tenant", "north"),))
    cloud = replace(batch(b'{"id":"3"}'), form=BodyForm.CLOUD_EVENT)
    answers, requests = send(host, two, cloud)
    assert [(one.result, one.status) for one in answers] == [(Result.SUCCESS, 202)] * 2
    assert host.events == [{"id": "1"}, {"id": "2"}, {"id": "3"}]
    assert requests[0].line == "POST /runtime/webhooks/eventgrid?functionName=OnOrder HTTP/1.1"
    seen = {name: requests[0].headers[name] for name in ("aeg-subscription-name", "aeg-delivery-count", "x-tenant")}
    assert seen == {"aeg-subscription-name": "ORDERS-HOOK", "aeg-delivery-count": "0", "x-tenant": "north"}


def test_the_key_goes_with_the_query() -> None:
    """A host's key arrives as it was given, whatever characters it has; a wrong one is Unauthorized, 401, unshown."""
    host = FunctionsHost(KEY)
    encoded = "canary%2Fkey%2Bwith%3Dsigns"
    answers, _ = send(host, code=encoded)
    assert answers[0].status == 202
    for code in ("", "canary-wrong"):
        (refused,), _ = send(host, code=code)
        assert (refused.result, refused.status) == (Result.UNAUTHORIZED, 401)
        assert f"recapito connection set {APP}" in refused.detail
        assert "canary" not in repr(refused)


def test_the_key_of_one_function() -> None:
    """Where a function has a connection of its own, the remedy names that, not its app's."""

    async def main() -> Outcome:
        async with Receiver(FunctionsHost(KEY)) as receiver:
            id = ORDERS.resource_id
            connection = from_function_host(id, f"http://127.0.0.1:{receiver.port}?code=canary-wrong")
            async with sending(FunctionAdapter(), keyring({id.lower(): connection})) as answer_to:
                return await answer_to(ORDERS)

    assert asyncio.run(main()).detail.endswith(f"recapito connection set {ORDERS.resource_id}")


def test_a_function_without_a_trigger() -> None:
    """A host that does not know the function as one of Event Grid's: InvalidAzureFunctionDestination, 404."""
    (answer,), _ = send(FunctionsHost(function="OnOther"))
    assert answer == Outcome(
        Result.INVALID_AZURE_FUNCTION_DESTINATION,
        404,
        detail="OnOrder of function app shop-app: its host has no function of that name with an Event Grid trigger:"
        " deploy it, or correct the subscription",
    )


@pytest.mark.parametrize(
    ("code", "body", "result", "says"),
    [
        (400, b"no luck", Result.BAD_REQUEST, "no luck"),
        (404, b"no luck", Result.NOT_FOUND, "no luck"),
        (404, b"", Result.NOT_FOUND, "nothing is there; is it a Functions host, with its functions loaded?"),
        (500, b"no luck", Result.GENERIC_ERROR, "no luck"),
        (503, b"no luck", Result.BUSY, "no luck"),
    ],
)
def test_other_failures_are_as_a_webhooks(code: int, body: bytes, result: Result, says: str) -> None:
    """A bare 404 says nothing of the function; what fails in it is named with it."""

    async def main() -> Outcome:
        async with Receiver(answering(status(code, body=body))) as receiver:
            connection = from_function_host(APP, f"http://127.0.0.1:{receiver.port}")
            async with sending(FunctionAdapter(), keyring({ORDERS.resource_id.lower(): connection})) as answer_to:
                return await answer_to(ORDERS)

    answer = asyncio.run(main())
    assert (answer.result, answer.status) == (result, code)
    assert answer.detail == f"OnOrder of function app shop-app: {says}"


def test_without_a_connection() -> None:
    """No connection, one that cannot be opened, and a store that fails are outcomes that say what to do."""

    async def main() -> list[Outcome]:
        answers = []
        for problem in (None, SettingsError("The key file is not there."), StoreFailed("disk")):

            async def find(resource_id: str, problem: Exception | None = problem) -> AzureConnection | None:
                if problem is not None:
                    raise problem
                return None

            async with sending(FunctionAdapter(), find) as answer_to:
                answers.append(await answer_to(ORDERS))
        return answers

    none, unreadable, failed = asyncio.run(main())
    assert (none.result, none.status) == (Result.UNAUTHORIZED, 401)
    assert f"recapito connection set {APP}" in none.detail
    assert (unreadable.result, unreadable.detail) == (Result.UNAUTHORIZED, "The key file is not there.")
    assert (failed.result, failed.status) == (Result.GENERIC_ERROR, None)


def test_a_new_connection_is_used_after_a_failure() -> None:
    """Who mends the connection need not wait: what failed is looked up anew for the next attempt."""
    connections: dict[str, AzureConnection] = {}

    async def main() -> list[int | None]:
        async with (
            Receiver(FunctionsHost(KEY)) as receiver,
            sending(FunctionAdapter(), keyring(connections)) as answer_to,
        ):
            statuses = []
            for code in ("wrong", "canary%2Fkey%2Bwith%3Dsigns"):
                url = f"http://127.0.0.1:{receiver.port}?code={code}"
                connections[ORDERS.resource_id.lower()] = from_function_host(APP, url)
                statuses.append((await answer_to(ORDERS)).status)
            return statuses

    assert asyncio.run(main()) == [401, 202]


def test_aborted_exchanges_say_nothing() -> None:
    """Whether the way is still looked for or the host is silent: after an abort, and after a close, no answer comes."""
    answers: list[Outcome] = []

    async def main() -> None:
        async with Receiver(silent) as receiver:
            connection = from_function_host(APP, f"http://127.0.0.1:{receiver.port}")
            async with sending(FunctionAdapter(), keyring({ORDERS.resource_id.lower(): connection})) as by:
                by.sender.send(ORDERS, batch(), answers.append).abort()
                open_one = by.sender.send(ORDERS, batch(), answers.append)
                await receiver.until(lambda it: it.requests)
                open_one.abort()
                by.sender.send(ORDERS, batch(), answers.append)
                await receiver.until(lambda it: len(it.requests) == 2)
                by.sender.send(AzureFunction(resource_id=f"{APP}/functions/Other"), batch(), answers.append)
            with pytest.raises(RuntimeError):
                by.sender.send(ORDERS, batch(), answers.append)

    asyncio.run(main())
    assert answers == []
