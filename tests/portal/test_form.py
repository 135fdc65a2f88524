"""Forms say what is wrong beside the field that is wrong, before anything is sent; and keep what they do not show."""

import threading
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from tests.portal.browser import server_with_portal, window
from tests.portal.conftest import Place
from tests.system.machine import GROUP, PATIENCE_S, VERSION, receiver

FORM = f"/new-subscription{GROUP}/topics/demo"
WRONG = {
    "Name": ("x", "A name has 3 to 64 letters"),
    "Endpoint URL": ("ftp://nowhere", "must be an http or https URL"),
    "Max events per batch": ("5001", "This must be from 1 to 5000."),
    "Preferred batch size in kilobytes": ("0", "This must be from 1 to 1024."),
    "Max delivery attempts": ("31", "This must be from 1 to 30."),
    "Event time to live (minutes)": ("1441", "This must be from 1 to 1440."),
    "Expires at (UTC)": ("tomorrow", "Enter a date and time"),
}


def test_what_is_out_of_range_is_said_beside_its_field(browser: Browser, place: Place) -> None:
    """Every range of Event Grid's is checked before anything is sent, and what the server minds stands there too."""
    with window(browser, place.portal) as seen:
        page = seen.open(FORM)
        for label, (value, _) in WRONG.items():
            page.get_by_label(label, exact=True).fill(value)
        page.get_by_role("button", name="Create").click()
        for label, (_, said) in WRONG.items():
            expect(beside(page, label)).to_contain_text(said)
        assert not [url for url in seen.asked if "api-version" in url]
        page.get_by_label("Name", exact=True).fill("ranged")
        for label, value in {
            "Endpoint URL": "http://127.0.0.1:9/never",
            "Max events per batch": "5000",
            "Preferred batch size in kilobytes": "1024",
            "Max delivery attempts": "30",
            "Event time to live (minutes)": "1440",
            "Expires at (UTC)": "",
        }.items():
            page.get_by_label(label, exact=True).fill(value)
        page.get_by_role("button", name="Create").click()
        expect(beside(page, "Endpoint URL")).to_contain_text("Port 9")  # only the server knows that
        page.get_by_label("Endpoint URL", exact=True).fill(place.hook)
        page.get_by_role("button", name="Create").click()
        expect(page.get_by_role("heading", name="ranged")).to_be_visible()
        page = seen.open(FORM)
        page.get_by_label("Name", exact=True).fill("ranged")
        page.get_by_label("Endpoint URL", exact=True).fill(place.hook)
        page.get_by_role("button", name="Create").click()
        expect(beside(page, "Name")).to_contain_text("already")


def test_what_is_hidden_survives_an_edit(browser: Browser, place: Place) -> None:
    """The query of a URL and a secret header stay as they are, and never reach the browser."""
    id = f"{GROUP}/topics/demo/eventSubscriptions/kept"
    secret = {"name": "X-Key", "type": "Static", "properties": {"value": "s3cret-header", "isSecret": True}}
    url = f"{place.hook}?code=s3cret-query"
    destination = {"endpointUrl": url, "deliveryAttributeMappings": [secret]}
    body = {"properties": {"destination": {"endpointType": "WebHook", "properties": destination}}}
    place.server.call("PUT", f"{id}?{VERSION}", body)
    with window(browser, place.portal) as seen:
        page = seen.open(f"/edit{id}")
        page.get_by_label("Labels", exact=True).fill("one, two")
        page.get_by_role("button", name="Add a filter").click()
        page.get_by_label("Key", exact=True).fill("data.total")
        choose(page, "Operator", "NumberInRange")
        page.get_by_label("Values", exact=True).fill("5, 1")
        page.get_by_role("button", name="Save").click()
        expect(beside(page, "Values")).to_contain_text("smaller number comes first")
        page.get_by_label("Values", exact=True).fill("1, 5\n10, 20")
        page.get_by_role("button", name="Save").click()
        expect(page.get_by_role("heading", name="kept", exact=True)).to_be_visible()
        assert "s3cret" not in page.content()
    shown = place.server.call("GET", f"{id}?{VERSION}")["properties"]
    assert shown["labels"] == ["one", "two"]
    wanted = {"operatorType": "NumberInRange", "key": "data.total", "values": [[1, 5], [10, 20]]}
    assert shown["filter"]["advancedFilters"] == [wanted]
    assert place.server.call("POST", f"{id}/getFullUrl?{VERSION}")["endpointUrl"] == url
    attributes = place.server.call("POST", f"{id}/getDeliveryAttributes?{VERSION}")["value"]
    assert attributes[0]["properties"]["value"] == "s3cret-header"


