"""A subscription with a past, and the page of one event: charts at once, headers without secrets, resend."""

import re

from playwright.sync_api import Browser, Page, expect

from tests.portal.answer import Answer
from tests.portal.browser import window
from tests.portal.conftest import Place
from tests.system.machine import GROUP, Server, receiver

LONG = "0123456789-abcdef-0123456789"
DRAWN = re.compile(r"\d+\.\d,8\.0")  # up to the top of the scale
SECRET = {"name": "X-Mine", "type": "Static", "properties": {"value": "s3cret-header", "isSecret": True}}


def test_the_past_is_there_when_a_page_opens(browser: Browser, place: Place) -> None:
    """Charts are drawn from history, in every range; times are told from now; an event is shown whole, and resent."""
    with receiver() as hook, window(browser, place.portal, permissions=["clipboard-read", "clipboard-write"]) as seen:
        attributes = {"deliveryAttributeMappings": [SECRET]}
        place.server.subscribe(
            "past", f"{hook.url}?code=s3cret-query", topic=topic(place.server), destination=attributes
        )
        place.server.call("POST", "/clock/advance", {"seconds": 0})
        publish(place.server, LONG)
        hook.wait_for({LONG})
        place.server.call("POST", "/clock/advance", {"seconds": 120})
        page = seen.resource("topics/past/eventSubscriptions/past")
        for range in ("15", "60", "1440"):
            page.locator(f"[data-range='{range}']").click()
            expect(page.locator("[data-line=delivered]")).to_have_attribute("points", DRAWN)
        expect(page.get_by_role("cell", name="2 min ago")).to_have_attribute("title", re.compile(r"^\d{4}-.* UTC$"))
        expect(page.get_by_role("row", name="01234567…6789")).to_contain_text("Shop.Sold · shop/1")
        place.server.call("POST", "/clock/advance", {"seconds": 3600})
        page.reload()
        expect(page.locator("[data-range='1440']")).to_have_attribute("aria-pressed", "true")
        expect(page.locator("[data-line=delivered]")).to_have_attribute("points", DRAWN)
        page.wait_for_function("window.did_handshake === true")
        page.get_by_role("row", name="01234567…6789").get_by_role("button", name="Copy").click()
        assert page.evaluate("navigator.clipboard.readText()") == LONG
        page.get_by_role("link", name="01234567…6789").click()
        show_and_resend(page)
        hook.wait_for_requests(2)
        assert hook.ids == [LONG, LONG] and hook.bodies[0] == hook.bodies[1]
        expect(page.get_by_text("It is in the log 2 times")).to_be_visible()
        expect(page.get_by_text("it was resent to this subscription from its place")).to_be_visible()
        assert "s3cret" not in page.content()
        page = seen.open("/")
        expect(page.locator("[data-tile=backlog]")).not_to_have_text("–")
        expect(page.locator("[data-tile=failing]")).to_contain_text("of")
        assert not seen.errors and not seen.strangers


def show_and_resend(page: Page) -> None:
    expect(page.locator("pre", has_text='"total": 7')).to_be_visible()
    page.wait_for_function("window.did_handshake === true")
    page.get_by_text("Headers of attempt 1").click()
    expect(page.locator("pre", has_text="aeg-event-type: Notification")).to_contain_text("X-Mine: *")
    expect(page.locator("pre", has_text=f"aeg-output-event-id: {LONG}")).to_be_visible()
    expect(page.locator("pre", has_text="HTTP/1.1 200")).to_be_visible()
    page.get_by_role("button", name="Resend").click()
    page.get_by_role("alertdialog").get_by_role("button", name="Resend").click()
    expect(page.get_by_text("Resent to past.")).to_be_visible()


def test_a_page_that_is_not_there_leads_back(browser: Browser, place: Place) -> None:
    """Our own page says so, with the status 404 and the nearest page that is there."""
    with window(browser, place.portal) as seen:
        page = seen.open("/nowhere/<b>")
        expect(page.get_by_text("There is no page at /nowhere/")).to_be_visible()
        page = seen.resource("topics/demo/eventSubscriptions/gone")
        page.get_by_role("link", name="Go to demo").click()
        expect(page.get_by_role("heading", name="demo")).to_be_visible()
        assert not seen.errors and not seen.strangers
    for path in ("/nowhere", f"/resource{GROUP}/topics/nothing", "/explain?event=nothing", "/dead-letter/nothing"):
        assert Answer(place.portal, "GET", path).status == 404, path


def topic(server: Server) -> str:
    server.call("PUT", f"{GROUP}/topics/past?api-version=2022-06-15", {"location": "local"})
    return "past"


def publish(server: Server, id: str) -> None:
    key = server.call("POST", f"{GROUP}/topics/past/listKeys?api-version=2022-06-15")["key1"]
    body = f'[{{"id":"{id}","subject":"shop/1","eventType":"Shop.Sold","eventTime":"2026-01-01T00:00:00Z",'
    event = f'{body}"data":{{"total":7}},"dataVersion":"1"}}]'
    assert server.request("POST", "/topics/past/api/events", event.encode(), aeg_sas_key=key)[0] == 200
