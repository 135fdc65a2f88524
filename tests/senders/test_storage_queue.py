"""The sender to storage queues on a real Azurite: what arrives, and what each failure is in Event Grid's words."""

import asyncio
import datetime
import json
from base64 import b64decode, b64encode
from pathlib import Path

import pytest
from azure.storage.queue import (
    AccountSasPermissions,
    QueueSasPermissions,
    ResourceTypes,
    generate_account_sas,
    generate_queue_sas,
)
from msgspec.structs import replace

from recapito.azure.access import AzureAccess
from recapito.azure.storage_clients import StorageClients
from recapito.domain.access.egress import Egress
from recapito.domain.connections.connection import AzureService, Connection
from recapito.domain.connections.parse_storage import (
    AZURITE_ACCOUNT,
    AZURITE_KEY,
    from_connection_string,
    from_sas_url,
)
from recapito.domain.delivery.batch import Batch
from recapito.domain.delivery.outcome import Outcome, Result, answered
from recapito.domain.events.schema import BodyForm
from recapito.domain.resources.destination import StorageQueue, WebHook
from recapito.domain.resources.resource_id import parse_resource_id
from recapito.errors import SettingsError, StoreFailed
from recapito.senders.routing import RoutingSender
from recapito.senders.storage_queue import StorageQueueSender
from recapito.senders.webhook import WebhookSender
from tests.azurite.place import ACCOUNT, account, new_queue, queue_service, reaching
from tests.azurite.server import Azurite, running
from tests.senders.receiver import NOON, OK, Handler, Receiver, answering, batch, names, status

pytestmark = pytest.mark.xdist_group("azurite")
CANARY = "Y2FuYXJ5Y2FuYXJ5"
HOUR = datetime.timedelta(hours=1)
NOWHERE = StorageQueue(account=ACCOUNT, queue="nowhere")


async def answer_to(sender: StorageQueueSender, to: StorageQueue, sent: Batch | None = None) -> Outcome:
    """The outcome of one exchange."""
    told: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
    sender.send(to, sent or batch(), told.set_result)
    async with asyncio.timeout(20):
        return await told


def sending(storage_clients: StorageClients, to: StorageQueue, *sent: Batch) -> list[Outcome]:
    """The answers to batches, by a way of one's own; none of them has a secret in it."""

    async def main() -> list[Outcome]:
        sender = StorageQueueSender(storage_clients)
        try:
            return [await answer_to(sender, to, one) for one in sent or [batch()]]
        finally:
            await sender.close()
            await storage_clients.close()

    answers = asyncio.run(main())
    assert not [answer for answer in answers if CANARY in repr(answer) or AZURITE_KEY in repr(answer)]
    return answers


def messages(azurite: Azurite, queue: StorageQueue) -> list[tuple[bytes, datetime.timedelta]]:
    """The messages of a queue, as an ordinary consumer decodes them, and the lifetime of each."""
    with azurite.queues() as client:
        found = client.get_queue_client(queue.queue).peek_messages(32)
    return [(b64decode(one.content, validate=True), one.expires_on - one.inserted_on) for one in found]


def test_one_event_is_one_message(azurite: Azurite) -> None:
    """A message is the event's own bytes as base64: the object, without the brackets of a list."""
    queue = new_queue(azurite)
    bodies = [b'{"id":"1"}', '{"id":"2","data":"]]>&amp;\\u0001 ü 🚚"}'.encode(), b'{"id":"3","data":[1]}']
    sent = [batch(b"[%b]" % body) for body in bodies[:2]] + [replace(batch(bodies[2]), form=BodyForm.CLOUD_EVENT)]
    assert sending(reaching(azurite.connection), queue, *sent) == [answered(200)] * 3
    assert [body for body, _ in messages(azurite, queue)] == bodies
    assert json.loads(messages(azurite, queue)[1][0])["data"] == "]]>&amp;\x01 ü 🚚"


