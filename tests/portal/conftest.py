"""A browser for the tests of the portal, which run one after the other, and a server for those that can share one."""

from collections.abc import Iterator
from typing import NamedTuple

import pytest
from playwright.sync_api import Browser

from tests.portal.browser import launched, server_with_portal
from tests.portal.hostile import hostile
from tests.system.machine import Server


class Place(NamedTuple):
    """A server with a manual clock, its portal, and an endpoint that answers what must not run."""

    server: Server
    portal: str
    hook: str


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """All of them on one worker."""
    for item in items:
        if "tests/portal/" in item.nodeid:
            item.add_marker(pytest.mark.xdist_group("portal"))


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """The browser. It does not outlive its module, since its event loop runs in the thread of all tests."""
    with launched() as it:
        yield it


@pytest.fixture(scope="session")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """A server for tests that take names of their own."""
    data = tmp_path_factory.mktemp("portal")
    with server_with_portal(data, "--memory", "--clock", "manual") as (server, portal), hostile() as hook:
        yield Place(server, portal, hook)