@pytest.mark.parametrize(
    ("kind", "noun"),
    [
        ("Storage queue", "a storage account"),
        ("Event hub", "an event hub"),
        ("Hybrid connection", "a hybrid connection"),
    ],
)
def test_every_kind_of_endpoint_asks_for_its_own(browser: Browser, place: Place, kind: str, noun: str) -> None:
    """The form of another endpoint has a resource id instead of a URL, and says which one it must be, in sight."""
    with window(browser, place.portal) as seen:
        page = seen.open(FORM)
        choose(page, "Endpoint type", kind)
        expect(page.get_by_label("Endpoint URL", exact=True)).to_be_hidden()
        page.get_by_label("Resource id", exact=True).fill(f"{GROUP}/topics/demo")
        page.get_by_role("button", name="Create").click()
        expect(beside(page, "Resource id")).to_contain_text(noun)
        expect(page.get_by_text("Some fields need another value")).to_be_in_viewport()


def test_forwarding_to_another_event_grid(browser: Browser, place: Place) -> None:
    """Without a connection the form shows the command that sets one; then it is made, shown as kept, and edited."""
    cloud = f"{GROUP}/topics/cloud"
    id = f"{GROUP}/topics/demo/eventSubscriptions/to-the-cloud"
    with window(browser, place.portal) as seen:
        page = seen.open(FORM)
        page.get_by_label("Name", exact=True).fill("to-the-cloud")
        choose(page, "Endpoint type", "Event Grid")
        expect(page.get_by_role("heading", name="Delivery headers")).to_be_hidden()
        expect(page.get_by_text("30 attempts and 1440 minutes are no limits")).to_be_visible()
        page.get_by_label("Resource id", exact=True).fill(f"{GROUP}/systemTopics/cloud")
        page.get_by_role("button", name="Create").click()
        expect(beside(page, "Resource id")).to_contain_text("a topic, a domain, a domain topic or a namespace topic")
        page.get_by_label("Resource id", exact=True).fill(cloud)
        page.get_by_role("button", name="Create").click()
        expect(beside(page, "Resource id")).to_contain_text(f"recapito connection set {cloud}")
        connection = "Endpoint=http://127.0.0.1:9100/topics/cloud/api/events;SharedAccessKey=a2V5"
        place.server.call("PUT", f"/connections{cloud}", {"connectionString": connection})
        page.get_by_role("button", name="Create").click()
        expect(page.get_by_role("heading", name="to-the-cloud")).to_be_visible()
        page.get_by_role("tab", name="Settings").click()
        expect(page.get_by_text("EventGrid", exact=True)).to_be_visible()
        expect(page.get_by_text("no limit", exact=True)).to_have_count(2)
        page.get_by_role("tab", name="Retries").click()
        expect(page.get_by_text("and so on until it is delivered")).to_be_visible()
        expect(page.locator("svg.timetable .end")).to_have_count(0)
        page = seen.open(f"/edit{id}")
        expect(page.get_by_label("Resource id", exact=True)).to_have_value(cloud)
        page.get_by_label("Event time to live (minutes)", exact=True).fill("600")
        page.get_by_role("button", name="Save").click()
        expect(page.get_by_role("heading", name="to-the-cloud", exact=True)).to_be_visible()
    shown = place.server.call("GET", f"{id}?{VERSION}")["properties"]
    assert shown["destination"] == {"endpointType": "EventGrid", "properties": {"resourceId": cloud}}
    assert shown["retryPolicy"] == {"maxDeliveryAttempts": 30, "eventTimeToLiveInMinutes": 600}
    place.server.call("DELETE", f"{id}?{VERSION}")  # nothing listens there, and other tests look at deliveries


def test_handshakes_come_with_advice(browser: Browser, place: Place, tmp_path: Path) -> None:
    """An endpoint that refuses is explained on the form; one that is silent, on the page of its subscription."""
    with (
        server_with_portal(tmp_path, "--memory", "--handshake", "on") as (_, url),
        receiver() as silent,
        window(browser, url) as seen,
    ):
        consider = threading.Event()
        page = seen.open(FORM)
        page.get_by_label("Name", exact=True).fill("asked")
        page.get_by_label("Endpoint URL", exact=True).fill(place.hook)
        page.get_by_role("button", name="Create").click()
        expect(page.get_by_role("heading", name="The endpoint did not consent")).to_be_in_viewport()
        expect(page.locator(".note", has_text="What to change:")).to_contain_text("SubscriptionValidation")
        silent.answer = lambda events: 200 if consider.wait(PATIENCE_S) else 500
        page.get_by_label("Endpoint URL", exact=True).fill(silent.url)
        page.get_by_role("button", name="Create").click()
        expect(page.locator("button[aria-busy=true]", has_text="Create")).to_be_visible()
        expect(page.get_by_text("a web hook is asked for its consent")).to_be_visible()
        consider.set()
        expect(page.get_by_role("heading", name="The endpoint has not consented yet")).to_be_visible()
        expect(page.locator(".note", has_text="What to change:")).to_contain_text("validationUrl")
        expect(page.get_by_text("Awaits consent")).to_be_visible()


def beside(page: Page, label: str) -> Locator:
    """The field of that label, with what is said below it."""
    return page.locator(".q-field", has=page.get_by_label(label, exact=True))


def choose(page: Page, label: str, option: str) -> None:
    page.get_by_label(label, exact=True).click()
    page.get_by_role("option", name=option, exact=True).click()
