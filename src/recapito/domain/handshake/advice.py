"""The message to the owner of a subscription whose handshake failed: the request, the answer, and the change to make.

No message contains a secret of the endpoint.
"""

from recapito.domain import limits
from recapito.domain.delivery.headers import EVENT_TYPE, VALIDATION
from recapito.domain.excerpt import excerpt
from recapito.domain.handshake.consent import asks_by_options, webhook_of
from recapito.domain.handshake.handshake import ORIGIN, VALIDATION_EVENT, Invitation, allowed_origin, answered_code
from recapito.domain.handshake.http_call import CallResult, FailureKind, HttpReply, NoReply
from recapito.domain.instant import MINUTE, SECOND

_WAIT_S = limits.ANSWER_WAIT_NS // SECOND
_WINDOW_MIN = limits.HANDSHAKE_WINDOW_NS // MINUTE
_ECHO = 'status 200 and the JSON body {"validationResponse": "<data.validationCode of the event>"}'
_GRANT = f"status 200 and the header WebHook-Allowed-Origin: {ORIGIN} (or *)"
_SKIP = "On a development machine, `recapito serve --handshake off` skips handshakes."

_TROUBLES = {
    FailureKind.INVALID_URL: "Correct endpointUrl: it must be an http or https URL with a host.",
    FailureKind.NAME_NOT_FOUND: (
        "The host name of endpointUrl is not known where this server runs. Correct the name, or make it known "
        "there (in a container, names of the host machine are not known by themselves)."
    ),
    FailureKind.ADDRESS_REFUSED: (
        "This server does not send to that address. Choose another endpoint, or allow local addresses with the setting "
        "delivery.egress; link-local addresses and cloud metadata services are never allowed."
    ),
    FailureKind.NOT_CONNECTED: (
        "Nothing listens there as seen from this server. Start the endpoint before you subscribe it, and check "
        "host, port and firewall (in a container, 127.0.0.1 is the container itself)."
    ),
    FailureKind.TLS_FAILED: (
        "The endpoint's certificate is not trusted. Let it send its whole chain, with a certificate that is "
        "valid for this host name; if your own authority signed it, give that authority's certificate with the "
        "setting delivery.ca_file. An endpoint without TLS needs an http URL."
    ),
    FailureKind.TIMED_OUT: (
        f"The endpoint must answer within {_WAIT_S} seconds. Let it answer the handshake before it does other "
        "work, and check that a firewall does not swallow the request."
    ),
    FailureKind.BROKEN_OFF: (
        "The endpoint closed the connection without a whole answer. Look into its log for a crash, and check "
        "whether the URL must be http or https."
    ),
    FailureKind.CLOSED: "This server was stopping. Try again.",
}

_EITHER = {
    401: (
        "The endpoint wants credentials. Put them where deliveries can carry them: into the query of "
        "endpointUrl (in a shell, quote a URL that has an & in it) or into a delivery attribute such as a "
        "secret Authorization header."
    ),
    403: (
        "The endpoint or a firewall in front of it forbids the request. Check its key or access rules; some "
        "firewalls refuse requests without an Accept header, which Event Grid does not send either."
    ),
    404: "There is nothing at this path. Correct the path of endpointUrl.",
    429: "The endpoint is too busy to answer. Try again later.",
    503: "The endpoint is not ready. Try again when it is up.",
}
_VALIDATION = {
    202: f"202 is not an answer to the handshake. Answer at once with {_ECHO}.",
    405: "The endpoint does not take POST at this path. Correct the path, or let it take POST.",
}
_OPTIONS = {
    404: (
        f"The endpoint does not answer OPTIONS at this path. Correct the path, or let it answer OPTIONS with {_GRANT}."
    ),
    405: (
        "The endpoint does not take OPTIONS, by which CloudEvents endpoints are asked. Let it answer OPTIONS "
        f"with {_GRANT}."
    ),
}
_OPTIONS[501] = _OPTIONS[405]


def explain_refusal(invitation: Invitation, answer: CallResult, tries: int) -> str:
    """The error message of a handshake that failed; it begins as Event Grid's does."""
    endpoint = webhook_of(invitation.subscription).base_url
    more = "esvalidationcloudevent" if asks_by_options(invitation.subscription) else "esvalidation"
    return (
        f"The attempt to validate the provided endpoint {endpoint} failed. "
        f"Sent: {_sent(invitation, tries)}. Came back: {_came_back(invitation, answer)}. "
        f"What to change: {advise(invitation, answer)} {_SKIP} For more details, visit https://aka.ms/{more}."
    )


