"""The portal from the first topic to a redriven dead letter, in a real browser, on a server with a manual clock."""

import re
from pathlib import Path

from playwright.sync_api import Browser, Locator, Page, expect

from tests.portal.browser import Window, server_with_portal, window
from tests.system.machine import Receiver, Server, events, receiver


def test_from_creation_to_redrive(browser: Browser, tmp_path: Path) -> None:
    """Create, publish, watch, break, see retries, move the clock, dead-letter, redrive; all at home."""
    with (
        server_with_portal(tmp_path, "--memory", "--clock", "manual") as (server, url),
        receiver() as hook,
        window(browser, url) as seen,
    ):
        create_topic(seen.open("/"))
        create_subscription(seen.page, hook)
        watch_a_delivery(seen.page, hook)
        hook.answer = lambda events: 503
        break_the_endpoint(seen.page, server)
        let_it_die(seen.page)
        hook.answer = lambda events: 200
        redrive(seen.page)
        explain(seen)
        clean_up(seen)
        assert not seen.errors and not seen.strangers


def test_probation_is_shown(browser: Browser, tmp_path: Path) -> None:
    """Ten events that fail lead to probation, with its reason and its end; a button ends it; an own policy has none."""
    with (
        server_with_portal(tmp_path, "--memory", "--clock", "manual") as (server, url),
        receiver() as hook,
        window(browser, url) as seen,
    ):
        hook.answer = lambda events: 503
        server.subscribe("held", hook.url)
        server.subscribe("determined", hook.url, retryPolicy={"maxDeliveryAttempts": 5})
        assert server.publish(*(f"lost-{n}" for n in range(10))) == 200
        page = seen.resource("topics/demo/eventSubscriptions/held")
        expect(page.locator(".chip", has_text="Probation").first).to_be_visible()
        expect(page.locator(".hold")).to_contain_text("10 events in a row failed at the first attempt")
        expect(page.locator(".hold")).to_contain_text("held until")
        assert server.publish(*(f"later-{n}" for n in range(5))) == 200
        expect(tile(page, "pending")).to_have_text("15")  # with those that are unread behind the hold
        page = seen.resource("topics/demo/eventSubscriptions/held?tab=retries")
        expect(page.get_by_label("The endpoint answers")).to_have_value("503, it is busy")
        page = seen.resource("topics/demo/eventSubscriptions/held")
        hook.answer = lambda events: 200
        page.get_by_role("button", name="Retry now").click()
        expect(page.get_by_text("10 waiting deliveries are tried now.")).to_be_visible()
        expect(tile(page, "delivered")).to_have_text("15")
        page = seen.resource("topics/demo/eventSubscriptions/determined")
        expect(page.locator(".chip", has_text="Retrying").first).to_be_visible()
        assert not seen.errors and not seen.strangers


def create_topic(page: Page) -> None:
    page.get_by_role("link", name="Topics", exact=True).click()
    page.get_by_role("link", name="Create a topic").first.click()
    page.get_by_label("Name", exact=True).fill("orders")
    page.get_by_role("button", name="Create").click()
    expect(page.get_by_role("heading", name="orders")).to_be_visible()
    expect(page.get_by_text("There is no such subscription.")).to_be_visible()
    assert page.url.endswith("Microsoft.EventGrid/topics/orders")


def create_subscription(page: Page, hook: Receiver) -> None:
    page.get_by_role("link", name="Create a subscription").first.click()
    page.get_by_label("Name", exact=True).fill("billing")
    page.get_by_label("Endpoint URL", exact=True).fill(f"{hook.url}?key=s3cretword")
    page.get_by_label("Max delivery attempts", exact=True).fill("2")
    choose(page, "Dead-letter destination", "A directory of the server")
    page.get_by_label("Directory", exact=True).fill("lost-bills")
    page.get_by_role("button", name="Create").click()
    expect(page.get_by_role("heading", name="billing")).to_be_visible()
    expect(page.get_by_text("Healthy")).to_be_visible()
    assert "s3cretword" not in page.content()


def watch_a_delivery(page: Page, hook: Receiver) -> None:
    """The numbers and the lines of the chart move while the page is open."""
    page.wait_for_function("window.did_handshake === true")
    with page.context.new_page() as other:
        other.goto(page.url.rpartition("/eventSubscriptions/")[0])
        other.wait_for_function("window.did_handshake === true")
        other.get_by_label("Id", exact=True).fill("first")
        other.get_by_role("button", name="Send").click()
        expect(other.get_by_text("Published.")).to_be_visible()
    hook.wait_for({"first"})
    expect(tile(page, "delivered")).to_have_text("1")
    expect(tile(page, "matched")).to_have_text("1")
    line = page.locator("[data-line=delivered]")
    expect(line).to_have_attribute("points", re.compile(r"\d+\.\d,8\.0"))  # up to the top of the scale
    expect(page.get_by_role("link", name="first")).to_be_visible()


