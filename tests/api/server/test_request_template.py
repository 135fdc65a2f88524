"""Requests that a connection repeats, over real sockets: they are taken without parsing, and no others are."""

import asyncio

import pytest

from recapito.api.publish.route import PublishTarget
from recapito.api.server.fast_publish import Head, RequestTemplate, template_of
from recapito.domain.resources.topic import TopicKind
from tests.api.client import World
from tests.api.server.raw_http import GET, Line, answer, publish, talk, talk_in
from tests.kit.resources import a_topic

HEAD = Head(PublishTarget("orders", (TopicKind.CUSTOM,)), a_topic(id=3), b"", {})
FIRST = publish("key", 1)


def template() -> RequestTemplate:
    """The template of the first request."""
    made = template_of(FIRST, FIRST.partition(b"\r\n\r\n")[2], HEAD)
    assert made is not None
    return made


def test_a_template_fits_its_requests_whatever_their_length() -> None:
    """One event or many: the body is what follows the same beginning."""
    for ids in ((1,), (23,), (1, 2, 3), tuple(range(100))):
        request = publish("key", *ids)
        assert template().body_of(request) == request.partition(b"\r\n\r\n")[2]


@pytest.mark.parametrize(
    "request_",
    [
        publish("other", 1),
        publish("key", 1, topic="payments"),
        publish("key", 1, close=True),
        FIRST[:-1],
        FIRST[:60],
        FIRST + b" ",
        FIRST + GET,
        FIRST + FIRST,
        FIRST.replace(b"Content-Length: ", b"Content-Length: 0"),
        FIRST.replace(b"Content-Length: ", b"Content-Length: +"),
        FIRST.replace(b"Content-Length", b"content-length"),
        FIRST.replace(b"\r\n\r\n", b"\r\nX: y\r\n\r\n"),
        b"",
        b"\r\n",
    ],
)
def test_what_is_not_the_same_is_left_to_the_parser(request_: bytes) -> None:
    """Another head, a part of a request, several requests or a wrong length do not fit the template."""
    assert template().body_of(request_) is None


@pytest.mark.parametrize(
    "data",
    [
        FIRST.replace(b"Content-Length", b"Transfer-Encoding: chunked\r\nX-Length"),
        FIRST + b"\r\n",
        b"\r\n" + FIRST + b"\r\n\r\n",
        FIRST.replace(b"\r\n", b"\n"),
    ],
)
def test_an_odd_request_shows_no_habit(data: bytes) -> None:
    """Without a plain length, or with bytes that belong to no request, a request is not remembered."""
    assert template_of(data, FIRST.partition(b"\r\n\r\n")[2], HEAD) is None


def test_repeated_requests_are_each_stored_and_answered() -> None:
    """The same beginning again and again, other requests between them, and errors: each has its own answer."""

    async def conversation(line: Line, key: str) -> None:
        reader, writer = line
        for request, status in (
            *((publish(key, *range(n)), 200) for n in (1, 2, 30)),
            (publish(key, body=b"[{}]"), 400),
            (publish(key, 4), 200),
            (GET, 200),
            (publish(key, 5), 200),
            (publish(key, 6) + publish(key, 7), 200),
            (b"", 200),
            (publish("wrong", 8), 401),
            (publish(key, 9, close=True), 200),
        ):
            writer.write(request)
            assert (await answer(reader))[0] == status, request
        assert await reader.read() == b""

    assert talk(conversation) == 8


def test_what_continues_a_request_is_no_new_one() -> None:
    """Bytes that look like a request, but are the rest of another one's head, belong to that one."""

    async def conversation(line: Line, key: str) -> None:
        reader, writer = line
        for _ in range(2):
            writer.write(b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Seen: ")
            await writer.drain()
            await asyncio.sleep(0.01)
            writer.write(publish(key, 1))
            assert await answer(reader) == (200, b'{"status":"ok"}')
            writer.write(publish(key, 2))
            assert await answer(reader) == (200, b"")

    assert talk(conversation) == 2


def test_a_key_that_was_changed_opens_nothing_out_of_template() -> None:
    """A connection that published with a key is refused as soon as the topic has another one."""

    async def conversation(line: Line, key: str, world: World) -> None:
        reader, writer = line
        for id in range(3):
            writer.write(publish(key, id))
            assert await answer(reader) == (200, b"")
        topic = await world.topics.find("orders")
        assert topic is not None
        await world.topics.regenerate_key(topic, "key1")
        await world.topics.find("orders")
        writer.write(publish(key, 4))
        assert (await answer(reader))[0] == 401

    assert talk_in(conversation) == 3


def test_a_connection_that_rests_is_closed_and_one_in_use_is_not() -> None:
    """The time to rest counts from the last answer, also of what was published out of habit."""

    async def conversation(line: Line, key: str, _: World) -> None:
        reader, writer = line
        loop = asyncio.get_running_loop()
        for id in range(3):
            writer.write(publish(key, id))
            assert await answer(reader) == (200, b"")
            await asyncio.sleep(0.2)
        began = loop.time()
        assert await reader.read() == b""
        assert 0 < loop.time() - began < 3

    assert talk_in(conversation, keep_alive_s=0.3) == 3
