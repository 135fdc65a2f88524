"""A server with Azurite as its storage."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from recapito.clock import ClockOrigin
from recapito.composition.clock import make_clock
from recapito.composition.dispatch import make_clock_control, make_dispatch
from recapito.composition.intake import Intake, make_intake
from recapito.composition.stores import make_backend, make_keyring
from recapito.connections.keyring import Keyring
from recapito.contracts.backend import Stores
from recapito.dispatch.clock_mover import ClockMover
from recapito.domain.connections.connection import Connection
from recapito.intake.resources.drafts import SubscriptionDraft, TopicDraft
from recapito.observability.journal import silent
from recapito.settings import settings

NOON = 1_900_000_000 * 1_000_000_000
EVENTS = [{"id": str(n), "subject": "a", "eventType": "b", "eventTime": "2030-01-01T00:00:00Z"} for n in range(3)]


class Service:
    """The parts of a server in this process, on a clock that stands until it is moved."""

    def __init__(self, intake: Intake, stores: Stores, keyring: Keyring, clock: ClockMover) -> None:
        self.keyring = keyring
        self.stores = stores
        self.advance = clock.advance
        self._intake = intake

    async def subscribe(self, **draft: Any) -> None:
        """A topic, and one subscription of it."""
        draft = {"name": "orders-sub", **draft}
        topic = await self._intake.topics.put(TopicDraft.of(name="orders", azure_subscription="s", resource_group="g"))
        await self._intake.subscriptions.put(topic, SubscriptionDraft.of(**draft))

    async def redrive(self) -> Any:
        """Redrive all dead letters, as the command line does."""
        answer = await self._post("/deadletters/redrive", b"{}", (b"content-type", b"application/json"))
        return json.loads(answer)

    async def publish(self, events: list[dict[str, str]]) -> None:
        """Publish, as a client with the topic's key does."""
        topic = await self.stores.registry.topic("orders")
        assert topic is not None
        await self._post(
            "/topics/orders/api/events", json.dumps(events).encode(), (b"aeg-sas-key", topic.key1.encode())
        )

    async def _post(self, path: str, body: bytes, header: tuple[bytes, bytes]) -> bytes:
        sent: list[dict[str, Any]] = []

        async def receive() -> dict[str, Any]:
            return {"type": "http.request", "body": body}

        async def send(message: dict[str, Any]) -> None:
            sent.append(message)

        headers = [(b"host", b"127.0.0.1"), header]
        scope = {"type": "http", "method": "POST", "path": path, "raw_path": path.encode(), "query_string": b""}
        more = {"headers": headers, "client": ("127.0.0.1", 1), "scheme": "http", "server": ("127.0.0.1", 80)}
        await self._intake.surface.app({**scope, **more}, receive, send)
        assert sent[0]["status"] == 200, sent
        return b"".join(part.get("body", b"") for part in sent[1:])


def serve(
    story: Callable[[Service], Awaitable[None]], data: Path, *connections: Connection, store: str = "memory"
) -> None:
    """Tell a story with a service that has these connections."""

    async def main() -> None:
        chosen = settings.load(
            environment={},
            flags={
                "server.store": store,
                "server.data": str(data),
                "clock.mode": "manual",
                "clock.patience_s": 20.0,
                "delivery.handshake": "off",
            },
        )
        clock = make_clock(chosen, ClockOrigin(NOON, 0))
        backend = make_backend(chosen, silent)
        await backend.prepare()
        async with backend.open_both(clock) as stores:
            keyring = make_keyring(chosen, stores.registry)
            for connection in connections:
                await keyring.set(connection, NOON)
            dispatch = make_dispatch(chosen, stores, keyring, clock, silent)
            intake = make_intake(chosen, stores, keyring, clock, silent, dispatch.dispatcher.notify, lambda: None)
            mover = make_clock_control(chosen, clock, dispatch, stores)
            assert isinstance(mover, ClockMover)
            running = [asyncio.create_task(dispatch.service.run())]
            running.append(asyncio.create_task(intake.publisher.run()))
            await asyncio.sleep(0)
            try:
                async with asyncio.timeout(60):
                    await story(Service(intake, stores, keyring, mover))
            finally:
                for task in running:
                    task.cancel()
                await asyncio.wait(running)
                await dispatch.close()
                await intake.close()

    asyncio.run(main())
