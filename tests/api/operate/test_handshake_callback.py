"""Handshakes over HTTP: what PUT and GET show, and the URL by which an endpoint consents."""

import json
from typing import Any
from urllib.parse import urlsplit

import pytest

from recapito.domain.handshake.http_call import HttpReply, HttpRequest
from recapito.domain.instant import MINUTE
from recapito.senders.memory_caller import ScriptedAnswer
from tests.api.client import NESTED, SCOPE, Answer, World, run, webhook

BODY = {"properties": {"destination": webhook(), "filter": {"subjectBeginsWith": "a"}}}


def plain(request: HttpRequest) -> ScriptedAnswer:
    """An endpoint that answers 200 to everything."""
    return ScriptedAnswer(HttpReply(200, (), b"OK"))


def echo(request: HttpRequest) -> ScriptedAnswer:
    """An endpoint that knows the handshake."""
    code = json.loads(request.body)[0]["data"].get("validationCode")
    return ScriptedAnswer(HttpReply(200, (), json.dumps({"validationResponse": code}).encode()))


def refusing(request: HttpRequest) -> ScriptedAnswer:
    """An endpoint that consents to nothing."""
    return ScriptedAnswer(HttpReply(401, (), b"code=secret is not one of ours"))


def url_of(world: World) -> str:
    """The path and query of the last validation URL."""
    assert world.caller is not None
    url = urlsplit(json.loads(world.caller.requests[-1].body)[0]["data"]["validationUrl"])
    assert (url.scheme, url.netloc) == ("http", "127.0.0.1:8585")
    return f"{url.path}?{url.query}"


async def shown(world: World, path: str = f"{NESTED}/mine") -> dict[str, Any]:
    answer = await world.arm("GET", path)
    properties: dict[str, Any] = answer.json["properties"]
    return properties


def test_an_endpoint_that_consents() -> None:
    """PUT answers 201 when the endpoint has echoed the code, and GET shows Succeeded."""

    async def test(world: World) -> None:
        await world.topic()
        answer = await world.arm("PUT", f"{NESTED}/mine", BODY)
        assert answer.status == 201
        properties = await shown(world)
        assert properties["provisioningState"] == "Succeeded"
        assert "handshakeMessage" not in properties

    run(test, webhooks=echo)


def test_an_endpoint_that_refuses() -> None:
    """PUT answers 400 with Event Grid's code, the field, and a message that shows no secret; nothing is stored."""

    async def test(world: World) -> None:
        await world.topic()
        answer = await world.arm("PUT", f"{NESTED}/mine", BODY)
        assert (answer.status, answer.error["code"]) == (400, "Url validation")
        assert answer.error["target"] == "properties.destination.properties.endpointUrl"
        assert answer.error["message"].startswith(
            "The attempt to validate the provided endpoint https://example.com/hook failed."
        )
        assert "Came back: status 401, body: *********** is not one of ours." in answer.error["message"]
        assert "secret" not in answer.body.decode().replace("secret Authorization", "")
        assert (await world.arm("GET", f"{NESTED}/mine")).status == 404

    run(test, webhooks=refusing)


def test_waiting_shows_what_is_wanted() -> None:
    """While consent is awaited, GET, the list and both names show what was asked for, and why it is not in force."""

    async def test(world: World) -> None:
        await world.topic()
        put = await world.arm("PUT", f"{NESTED}/mine", BODY)
        assert put.status == 201
        listed = (await world.arm("GET", NESTED)).json["value"][0]["properties"]
        for properties in (await shown(world), await shown(world, f"{SCOPE}/mine"), listed):
            assert properties["provisioningState"] == "AwaitingManualAction"
            assert properties["filter"]["subjectBeginsWith"] == "a"
            assert "status 200, body: OK" in properties["handshakeMessage"]
        got = await world.arm("GET", f"{NESTED}/mine")
        assert got.headers["retry-after"] == "2"
        assert url_of(world).split("id=")[1][:36] not in (put.body + got.body).decode()

    run(test, webhooks=plain)


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_opening_the_url_consents(method: str) -> None:
    """Anybody who has the URL can open it, from anywhere and without rights; then the subscription is in force."""

    async def test(world: World) -> None:
        await world.topic()
        await world.arm("PUT", f"{NESTED}/mine", BODY)
        answer = await world.call(method, url_of(world), peer="203.0.113.9", headers={"host": "grid.example"})
        assert (answer.status, answer.headers["content-type"]) == (200, "text/plain; charset=utf-8")
        assert "is validated" in answer.body.decode()
        assert (await shown(world))["provisioningState"] == "Succeeded"
        again = await world.call(method, url_of(world))
        assert (again.status, again.error["code"]) == (404, "HandshakeNotFound")

    run(test, webhooks=plain)


