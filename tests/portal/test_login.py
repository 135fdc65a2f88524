"""Access to the portal: off loopback by signing in, on loopback from this machine; never by a page from elsewhere."""

import json
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlencode, urlsplit

import pytest
from playwright.sync_api import Browser, expect

from recapito.domain import limits
from recapito.portal.config import needs_login
from recapito.settings import settings
from tests.portal.answer import Answer
from tests.portal.browser import LonePortal, lone_portal, window
from tests.portal.conftest import Place
from tests.system.machine import server

SOCKET = "/_nicegui_ws/socket.io/?EIO=4&transport=websocket"
UPGRADE = {
    "Connection": "Upgrade",
    "Upgrade": "websocket",
    "Sec-WebSocket-Version": "13",
    "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
}


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[LonePortal, dict[str, Any]]]:
    """A portal that others can reach, and a principal of its server."""
    data = tmp_path_factory.mktemp("guarded")
    with server(data, "--no-portal") as running, lone_portal(running, portal__host="0.0.0.0") as portal:
        yield portal, json.loads((data / "identity" / "development.json").read_text())


def test_off_loopback_people_sign_in(browser: Browser, guarded: tuple[LonePortal, dict[str, Any]]) -> None:
    """Without a session there is a form and nothing else; with a principal's secret there is the portal."""
    portal, principal = guarded
    with window(browser, portal.url) as seen:
        seen.page.goto(f"{portal.url}/topics")
        assert urlsplit(seen.page.url).path == "/login"
        seen.page.get_by_label("Client id").fill(principal["client_id"])
        seen.page.get_by_label("Client secret").fill("a guess")
        seen.page.get_by_role("button", name="Sign in").click()
        expect(seen.page.get_by_role("alert")).to_contain_text("client secret is wrong")
        seen.page.get_by_label("Client id").fill(principal["client_id"])
        seen.page.get_by_label("Client secret").fill(principal["client_secret"])
        seen.page.get_by_role("button", name="Sign in").click()
        expect(seen.page.get_by_role("link", name="demo")).to_be_visible()
        assert seen.page.url == f"{portal.url}/topics"
        (cookie,) = [one for one in seen.page.context.cookies() if one["name"] == "recapito_session"]
        assert cookie["httpOnly"] and cookie["sameSite"] == "Strict"
        assert principal["client_secret"] not in seen.page.content() + "".join(seen.asked)
        for width in (700, 1000, 1150):  # beside who is signed in, no way is cut off
            seen.page.set_viewport_size({"width": width, "height": 800})
            assert seen.page.locator(".top nav").evaluate("it => it.scrollWidth <= it.clientWidth"), width
        seen.page.get_by_role("button", name="Sign out").click()
        seen.page.wait_for_url("**/login")
        seen.page.goto(portal.url)
        assert urlsplit(seen.page.url).path == "/login"
        assert not seen.strangers


def test_without_a_session_nothing_is_served(guarded: tuple[LonePortal, dict[str, Any]]) -> None:
    """Neither pages nor sockets, nor whatever a forged cookie names."""
    portal, _ = guarded
    for path in ("/", "/topics", "/resource/subscriptions/x"):
        answer = Answer(portal.url, "GET", path, Cookie="recapito_session=forged")
        assert answer.status == 303 and answer.headers["Location"].startswith("/login?next=")
    assert Answer(portal.url, "GET", SOCKET, **UPGRADE).status == 403
    assert Answer(portal.url, "POST", "/_nicegui_ws/socket.io/?EIO=4&transport=polling", "40").status == 401
    assert Answer(portal.url, "GET", "/logout").status in (303, 404, 405)  # nothing changes by GET


def test_login_leads_to_own_pages_only(guarded: tuple[LonePortal, dict[str, Any]]) -> None:
    """Where a login leads on to is a path of ours, and pages from elsewhere cannot post to it."""
    portal, principal = guarded
    form = {"client_id": principal["client_id"], "client_secret": principal["client_secret"]}
    for target in ("//evil.example/", "https://evil.example/", "/\\evil.example", "javascript:alert(1)"):
        answer = Answer(portal.url, "POST", "/login", urlencode({**form, "next": target}))
        assert answer.status == 303 and answer.headers["Location"] == "/"
    refused = Answer(portal.url, "POST", "/login", urlencode(form), Origin="http://evil.example")
    assert refused.status == 403 and "Set-Cookie" not in refused.headers


def test_guesses_are_slowed_down(guarded: tuple[LonePortal, dict[str, Any]]) -> None:
    """After a number of wrong secrets the form answers 429 with Retry-After; the right secret signs in all the same."""
    portal, principal = guarded
    right = {"client_id": principal["client_id"], "client_secret": principal["client_secret"]}
    wrong = urlencode({**right, "client_secret": "a guess"})
    answers = [Answer(portal.url, "POST", "/login", wrong) for _ in range(limits.WRONG_SECRETS + 20)]
    assert answers[0].status == 403 and answers[-1].status == 429
    assert int(answers[-1].headers["Retry-After"]) >= 1 and "Too many wrong secrets" in answers[-1].text
    assert Answer(portal.url, "POST", "/login", urlencode(right)).status == 303


@pytest.mark.parametrize(
    "headers",
    [{"Host": "evil.example"}, {"Origin": "http://evil.example"}, {"Origin": "null"}],
    ids=["rebinding", "page", "sandbox"],
)
def test_on_loopback_only_this_machine_is_answered(place: Place, headers: dict[str, str]) -> None:
    """Without a login a name that is not loopback, and a page from elsewhere, get neither pages nor sockets."""
    assert Answer(place.portal, "GET", "/", **headers).status == 403
    assert Answer(place.portal, "GET", SOCKET, **UPGRADE, **headers).status == 403


def test_pages_are_protected(place: Place) -> None:
    """No frame may hold a page, no script may run but ours, and no other site learns the page before it."""
    first, second = (Answer(place.portal, "GET", "/") for _ in range(2))
    policy = first.headers["Content-Security-Policy"]
    scripts = policy.partition("script-src ")[2].partition(";")[0]
    assert "'unsafe-inline'" not in scripts and "'nonce-" in scripts
    assert "default-src 'none'" in policy and "frame-ancestors 'none'" in policy
    assert policy != second.headers["Content-Security-Policy"]
    assert first.headers["Referrer-Policy"] == "same-origin" and first.headers["X-Frame-Options"] == "DENY"
    own = Answer(place.portal, "GET", SOCKET, **UPGRADE, Origin=place.portal)
    assert own.status == 101


@pytest.mark.parametrize(
    ("host", "portal", "login"),
    [
        ("127.0.0.1", "127.0.0.1", False),
        ("localhost", "::1", False),
        ("127.0.0.1", "0.0.0.0", True),
        ("0.0.0.0", "127.0.0.1", True),
    ],
)
def test_who_signs_in(host: str, portal: str, login: bool) -> None:
    """Only a portal on loopback in front of a server on loopback asks for no login."""
    chosen = settings.load(environment={}, flags={"server.host": host, "portal.host": portal})
    assert needs_login(chosen) is login
