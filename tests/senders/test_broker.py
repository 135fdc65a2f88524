"""The sender to Service Bus and Event Hubs: Microsoft's clients over real AMQP, to a test double that checks keys."""

import asyncio
import datetime
import hmac
import json
import threading
import time
from base64 import b64encode
from collections.abc import Awaitable, Callable
from urllib.parse import quote_plus

import pytest
from azure.core.credentials import AccessToken
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from msgspec.structs import replace

from recapito.azure.access import AzureAccess
from recapito.azure.amqp_clients import AmqpClients
from recapito.domain.access.egress import Egress
from recapito.domain.connections.connection import Connection, DefaultCredential
from recapito.domain.connections.parse_storage import from_connection_string
from recapito.domain.delivery.attributes import Header
from recapito.domain.delivery.batch import Batch
from recapito.domain.delivery.outcome import Outcome, Result, answered
from recapito.domain.events.schema import BodyForm
from recapito.domain.resources.destination import Broker, EventHub, ServiceBusQueue, ServiceBusTopic
from recapito.errors import SettingsError, StoreFailed
from recapito.senders.broker import BrokerSender
from tests.amqp.broker import KEY, POLICY, SERVICE_BUS, LocalBroker, new, running
from tests.azurite.place import known
from tests.senders.receiver import Receiver, batch, names, silent

pytestmark = pytest.mark.xdist_group("broker")
CANARY = "Y2FuYXJ5Y2FuYXJ5"
KINDS = [ServiceBusQueue, ServiceBusTopic, EventHub]
each_kind = pytest.mark.parametrize("kind", KINDS)
each_service = pytest.mark.parametrize("kind", [ServiceBusQueue, EventHub])


def reaching(*connections: Connection, egress: Egress = Egress.LOCAL, ca_file: str | None = None) -> AmqpClients:
    """Brokers that these connections lead to."""
    return AmqpClients(AzureAccess(known(*connections), names(broker_test="127.0.0.1"), egress, ca_file))


async def answer_to(sender: BrokerSender, to: Broker, sent: Batch | None = None) -> Outcome:
    """The outcome of one exchange."""
    told: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
    sender.send(to, sent or batch(), told.set_result)
    async with asyncio.timeout(20):
        return await told


def telling(story: Callable[[BrokerSender], Awaitable[list[Outcome]]], brokers: AmqpClients) -> list[Outcome]:
    """The outcomes of a story; none of them has a secret in it."""

    async def main() -> list[Outcome]:
        sender = BrokerSender(brokers)
        try:
            return await story(sender)
        finally:
            await sender.close()
            await brokers.close()

    outcomes = asyncio.run(main())
    assert not [one for one in outcomes if CANARY in repr(one) or KEY in repr(one)]
    return outcomes


def sending(brokers: AmqpClients, to: Broker, *sent: Batch) -> list[Outcome]:
    """The answers to batches, one after the other."""

    async def story(sender: BrokerSender) -> list[Outcome]:
        return [await answer_to(sender, to, one) for one in sent or [batch()]]

    return telling(story, brokers)


METADATA = {
    "aeg-subscription-name": "ORDERS-HOOK",
    "aeg-delivery-count": "2",
    "aeg-event-type": "Notification",
    "aeg-metadata-version": "1",
    "aeg-data-version": "1.0",
    "aeg-output-event-id": "e7",
}


@each_kind
def test_an_event_arrives(broker: LocalBroker, kind: type[Broker]) -> None:
    """One event is one message: its bytes, content type, and as properties what a webhook gets as headers."""
    to = new(kind)
    body = '{"id":"7","data":"ü 🚚"}'
    sent = batch(f"[{body}]".encode(), attempts=2, id="e7")
    before = len(broker.tokens())
    assert sending(reaching(*broker.connections()), to, sent) == [answered(200)]
    (arrived,) = broker.arrived(to, 1)
    assert arrived.properties == METADATA
    assert arrived.fields["content_type"] == "application/json; charset=utf-8"
    if kind is EventHub:
        assert arrived.body == f"[{body}]" and "message_id" not in arrived.fields
    else:
        assert (arrived.body, arrived.fields["message_id"]) == (body, "e7")
    assert arrived.annotations == {}
    assert all(token["ok"] for token in broker.tokens()[before:])


