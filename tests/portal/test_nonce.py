"""The nonce is on the scripts of the portal's own template, and on no text that came from outside."""

import asyncio
import json
from html.parser import HTMLParser
from urllib.parse import quote, urlencode

import pytest
from starlette.responses import HTMLResponse

from recapito.portal.guard import Guard
from tests.portal.answer import Answer
from tests.portal.conftest import Place
from tests.system.machine import GROUP, VERSION, Server

PLANTED = "<script>planted()</script>"
TOPIC = f"{GROUP}/topics/planted"
SUBSCRIPTION = f"{TOPIC}/eventSubscriptions/planted"


class Scripts(HTMLParser):
    """The scripts of a page: those with a nonce, and those without."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.stamped: list[str] = []
        self.bare: list[str] = []
        self._open: list[str] | None = None
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "script":
            self._open = self.stamped if any(name == "nonce" for name, _ in attrs) else self.bare
            self._open.append(json.dumps([pair for pair in attrs if pair[0] != "nonce"]))

    def handle_data(self, data: str) -> None:
        if self._open is not None:
            self._open[-1] += data

    def handle_endtag(self, tag: str) -> None:
        if tag == "script":
            self._open = None


def plant(server: Server, hook: str) -> None:
    """Put a script into every text of a topic and a subscription that may be one."""
    server.call("PUT", f"{TOPIC}?{VERSION}", {"location": "local", "tags": {"planted": PLANTED}})
    mapping = {"name": "X-Planted", "type": "Static", "properties": {"value": PLANTED}}
    properties = {
        "destination": {
            "endpointType": "WebHook",
            "properties": {"endpointUrl": hook, "deliveryAttributeMappings": [mapping]},
        },
        "labels": [PLANTED],
        "filter": {"advancedFilters": [{"operatorType": "StringIn", "key": PLANTED, "values": [PLANTED]}]},
    }
    server.call("PUT", f"{SUBSCRIPTION}?{VERSION}", {"properties": properties})
    event = {"id": PLANTED, "eventType": PLANTED, "subject": PLANTED, "eventTime": "2026-01-01T00:00:00Z"}
    key = server.call("POST", f"{TOPIC}/listKeys?{VERSION}", {})["key1"]
    body = json.dumps([{**event, "dataVersion": PLANTED, "data": PLANTED}]).encode()
    assert server.request("POST", "/topics/planted/api/events", body, **{"aeg-sas-key": key})[0] == 200


def test_no_text_from_outside_is_stamped(place: Place) -> None:
    """A script in paths, queries, cookies, headers and everything stored: the stamped scripts are always the same."""
    plant(place.server, place.hook)
    hostile = {
        "Cookie": f"recapito_theme={PLANTED}",
        "Accept_Language": PLANTED,
        "X_Forwarded_Prefix": "//evil.example",
    }
    query = urlencode({"event": PLANTED, "topic": PLANTED, "search": PLANTED, "next": PLANTED})
    usual = len(Scripts(Answer(place.portal, "GET", "/").text).stamped)
    assert usual > 3
    for path in (
        "/",
        "/topics",
        f"/resource{TOPIC}",
        f"/edit{TOPIC}",
        f"/resource{SUBSCRIPTION}",
        f"/edit{SUBSCRIPTION}",
        "/deliveries",
        "/dead-letters",
        f"/dead-letter/{quote(PLANTED, safe='')}",
        "/explain",
        f"/resource/{quote(PLANTED, safe='')}",
        f"/{quote(PLANTED, safe='')}",
    ):
        answer = Answer(place.portal, "GET", f"{path}?{query}", **hostile)
        nonce = answer.headers["Content-Security-Policy"].partition("'nonce-")[2].partition("'")[0]
        if not answer.headers["Content-Type"].startswith("text/html"):
            continue
        scripts = Scripts(answer.text)
        assert len(scripts.stamped) == usual == answer.text.count(f'nonce="{nonce}"'), path
        assert PLANTED not in answer.text, path
        assert not [one for one in scripts.stamped if "evil.example" in one], path


@pytest.mark.parametrize("content", [PLANTED, f"<p>{PLANTED}</p>"])
def test_the_guard_stamps_nothing(content: str) -> None:
    """Whatever a page says, the guard leaves its text alone."""
    sent: list[dict[str, object]] = []

    async def send(message: dict[str, object]) -> None:
        sent.append(message)

    async def receive() -> dict[str, object]:
        return {"type": "http.request", "body": b"", "more_body": False}

    scope = {"type": "http", "method": "GET", "path": "/", "headers": [(b"host", b"localhost")]}
    scope["client"] = ("127.0.0.1", 50000)
    asyncio.run(Guard(HTMLResponse(content), None)(scope, receive, send))  # type: ignore[arg-type]
    assert sent[-1]["body"] == content.encode()
