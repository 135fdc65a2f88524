"""The portal on a phone, in the dark, by keyboard, and while its server is away."""

from pathlib import Path

from playwright.sync_api import Browser, Page, expect

from tests.portal.browser import lone_portal, window
from tests.portal.conftest import Place
from tests.system.machine import GROUP, VERSION, Server

NAMELESS = """
    [...document.querySelectorAll('input,textarea,button,a')]
    .filter(e => e.offsetParent && !(e.ariaLabel || e.innerText.trim() || e.labels?.length))
    .map(e => e.outerHTML)
"""
PHONE = {"width": 375, "height": 812}
SHORT = 3600  # pixels: some four screens
CONTRAST = """(e) => {
    const luminance = (color) => {
        const [r, g, b] = color.match(/[\\d.]+/g).map(Number).map((v) => v / 255)
            .map((v) => v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
        return 0.2126 * r + 0.7152 * g + 0.0722 * b
    }
    let behind = e
    while (/rgba\\(0, 0, 0, 0\\)/.test(getComputedStyle(behind).backgroundColor)) behind = behind.parentElement
    const [one, other] = [getComputedStyle(e).color, getComputedStyle(behind).backgroundColor].map(luminance)
    return (Math.max(one, other) + 0.05) / (Math.min(one, other) + 0.05)
}"""


def test_narrow_and_dark(browser: Browser, place: Place) -> None:
    """On a phone no page is wider than its screen, and all of them follow the system into the dark."""
    subscription = f"{GROUP}/topics/demo/eventSubscriptions/seen-by-phone"
    destination = {"endpointType": "WebHook", "properties": {"endpointUrl": f"{place.hook}/{'long' * 40}"}}
    place.server.call("PUT", f"{subscription}?{VERSION}", {"properties": {"destination": destination}})
    place.server.publish("a" * 200, "b")
    pages = (
        "/",
        "/topics",
        "/domains",
        "/system-topics",
        "/new-topic",
        f"/resource{GROUP}/topics/demo",
        f"/new-subscription{GROUP}/topics/demo",
        *(f"/resource{subscription}?tab={tab}" for tab in ("activity", "letters", "retries", "settings", "clock")),
        "/deliveries",
        f"/explain?event={'a' * 200}",
        "/dead-letters",
        "/clock",
    )
    with window(browser, place.portal, viewport=PHONE, color_scheme="dark") as seen:
        for path in pages:
            page = seen.open(path)
            wide, screen = page.evaluate("[document.documentElement.scrollWidth, window.innerWidth]")
            assert wide <= screen, f"{path} is {wide} wide"
            assert page.evaluate("document.body.classList.contains('body--dark')"), path
            if "?tab=" in path:
                assert page.evaluate("document.documentElement.scrollHeight") < SHORT, path
        seen.page.get_by_role("button", name="Theme: system").click()
        seen.page.get_by_role("button", name="Theme: dark").click()
        expect(seen.page.locator("body.body--light")).to_be_visible()
        seen.open("/")
        expect(seen.page.locator("body.body--light")).to_be_visible()  # it is remembered
        assert not seen.errors


def test_errors_are_readable_in_the_dark(browser: Browser, place: Place) -> None:
    """The messages of a wrong form have the contrast that WCAG asks of small text, in both themes."""
    for scheme in ("dark", "light"):
        with window(browser, place.portal, color_scheme=scheme) as seen:
            page = seen.open("/new-topic")
            page.get_by_role("button", name="Create").click()
            for said in (page.locator(".q-field--error [role=alert]").first, page.locator(".note.bad")):
                expect(said).to_be_visible()
                assert said.evaluate(CONTRAST) >= 4.5, (scheme, said)


def test_by_keyboard(browser: Browser, place: Place) -> None:
    """Everything is reached by Tab, shows its focus, and is pressed by Enter."""
    with window(browser, place.portal) as seen:
        page = seen.open("/")
        page.keyboard.press("Tab")
        assert focused(page) == "Skip to main content"
        for _ in range(12):
            page.keyboard.press("Tab")
            if focused(page) == "Topics":
                break
        assert focused(page) == "Topics"
        assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"
        page.keyboard.press("Enter")
        expect(page.get_by_role("heading", name="Topics")).to_be_visible()
        for path in ("/topics", f"/new-subscription{GROUP}/topics/demo", f"/resource{GROUP}/topics/demo"):
            seen.open(path)
            assert seen.page.evaluate(NAMELESS) == [], path


def focused(page: Page) -> str:
    said: str = page.evaluate("document.activeElement.innerText")
    return said.strip()


def test_lost_server_is_said_and_found_again(browser: Browser, tmp_path: Path) -> None:
    """While the server is away a banner says so; when it is back pages go on, one that was opened meanwhile too."""
    running = Server(tmp_path, "--no-portal")
    with lone_portal(running) as portal, window(browser, portal.url) as seen:
        page = seen.open("/")
        expect(page.get_by_role("link", name="demo")).to_be_visible()
        with seen.page.context.new_page() as other:
            running.stop()
            expect(page.locator(".banner")).to_contain_text("cannot be reached")
            other.goto(f"{portal.url}/topics")
            expect(other.locator(".banner")).to_contain_text("cannot be reached")
            again = Server(tmp_path, "--no-portal", port=running.port)
            try:
                expect(page.locator(".banner")).to_be_hidden()
                expect(other.get_by_role("link", name="demo")).to_be_visible()
            finally:
                again.stop()