@each_service
def test_a_cloud_event_arrives(broker: LocalBroker, kind: type[Broker]) -> None:
    """A CloudEvent is the JSON object itself, with its content type, and no version of the data."""
    to = new(kind)
    sent = replace(batch(b'{"specversion":"1.0","id":"7"}', version=None), form=BodyForm.CLOUD_EVENT)
    assert sending(reaching(*broker.connections()), to, sent) == [answered(200)]
    (arrived,) = broker.arrived(to, 1)
    assert json.loads(arrived.body) == {"specversion": "1.0", "id": "7"}
    assert arrived.fields["content_type"] == "application/cloudevents+json; charset=utf-8"
    assert arrived.properties["aeg-metadata-version"] == "1.0" and "aeg-data-version" not in arrived.properties


def headers(**values: str) -> tuple[Header, ...]:
    """The subscriber's own properties."""
    return tuple(Header(name, value) for name, value in values.items())


def test_service_bus_properties(broker: LocalBroker) -> None:
    """Names that Service Bus knows, in any case, become its own fields; others are application properties."""
    to = new(ServiceBusQueue)
    own = headers(partitionkey="p", CorrelationId="c", Label="l", ReplyTo="r", ReplyToSessionId="s", To="t", Blue="sky")
    via = headers(SessionId="one", ViaPartitionKey="v", MessageId="mine")
    sent = [replace(batch(), headers=own), replace(batch(), headers=via)]
    assert sending(reaching(*broker.connections()), to, *sent) == [answered(200)] * 2
    first, second = broker.arrived(to, 2)
    wanted = {
        "message_id": "e1",
        "correlation_id": "c",
        "subject": "l",
        "reply_to": "r",
        "reply_to_group_id": "s",
        "to": "t",
    }
    assert first.fields == {**wanted, "content_type": "application/json; charset=utf-8"}
    assert first.annotations == {"x-opt-partition-key": "p"}
    assert first.properties["Blue"] == "sky" and "partitionkey" not in first.properties
    assert (second.fields["message_id"], second.fields["group_id"]) == ("mine", "one")
    assert second.annotations["x-opt-via-partition-key"] == "v"


def test_event_hub_properties(broker: LocalBroker) -> None:
    """Event Hubs knows a partition key; every other name is a property, a message id too."""
    to = new(EventHub)
    sent = replace(batch(), headers=headers(PartitionKey="p", MessageId="mine", Blue="sky"))
    assert sending(reaching(*broker.connections()), to, sent) == [answered(200)]
    (arrived,) = broker.arrived(to, 1)
    assert arrived.annotations == {"x-opt-partition-key": "p"}
    assert arrived.properties == {**METADATA, "aeg-delivery-count": "0", "aeg-output-event-id": "e1"} | {
        "MessageId": "mine",
        "Blue": "sky",
    }


@each_service
def test_what_waits_goes_together(broker: LocalBroker, kind: type[Broker]) -> None:
    """Events that are handed over together are few transfers of the SDK's batches, each event a message, once."""
    to = new(kind)
    bodies = [f'{{"id":"{n}"}}' for n in range(100)]

    async def story(sender: BrokerSender) -> list[Outcome]:
        return await asyncio.gather(
            *(answer_to(sender, to, batch(f"[{body}]".encode(), id=f"e{n}")) for n, body in enumerate(bodies))
        )

    assert telling(story, reaching(*broker.connections())) == [answered(200)] * 100
    arrived = broker.arrived(to, 100)
    assert [one.body.strip("[]") for one in arrived] == bodies
    assert [one.properties["aeg-output-event-id"] for one in arrived] == [f"e{n}" for n in range(100)]
    assert all(one.batch for one in arrived) and broker.seen(to) <= 2


@each_service
def test_a_batch_has_one_partition_key(broker: LocalBroker, kind: type[Broker]) -> None:
    """Events with different partition keys never go in one batch; each arrives with its own."""
    to = new(kind)
    sent = [replace(batch(id=f"e{n}"), headers=headers(PartitionKey=f"p{n % 2}")) for n in range(10)]

    async def story(sender: BrokerSender) -> list[Outcome]:
        return await asyncio.gather(*(answer_to(sender, to, one) for one in sent))

    assert telling(story, reaching(*broker.connections())) == [answered(200)] * 10
    arrived = broker.arrived(to, 10)
    keys = {one.properties["aeg-output-event-id"]: one.annotations["x-opt-partition-key"] for one in arrived}
    assert keys == {f"e{n}": f"p{n % 2}" for n in range(10)}
    assert broker.seen(to) == 2


