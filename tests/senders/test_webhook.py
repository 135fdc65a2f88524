"""The webhook sender against endpoints that keep to HTTP: what it sends, and what it makes of an answer."""

import asyncio
import gzip

import pytest
from msgspec.structs import replace

from recapito import __version__
from recapito.domain.access.egress import Egress
from recapito.domain.delivery.attributes import Header
from recapito.domain.delivery.outcome import Outcome, Result
from recapito.domain.events.schema import BodyForm
from recapito.domain.instant import SECOND
from recapito.errors import SettingsError
from recapito.senders.webhook import WebhookSender
from tests.senders.receiver import NOON, OK, Receiver, answering, batch, posting, silent, status


def test_delivery_headers() -> None:
    """A delivery carries exactly the headers of Event Grid's table, and the body as it is."""

    async def main() -> None:
        async with Receiver(answering(OK)) as receiver, posting() as post:
            body = b'[{"data": 1e400 , "x":"\\u00e9"}]'
            assert await post(f"{receiver.url}?code=s3cret", batch(body, 3)) == Outcome(Result.SUCCESS, 200)
            [request] = receiver.requests
        assert request.line == "POST /hook?code=s3cret HTTP/1.1"
        assert request.body == body
        assert request.headers == {
            "host": f"127.0.0.1:{receiver.port}",
            "user-agent": f"recapito/{__version__}",
            "content-type": "application/json; charset=utf-8",
            "content-length": str(len(body)),
            "aeg-event-type": "Notification",
            "aeg-subscription-name": "ORDERS-HOOK",
            "aeg-delivery-count": "3",
            "aeg-data-version": "1.0",
            "aeg-metadata-version": "1",
            "aeg-output-event-id": "e1",
        }

    asyncio.run(main())


@pytest.mark.parametrize(
    ("version", "sent"),
    [
        (None, None),
        ("", ""),
        ("2 beta", "2 beta"),
        ("1\r\nX-Evil: 1", None),
        ("1\n", None),
        ("1\x00", None),
        ("1\x7f", None),
        ("v\u00e9", None),
        ("1" * 4096, "1" * 4096),
        ("1" * 4097, None),
    ],
)
def test_data_version_is_no_injection(version: str | None, sent: str | None) -> None:
    """A data version that is not a plain header value is left out, whatever the publisher put into it."""

    async def main() -> None:
        async with Receiver(answering(OK)) as receiver, posting() as post:
            await post(receiver.url, batch(version=version, id=None))
            headers = receiver.requests[0].headers
        assert headers.get("aeg-data-version") == sent
        assert not {"x-evil", "aeg-output-event-id"} & set(headers)

    asyncio.run(main())


@pytest.mark.parametrize(
    ("form", "content_type"),
    [
        (BodyForm.CLOUD_EVENT, "application/cloudevents+json; charset=utf-8"),
        (BodyForm.CLOUD_EVENTS, "application/cloudevents-batch+json; charset=utf-8"),
    ],
)
def test_delivery_headers_of_cloud_events(form: BodyForm, content_type: str) -> None:
    """CloudEvents have their own content types, their own version, no data version, and say where they come from."""

    async def main() -> None:
        async with Receiver(answering(OK)) as receiver, posting() as post:
            await post(receiver.url, replace(batch(version=None), form=form))
            await post(receiver.url, batch())
            headers, plain = (request.headers for request in receiver.requests)
        assert headers["content-type"] == content_type
        assert headers["aeg-metadata-version"] == "1.0"
        assert "aeg-data-version" not in headers
        assert headers["webhook-request-origin"] == headers["origin"] == "eventgrid.azure.net"
        assert plain["content-type"] == "application/json; charset=utf-8"
        assert "origin" not in plain

    asyncio.run(main())


def test_custom_headers() -> None:
    """They are sent as they are, an empty one too; one that could be mistaken for more than a value is not."""
    headers = (Header("X-A", "a b"), Header("X-Empty", ""), Header("X-Bad", "1\r\nX-Evil: 1"))

    async def main() -> None:
        async with Receiver(answering(OK)) as receiver, posting() as post:
            await post(receiver.url, replace(batch(), headers=headers))
            await post(receiver.url, batch())
            sent, plain = (request.headers for request in receiver.requests)
        assert (sent["x-a"], sent["x-empty"]) == ("a b", "")
        assert not {"x-bad", "x-evil"} & set(sent)
        assert not {"x-a", "x-empty"} & set(plain)

    asyncio.run(main())


def test_a_secret_header_that_is_repeated_is_not_shown() -> None:
    """An endpoint that answers with what it got does not bring a secret into the journal."""
    headers = (Header("Authorization", "Bearer s3cr3t-t0ken", secret=True), Header("X-Open", "open"))
    reply = status(401, body=b"I do not know s3cr3t-t0ken, nor Bearer s3cr3t-t0ken, in open")

    async def main() -> Outcome:
        async with Receiver(answering(reply)) as receiver, posting() as post:
            return await post(receiver.url, replace(batch(), headers=headers))

    detail = asyncio.run(main()).detail
    assert detail.startswith("I do not know") and detail.endswith("in open")
    assert "s3cr3t" not in detail


STATUSES = {
    **dict.fromkeys([200, 201, 202, 203, 204, 206, 299], Result.SUCCESS),
    **dict.fromkeys([300, 301, 302, 304, 307, 308, 402, 405, 410, 414, 500, 502, 504, 599], Result.GENERIC_ERROR),
    400: Result.BAD_REQUEST,
    401: Result.UNAUTHORIZED,
    403: Result.FORBIDDEN,
    404: Result.NOT_FOUND,
    408: Result.TIMED_OUT,
    413: Result.PAYLOAD_TOO_LARGE,
    429: Result.BUSY,
    503: Result.BUSY,
}