def test_messages_last_as_long_as_asked(azurite: Azurite) -> None:
    """The message's time to live is the destination's: seven days unless asked otherwise, or forever."""
    for ttl_s, lasts in ((60, 60), (7 * 86_400, 7 * 86_400), (30 * 86_400, 30 * 86_400)):
        queue = new_queue(azurite, ttl_s)
        sending(reaching(azurite.connection), queue)
        assert messages(azurite, queue)[0][1] == datetime.timedelta(seconds=lasts)
    queue = new_queue(azurite, -1)
    assert sending(reaching(azurite.connection), queue) == [answered(200)]
    assert messages(azurite, queue)[0][1] > datetime.timedelta(days=365)
    assert NOWHERE.ttl_s == 7 * 86_400


def test_a_missing_queue(azurite: Azurite) -> None:
    """A queue that does not exist is NotFound, 404, and the detail says what to do."""
    assert sending(reaching(azurite.connection), NOWHERE) == [
        Outcome(
            Result.NOT_FOUND,
            404,
            detail="nowhere of storage account orders1: it does not exist: create it, or correct the subscription"
            " (404 QueueNotFound)",
        )
    ]


def test_a_wrong_key(azurite: Azurite) -> None:
    """A wrong key is Unauthorized, 401: it can be mended, so the event waits for that."""
    text = f"AccountName={AZURITE_ACCOUNT};AccountKey={CANARY};QueueEndpoint={azurite.url(AzureService.QUEUE)}"
    (answer,) = sending(reaching(from_connection_string(ACCOUNT, text)), new_queue(azurite))
    assert (answer.result, answer.status) == (Result.UNAUTHORIZED, 401)
    assert f"recapito connection set {ACCOUNT}" in answer.detail


@pytest.mark.parametrize(
    ("until", "may", "expected"),
    [
        (HOUR, {"add": True}, (Result.SUCCESS, 200)),
        (HOUR, {"read": True}, (Result.FORBIDDEN, 403)),
        (-HOUR, {"add": True}, (Result.UNAUTHORIZED, 401)),
    ],
)
def test_signatures(
    azurite: Azurite, until: datetime.timedelta, may: dict[str, bool], expected: tuple[Result, int]
) -> None:
    """A signature that may add is enough; one that may not is Forbidden; one that has ended is Unauthorized."""
    now = datetime.datetime.now(datetime.UTC)
    token = generate_account_sas(
        AZURITE_ACCOUNT,
        AZURITE_KEY,
        ResourceTypes(object=True),
        AccountSasPermissions(**may),
        now + until,
        start=now - 2 * HOUR,
    )
    text = f"QueueEndpoint={azurite.url(AzureService.QUEUE)};SharedAccessSignature={token}"
    (answer,) = sending(reaching(from_connection_string(ACCOUNT, text)), new_queue(azurite))
    assert (answer.result, answer.status) == expected
    assert token not in answer.detail


def test_a_signature_of_one_queue(azurite: Azurite) -> None:
    """A queue's own SAS URL is enough to send to it."""
    queue = new_queue(azurite)
    may, until = QueueSasPermissions(add=True), datetime.datetime.now(datetime.UTC) + HOUR
    token = generate_queue_sas(AZURITE_ACCOUNT, queue.queue, AZURITE_KEY, permission=may, expiry=until)
    url = f"{azurite.url(AzureService.QUEUE)}/{queue.queue}?{token}"
    assert sending(reaching(from_sas_url(queue.resource_id, url)), queue) == [answered(200)]


def test_the_largest_message(azurite: Azurite) -> None:
    """The largest message that a queue holds is sent; one event more is PayloadTooLarge, 413, and never leaves."""
    queue = new_queue(azurite)
    fits, over = ((b'{"a":"%b"}' % (b"x" * (n - 8))) for n in (48 * 1024, 48 * 1024 + 1))
    assert len(b64encode(fits)) == 64 * 1024
    good, refused = sending(reaching(azurite.connection), queue, batch(b"[%b]" % fits), batch(b"[%b]" % over))
    assert good == answered(200)
    assert (refused.result, refused.status) == (Result.PAYLOAD_TOO_LARGE, 413)
    assert refused.detail.startswith(f"{queue.queue} of storage account orders1: the event is 65540 bytes of base64")
    assert "publish smaller events" in refused.detail
    assert len(messages(azurite, queue)) == 1