@each_service
def test_a_batch_that_is_too_large_is_cut(kind: type[Broker]) -> None:
    """More than fits into one of the SDK's batches goes in several, in order, and each event once."""
    to = new(kind)
    large = [batch(b'[{"id":"%d","data":"%b"}]' % (n, b"x" * 100_000), id=f"e{n}") for n in range(7)]

    async def story(sender: BrokerSender) -> list[Outcome]:
        return await asyncio.gather(*(answer_to(sender, to, one) for one in large))

    with running(largest=256 * 1024) as small:
        assert telling(story, reaching(*small.connections())) == [answered(200)] * 7
        ids = [one.properties["aeg-output-event-id"] for one in small.arrived(to, 7)]
        assert ids == [f"e{n}" for n in range(7)]
        assert 2 <= small.seen(to) <= 7


def test_a_batch_that_is_not_taken_goes_one_by_one(broker: LocalBroker) -> None:
    """Where the broker does not take a batch, each event is tried by itself: blame is never shared."""
    to = new(ServiceBusQueue, "picky")

    async def story(sender: BrokerSender) -> list[Outcome]:
        return await asyncio.gather(*(answer_to(sender, to, batch(id=f"e{n}")) for n in range(5)))

    assert telling(story, reaching(*broker.connections())) == [answered(200)] * 5
    arrived = broker.arrived(to, 5)
    assert sorted(one.fields["message_id"] for one in arrived) == [f"e{n}" for n in range(5)]
    assert not any(one.batch for one in arrived)


REFUSALS = {
    "gone": (Result.NOT_FOUND, 404, "create it"),
    "deleted": (Result.NOT_FOUND, 404, "create it"),
    "disabled": (Result.DISABLED, None, "enable it"),
    "full": (Result.FULL, None, "it is full"),
    "busy": (Result.BUSY, 503, "busy"),
    "slow": (Result.TIMED_OUT, 408, "gave up"),
    "large": (Result.PAYLOAD_TOO_LARGE, 413, "larger"),
    "odd": (Result.BAD_REQUEST, 400, "does not take"),
    "denied": (Result.FORBIDDEN, 403, "may not send"),
    "ended": (Result.UNAUTHORIZED, 401, "recapito connection set"),
    "session": (Result.SESSION_QUEUE_NOT_SUPPORTED, 400, "SessionId"),
    "broken": (Result.GENERIC_ERROR, 500, "failed"),
    "drop": (Result.SOCKET_ERROR, None, "broke"),
}


@each_service
@pytest.mark.parametrize("behaviour", REFUSALS)
def test_what_a_broker_refuses(broker: LocalBroker, kind: type[Broker], behaviour: str) -> None:
    """Each of the broker's refusals is an outcome, the status that the rules are keyed by, and a remedy."""
    to = new(kind, behaviour)
    (outcome,) = sending(reaching(*broker.connections()), to)
    result, status, remedy = REFUSALS[behaviour]
    assert (outcome.result, outcome.status) == (result, status), outcome
    name = to.resource_id.rpartition("/")[2]
    assert outcome.detail.startswith(f"{name} of namespace orders1: ") and remedy in outcome.detail
    assert broker.seen(to) <= 1


def test_a_session_queue_with_a_session(broker: LocalBroker) -> None:
    """A queue that requires sessions takes events that have a session id."""
    to = new(ServiceBusQueue, "session")
    sent = replace(batch(), headers=headers(SessionId="one"))
    assert sending(reaching(*broker.connections()), to, sent) == [answered(200)]
    assert broker.arrived(to, 1)[0].fields["group_id"] == "one"


