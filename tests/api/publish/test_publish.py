"""POST /topics/{topic}/api/events: what is stored, what is refused, and with which body."""

import asyncio
import json
from typing import Any

import pytest

from recapito.contracts.log import EntryKind
from recapito.domain import limits
from recapito.domain.events.segment import Segment
from recapito.domain.resources.topic import TopicKind
from recapito.errors import StoreFailed
from tests.api.client import EVENTS, TOPIC, World, event, run
from tests.intake.doubles import ScriptedLog
from tests.kit.publish_errors import refused


async def stored(world: World) -> list[dict[str, Any]]:
    topic = await world.log.topic("orders")
    assert topic is not None
    entries = await world.log.read(topic.id, 1, 1 << 30)
    segments = [Segment(entry.columns, entry.body) for entry in entries if entry.kind is EntryKind.SEGMENT]
    return [json.loads(segment.event(i)) for segment in segments for i in range(len(segment))]


def test_published_events_are_stored_before_the_answer() -> None:
    """200 with an empty body, and what was sent is in the log, stamped with the topic's id."""

    async def test(world: World) -> None:
        topic = await world.topic()
        answer = await world.publish([event(), event(id="e-2")], topic.key1)
        assert (answer.status, answer.body, answer.headers) == (200, b"", {"content-length": "0"})
        events = await stored(world)
        assert [one["id"] for one in events] == ["e-1", "e-2"]
        assert {one["topic"] for one in events} == {TOPIC}

    run(test)


@pytest.mark.parametrize(
    "content_type",
    [
        None,
        "application/json",
        "application/json; charset=utf-8",
        "Text/JSON",
        "application/vnd.x+json",
        "application/x-www-form-urlencoded",
    ],
)
def test_content_types_that_are_taken(content_type: str | None) -> None:
    """JSON of any name is taken, no content type too, and what a bare curl -d sends."""

    async def test(world: World) -> None:
        topic = await world.topic()
        headers = {"aeg-sas-key": topic.key2} | ({} if content_type is None else {"content-type": content_type})
        assert (await world.call("POST", EVENTS, [event()], headers=headers)).status == 200

    run(test)


def test_path_and_query() -> None:
    """The topic's name compares without case, and the api-version of the SDKs is tolerated."""

    async def test(world: World) -> None:
        topic = await world.topic()
        headers = {"aeg-sas-key": topic.key1}
        for path in ("/topics/ORDERS/api/events", f"{EVENTS}?api-version=2018-01-01"):
            assert (await world.call("POST", path, [event()], headers=headers)).status == 200

    run(test)


@pytest.mark.parametrize("key", [None, "", "wrong", "ключ".encode().decode("latin-1")])
def test_a_missing_and_a_wrong_key_get_the_same_answer(key: str | None) -> None:
    """401 with one text, before a byte of the body is read."""

    async def test(world: World) -> None:
        await world.topic()
        headers = {} if key is None else {"aeg-sas-key": key}
        answer = await world.call("POST", EVENTS, headers=headers, chunks=[])
        message = refused(answer, 401, "Unauthorized", "Unauthorized")
        assert message.startswith("The request is not authorized: it needs a key of this topic, ")
        assert await stored(world) == []

    run(test)


def test_a_regenerated_key_is_refused() -> None:
    """After regenerateKey the old key is refused and the new one is taken, at once."""

    async def test(world: World) -> None:
        old = await world.topic()
        assert (await world.publish([event()], old.key1)).status == 200
        keys = await world.arm("POST", f"{TOPIC}/regenerateKey", {"keyName": "key1"})
        assert (await world.publish([event()], old.key1)).status == 401
        assert (await world.publish([event()], keys.json["key1"])).status == 200
        assert (await world.publish([event()], old.key2)).status == 200

    run(test)


def test_an_unknown_and_a_deleted_topic() -> None:
    """404 in the data plane's shape."""

    async def test(world: World) -> None:
        topic = await world.topic()
        refused(await world.call("POST", "/topics/nothing/api/events"), 404, "NotFound", "NotFound")
        await world.publish([event()], topic.key1)
        await world.arm("DELETE", TOPIC)
        refused(await world.publish([event()], topic.key1), 404, "NotFound", "NotFound")

    run(test)


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE", "OPTIONS", "TRACE"])
def test_only_post_publishes(method: str) -> None:
    """405 says which method is allowed."""

    async def test(world: World) -> None:
        answer = await world.call(method, EVENTS)
        refused(answer, 405, "MethodNotAllowed", "MethodNotAllowed")
        assert answer.headers["allow"] == "POST"

    run(test)