def explain_waiting(invitation: Invitation, answer: CallResult) -> str:
    """The message while consent is still awaited."""
    return (
        f"Sent: {_sent(invitation, 1)}. Came back: {_came_back(invitation, answer)}. "
        f"What to change: {advise(invitation, answer)}"
    )


def _sent(invitation: Invitation, tries: int) -> str:
    often = "" if tries == 1 else f", {tries} times, {limits.HANDSHAKE_PAUSE_NS // SECOND} seconds apart"
    if asks_by_options(invitation.subscription):
        return f"OPTIONS with WebHook-Request-Origin: {ORIGIN}{often}"
    return f"POST with {EVENT_TYPE}: {VALIDATION} and one {VALIDATION_EVENT}{often}"


def _came_back(invitation: Invitation, answer: CallResult) -> str:
    secrets = invitation.secrets
    if isinstance(answer, NoReply):
        return f"no answer ({_cut(answer.detail, secrets) or answer.trouble})"
    parts = [f"status {answer.status}"]
    if 300 <= answer.status < 400 and (location := answer.header("Location")):
        parts.append(f"Location: {_cut(location.partition('?')[0], secrets)}")
    if asks_by_options(invitation.subscription):
        origin = answer.header("WebHook-Allowed-Origin")
        parts.append(
            "no WebHook-Allowed-Origin" if origin is None else f"WebHook-Allowed-Origin: {_cut(origin, secrets)}"
        )
    body = _cut(answer.body.decode("utf-8", "replace"), secrets)
    parts.append(f"body: {body}" if body else "an empty body")
    return ", ".join(parts)


def _cut(text: str, secrets: tuple[str, ...]) -> str:
    """The beginning of a text from outside, on one line."""
    line = " ".join(excerpt(" ".join(text.split()), secrets).split())
    most = limits.HANDSHAKE_EXCERPT_CHARS
    return line if len(line) <= most else f"{line[:most]}…"


def advise(invitation: Invitation, answer: CallResult) -> str:
    """The change to make, by the answer."""
    if isinstance(answer, NoReply):
        return _TROUBLES[answer.trouble]
    if 300 <= answer.status < 400:
        return (
            "Redirects are not followed. Give the final URL of the endpoint, and check http or https and a trailing "
            "slash."
        )
    if asks_by_options(invitation.subscription):
        return _advise_options(answer)
    return _advise_validation(invitation, answer)


def _advise_validation(invitation: Invitation, reply: HttpReply) -> str:
    by_hand = f"or open the event's data.validationUrl within {_WINDOW_MIN} minutes."
    if reply.status == 200 and answered_code(reply) is not None:
        return (
            "validationResponse is not the code that was sent. Each handshake has a new code: return "
            f"data.validationCode of the event that has just come, {by_hand}"
        )
    if reply.status == 200 and invitation.code in reply.body.decode("utf-8", "replace").lower():
        return (
            "The code is in the answer, but not as validationResponse of one JSON object. "
            f"Answer with {_ECHO}, {by_hand}"
        )
    if reply.status == 200:
        return (
            "The endpoint answers 200 to everything, but does not know the handshake. When the header "
            f"{EVENT_TYPE} is {VALIDATION}, answer with {_ECHO}, {by_hand}"
        )
    if 400 <= reply.status < 500 and reply.status not in _EITHER and reply.status not in _VALIDATION:
        return (
            f"The endpoint does not take the validation event. Look for the header {EVENT_TYPE}: "
            f"{VALIDATION} before anything else, and answer with {_ECHO}. If the endpoint expects "
            "CloudEvents, set eventDeliverySchema to CloudEventSchemaV1_0."
        )
    return _by_status(_VALIDATION, reply.status, _ECHO)


def _advise_options(reply: HttpReply) -> str:
    origin = allowed_origin(reply)
    if origin is not None and origin not in ("*", ORIGIN):
        return f"The endpoint allows another origin. Answer OPTIONS with {_GRANT}."
    if origin is None and 200 <= reply.status < 300:
        advice = f"The status alone is not consent: the header is missing. Answer OPTIONS with {_GRANT}"
        if reply.status == 200:
            return f"{advice}, or open the URL of WebHook-Request-Callback within {_WINDOW_MIN} minutes."
        return f"{advice}."
    return _by_status(_OPTIONS, reply.status, _GRANT)


def _by_status(own: dict[int, str], status: int, wanted: str) -> str:
    advice = own.get(status) or _EITHER.get(status)
    if advice is not None:
        return advice
    if status >= 500:
        return f"The endpoint failed. Look into its log; it must answer with {wanted}."
    return f"Only 200 counts. Answer with {wanted}."
