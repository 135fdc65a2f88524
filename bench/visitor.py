"""The visitor, a process of its own: a Chromium that opens pages, one after the other, and times each until it shows.

`python -m bench.visitor` reads its Order as JSON, and then opens all pages once for every further line.
"""

import importlib.util
import shutil
import sys
import time

import msgspec

HOW_TO_INSTALL = "chromium or playwright is missing: apt-get install chromium, and pip install playwright"
LONGEST_MS = 30_000
_ARGUMENTS = ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--disable-background-networking"]


class Page(msgspec.Struct, frozen=True):
    """A page: where it is, and a text that is in its content. With `search`, that is typed in, and timed from then."""

    name: str
    path: str
    shows: str
    search: str = ""


class Order(msgspec.Struct, frozen=True):
    """Which pages of which site to open, and with which browser."""

    chromium: str
    url: str
    pages: list[Page]


def find() -> str | None:
    """The Chromium to visit with, if everything is installed."""
    if importlib.util.find_spec("playwright") is None:
        return None
    return shutil.which("chromium") or shutil.which("chromium-browser")


def visit(order: Order) -> None:
    """Open all pages whenever a line comes; print the seconds of each."""
    from playwright.sync_api import Page as Tab
    from playwright.sync_api import sync_playwright

    def seconds(page: Page) -> float:
        began = time.perf_counter()
        tab.goto(order.url + page.path, wait_until="commit")
        if page.search:
            tab.wait_for_function("window.did_handshake === true")
            field = tab.get_by_label("Search by event id")
            began = time.perf_counter()
            field.fill(page.search)
        tab.locator(".page").get_by_text(page.shows).first.wait_for()
        return time.perf_counter() - began

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=order.chromium, args=_ARGUMENTS)
        tab: Tab = browser.new_page()
        tab.set_default_timeout(LONGEST_MS)
        for _ in sys.stdin:
            print(msgspec.json.encode([seconds(page) for page in order.pages]).decode(), flush=True)
            tab.goto("about:blank")
        browser.close()


if __name__ == "__main__":
    visit(msgspec.json.decode(sys.stdin.buffer.readline(), type=Order))
