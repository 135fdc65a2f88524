"""The fixtures of all tests: Hypothesis, however busy the machine is; an Azurite; a broker; NATS."""

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

if TYPE_CHECKING:
    from tests.amqp.broker import LocalBroker
    from tests.azurite.server import Azurite
    from tests.kit.nats_cluster import NatsCluster

settings.register_profile("recapito", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("recapito")
os.environ["RECAPITO_PORTAL_ENABLED"] = "false"  # of the many servers that tests start, only tests/portal wants one


@pytest.fixture(scope="session")
def azurite() -> "Iterator[Azurite]":
    """An empty Azurite; tests give their containers and queues names of their own."""
    from tests.azurite.server import running  # Microsoft's clients take a while to load

    with running() as it:
        yield it


@pytest.fixture(scope="session")
def broker() -> "Iterator[LocalBroker]":
    """A broker without TLS; the first word of an entity's name says how it behaves."""
    from tests.amqp.broker import running

    with running() as it:
        yield it


@pytest.fixture(scope="session")
def nats(tmp_path_factory: pytest.TempPathFactory) -> "Iterator[NatsCluster]":
    """Three NATS servers, which one worker has: tests that use them carry `xdist_group("nats")`."""
    from tests.kit.nats_cluster import running

    with running(tmp_path_factory.mktemp("nats")) as it:
        yield it
