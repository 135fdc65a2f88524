"""One browser for all tests of the portal, which run one after the other."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser

from tests.portal.browser import launched


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """All of them on one worker."""
    for item in items:
        if "tests/portal/" in item.nodeid:
            item.add_marker(pytest.mark.xdist_group("portal"))


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """The browser."""
    with launched() as it:
        yield it