def test_a_message_that_the_service_finds_too_large(azurite: Azurite) -> None:
    """The service's own word for it is the same outcome."""
    queue = new_queue(azurite)

    async def main() -> Outcome:
        storage_clients = reaching(azurite.connection)
        outcome = await storage_clients.use_queue(
            parse_resource_id(queue.resource_id), lambda it: it.send_message("x" * 70_000)
        )
        await storage_clients.close()
        return outcome

    outcome = asyncio.run(main())
    assert (outcome.result, outcome.status) == (Result.PAYLOAD_TOO_LARGE, 413)
    assert "RequestBodyTooLarge" in outcome.detail


def test_an_outage(tmp_path: Path) -> None:
    """While the service is down the outcome is SocketError; when it is back, the same sender sends."""
    with running(tmp_path) as azurite:
        queue = new_queue(azurite)

        async def main() -> list[tuple[Result, int | None]]:
            storage_clients = reaching(azurite.connection)
            sender = StorageQueueSender(storage_clients)
            answers = [await answer_to(sender, queue)]
            await asyncio.to_thread(azurite.stop)
            answers += [await answer_to(sender, queue), await answer_to(sender, queue)]
            await asyncio.to_thread(azurite.start)
            answers.append(await answer_to(sender, queue))
            await sender.close()
            await storage_clients.close()
            return [(answer.result, answer.status) for answer in answers]

        down = (Result.SOCKET_ERROR, None)
        assert asyncio.run(main()) == [(Result.SUCCESS, 200), down, down, (Result.SUCCESS, 200)]
        assert len(messages(azurite, queue)) == 2


def test_many_at_once(azurite: Azurite) -> None:
    """A window of messages under way arrives whole, each once."""
    queue = new_queue(azurite)
    bodies = {b'{"id":"%d"}' % n for n in range(30)}

    async def main() -> list[Outcome]:
        storage_clients = reaching(azurite.connection)
        sender = StorageQueueSender(storage_clients)
        answers = await asyncio.gather(*(answer_to(sender, queue, batch(b"[%b]" % body)) for body in bodies))
        await sender.close()
        await storage_clients.close()
        return answers

    assert asyncio.run(main()) == [answered(200)] * 30
    assert sorted(body for body, _ in messages(azurite, queue)) == sorted(bodies)


CODES = [
    (400, "OutOfRangeInput", (Result.BAD_REQUEST, 400)),
    (400, "MessageTooLarge", (Result.PAYLOAD_TOO_LARGE, 413)),
    (400, "InvalidAuthenticationInfo", (Result.UNAUTHORIZED, 401)),
    (401, "NoAuthenticationInformation", (Result.UNAUTHORIZED, 401)),
    (403, "AuthenticationFailed", (Result.UNAUTHORIZED, 401)),
    (403, "KeyBasedAuthenticationNotPermitted", (Result.UNAUTHORIZED, 401)),
    (403, "AuthorizationFailure", (Result.FORBIDDEN, 403)),
    (403, "AccountIsDisabled", (Result.DISABLED, None)),
    (404, "ResourceNotFound", (Result.NOT_FOUND, 404)),
    (409, "QueueBeingDeleted", (Result.NOT_FOUND, 404)),
    (409, "QueueDisabled", (Result.DISABLED, None)),
    (413, "RequestBodyTooLarge", (Result.PAYLOAD_TOO_LARGE, 413)),
    (429, "TooManyRequests", (Result.BUSY, 429)),
    (500, "InternalError", (Result.GENERIC_ERROR, 500)),
    (500, "OperationTimedOut", (Result.TIMED_OUT, 408)),
    (503, "ServerBusy", (Result.BUSY, 503)),
    (503, f"<{CANARY}>", (Result.BUSY, 503)),
]


@pytest.mark.parametrize(("code", "word", "expected"), CODES, ids=[f"{code} {word}" for code, word, _ in CODES])
def test_the_services_words(code: int, word: str, expected: tuple[Result, int | None]) -> None:
    """Each of the service's error codes is an outcome and the status that the rules are keyed by, after one request."""

    async def main() -> Outcome:
        said = status(code, f"x-ms-error-code: {word}", body=f"<Error><Message>{CANARY}</Message></Error>".encode())
        async with Receiver(answering(said)) as service:
            storage_clients = reaching(queue_service("wordy", service.at("127.0.0.1")))
            sender = StorageQueueSender(storage_clients)
            answer = await answer_to(sender, StorageQueue(account=account("wordy"), queue="todo"))
            await sender.close()
            await storage_clients.close()
            assert len(service.requests) == 1
            return answer

    answer = asyncio.run(main())
    assert (answer.result, answer.status) == expected
    assert answer.detail.startswith("todo of storage account wordy: ") and CANARY not in answer.detail


