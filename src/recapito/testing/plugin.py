"""The pytest plugin. It loads nothing else of Recapito until a test asks for one of its fixtures."""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from recapito.testing.environment import Recapito
    from recapito.testing.server import RunningServer
    from recapito.testing.switchboard import Switchboard


@pytest.fixture(scope="session")
def recapito_settings() -> Mapping[str, Any]:
    """Settings of the server for tests, by dotted names; override it in a conftest.py to change some."""
    return {}


@pytest.fixture(scope="session")
def recapito_server(
    recapito_settings: Mapping[str, Any], tmp_path_factory: pytest.TempPathFactory
) -> "Iterator[RunningServer]":
    """A Recapito server for the whole run, one in each worker of pytest-xdist."""
    from recapito.errors import SettingsError
    from recapito.testing.server import RunningServer, ServerNotStarted

    try:
        server = RunningServer(tmp_path_factory.mktemp("recapito"), recapito_settings)
    except (SettingsError, ServerNotStarted) as error:
        pytest.fail(str(error), pytrace=False)
    try:
        yield server
    finally:
        server.stop()


@pytest.fixture(scope="session")
def recapito_switchboard(recapito_server: "RunningServer") -> "Iterator[Switchboard]":
    """The HTTP server of all receivers of the run."""
    from recapito.testing.clock import ServerClock
    from recapito.testing.switchboard import Switchboard

    board = Switchboard(ServerClock(recapito_server.client))
    board.start()
    try:
        yield board
    finally:
        board.stop()


@pytest.fixture
def recapito(recapito_server: "RunningServer", recapito_switchboard: "Switchboard") -> "Iterator[Recapito]":
    """Event Grid for one test: topics, scripted receivers, and a clock that the test moves."""
    from recapito.testing.environment import Recapito

    it = Recapito(recapito_server, recapito_switchboard)
    try:
        yield it
    finally:
        it.close()
