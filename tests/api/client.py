"""The whole HTTP surface in process: the application on a store in memory, and a small ASGI client."""

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from starlette.types import Message

from recapito.api.app import make_surface
from recapito.api.estate.manager import EstateManager
from recapito.api.estate.spread import Spread
from recapito.api.router.forward import Forwarder
from recapito.api.services import ClockControl, Services
from recapito.clock import ManualClock
from recapito.connections.encryption import SecretBox
from recapito.contracts.history import HistoryBounds
from recapito.domain.access.guess_budget import Budget
from recapito.domain.capacity import Rate
from recapito.domain.cluster.partition import WHOLE, Partition
from recapito.domain.instant import HOUR
from recapito.domain.profiles.profile import DEFAULT
from recapito.domain.resources.subscription import Subscription
from recapito.domain.resources.topic import Topic
from recapito.identity.wrong_secrets import WrongSecrets
from recapito.intake.dead_letters.redrive import Redriver
from recapito.intake.dead_letters.search import DeadLetterSearch
from recapito.intake.explain.explainer import Explainer
from recapito.intake.maintenance.damage_report import DamageReport
from recapito.intake.publish.publisher import Publisher
from recapito.intake.publish.replayer import Replayer
from recapito.intake.publish.throttle import Throttle
from recapito.intake.resources.connection_required import Find, nowhere
from recapito.intake.resources.handshakes import Handshakes
from recapito.intake.resources.subscription_options import Cipher, SubscriptionOptions
from recapito.intake.resources.subscriptions import Subscriptions
from recapito.intake.resources.topics import Changes, Topics
from recapito.senders.memory_caller import CallScript, MemoryCaller
from recapito.stores.memory import MemoryDisk, MemoryHistory, MemoryLedger, MemoryLog
from recapito.vaults.memory import MemoryVault
from tests.intake.doubles import StillClock
from tests.kit.estates import make_estate

GROUP = "/subscriptions/5b4b650e/resourceGroups/examplerg/providers/Microsoft.EventGrid"
TOPIC = f"{GROUP}/topics/orders"
NESTED = f"{TOPIC}/eventSubscriptions"
SCOPE = f"{TOPIC}/providers/Microsoft.EventGrid/eventSubscriptions"
EVENTS = "/topics/orders/api/events"
VERSION = "api-version=2022-06-15"
PUBLIC_URL = "http://127.0.0.1:8585"
PLENTY = Budget(100_000)
BOX = SecretBox.in_memory()