async def outcome_at(name: str, handle: Handler) -> Outcome:
    """The outcome of sending to a queue where this server answers in the place of the service."""
    async with Receiver(handle) as service:
        storage_clients = reaching(queue_service(name, service.at("127.0.0.1")))
        sender = StorageQueueSender(storage_clients)
        answer = await answer_to(sender, StorageQueue(account=account(name), queue="todo"))
        await sender.close()
        await storage_clients.close()
        return answer


@pytest.mark.parametrize(("code", "expected"), [(200, None), (201, None), (202, None), (404, 404)])
def test_somebody_else_is_there(code: int, expected: int | None) -> None:
    """A web server at the queue's address that says yes to everything has taken nothing, and its 404 says nothing."""

    answer = asyncio.run(outcome_at("wordy", answering(status(code, body=b"<html>welcome</html>"))))
    assert (answer.result, answer.status) == (Result.GENERIC_ERROR, expected)
    assert "what answers does not speak as Azure Storage does: is its address right?" in answer.detail
    assert f"recapito connection set {account('wordy')}" in answer.detail


def test_a_service_that_hangs_up() -> None:
    """A connection that is closed without an answer is SocketError."""

    answer = asyncio.run(outcome_at("rude", lambda connection: connection.write(b"")))
    assert answer.result is Result.SOCKET_ERROR


@pytest.mark.parametrize(
    ("problem", "expected"),
    [
        (None, (Result.UNAUTHORIZED, 401, f"recapito connection set {ACCOUNT}")),
        (SettingsError("connection.key is missing"), (Result.UNAUTHORIZED, 401, "connection.key is missing")),
        (StoreFailed("disk"), (Result.GENERIC_ERROR, None, "cannot be read: disk")),
    ],
)
def test_no_connection(problem: Exception | None, expected: tuple[Result, int | None, str]) -> None:
    """A connection that is not there, or cannot be read, is an outcome that names the remedy: the event waits."""

    async def find(resource_id: str) -> Connection | None:
        if problem is not None:
            raise problem
        return None

    (answer,) = sending(StorageClients(AzureAccess(find, names(), Egress.LOCAL)), NOWHERE)
    assert (answer.result, answer.status) == expected[:2] and expected[2] in answer.detail


def test_an_account_that_is_none() -> None:
    """An account that is no resource id is BadRequest: nothing is dialled."""
    (answer,) = sending(reaching(), StorageQueue(account="orders1", queue="todo"))
    assert (answer.result, answer.status) == (Result.BAD_REQUEST, 400)


def test_egress_is_judged_when_dialling() -> None:
    """A queue service at an address that deliveries may not go to is not dialled."""
    storage_clients = reaching(queue_service("inner", "http://127.0.0.1:10009"), egress=Egress.PUBLIC)
    (answer,) = sending(storage_clients, StorageQueue(account=account("inner"), queue="todo"))
    assert answer.result is Result.SOCKET_ERROR
    assert "egress refused 127.0.0.1: a loopback address" in answer.detail


def test_each_destination_goes_to_its_sender(azurite: Azurite) -> None:
    """One sender carries to webhooks and to queues, by the kind of destination, and closes both."""
    queue = new_queue(azurite)

    async def main() -> None:
        async with Receiver(answering(OK)) as hook:
            storage_clients = reaching(azurite.connection)
            webhooks, queues = WebhookSender(Egress.LOCAL, now=lambda: NOON), StorageQueueSender(storage_clients)
            sender = RoutingSender(webhooks, {StorageQueue: queues})
            told = [asyncio.get_running_loop().create_future() for _ in range(2)]
            sender.send(WebHook(url=hook.url), batch(), told[0].set_result)
            sender.send(queue, batch(), told[1].set_result)
            assert await asyncio.gather(*told) == [answered(200), answered(200)]
            await sender.close()
            await storage_clients.close()
            assert len(hook.requests) == 1 and webhooks.closed and queues.closed

    asyncio.run(main())
    assert len(messages(azurite, queue)) == 1
