"""Intake on a node, by the findings about its NATS servers."""

import asyncio
from pathlib import Path

import pytest

from recapito.clock import SystemClock
from recapito.composition.intake import make_intake
from recapito.composition.stores import make_backend, make_keyring
from recapito.domain.cluster.member import NodeState
from recapito.domain.cluster.view import UNSYNCED, ClusterView
from recapito.domain.events.segment import StampedEvent
from recapito.errors import Busy
from recapito.observability.journal import silent
from recapito.settings import settings
from tests.stores.values import new_topic


def test_a_server_that_does_not_sync_closes_intake(tmp_path: Path) -> None:
    """Nothing is stored then, because it could be lost; a silent monitor only warns."""
    chosen = settings.load(environment={}, flags={"server.store": "memory", "server.data": str(tmp_path)})
    fine = ClusterView("one", NodeState.OWNER, problems={"monitors": "c is silent"})
    views = [ClusterView("one", NodeState.OWNER, problems={UNSYNCED: "The server b does not sync"}), fine]
    event = StampedEvent(b"{}", "t", "s", "1", "", "id")

    async def story() -> None:
        clock, backend = SystemClock(), make_backend(chosen, silent)
        await backend.prepare()
        async with backend.open_both(clock) as stores:
            keyring = make_keyring(chosen, stores.registry)
            parts = (keyring, clock, silent, lambda: None, lambda: None)
            intake = make_intake(chosen, stores, *parts, cluster=lambda: views[0])
            topic = await stores.registry.put_topic(new_topic("demo"))
            before = await stores.log.end(topic.id)
            running = asyncio.create_task(intake.publisher.run())
            await asyncio.sleep(0)
            with pytest.raises(Busy, match="The server b does not sync"):
                await intake.publisher.publish(topic, [event], 2)
            assert await stores.log.end(topic.id) == before
            views.pop(0)
            await intake.publisher.publish(topic, [event], 2)
            assert await stores.log.end(topic.id) == before + 1
            running.cancel()
            await intake.close()

    asyncio.run(story())
