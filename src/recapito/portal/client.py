"""The portal's client of the server's HTTP API: typed answers; a refusal or a silence is an error that can be shown."""

import ssl
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, TypeVar
from urllib.parse import parse_qs, quote, urlencode, urlsplit

import aiohttp
import msgspec
from yarl import URL

from recapito.domain.delivery.headers import SAS_KEY
from recapito.errors import CallerError
from recapito.portal import api_types

API_VERSION = "2022-06-15"
MANAGEMENT = "https://management.azure.com"
DATA = "https://eventgrid.azure.net"
PROVIDER = "/providers/Microsoft.EventGrid"
PAGE = 25
KINDS = {"topics": "custom", "domains": "domain", "systemTopics": "system"}
AWAY = 503
_MISSING = "x-recapito-missing-partitions"
_TIMEOUT_S = 15.0
_LONG_S = 600.0

T = TypeVar("T")


class RequestRefused(CallerError):
    """The server refused a request. `target` names the wrong field."""

    def __init__(self, status: int, code: str, message: str, target: str | None) -> None:
        super().__init__(code, message, target)
        self.status = status


class Unreachable(Exception):
    """The server did not answer."""


class WireAnswer(NamedTuple):
    """The status and the body of an answer, and the partitions of the cluster that it lacks."""

    status: int
    body: bytes
    missing: tuple[int, ...] = ()


class ResultPage(NamedTuple):
    """A page of an ARM list, and where the next one starts."""

    value: list[dict[str, Any]]
    next: str | None


class Tokens(NamedTuple):
    """The tokens of a principal: one to manage with, and one to publish with if it has one."""

    management: str
    data: str | None

    def __repr__(self) -> str:
        return "<Tokens>"


class ServerConnections:
    """The connections to one server, shared by all sessions."""

    def __init__(self, url: str, tls: ssl.SSLContext | None = None) -> None:
        self.url = url
        connector = aiohttp.TCPConnector(ssl=tls or True, limit=32)
        self._session = aiohttp.ClientSession(connector=connector, cookie_jar=aiohttp.DummyCookieJar())

    def __repr__(self) -> str:
        return f"<ServerConnections {self.url}>"

    async def close(self) -> None:
        """End all connections."""
        await self._session.close()

    async def request(
        self, method: str, target: str, body: bytes | None, headers: Mapping[str, str], timeout_s: float = _TIMEOUT_S
    ) -> WireAnswer:
        """Send a request; its answer, of any status."""
        limit = aiohttp.ClientTimeout(total=timeout_s, sock_connect=5)
        try:
            async with self._session.request(
                method,
                URL(f"{self.url}{target}", encoded=True),
                data=body,
                headers=headers,
                timeout=limit,
                allow_redirects=False,
            ) as answer:
                missing = (number for number in answer.headers.get(_MISSING, "").split(",") if number.isdecimal())
                return WireAnswer(answer.status, await answer.read(), tuple(map(int, missing)))
        except TimeoutError:
            raise Unreachable(f"The server at {self.url} did not answer in time.") from None
        except (aiohttp.ClientError, OSError) as error:
            raise Unreachable(f"The server at {self.url} cannot be reached: {_reason(error)}.") from None

    async def sign_in(self, client_id: str, secret: str) -> tuple[Tokens, int]:
        """The tokens of a principal, and for how many seconds they are good."""
        management, life_s = await self._token(client_id, secret, MANAGEMENT)
        data, _ = await self._token(client_id, secret, DATA)
        return Tokens(management, data), life_s

    async def _token(self, client_id: str, secret: str, audience: str) -> tuple[str, int]:
        form = {
            "grant_type": "client_credentials",
            "client_id": client_id,
            "client_secret": secret,
            "scope": f"{audience}/.default",
        }
        headers = {"Content-Type": "application/x-www-form-urlencoded"}
        answer = await self.request("POST", "/organizations/oauth2/v2.0/token", urlencode(form).encode(), headers)
        status = answer.status
        if status == 404:
            raise RequestRefused(
                status, "SignInFailed", "This server trusts another token issuer: sign in with one of its tokens.", None
            )
        if status == 429:
            raise RequestRefused(
                status, "SignInFailed", "Too many wrong secrets were tried. Try again in a moment.", None
            )
        if status != 200:
            raise RequestRefused(status, "SignInFailed", "The client id or the client secret is wrong.", None)
        granted = _decode(answer.body, dict[str, Any])
        return str(granted["access_token"]), int(granted.get("expires_in", 3599))


