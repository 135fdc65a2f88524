"""The estate file on the first page: shown if the server has one, and its fault until it is corrected."""

from pathlib import Path

from playwright.sync_api import Browser, expect

from tests.portal.browser import server_with_portal, window


def test_a_refused_file_is_shown(browser: Browser, tmp_path: Path) -> None:
    """The chip is well, names the line and the key of a wrong file, and is well again when the file is."""
    file = tmp_path / "estate.yaml"
    file.write_text("topics: [orders]\n", "utf-8")
    with server_with_portal(tmp_path / "data", "--config", str(file)) as (_, url), window(browser, url) as seen:
        page = seen.open("/")
        expect(page.locator(".chip.good", has_text="Estate file ok")).to_be_visible()
        file.write_text("topics:\n  - name: orders\n    inputSchem: x\n", "utf-8")
        shown = f"Estate file: {file}:3: topics[0].inputSchem: 'inputSchem' is not a known property."
        expect(page.locator(".chip.wait", has_text=shown)).to_be_visible(timeout=20_000)
        file.write_text("topics: [orders, more]\n", "utf-8")
        expect(page.locator(".chip.good", has_text="Estate file ok")).to_be_visible(timeout=20_000)
        assert not seen.errors and not seen.strangers
