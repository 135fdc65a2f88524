"""Debian's Chromium, driven by playwright; and a portal beside a real server, or on its own."""

import json
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import msgspec
import pytest
from playwright.sync_api import Browser, Page, Request, expect, sync_playwright

from recapito.settings import settings as settings_module
from tests.system.machine import GROUP, PATIENCE_S, Server

WITH_PORTAL = {"RECAPITO_PORTAL_ENABLED": "true"}
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
_ARGUMENTS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
]
MS = int(PATIENCE_S * 1000)


def require_chromium() -> str:
    """Where Chromium is; without it the tests are skipped, unless nothing may be."""
    if CHROMIUM is None:
        if os.environ.get("CI") == "true":
            pytest.fail("chromium is not installed, and nothing may be skipped here")
        pytest.skip("chromium is not installed: apt install chromium")
    return CHROMIUM


@contextmanager
def launched() -> Iterator[Browser]:
    """A browser."""
    path = require_chromium()
    expect.set_options(timeout=MS)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=_ARGUMENTS)
        try:
            yield browser
        finally:
            browser.close()


class Window:
    """A page of the portal, with what its browser asked for and what went wrong in it."""

    def __init__(self, page: Page, url: str) -> None:
        self.page = page
        self.url = url
        self.asked: list[str] = []
        self.dialogs: list[str] = []
        self.errors: list[str] = []
        page.set_default_timeout(MS)
        page.on("request", self._note)
        page.on("websocket", lambda opened: self.asked.append(opened.url))
        page.on("pageerror", lambda error: self.errors.append(str(error)))
        page.on("dialog", lambda dialog: (self.dialogs.append(dialog.message), dialog.dismiss()))

    def _note(self, request: Request) -> None:
        self.asked.append(request.url)

    def open(self, path: str) -> Page:
        """Open a page, and wait until it is alive."""
        self.page.goto(self.url + path)
        self.page.wait_for_function("window.did_handshake === true")
        return self.page

    def resource(self, path: str) -> Page:
        """Open the page of a resource of the first group."""
        return self.open(f"/resource{GROUP}/{path}")

    @property
    def strangers(self) -> list[str]:
        """The requests to any host but the portal."""
        own = urlsplit(self.url).netloc
        return [url for url in self.asked if urlsplit(url).netloc not in ("", own) and not url.startswith("data:")]


@contextmanager
def window(browser: Browser, url: str, **context: object) -> Iterator[Window]:
    """A window on the portal at this URL."""
    place = browser.new_context(**context)  # type: ignore[arg-type]
    try:
        yield Window(place.new_page(), url)
    finally:
        place.close()


class LonePortal:
    """The portal's process without its parent, so that the server can come and go."""

    def __init__(self, server: Server, **flags: object) -> None:
        port = server.port
        settings = settings_module.load(environment={}, flags={"server.port": port, "server.data": str(server.data)})
        tree = json.loads(msgspec.json.encode(settings))
        for name, value in flags.items():
            section, _, key = name.partition("__")
            tree[section][key] = value
        with socket.create_server((tree["portal"]["host"], 0)) as door:
            tree["portal"]["port"] = door.getsockname()[1]
            self.url = f"http://127.0.0.1:{door.getsockname()[1]}"
            self._process = subprocess.Popen(
                [sys.executable, "-m", "recapito", "role", "portal"],
                stdin=subprocess.PIPE,
                pass_fds=[door.fileno()],
                start_new_session=True,
            )
            assert self._process.stdin is not None
            self._process.stdin.write(json.dumps({"settings": tree, "listener": door.fileno()}).encode() + b"\n")
            self._process.stdin.flush()

    def stop(self) -> int:
        """End it; its exit code."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        return self._process.wait(PATIENCE_S)


@contextmanager
def lone_portal(server: Server, **flags: object) -> Iterator[LonePortal]:
    """A portal for the length of a test."""
    it = LonePortal(server, **flags)
    try:
        yield it
    finally:
        it.stop()


def portal_of(server: Server) -> str:
    """Where the portal of a server is, which it says behind where it is itself."""
    line = server.line()
    assert line.startswith("The portal is at "), line
    return line.split()[-1]


@contextmanager
def server_with_portal(data: Path, *flags: str) -> Iterator[tuple[Server, str]]:
    """A server, and where its portal is."""
    it = Server(data, "--portal-port", "0", *flags, environment=WITH_PORTAL)
    try:
        yield it, portal_of(it)
    finally:
        it.stop()