def test_two_partitions(broker: LocalBroker) -> None:
    """A partition that is not the session's is BadRequest, 400, and the detail names both properties."""
    sent = replace(batch(), headers=headers(SessionId="canary-a", PartitionKey="canary-b"))
    (outcome,) = sending(reaching(*broker.connections()), new(ServiceBusQueue), sent)
    assert (outcome.result, outcome.status) == (Result.BAD_REQUEST, 400)
    assert "PartitionKey and SessionId must be the same" in outcome.detail and "canary" not in outcome.detail


@each_service
def test_a_wrong_key(broker: LocalBroker, kind: type[Broker]) -> None:
    """A key that is wrong is Unauthorized, 401, and names the command; the key is not told."""
    before = broker.seen(to := new(kind))
    (outcome,) = sending(reaching(*broker.connections(key=CANARY)), to)
    assert (outcome.result, outcome.status) == (Result.UNAUTHORIZED, 401)
    top = to.resource_id.rpartition("/")[0].rpartition("/")[0]
    assert f"recapito connection set {top}" in outcome.detail
    assert broker.seen(to) == before


@each_service
def test_too_large_for_the_link(kind: type[Broker]) -> None:
    """A message larger than the link takes is PayloadTooLarge, 413; one that fits goes in the same batch of calls."""
    with running(largest=20_000) as small:
        to = new(kind)

        async def story(sender: BrokerSender) -> list[Outcome]:
            over = batch(b'[{"id":"1","data":"%b"}]' % (b"x" * 30_000))
            return await asyncio.gather(answer_to(sender, to, over), answer_to(sender, to))

        over, fits = telling(story, reaching(*small.connections()))
        assert (over.result, over.status) == (Result.PAYLOAD_TOO_LARGE, 413)
        assert fits == answered(200) and len(small.arrived(to, 1)) == 1


@each_service
def test_a_broker_that_comes_back(kind: type[Broker]) -> None:
    """While a broker is down deliveries are SocketError; when it is back the connection is opened anew."""
    with running() as local:
        to = new(kind)

        async def story(sender: BrokerSender) -> list[Outcome]:
            outcomes = [await answer_to(sender, to)]
            await asyncio.to_thread(local.stop)
            outcomes += [await answer_to(sender, to), await answer_to(sender, to)]
            await asyncio.to_thread(local.start)
            return [*outcomes, await answer_to(sender, to)]

        outcomes = telling(story, reaching(*local.connections()))
        assert [one.result for one in outcomes] == [
            Result.SUCCESS,
            Result.SOCKET_ERROR,
            Result.SOCKET_ERROR,
            Result.SUCCESS,
        ]
        assert len(local.arrived(to, 2)) == 2


def test_a_connection_that_is_set_anew(broker: LocalBroker) -> None:
    """A wrong key that is put right is used at the next attempt."""
    to = new(ServiceBusQueue)
    kept = broker.connections(key=CANARY)[:1]

    async def find(resource_id: str) -> Connection | None:
        return kept[0]

    async def story(sender: BrokerSender) -> list[Outcome]:
        wrong = await answer_to(sender, to)
        kept[0] = broker.connections()[0]
        return [wrong, await answer_to(sender, to)]

    outcomes = telling(story, AmqpClients(AzureAccess(find, names(), Egress.LOCAL)))
    assert [one.result for one in outcomes] == [Result.UNAUTHORIZED, Result.SUCCESS]


@each_service
def test_nobody_there(kind: type[Broker]) -> None:
    """A port on which nothing listens is SocketError; a name that is none is ResolutionError."""
    to = new(kind)
    top = to.resource_id.rpartition("/")[0].rpartition("/")[0]
    key = f"SharedAccessKeyName={POLICY};SharedAccessKey={KEY};UseDevelopmentEmulator=true"
    for host, expected in (("127.0.0.1:9", Result.SOCKET_ERROR), ("nowhere.test:5672", Result.RESOLUTION_ERROR)):
        (outcome,) = sending(reaching(from_connection_string(top, f"Endpoint=sb://{host};{key}")), to)
        assert (outcome.result, outcome.status) == (expected, None)