def test_statuses() -> None:
    """Every status comes back as itself, with Event Grid's word for it."""

    async def main() -> None:
        bodiless = (b"HTTP/1.1 204 No\r\n\r\n", b"HTTP/1.1 304 No\r\n\r\n")
        answers = [status(code) for code in STATUSES if code not in (204, 304)]
        async with Receiver(answering(*answers, *bodiless)) as receiver, posting() as post:
            outcomes = [await post(receiver.url) for _ in STATUSES]
            assert receiver.connections == 1
        assert {outcome.status: outcome.result for outcome in outcomes} == STATUSES

    asyncio.run(main())


def test_redirects_are_not_followed() -> None:
    """A redirect is an answer like any other: it is not followed."""

    async def main() -> None:
        async with Receiver(answering(OK)) as other, posting() as post:
            redirect = status(307, f"Location: {other.url}")
            async with Receiver(answering(redirect)) as receiver:
                assert await post(receiver.url) == Outcome(Result.GENERIC_ERROR, 307)
            assert other.connections == 0

    asyncio.run(main())


def test_retry_after_reaches_the_outcome() -> None:
    """`Retry-After` of a failure is in the outcome, in seconds or as a date by the injected clock."""

    async def main() -> None:
        date = "Sun, 17 Mar 2030 17:47:00 GMT"  # 20 s after NOON
        answers = (status(429, "Retry-After: 7"), status(503, f"retry-after:{date}"), status(500, "Retry-After: x"))
        async with Receiver(answering(*answers)) as receiver, posting() as post:
            waits = [(await post(receiver.url)).retry_after_ns for _ in answers]
        assert waits == [7 * SECOND, 20 * SECOND, 0]

    asyncio.run(main())


def test_detail_is_an_excerpt_without_secrets() -> None:
    """A failure's detail is the printable beginning of its body, and the URL's query is never in it."""

    async def main() -> None:
        body = b"<b>Cannot POST /hook?code=s3cret%3D1&x=y</b>\r\n\x1b[31m s3cret=1 " + b"z" * 5000
        async with Receiver(answering(status(404, body=body))) as receiver, posting() as post:
            detail = (await post(f"{receiver.url}?code=s3cret%3D1&x=y")).detail
        assert detail.startswith(r"<b>Cannot POST /hook?*******************</b>\r\n\x1b[31m ******** zzz")
        assert "s3cret" not in detail
        assert len(detail) == 1024

    asyncio.run(main())


def test_compressed_answers_stay_compressed() -> None:
    """No answer is decompressed, asked for or not."""

    async def main() -> None:
        bomb = gzip.compress(bytes(10_000_000))
        answer = status(500, "Content-Encoding: gzip", body=bomb)
        async with Receiver(answering(answer)) as receiver, posting() as post:
            detail = (await post(receiver.url)).detail
            assert "accept-encoding" not in receiver.requests[0].headers
        assert detail.startswith(r"\x1f")

    asyncio.run(main())


def test_connections_are_reused() -> None:
    """Batches that follow each other to one endpoint share a connection, also when bodies come with the answers."""

    async def main() -> None:
        async with Receiver(answering(status(200, body=b"thanks"))) as receiver, posting() as post:
            for _ in range(20):
                await post(receiver.url)
            assert (receiver.connections, len(receiver.requests)) == (1, 20)

    asyncio.run(main())


def test_large_body() -> None:
    """A body of a megabyte arrives byte for byte, without waiting for a 100 Continue."""

    async def main() -> None:
        body = bytes(range(256)) * 4096
        async with Receiver(answering(OK)) as receiver, posting() as post:
            await post(receiver.url, batch(body))
            [request] = receiver.requests
        assert request.body == body
        assert "expect" not in request.headers

    asyncio.run(main())


def test_environment_proxy_is_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    """No proxy of the environment sees a delivery."""

    async def main() -> None:
        async with Receiver(answering(OK)) as proxy, Receiver(answering(OK)) as receiver:
            for name in ("http_proxy", "HTTP_PROXY", "https_proxy", "all_proxy", "ALL_PROXY"):
                monkeypatch.setenv(name, f"http://127.0.0.1:{proxy.port}")
            async with posting() as post:
                await post(receiver.url)
            assert (proxy.connections, receiver.connections) == (0, 1)

    asyncio.run(main())


def test_invalid_url_is_an_outcome() -> None:
    """A URL that cannot be used fails the attempt, without its query in the detail."""

    async def main() -> None:
        async with posting() as post:
            outcome = await post("ftp://example.com/?code=s3cret")
        assert outcome.result is Result.GENERIC_ERROR
        assert "s3cret" not in outcome.detail

    asyncio.run(main())


def test_close_frees_everything() -> None:
    """Closing ends the connections, and no exchange is answered after it."""

    async def main() -> None:
        async with Receiver(silent) as receiver:
            async with posting() as post:
                _, answer = post.start(receiver.url)
                await receiver.until(lambda it: it.requests)
            await receiver.until(lambda it: not it.open)
            assert not answer.done()
            with pytest.raises(RuntimeError):
                post.start(receiver.url)

    asyncio.run(main())


def test_missing_ca_file_is_a_settings_error(tmp_path: object) -> None:
    """A CA file that is not there stops the start, naming the key."""
    with pytest.raises(SettingsError, match="ca_file"):
        WebhookSender(Egress.LOCAL, f"{tmp_path}/none.pem", now=lambda: NOON)