@pytest.mark.parametrize(
    ("headers", "said"),
    [
        ({"content-encoding": "gzip"}, "Content-Encoding"),
        ({"content-encoding": "identity, br"}, "Content-Encoding"),
        ({"content-type": "text/xml"}, "application/json"),
        ({"content-type": "multipart/form-data; boundary=x"}, "application/json"),
    ],
)
def test_what_is_not_plain_json_is_unsupported(headers: dict[str, str], said: str) -> None:
    """415 for compressed bodies and for other media."""

    async def test(world: World) -> None:
        topic = await world.topic()
        answer = await world.call("POST", EVENTS, [event()], headers={"aeg-sas-key": topic.key1, **headers})
        assert said in refused(answer, 415, "UnsupportedMediaType", "UnsupportedMediaType")

    run(test)


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b"", "The body is empty"),
        (b"{}", "must be an array"),
        (b"[]", "no event"),
        (b"[{", "truncated"),
        (b"\xff", "UTF-8"),
        ([event(), event(extra=1)], "Event 1: received unexpected property 'extra'"),
        ([event(id=1)], "Event 0: property 'id'"),
        ([event(topic="/other")], "'topic' must be"),
        ([event(dataVersion="1\r\nX: y")], "'dataVersion'"),
        (b"[" * 100_000, "Event 0: Expected 'object', got 'array'"),
    ],
)
def test_malformed_events(body: Any, said: str) -> None:
    """400 with InputJsonInvalid in the details and the fault in the text; nothing is stored."""

    async def test(world: World) -> None:
        topic = await world.topic()
        answer = await world.publish(body, topic.key1)
        assert said in refused(answer, 400, "BadRequest", "InputJsonInvalid")
        assert await stored(world) == []

    run(test)


def oversize() -> bytes:
    return json.dumps([event(data="x" * limits.PUBLISH_BYTES)]).encode()


def test_an_announced_oversize_is_refused_unread() -> None:
    """A content-length over the limit is 413 before the body is read; one far over it ends the connection, too."""

    async def test(world: World) -> None:
        topic = await world.topic()
        for length, end in ((str(limits.PUBLISH_BYTES + 1), None), (str(10**9), "close"), ("9" * 400, "close")):
            headers = {"aeg-sas-key": topic.key1, "content-length": length}
            answer = await world.call("POST", EVENTS, headers=headers, chunks=[])
            refused(answer, 413, "RequestEntityTooLarge", "RequestEntityTooLarge")
            assert answer.headers.get("connection") == end

    run(test)


@pytest.mark.parametrize("chunk", [limits.PUBLISH_BYTES * 2, 100_000])
@pytest.mark.parametrize(("times", "end"), [(1, None), (2, None), (20, "close")])
def test_an_oversize_that_streams_in_is_refused(chunk: int, times: int, end: str | None) -> None:
    """Without a content-length the limit holds while the body is read, and what is far too long is not read out."""

    async def test(world: World) -> None:
        topic = await world.topic()
        body = oversize() * times
        chunks = [body[n : n + chunk] for n in range(0, len(body), chunk)]
        answer = await world.publish(b"", topic.key1, chunks=chunks)
        refused(answer, 413, "RequestEntityTooLarge", "RequestEntityTooLarge")
        assert answer.headers.get("connection") == end

    run(test)


def test_a_body_in_pieces_is_put_together() -> None:
    """A body that streams in is the same as one that comes whole."""

    async def test(world: World) -> None:
        topic = await world.topic()
        body = json.dumps([event(data="é" * 1000)], ensure_ascii=False).encode()
        assert (await world.publish(b"", topic.key1, chunks=[body[:7], b"", body[7:900], body[900:]])).status == 200
        assert (await stored(world))[0]["data"] == "é" * 1000

    run(test)


def test_too_many_events() -> None:
    """5,001 events are 413."""

    async def test(world: World) -> None:
        topic = await world.topic()
        tiny = b'{"id":"1","subject":"","eventType":"t","eventTime":"2026-01-01T00:00:00Z"}'
        body = b"[" + b",".join([tiny] * (limits.PUBLISH_EVENTS + 1)) + b"]"
        refused(await world.publish(body, topic.key1), 413, "RequestEntityTooLarge", "RequestEntityTooLarge")

    run(test)