def break_the_endpoint(page: Page, server: Server) -> None:
    """Retries have a timetable; a subscription with a policy of its own is not held."""
    key = server.call("POST", f"{server_group(page)}/listKeys?api-version=2022-06-15")["key1"]
    body = events(*(f"lost-{n}" for n in range(10)))
    assert server.request("POST", "/topics/orders/api/events", body, aeg_sas_key=key)[0] == 200
    expect(page.locator(".chip", has_text="Retrying").first).to_be_visible()
    expect(tile(page, "failed")).to_have_text("10")
    expect(tile(page, "pending")).to_have_text("10")
    tab(page, "retries")
    expect(page.locator("[data-attempt]")).to_have_count(2)
    expect(page.get_by_text("An event is tried 2 times, and is dead-lettered after")).to_be_visible()
    choose(page, "The endpoint answers", "400, it refuses the event")
    expect(page.locator("[data-attempt]")).to_have_count(1)
    tab(page, "activity")
    choose(page, "Outcome", "All failures")
    expect(page.get_by_role("link", name="first")).to_have_count(0)
    expect(page.get_by_role("link", name="lost-3")).to_be_visible()


def let_it_die(page: Page) -> None:
    tab(page, "clock")
    page.get_by_role("button", name="Advance 1 hour").click()
    expect(page.get_by_text("It is now")).to_contain_text("attempts")
    page.get_by_role("button", name="Until idle").click()
    expect(tile(page, "deadlettered")).to_have_text("10")
    expect(tile(page, "pending")).to_have_text("0")


def redrive(page: Page) -> None:
    """The number of letters is shown first; then they are redriven, and delivered."""
    tab(page, "letters")
    letters = page.locator(".panel", has=page.get_by_role("heading", name="Dead letters"))
    expect(letters.get_by_text("10 dead letters.")).to_be_visible()
    row = letters.get_by_role("row", name="lost-3")
    row.get_by_role("button", name="Redrive").click()
    expect(letters.get_by_text("Done: 1 dead letter redriven.")).to_be_visible()
    expect(row.get_by_role("button", name="Redrive")).to_have_count(0)
    expect(letters.get_by_role("link", name="lost-9")).to_be_visible()
    letters.get_by_role("button", name="Redrive…").click()
    asked = page.get_by_role("alertdialog")
    expect(asked).to_contain_text("Redrive 9 dead letters?")
    asked.get_by_role("button", name="Redrive").click()
    expect(letters.get_by_text("Done: 9 dead letters redriven.")).to_be_visible()
    tab(page, "clock")
    page.get_by_role("button", name="Until idle").click()
    expect(tile(page, "delivered")).to_have_text("11")


def explain(seen: Window) -> None:
    """A delivery leads to its explanation, and an event that is not published yet has one too."""
    tab(seen.page, "activity")
    choose(seen.page, "Outcome", "All outcomes")
    seen.page.get_by_label("Search by event id", exact=True).fill("first")
    seen.page.get_by_role("link", name="first").first.click()
    expect(seen.page.get_by_role("heading", name="Event first")).to_be_visible()
    expect(seen.page.locator(".chip", has_text="Delivered")).to_be_visible()
    expect(seen.page.get_by_text("Success 200")).to_be_visible()
    seen.page.wait_for_function("window.did_handshake === true")
    seen.page.get_by_role("button", name="Try it").click()
    expect(seen.page.locator(".panel .fate", has_text="the filter takes every event")).to_be_visible()  # of the form


def clean_up(seen: Window) -> None:
    """A step that cannot be undone is confirmed first, and then the topic is gone."""
    page = seen.resource("topics/orders/eventSubscriptions/billing")
    tab(page, "letters")
    page.get_by_role("button", name="Purge…").click()
    expect(page.get_by_role("alertdialog")).to_contain_text("Purge 10 dead letters?")
    page.get_by_role("alertdialog").get_by_role("button", name="Purge").click()
    expect(page.get_by_text("There are no dead letters.")).to_be_visible()
    page.get_by_role("button", name="Delete").click()
    page.get_by_role("alertdialog").get_by_role("button", name="Cancel").click()
    expect(page.get_by_role("alertdialog")).to_be_hidden()
    page.get_by_role("button", name="Delete").click()
    page.get_by_role("alertdialog").get_by_role("button", name="Delete").click()
    expect(page.get_by_role("heading", name="orders")).to_be_visible()
    expect(page.get_by_text("There is no such subscription.")).to_be_visible()
    page.wait_for_function("window.did_handshake === true")
    page.get_by_role("button", name="Delete").click()
    page.get_by_role("alertdialog").get_by_role("button", name="Delete").click()
    expect(page.get_by_role("heading", name="Topics")).to_be_visible()
    expect(page.get_by_role("link", name="orders")).to_have_count(0)


def tile(page: Page, name: str) -> Locator:
    return page.locator(f"[data-tile={name}]")


def tab(page: Page, name: str) -> None:
    page.locator(f"[data-tab={name}]").click()


def choose(page: Page, label: str, option: str) -> None:
    page.get_by_label(label, exact=True).click()
    page.get_by_role("option", name=option).click()


def server_group(page: Page) -> str:
    return page.url.partition("/resource")[2].partition("/eventSubscriptions/")[0]
