"""Whatever is in an event, a setting or an answer is shown as text: nothing of it runs or fetches anything."""

import json
from urllib.parse import quote

from playwright.sync_api import Browser, expect

from tests.portal.browser import Window, window
from tests.portal.conftest import Place
from tests.portal.hostile import CORPUS, RAN
from tests.system.machine import GROUP, VERSION, Server

TOPIC = f"{GROUP}/topics/hostile"
SUBSCRIPTION = f"{TOPIC}/eventSubscriptions/refused"


def test_nothing_of_a_corpus_runs_on_any_page(browser: Browser, place: Place) -> None:
    """The corpus in every field of events, in tags, labels, filters, headers and answers, on every page."""
    fill(place.server, place.hook)
    letter = place.server.call("GET", "/deadletters?topic=hostile&limit=1")["value"][0]["name"]
    with window(browser, place.portal) as seen:
        for path, shows in {
            "/": "hostile",
            "/topics": "hostile",
            f"/resource{TOPIC}": "onerror",
            f"/edit{TOPIC}": "",
            f"/resource{SUBSCRIPTION}": "onerror",
            f"/edit{SUBSCRIPTION}": "",
            f"/new-subscription{TOPIC}": "",
            "/deliveries": "onerror",
            "/dead-letters": "onerror",
            f"/dead-letter/{quote(letter)}": "window.__ran",
            f"/explain?topic=hostile&event={quote(CORPUS[1])}": "onerror",
            f"/explain?event={quote(CORPUS[0])}-unknown": "No event of this id",
            f"/nowhere/{quote(CORPUS[1], safe='')}": "There is no page",
            f"/resource{SUBSCRIPTION}?tab=letters": "onerror",
            f"/resource{SUBSCRIPTION}?tab=settings": "onerror",
            f"/resource/{quote(CORPUS[0], safe='')}": "not the id",
        }.items():
            page = seen.open(path)
            if shows:
                expect(page.locator("body")).to_contain_text(shows)
            check(seen, path)
        press_everything(seen)
        assert not seen.strangers


def check(seen: Window, where: str) -> None:
    assert seen.page.evaluate(f"{RAN} === undefined"), where
    assert not seen.dialogs and not seen.errors, (where, seen.errors)


def press_everything(seen: Window) -> None:
    """Messages and dialogs that quote what was sent do not run it either."""
    page = seen.open(f"/resource{TOPIC}")
    page.get_by_label("Event type", exact=True).fill(CORPUS[1])
    page.get_by_label("Subject", exact=True).fill(CORPUS[2])
    page.get_by_label("Data, as JSON", exact=True).fill(json.dumps({name: name for name in CORPUS}))
    page.get_by_role("button", name="Send").click()
    expect(page.get_by_text("Published.")).to_be_visible()
    page = seen.open("/explain?topic=hostile")
    for event in ({"id": CORPUS[0], "eventType": CORPUS[1]}, {CORPUS[3]: CORPUS[1]}):
        page.get_by_label("Event, as JSON", exact=True).fill(json.dumps(event))
        page.get_by_role("button", name="Try it").click()
        expect(page.get_by_role("alert").get_by_text("Event 0")).to_be_visible()
    check(seen, "messages")


def fill(server: Server, url: str) -> None:
    tags = {f"tag{n}": text[:250] for n, text in enumerate(CORPUS)}
    server.call("PUT", f"{TOPIC}?{VERSION}", {"location": "local", "tags": tags})
    headers = [{"name": f"X-{n}", "type": "Static", "properties": {"value": text}} for n, text in enumerate(CORPUS)]
    conditions = [{"operatorType": "StringNotIn", "key": CORPUS[6], "values": list(CORPUS)}]
    properties = {
        "destination": {
            "endpointType": "WebHook",
            "properties": {"endpointUrl": url, "deliveryAttributeMappings": headers},
        },
        "labels": list(CORPUS),
        "filter": {"advancedFilters": conditions},
        "deadLetterDestination": {"endpointType": "Directory", "properties": {"name": "refused"}},
    }
    server.call("PUT", f"{SUBSCRIPTION}?{VERSION}", {"properties": properties})
    narrow = {**properties, "filter": {"includedEventTypes": list(CORPUS), "subjectBeginsWith": CORPUS[0]}}
    server.call("PUT", f"{TOPIC}/eventSubscriptions/narrow?{VERSION}", {"properties": narrow})
    key = server.call("POST", f"{TOPIC}/listKeys?{VERSION}")["key1"]
    events = [
        {"id": one, "subject": one, "eventType": one, "eventTime": "2026-01-01T00:00:00Z", "data": {one: one}}
        for one in CORPUS
    ]
    body = json.dumps(events).encode()
    assert server.request("POST", "/topics/hostile/api/events", body, aeg_sas_key=key)[0] == 200
    server.call("POST", "/clock/advance", {"until": "idle"})