@each_service
@pytest.mark.parametrize("said", [bytes(64), b"220 mail.test ready\r\n", b"HTTP/1.1 404 Not Found\r\n\r\n"])
def test_somebody_else_is_there(kind: type[Broker], said: bytes) -> None:
    """Who speaks anything but AMQP is SocketError: the event is not to blame, and is tried again."""

    async def main() -> Outcome:
        async with Receiver(lambda connection: connection.write(said)) as other:
            to = new(kind)
            top = to.resource_id.rpartition("/")[0].rpartition("/")[0]
            key = f"SharedAccessKeyName={POLICY};SharedAccessKey={KEY};UseDevelopmentEmulator=true"
            brokers = reaching(from_connection_string(top, f"Endpoint=sb://127.0.0.1:{other.port};{key}"))
            sender = BrokerSender(brokers)
            outcome = await answer_to(sender, to)
            await sender.close()
            await brokers.close()
            return outcome

    outcome = asyncio.run(main())
    assert (outcome.result, outcome.status) == (Result.SOCKET_ERROR, None), outcome


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    """The files of a certificate for the name broker.test, and of its key."""
    directory = tmp_path_factory.mktemp("tls")
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "broker.test")])
    now = datetime.datetime.now(datetime.UTC)
    made = (
        x509.CertificateBuilder(name, name, key.public_key(), 1, now, now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("broker.test")]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    pem, plain = serialization.Encoding.PEM, serialization.NoEncryption()
    (directory / "cert.pem").write_bytes(made.public_bytes(pem))
    (directory / "key.pem").write_bytes(key.private_bytes(pem, serialization.PrivateFormat.PKCS8, plain))
    return str(directory / "cert.pem"), str(directory / "key.pem")


@each_service
def test_tls_asks_for_the_name(kind: type[Broker], certificate: tuple[str, str]) -> None:
    """With TLS the certificate must be of a trusted authority and of the name, although an address is dialled."""
    with running(certificate) as secure:
        to = new(kind)
        top = to.resource_id.rpartition("/")[0].rpartition("/")[0]
        text = secure.connection_string(emulator=False)
        named = from_connection_string(top, text.replace("127.0.0.1", "broker.test"))
        assert sending(reaching(named, ca_file=certificate[0]), to) == [answered(200)]
        (untrusted,) = sending(reaching(named), to)
        (misnamed,) = sending(reaching(from_connection_string(top, text), ca_file=certificate[0]), to)
        assert untrusted.result is misnamed.result is Result.SOCKET_ERROR
        assert len(secure.arrived(to, 1)) == 1


def signature(resource: str, key: str, ends_at: int) -> str:
    """A shared access signature, as namespaces have them."""
    signed = quote_plus(resource)
    made = b64encode(hmac.digest(key.encode(), f"{signed}\n{ends_at}".encode(), "sha256"))
    return f"SharedAccessSignature sr={signed}&sig={quote_plus(made)}&se={ends_at}&skn={POLICY}"


@each_service
def test_signatures(broker: LocalBroker, kind: type[Broker]) -> None:
    """A signature is as good as a key while it lasts; one that has ended is Unauthorized and says when it did."""
    to = new(kind)
    top = to.resource_id.rpartition("/")[0].rpartition("/")[0]
    endpoint = f"Endpoint=sb://127.0.0.1:{broker.port};UseDevelopmentEmulator=true;SharedAccessSignature="
    now = int(time.time())
    good, ended = (signature("sb://127.0.0.1/", KEY, now + more) for more in (3600, -3600))
    assert sending(reaching(from_connection_string(top, endpoint + good)), to) == [answered(200)]
    (outcome,) = sending(reaching(from_connection_string(top, endpoint + ended)), to)
    assert (outcome.result, outcome.status) == (Result.UNAUTHORIZED, 401)
    assert "ended at" in outcome.detail and "recapito connection set" in outcome.detail


class Identity:
    """A credential as azure-identity's are."""

    def __init__(self) -> None:
        self.scopes: set[str] = set()
        self.closed = False

    async def get_token(self, *scopes: str, **options: object) -> AccessToken:
        self.scopes |= set(scopes)
        return AccessToken("a token of an identity", int(time.time()) + 3600)

    async def close(self) -> None:
        self.closed = True

    async def __aenter__(self) -> "Identity":
        return self

    async def __aexit__(self, *raised: object) -> None:
        await self.close()


@each_service
def test_an_identity_is_enough(broker: LocalBroker, kind: type[Broker]) -> None:
    """A connection by the server's own identity sends with a token for the service; the credential is closed."""
    to, identity = new(kind), Identity()
    (keyed,) = [one for one in broker.connections() if to.resource_id.startswith(one.resource_id)]
    connection = replace(keyed, credential=DefaultCredential())
    brokers = AmqpClients(AzureAccess(known(connection), names(), Egress.LOCAL, credential=lambda: identity))
    assert sending(brokers, to) == [answered(200)]
    assert len(broker.arrived(to, 1)) == 1
    service = "eventhubs" if kind is EventHub else "servicebus"
    assert {scope.replace("//.default", "/.default") for scope in identity.scopes} == {
        f"https://{service}.azure.net/.default"
    }
    assert identity.closed


def test_a_trust_file_that_is_missing(broker: LocalBroker) -> None:
    """A file of trusted authorities that cannot be read is an outcome, not an exception."""
    text = broker.connection_string(emulator=False)
    (outcome,) = sending(
        reaching(from_connection_string(SERVICE_BUS, text), ca_file="/nowhere.pem"), new(ServiceBusQueue)
    )
    assert outcome.result is Result.SOCKET_ERROR and "No such file" in outcome.detail


def test_egress_is_judged(broker: LocalBroker) -> None:
    """A broker at an address that deliveries may not go to is not dialled."""
    (outcome,) = sending(reaching(*broker.connections(), egress=Egress.PUBLIC), new(ServiceBusQueue))
    assert outcome.result is Result.SOCKET_ERROR
    assert "egress refused 127.0.0.1: a loopback address" in outcome.detail


@pytest.mark.parametrize(
    ("problem", "expected"),
    [
        (None, (Result.UNAUTHORIZED, 401, f"recapito connection set {SERVICE_BUS}")),
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

    (outcome,) = sending(AmqpClients(AzureAccess(find, names(), Egress.LOCAL)), new(ServiceBusQueue))
    assert (outcome.result, outcome.status) == expected[:2] and expected[2] in outcome.detail


def test_a_destination_that_is_none() -> None:
    """A destination that is no resource id is BadRequest: nothing is dialled."""
    (outcome,) = sending(reaching(), ServiceBusQueue(resource_id="orders"))
    assert (outcome.result, outcome.status) == (Result.BAD_REQUEST, 400)


def test_aborting_lets_go(broker: LocalBroker) -> None:
    """When all that is under way is aborted the connection is let go, and what comes next is sent on a new one."""
    mute, good = new(ServiceBusQueue, "mute"), new(ServiceBusQueue)

    async def story(sender: BrokerSender) -> list[Outcome]:
        answers: list[Outcome] = []
        exchanges = [sender.send(mute, batch(), answers.append) for _ in range(3)]
        await asyncio.to_thread(_until, lambda: broker.seen(mute) == 1)
        for exchange in exchanges:
            exchange.abort()
        again = sender.send(mute, batch(), answers.append)
        await asyncio.to_thread(_until, lambda: broker.seen(mute) == 2)
        again.abort()
        return [*answers, await answer_to(sender, good)]

    assert telling(story, reaching(*broker.connections())) == [answered(200)]


@each_service
def test_a_server_that_never_speaks(kind: type[Broker]) -> None:
    """Connecting to who takes a connection and says nothing ends when it is aborted, and leaves no socket behind."""

    async def main() -> None:
        async with Receiver(silent) as mute:
            port = mute.at("127.0.0.1").rpartition(":")[2].partition("/")[0]
            text = f"Endpoint=sb://127.0.0.1:{port};SharedAccessKeyName={POLICY};SharedAccessKey={KEY}"
            to = new(kind)
            top = to.resource_id.rpartition("/")[0].rpartition("/")[0]
            brokers = reaching(from_connection_string(top, f"{text};UseDevelopmentEmulator=true"))
            sender = BrokerSender(brokers)
            answers: list[Outcome] = []
            exchange = sender.send(to, batch(), answers.append)
            await asyncio.sleep(0.5)
            exchange.abort()
            await sender.close()
            await brokers.close()
            assert answers == []

    asyncio.run(main())


def _until(true: Callable[[], bool]) -> None:
    tick = threading.Event()
    for _ in range(3000):
        if true():
            return
        tick.wait(0.02)
    raise AssertionError("it did not come")