class Answer(NamedTuple):
    """The answer to a request. `status` 0 means that nothing was answered."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def error(self) -> Any:
        return self.json["error"]


class World:
    """A running intake with its HTTP surface. `webhooks` answers handshakes; without it no endpoint is asked.

    partition, forwarders: the partition of a cluster that it is, and the ways to all of them.
    """

    def __init__(
        self,
        log: MemoryLog | None = None,
        ledger: MemoryLedger | None = None,
        clock_control: ClockControl | None = None,
        intake_open: Callable[[], str | None] = lambda: None,
        readiness: Mapping[str, str | None] | None = None,
        rate: Rate | None = None,
        webhooks: CallScript | None = None,
        find_connection: Find = nowhere,
        budget: Budget = PLENTY,
        estate: bool = False,
        encrypt: Cipher = BOX.encrypt,
        replay: bool = False,
        topic_options: Mapping[str, Any] | None = None,
        partition: Partition = WHOLE,
        forwarders: Callable[[], Sequence[Forwarder]] | None = None,
        **more: Any,
    ) -> None:
        self.log = log or MemoryLog()
        self.ledger = ledger or MemoryLedger(MemoryDisk())
        self.clock = StillClock()
        self.history = MemoryHistory(HistoryBounds(24 * HOUR, 0), self.clock.now)
        self.told: list[tuple[str, dict[str, object]]] = []
        keys = iter(range(1, 10_000))
        self.caller = None if webhooks is None else MemoryCaller(webhooks)
        self.patience = ManualClock(0)
        handshakes = None if self.caller is None else self._handshakes(self.caller)
        changes = Changes()
        options = topic_options or {}
        self.topics = Topics(self.log, self.clock, _random(keys), changes, handshakes=handshakes, **options)
        self.subscriptions = Subscriptions(
            self.log, self.clock, self.topics, changes, handshakes=handshakes, find_connection=find_connection
        )
        if estate:
            more["estate"] = make_estate(
                self.log, self.topics, self.subscriptions, self.clock, self._journal, partition, PUBLIC_URL
            )
        self.estate: EstateManager | None = more.get("estate")
        if self.estate is not None and forwarders is not None:
            more["spread"] = Spread(self.estate, forwarders)
        self.publisher = Publisher(self.log, self.clock, lambda: None, intake_open)
        self._readiness = readiness or {"store": None, "disk": None, "dispatch": None}
        damages = DamageReport(self.log, self.ledger)
        self.surface = make_surface(
            Services(
                publisher=self.publisher,
                topics=self.topics,
                subscriptions=self.subscriptions,
                options=SubscriptionOptions(self.subscriptions, self.clock, encrypt, BOX.decrypt),
                log=self.log,
                registry=self.log,
                ledger=self.ledger,
                redriver=self._redriver(),
                replayer=self._replayer(replay),
                history=self.history,
                explainer=Explainer(self.log, self.log, self.ledger, self.history, self.clock, DEFAULT, damages),
                damages=damages,
                clock=self.clock,
                public_url=PUBLIC_URL,
                readiness=self._ready,
                clock_control=clock_control,
                journal=self._journal,
                throttle=None if rate is None else Throttle(rate, self.clock, self.publisher.stats),
                wrong_secrets=WrongSecrets(self.patience, self._journal, budget),
                **more,
            )
        )

        self.app = self.surface.app

    def _replayer(self, enabled: bool) -> Replayer:
        log, check_open = self.log, self.publisher.check_open
        return Replayer(log, log, self.ledger, self.clock, enabled, check_open, lambda: None, self._journal)

    def _redriver(self) -> Redriver:
        self.vault = MemoryVault()
        names = (f"redrive-{n}" for n in range(1, 10_000))
        return Redriver(
            self.log,
            DeadLetterSearch(self.log, self.vault),
            self.clock,
            self.patience,
            self.publisher.check_open,
            lambda: None,
            lambda: next(names),
            self._journal,
        )

    def _handshakes(self, caller: MemoryCaller) -> Handshakes:
        codes = _random(iter(range(10_000, 20_000)))
        return Handshakes(caller, self.clock, self.patience, codes, PUBLIC_URL, self._journal)

    async def _ready(self) -> Mapping[str, str | None]:
        return self._readiness

    def _journal(self, event: str, **fields: object) -> None:
        self.told.append((event, fields))

    async def __aenter__(self) -> "World":
        self._loop = asyncio.create_task(self.publisher.run())
        await asyncio.sleep(0)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.publisher.close()
        await self._loop

    async def call(
        self,
        method: str,
        path: str,
        body: Any = b"",
        headers: Mapping[str, str] | Sequence[tuple[str, str]] = (),
        peer: str | None = "127.0.0.1",
        chunks: Sequence[bytes] | None = None,
        hang_up: bool = False,
    ) -> Answer:
        """One request; a body that is not bytes is sent as JSON, `chunks` are sent one by one."""
        sent = dict(headers) if isinstance(headers, Mapping) else headers
        pairs = list(sent.items()) if isinstance(sent, dict) else list(sent)
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        parts = [content] if chunks is None else list(chunks)
        if not any(name.lower() == "host" for name, _ in pairs):
            pairs.append(("host", "127.0.0.1:8585"))
        path, _, query = path.partition("?")
        scope = {
            "type": "http",
            "method": method,
            "path": path,
            "raw_path": path.encode(),
            "root_path": "",
            "scheme": "http",
            "query_string": query.encode(),
            "headers": [(name.lower().encode(), value.encode("latin-1")) for name, value in pairs],
            "client": None if peer is None else (peer, 50000),
            "server": ("127.0.0.1", 8585),
        }
        return await self._exchange(scope, parts, hang_up)

    async def _exchange(self, scope: dict[str, Any], parts: list[bytes], hang_up: bool) -> Answer:
        answer: list[Message] = []
        waiting = list(parts)

        async def receive() -> Message:
            if not waiting:
                return {"type": "http.disconnect"}
            chunk = waiting.pop(0)
            return {"type": "http.request", "body": chunk, "more_body": bool(waiting) or hang_up}

        async def send(message: Message) -> None:
            answer.append(message)

        await self.app(scope, receive, send)
        if not answer:
            return Answer(0, {}, b"")
        headers = {name.decode().lower(): value.decode() for name, value in answer[0].get("headers", [])}
        return Answer(answer[0]["status"], headers, b"".join(part.get("body", b"") for part in answer[1:]))

    async def arm(self, method: str, path: str, body: Any = b"", **more: Any) -> Answer:
        """A management request."""
        mark = "&" if "?" in path else "?"
        return await self.call(method, f"{path}{mark}{VERSION}", body, **more)

    async def topic(self, **body: Any) -> Topic:
        """The topic `orders`, made over HTTP."""
        answer = await self.arm("PUT", TOPIC, {"location": "westus2", **body})
        assert answer.status == 201, answer.body
        found = await self.log.topic("orders")
        assert found is not None
        return found

    async def subscription(self, name: str = "mine", **properties: Any) -> Subscription:
        """A webhook subscription of `orders`, made over HTTP."""
        answer = await self.arm("PUT", f"{NESTED}/{name}", {"properties": {"destination": webhook(), **properties}})
        assert answer.status == 201, answer.body
        topic = await self.log.topic("orders")
        assert topic is not None
        found = await self.log.subscription(topic.id, name)
        assert found is not None
        return found

    async def publish(self, body: Any, key: str, **more: Any) -> Answer:
        """A publish request to `orders`."""
        return await self.call("POST", EVENTS, body, headers={"aeg-sas-key": key}, **more)


def _random(numbers: Iterator[int]) -> Callable[[int], bytes]:
    return lambda size: next(numbers).to_bytes(size, "big")


def webhook(url: Any = "https://example.com/hook?code=secret", **properties: Any) -> dict[str, Any]:
    return {"endpointType": "WebHook", "properties": {"endpointUrl": url, **properties}}


def event(**changes: Any) -> dict[str, Any]:
    whole = {
        "id": "e-1",
        "subject": "/orders/1",
        "eventType": "Orders.Created",
        "eventTime": "2026-01-01T00:00:00.000Z",
        "dataVersion": "1.0",
        "data": {"n": 1},
    }
    return {**whole, **changes}


def run(test: Callable[[World], Awaitable[None]], **options: Any) -> None:
    async def whole() -> None:
        async with World(**options) as world:
            await test(world)

    asyncio.run(whole())