def test_a_publisher_that_hangs_up_in_the_middle_is_not_answered() -> None:
    """A body that ends early stores nothing and answers nothing."""

    async def test(world: World) -> None:
        topic = await world.topic()
        assert (await world.publish([event()], topic.key1, hang_up=True)).status == 0
        assert await stored(world) == []

    run(test)


def test_a_closed_intake_refuses_before_the_body() -> None:
    """503 with Retry-After and the reason, and nothing of the body is read."""

    async def test(world: World) -> None:
        topic = await world.topic()
        answer = await world.publish(b"", topic.key1, chunks=[])
        assert "nearly full" in refused(answer, 503, "ServiceUnavailable", "ServerBusy")
        assert int(answer.headers["retry-after"]) > 1

    run(test, intake_open=lambda: "The disk is nearly full.")


def test_a_full_queue_refuses() -> None:
    """When too much waits for the commit, publishers get 503 with Retry-After until it has gone."""

    async def test(world: World) -> None:
        log = world.log
        assert isinstance(log, ScriptedLog)
        topic = await world.topic()
        body = [event(data="x" * 1_000_000)]
        waiting = [asyncio.create_task(world.publish(body, topic.key1)) for _ in range(40)]
        for _ in range(100):
            await asyncio.sleep(0)
        answers = [task.result() for task in waiting if task.done()]
        assert {answer.status for answer in answers} == {503}
        assert 0 < len(answers) < 40
        assert answers[0].headers["retry-after"] == "1"
        log.gate.set()
        finished = await asyncio.gather(*waiting)
        assert [answer.status for answer in finished].count(200) == 40 - len(answers)
        assert (await world.publish([event()], topic.key1)).status == 200

    run(test, log=ScriptedLog(held=True))


def test_a_failed_commit_is_503_for_all_its_publishers_and_for_nobody_after() -> None:
    """All publishers of a failed commit get 503 with Retry-After, the journal has the cause; the next one is fine."""

    async def test(world: World) -> None:
        topic = await world.topic()
        group = await asyncio.gather(*(world.publish([event()], topic.key1) for _ in range(3)))
        for answer in group:
            message = refused(answer, 503, "ServiceUnavailable", "StoreFailed", "OutcomeUnknown")
            assert answer.headers["retry-after"] == "1"
            assert "disk I/O" not in message
        assert {name for name, _ in world.told} == {"api.failed"}
        assert "disk I/O error" in str(world.told[0][1]["error"])
        assert (await world.publish([event()], topic.key1)).status == 200
        assert len(await stored(world)) == 1

    run(test, log=ScriptedLog([StoreFailed("disk I/O error")]))


class UnreadableLog(ScriptedLog):
    """A registry that cannot be read just now."""

    async def topic(self, name: str, kind: TopicKind = TopicKind.CUSTOM) -> Any:
        raise StoreFailed("disk I/O error")


def test_what_fails_before_the_commit_is_not_stored() -> None:
    """A store that fails while the topic is looked up has stored nothing, and the publisher gets to know."""

    async def test(world: World) -> None:
        answer = await world.call("POST", EVENTS, [event()])
        assert "unknown" not in refused(answer, 503, "ServiceUnavailable", "ServerBusy", "NotStored")
        assert answer.headers["retry-after"] == "1"

    run(test, log=UnreadableLog())


class BuggyLog(ScriptedLog):
    """A registry that breaks in an unexpected way."""

    async def topic(self, name: str, kind: TopicKind = TopicKind.CUSTOM) -> Any:
        raise RuntimeError("a bug with a secret inside")


def test_a_bug_is_500_without_its_text() -> None:
    """An unexpected error is 500 for the caller, in full in the journal, under one report id."""

    async def test(world: World) -> None:
        answer = await world.call("POST", EVENTS)
        message = refused(answer, 500, "InternalServerError", "InternalError")
        assert "secret" not in message
        name, fields = world.told[0]
        assert name == "api.failed"
        assert str(fields["report"]) in message
        assert "a bug with a secret inside" in str(fields["where"])

    run(test, log=BuggyLog())
