"""The message after a failed handshake: each typical mistake has advice of its own, and no secret."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recapito.domain import limits
from recapito.domain.events.schema import DeliverySchema
from recapito.domain.handshake.advice import advise, explain_refusal, explain_waiting
from recapito.domain.handshake.handshake import Invitation, invite
from recapito.domain.handshake.http_call import CallResult, FailureKind, HttpReply, NoReply
from recapito.domain.resources.subscription import StaticAttribute
from tests.domain.handshake.invited import CODE, NOW, subscription, topic

HEADER = StaticAttribute("Authorization", "Basic c2VjcmV0", True)


def invitation(schema: DeliverySchema = DeliverySchema.EVENT_GRID) -> Invitation:
    return invite("https://grid.example", topic(), subscription(schema, attributes=(HEADER,)), CODE, NOW)


EVENT = invitation()
OPTIONS = invitation(DeliverySchema.CLOUD_EVENT)
REFUSED = NoReply(FailureKind.NOT_CONNECTED, "Failed to connect to 127.0.0.1 port 9000")

MISTAKES: list[tuple[Invitation, CallResult, str, str]] = [
    (EVENT, REFUSED, "port 9000", "Start the endpoint before you subscribe it"),
    (EVENT, NoReply(FailureKind.NAME_NOT_FOUND, "Name or service not known"), "not known", "Correct the name"),
    (EVENT, NoReply(FailureKind.TLS_FAILED, "self-signed certificate"), "self-signed", "delivery.ca_file"),
    (EVENT, NoReply(FailureKind.TIMED_OUT, "no answer within 30 s"), "within 30 s", "answer within 30 seconds"),
    (EVENT, NoReply(FailureKind.BROKEN_OFF, "Empty reply from server"), "Empty reply", "Look into its log"),
    (EVENT, NoReply(FailureKind.ADDRESS_REFUSED, "egress refused 10.0.0.1"), "10.0.0.1", "delivery.egress"),
    (EVENT, NoReply(FailureKind.INVALID_URL), "InvalidUrl", "Correct endpointUrl"),
    (EVENT, HttpReply(202, (), b"queued"), "status 202, body: queued", "202 is not an answer to the handshake"),
    (EVENT, HttpReply(204), "status 204, an empty body", "Only 200 counts"),
    (EVENT, HttpReply(301, (("Location", "https://b.test/?k=1"),)), "Location: https://b.test/,", "Redirects are not"),
    (EVENT, HttpReply(400, (), b'{"error": "bad"}'), 'body: {"error": "bad"}', "If the endpoint expects CloudEvents"),
    (EVENT, HttpReply(415), "status 415", "aeg-event-type: SubscriptionValidation before anything else"),
    (EVENT, HttpReply(401), "status 401", "wants credentials"),
    (EVENT, HttpReply(403), "status 403", "firewall"),
    (EVENT, HttpReply(404), "status 404", "Correct the path"),
    (EVENT, HttpReply(405), "status 405", "does not take POST"),
    (EVENT, HttpReply(429), "status 429", "Try again later"),
    (EVENT, HttpReply(500, (), b"Traceback"), "body: Traceback", "Look into its log"),
    (EVENT, HttpReply(503), "status 503", "not ready"),
    (EVENT, HttpReply(200, (), b"OK"), "status 200, body: OK", "does not know the handshake"),
    (EVENT, HttpReply(200, (), b'{"validationResponse": "1"}'), "status 200", "not the code that was sent"),
    (EVENT, HttpReply(200, (), f'["{CODE}"]'.encode()), "status 200", "but not as validationResponse"),
    (OPTIONS, REFUSED, "port 9000", "Start the endpoint before you subscribe it"),
    (OPTIONS, HttpReply(405), "no WebHook-Allowed-Origin", "does not take OPTIONS"),
    (OPTIONS, HttpReply(501), "status 501", "does not take OPTIONS"),
    (OPTIONS, HttpReply(404), "status 404", "does not answer OPTIONS at this path"),
    (OPTIONS, HttpReply(401), "status 401", "wants credentials"),
    (OPTIONS, HttpReply(302), "status 302", "Redirects are not followed"),
    (OPTIONS, HttpReply(204), "status 204", "the header is missing"),
    (OPTIONS, HttpReply(200), "no WebHook-Allowed-Origin", "WebHook-Request-Callback within 10 minutes"),
    (OPTIONS, HttpReply(200, (("WebHook-Allowed-Origin", "a.b"),)), "WebHook-Allowed-Origin: a.b", "another origin"),
    (OPTIONS, HttpReply(500), "status 500", "WebHook-Allowed-Origin: eventgrid.azure.net (or *)"),
]


@pytest.mark.parametrize(("asked", "answer", "came_back", "advice"), MISTAKES)
def test_each_mistake_has_its_advice(asked: Invitation, answer: CallResult, came_back: str, advice: str) -> None:
    """The message says what was sent, what came back and what to change, in this order."""
    message = explain_refusal(asked, answer, 1)
    before, sent, back, change = (
        message.find(part) for part in (" failed. ", "Sent: ", "Came back: ", "What to change: ")
    )
    assert 0 < before < sent < back < change
    assert message.startswith("The attempt to validate the provided endpoint https://example.com/hook failed. ")
    assert came_back in message[back:change]
    assert advice in message[change:]
    assert ("POST with aeg-event-type" if asked is EVENT else "OPTIONS with WebHook-Request-Origin") in message[
        sent:back
    ]
    assert "recapito serve --handshake off" in message
    assert "https://aka.ms/esvalidation" in message


def test_advice_differs() -> None:
    """No two kinds of mistakes of one handshake get the same advice, but for those that are the same."""
    alike = {400: 415, 501: 405}
    for asked in (EVENT, OPTIONS):
        rows = [answer for one, answer, *_ in MISTAKES if one is asked]
        texts = [advise(asked, a) for a in rows if not (isinstance(a, HttpReply) and a.status in alike)]
        assert len(set(texts)) == len(texts)


def test_every_trouble_has_advice() -> None:
    """Whatever keeps an answer away, there is something to say about it."""
    assert all(advise(EVENT, NoReply(trouble)) for trouble in FailureKind)


@pytest.mark.parametrize("status", range(200, 600))
def test_every_status_has_advice(status: int) -> None:
    """Whatever an endpoint answers, the message is whole."""
    for asked in (EVENT, OPTIONS):
        assert f"status {status}" in explain_refusal(asked, HttpReply(status), 1)


def test_tries_are_counted() -> None:
    """Who waited for three tries is told so."""
    assert "3 times, 5 seconds apart" in explain_refusal(EVENT, REFUSED, 3)
    assert "times" not in explain_refusal(EVENT, REFUSED, 1).partition("Came back")[0]


def test_why_consent_is_awaited() -> None:
    """Whose endpoint answered 200 in other words learns what is missing, in the same shape."""
    note = explain_waiting(EVENT, HttpReply(200, (), b"fine"))
    assert note.startswith("Sent: POST")
    assert "Came back: status 200, body: fine. What to change: " in note
    assert "data.validationUrl within 10 minutes" in note


@pytest.mark.parametrize("secret", ["hush-hush", "Basic c2VjcmV0", "c2VjcmV0", CODE])
def test_no_secret_is_repeated(secret: str) -> None:
    """An endpoint that repeats what it got does not make us show a query, a secret header or the code."""
    echoes = [
        HttpReply(500, (), f"you sent {secret}!".encode()),
        HttpReply(302, (("Location", f"https://b.test/{secret}/?x={secret}"),), secret.encode()),
        NoReply(FailureKind.BROKEN_OFF, f"strange {secret}"),
        HttpReply(200, (("WebHook-Allowed-Origin", secret),), secret.encode()),
    ]
    for asked in (EVENT, OPTIONS):
        for answer in echoes:
            assert secret not in explain_refusal(asked, answer, 1)
            assert secret not in explain_waiting(asked, answer)


def test_a_header_that_is_no_secret_is_shown() -> None:
    """Only secret headers are hidden: an answer that repeats another one is shown as it came."""
    headers = (HEADER, StaticAttribute("X-Region", "westeurope"))
    asked = invite("https://grid.example", topic(), subscription(attributes=headers), CODE, NOW)
    assert "body: not in westeurope" in explain_refusal(asked, HttpReply(500, (), b"not in westeurope"), 1)


@given(st.binary(max_size=5000), st.text(max_size=5000))
def test_any_answer_fits_on_a_line(body: bytes, header: str) -> None:
    """Whatever comes back, the message is printable, one line, and of bounded length."""
    for asked in (EVENT, OPTIONS):
        message = explain_refusal(
            asked, HttpReply(300, (("Location", header), ("WebHook-Allowed-Origin", header)), body), 1
        )
        assert message.isprintable()
        assert len(message) < 1000 + 4 * limits.HANDSHAKE_EXCERPT_CHARS
