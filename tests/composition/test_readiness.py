"""The readiness of an owner's intake: a problem that all nodes share is a warning, one of this node a failure."""

import asyncio
from pathlib import Path
from typing import Any

import msgspec
import pytest

from recapito.clock import ClockOrigin
from recapito.composition.clock import make_clock
from recapito.composition.intake import make_intake
from recapito.composition.stores import make_backend, make_keyring
from recapito.domain.cluster.member import NodeState
from recapito.domain.cluster.view import ClusterView
from recapito.observability.journal import silent
from recapito.settings import settings

NOON = 1_800_000_000_000_000_000


def ready(data: Path, problems: dict[str, str]) -> tuple[int, dict[str, Any]]:
    """The answer of an intake whose node has these problems."""

    async def ask() -> tuple[int, dict[str, Any]]:
        chosen = settings.load(
            environment={}, flags={"server.store": "memory", "server.data": str(data), "metrics.authenticate": False}
        )
        clock, backend = make_clock(chosen, ClockOrigin(NOON, 0)), make_backend(chosen, silent)
        await backend.prepare()
        sent: list[Any] = []

        async def receive() -> dict[str, Any]:
            return {"type": "http.request", "body": b"", "more_body": False}

        async def send(message: Any) -> None:
            sent.append(message)

        async with backend.open_both(clock) as stores:
            view = ClusterView("a", NodeState.OWNER, problems=problems)
            keyring = make_keyring(chosen, stores.registry)
            intake = make_intake(
                chosen, stores, keyring, clock, silent, lambda: None, lambda: None, cluster=lambda: view
            )
            scope = {"type": "http", "method": "GET", "path": "/readyz", "raw_path": b"/readyz", "query_string": b""}
            more = {"headers": [], "client": ("127.0.0.1", 1), "scheme": "http", "server": ("127.0.0.1", 80)}
            await intake.surface.app({**scope, **more}, receive, send)
            await intake.close()
        return sent[0]["status"], msgspec.json.decode(sent[1]["body"])

    return asyncio.run(ask())


@pytest.mark.parametrize("problem", ["monitors", "replicas"])
def test_an_owner_stays_ready_while_a_server_is_away(problem: str, tmp_path: Path) -> None:
    """A load balancer must not remove an owner for a fault of a NATS server that the cluster survives."""
    status, told = ready(tmp_path, {problem: "look at the server"})
    assert (status, told["status"]) == (200, "degraded")
    assert told["checks"][f"cluster {problem}"] == "look at the server"


@pytest.mark.parametrize("problem", ["peers", "sync"])
def test_an_owner_that_is_cut_off_or_may_lose_events_is_not_ready(problem: str, tmp_path: Path) -> None:
    """It does not reach the servers, or they do not sync what they acknowledge."""
    status, told = ready(tmp_path, {"replicas": "another", problem: "why"})
    assert (status, told["status"]) == (503, "not ready")
    assert told["checks"]["cluster"] == "why"