class ServerApi:
    """The API of a server, for one page. `missing`: partitions of the cluster that answers lacked."""

    def __init__(self, wire: ServerConnections, tokens: Tokens | None = None) -> None:
        self._wire = wire
        self._tokens = tokens
        self._refused = ""
        self.missing: set[int] = set()

    def __repr__(self) -> str:
        return f"<ServerApi {self._wire.url}>"

    async def arm(self, method: str, path: str, body: object = None, **query: str) -> Any:
        """A management request; its JSON answer, None if it has none."""
        asked = urlencode({"api-version": API_VERSION, **query}, quote_via=quote)
        return await self.call(method, f"{quote(path)}?{asked}", body)

    async def call(self, method: str, target: str, body: object = None, timeout_s: float = _TIMEOUT_S) -> Any:
        """A request that must succeed; its JSON answer, None if it has none."""
        answer = await self._ask(method, target, body, timeout_s)
        return _decode(answer, Any) if answer else None

    async def page(self, path: str, search: str = "", start: str | None = None, size: int = PAGE) -> ResultPage:
        """A page of an ARM list; `search` is a part of the name."""
        query = {"$top": str(size)}
        if search:
            quoted = search.replace("'", "''")
            query["$filter"] = f"contains(name, '{quoted}')"
        if start is not None:
            query["$skiptoken"] = start
        listed = await self.arm("GET", path, **query)
        link = listed.get("nextLink")
        following = parse_qs(urlsplit(link).query).get("$skiptoken") if link else None
        return ResultPage(listed["value"], following[0] if following else None)

    async def azure_subscriptions(self) -> list[str]:
        """The ids of the Azure subscriptions that are known here."""
        return [one["subscriptionId"] for one in (await self.arm("GET", "/subscriptions"))["value"]]

    async def lanes(self, **query: str | None) -> api_types.LanePage:
        """The state of subscriptions now."""
        return await self._get("/lanes", api_types.LanePage, query)

    async def count(self, topic: str, kind: str) -> api_types.ShownCounts:
        """The counters of a topic; `kind` is ARM's word for its kind."""
        [found] = await self.counts([topic], kind)
        return found

    async def counts(self, topics: Sequence[str], kind: str) -> list[api_types.ShownCounts]:
        """The counters of topics of one kind, in their order, by one request."""
        if not topics:
            return []
        found = await self._get("/counts", api_types.CountsPage, {"topic": ",".join(topics)})
        by_name = {one.topic.lower(): one for one in found.value if one.topic_kind == KINDS[kind]}
        return [by_name.get(name.lower(), api_types.ShownCounts(topic=name)) for name in topics]

    async def deliveries(self, **query: str | None) -> api_types.Attempts:
        """Attempts that are kept, newest first."""
        return await self._get("/deliveries", api_types.Attempts, query)

    async def series(self, **query: str | None) -> api_types.SeriesAnswer:
        """The attempts that are kept, counted by time."""
        return await self._get("/deliveries/series", api_types.SeriesAnswer, query)

    async def totals(self) -> api_types.ShownTotals:
        """The sums of all subscriptions."""
        return await self._get("/lanes/totals", api_types.ShownTotals, {})

    async def explain(self, event: str, topic: str | None = None, payload: bool = False) -> api_types.ShownExplanation:
        """The explanation of a published event."""
        query = {"event": event, "topic": topic, "payload": "true" if payload else None}
        return await self._get("/deliveries/explain", api_types.ShownExplanation, query)

    async def resend(self, event: str, topic: str, subscription: int) -> None:
        """Deliver an event to a subscription once more."""
        body = {"event": event, "topic": topic, "subscriptionId": subscription}
        await self.call("POST", "/deliveries/resend", body)

    async def dry_run(self, topic: str, event: object) -> api_types.ShownExplanation:
        """The explanation of an event that is not published."""
        body = {"topic": topic, "event": event}
        return _decode(await self._ask("POST", "/deliveries/explain", body), api_types.ShownExplanation)

    async def letters(self, **query: str | None) -> api_types.DeadLetterPage:
        """Dead letters."""
        return await self._get("/deadletters", api_types.DeadLetterPage, query)

    async def letter(self, name: str) -> dict[str, Any]:
        """One dead letter with its event."""
        found: dict[str, Any] = await self.call("GET", f"/deadletters/{quote(name)}")
        return found

    async def turn(self, verb: str, body: Mapping[str, object]) -> api_types.ShownProgress:
        """One turn of redrive or purge."""
        return _decode(await self._ask("POST", f"/deadletters/{verb}", body, _LONG_S), api_types.ShownProgress)

    async def clock(self) -> api_types.ClockNow:
        """The server's clock."""
        return await self._get("/clock", api_types.ClockNow, {})

    async def advance(self, body: Mapping[str, object]) -> api_types.ShownMove:
        """Move the clock, however long that takes."""
        return _decode(await self._ask("POST", "/clock/advance", body, _LONG_S), api_types.ShownMove)

    async def readiness(self) -> api_types.Readiness:
        """Whether the server does its work."""
        headers = {} if self._tokens is None else {"Authorization": f"Bearer {self._tokens.management}"}
        answer = await self._wire.request("GET", "/readyz", None, headers)
        if answer.status not in (200, 503):
            raise _refusal(answer)
        return _decode(answer.body, api_types.Readiness)

    async def ask_again(self) -> None:
        """Succeeds once the server answers what it could not answer before."""
        if self._refused:
            await self._ask("GET", self._refused)
        else:
            await self.readiness()

    async def publish(self, topic: Mapping[str, Any], body: bytes, content_type: str) -> None:
        """Publish with a key of the topic, or with the principal's token where keys are disabled."""
        kind = "domains" if topic["type"].lower().endswith("/domains") else "topics"
        if topic["properties"].get("disableLocalAuth") and self._tokens is not None:
            sign = {"Authorization": f"Bearer {self._tokens.data}"}
        else:
            sign = {SAS_KEY: (await self.arm("POST", f"{topic['id']}/listKeys"))["key1"]}
        target = f"/{kind}/{quote(topic['name'], safe='')}/api/events"
        answer = await self._wire.request("POST", target, body, {"Content-Type": content_type, **sign})
        if answer.status != 200:
            raise _refusal(answer)

    async def _get(self, path: str, type: type[T], query: Mapping[str, str | None]) -> T:
        given = {name: value for name, value in query.items() if value}
        return _decode(await self._ask("GET", f"{path}?{urlencode(given, quote_via=quote)}"), type)

    async def _ask(self, method: str, target: str, body: object = None, timeout_s: float = _TIMEOUT_S) -> bytes:
        headers = {"Content-Type": "application/json"}
        if self._tokens is not None:
            headers["Authorization"] = f"Bearer {self._tokens.management}"
        content = None if body is None else msgspec.json.encode(body)
        answer = await self._wire.request(method, target, content, headers, timeout_s)
        if answer.status == AWAY and method == "GET":
            self._refused = target
        if answer.status >= 300:
            raise _refusal(answer)
        self.missing.update(answer.missing)
        return answer.body


def _decode(body: bytes, type: type[T]) -> T:
    try:
        return msgspec.json.decode(body, type=type)
    except msgspec.MsgspecError as error:
        raise RequestRefused(502, "NotRecapito", f"The server's answer cannot be read: {error}.", None) from None


def _refusal(answer: WireAnswer) -> RequestRefused:
    status = answer.status
    try:
        error = msgspec.json.decode(answer.body)["error"]
        details = error.get("details") or [{}]
        target = error.get("target") or details[0].get("target")
        return RequestRefused(status, str(error["code"]), str(error["message"]), target)
    except (msgspec.MsgspecError, KeyError, TypeError, AttributeError, IndexError):
        return RequestRefused(status, "NotRecapito", f"The server answered with status {status}.", None)


def _reason(error: Exception) -> str:
    inner = getattr(error, "os_error", None) or error
    return getattr(inner, "strerror", None) or type(error).__name__