def test_link_checkers_do_not_consent() -> None:
    """HEAD is not opening the URL."""

    async def test(world: World) -> None:
        await world.topic()
        await world.arm("PUT", f"{NESTED}/mine", BODY)
        assert (await world.call("HEAD", url_of(world))).status == 405
        assert (await shown(world))["provisioningState"] == "AwaitingManualAction"

    run(test, webhooks=plain)


def test_too_late() -> None:
    """After ten minutes GET shows Failed and the URL answers 410; a new PUT starts afresh, and DELETE works always."""

    async def test(world: World) -> None:
        await world.topic()
        await world.arm("PUT", f"{NESTED}/mine", BODY)
        world.clock.instant += 10 * MINUTE + 1
        assert (await shown(world))["provisioningState"] == "Failed"
        late = await world.call("GET", url_of(world))
        assert (late.status, late.error["code"]) == (410, "HandshakeExpired")
        await world.arm("PUT", f"{NESTED}/mine", BODY)
        assert (await shown(world))["provisioningState"] == "AwaitingManualAction"
        assert (await world.arm("DELETE", f"{NESTED}/mine")).status == 200
        assert (await world.call("GET", url_of(world))).status == 404

    run(test, webhooks=plain)


@pytest.mark.parametrize(
    ("query", "status"),
    [
        ("", 400),
        ("id=x", 400),
        ("token=x", 400),
        ("id=&token=WzEsbnVsbF0", 400),
        ("id=x&token=%00", 400),
        ("id=x&token=é", 400),
        ("id=x&token=WzE4NDQ2NzQ0MDczNzA5NTUxNjE1LG51bGxd", 400),
        ("id=x&token=" + "W" * 10_000, 400),
        ("id=" + "x" * 10_000 + "&token=WzEsbnVsbF0", 400),
        ("id=x&token=WzEsbnVsbF0", 404),
        ("id=%FF%00&token=WzEsbnVsbF0", 404),
        ("id=x&token=WzksbnVsbF0", 404),
    ],
)
def test_urls_that_nobody_was_given(query: str, status: int) -> None:
    """A URL that is cut, made up or guessed is refused with a plain reason, and changes nothing."""

    async def test(world: World) -> None:
        await world.topic()
        await world.arm("PUT", f"{NESTED}/mine", BODY)
        answer: Answer = await world.call("GET", f"/eventsubscriptions/mine/validate?{query}")
        assert answer.status == status
        assert answer.error["message"]
        assert (await shown(world))["provisioningState"] == "AwaitingManualAction"

    run(test, webhooks=plain)


def test_what_is_shown_can_be_put_again() -> None:
    """A client that sends back what it was shown, the endpoint's URL added, is understood."""

    async def test(world: World) -> None:
        await world.topic()
        await world.arm("PUT", f"{NESTED}/mine", BODY)
        properties = await shown(world)
        properties["destination"] = webhook()
        answer = await world.arm("PUT", f"{NESTED}/mine", {"properties": properties})
        assert (answer.status, (await shown(world))["provisioningState"]) == (201, "AwaitingManualAction")

    run(test, webhooks=plain)


def test_without_handshakes_any_url_is_taken() -> None:
    """With handshakes off no endpoint is asked or notified."""

    async def test(world: World) -> None:
        await world.topic()
        answer = await world.arm("PUT", f"{NESTED}/mine", BODY)
        assert (answer.status, (await shown(world))["provisioningState"]) == (201, "Succeeded")
        assert (await world.arm("DELETE", f"{NESTED}/mine")).status == 200

    run(test)
