"""Damaged records on the first page: shown until they are dismissed, in words that a person can follow."""

import os
import signal
from pathlib import Path

from playwright.sync_api import Browser, expect

from tests.portal.browser import server_with_portal, window
from tests.system.machine import receiver, until
from tests.system.spoiled import recapito, spoil


def test_damage_is_shown_until_it_is_dismissed(browser: Browser, tmp_path: Path) -> None:
    """The chip has the finding and the command to run; the others stay well, and it is well again after a dismissal."""
    data = tmp_path / "data"
    with server_with_portal(data) as (server, url), receiver() as hook, window(browser, url) as seen:
        server.subscribe("orders", hook.url)
        page = seen.open("/")
        expect(page.locator(".chip.good", has_text="Data ok")).to_be_visible()
        assert until(lambda: "dispatch" in server.roles())
        dispatch = server.roles()["dispatch"]
        os.kill(dispatch, signal.SIGSTOP)
        assert server.publish("a", "b") == 200
        spoil(data / "log.db", "UPDATE entry SET body = CAST(x'ff' || body AS BLOB) WHERE events = 2")
        os.kill(dispatch, signal.SIGCONT)
        damaged = page.locator(".chip.wait", has_text="Data: 1 damaged record was set aside: see recapito damaged list")
        expect(damaged).to_be_visible()
        for name in ("Store", "Disk", "Dispatch"):
            expect(page.locator(".chip.good", has_text=f"{name} ok")).to_be_visible()
        assert recapito("damaged", "dismiss", "--server", server.url).returncode == 0
        expect(page.locator(".chip.good", has_text="Data ok")).to_be_visible()
        assert not seen.errors and not seen.strangers
