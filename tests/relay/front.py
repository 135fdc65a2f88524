"""The front of a relay, small but with checks: it verifies signatures and hands requests to the listeners.

The frames are those that Microsoft's listener takes; what Azure's own relay says in its refusals is only alike.
"""

import asyncio
import base64
import hashlib
import hmac
import json
import time
import uuid
from typing import Any, NamedTuple, Self
from urllib.parse import parse_qs, unquote

from aiohttp import WSMsgType, web

_OWN = ("servicebusauthorization", "host", "connection", "content-length", "transfer-encoding")


class Rule(NamedTuple):
    """A named key, and what it allows."""

    key: str
    rights: frozenset[str]


class RelayFront:
    """One namespace on a loopback port. `tokens` are the signatures that senders showed."""

    def __init__(self, rules: dict[str, Rule], paths: set[str]) -> None:
        self._rules = rules
        self._paths = paths
        self._listeners: dict[str, web.WebSocketResponse] = {}
        self._waiting: dict[str, asyncio.Future[tuple[dict[str, Any], bytes]]] = {}
        self.listening = asyncio.Event()
        self.tokens: list[str] = []

    async def __aenter__(self) -> Self:
        app = web.Application()
        app.router.add_get("/$hc/{path}", self._listen)
        app.router.add_route("*", "/{path}", self._relay)
        self._runner = web.AppRunner(app, shutdown_timeout=0.1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        self.port: int = self._runner.addresses[0][1]
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._runner.cleanup()

    def refusal(self, token: str | None, path: str, right: str) -> int | None:
        """The status that refuses a token, if it is not good for this path and right."""
        if not token or not token.startswith("SharedAccessSignature "):
            return 401
        parts = dict(part.split("=", 1) for part in token.removeprefix("SharedAccessSignature ").split("&"))
        rule = self._rules.get(unquote(parts["skn"]))
        if rule is None or int(parts["se"]) <= time.time():
            return 401
        signed = hmac.new(rule.key.encode(), f"{parts['sr']}\n{parts['se']}".encode(), hashlib.sha256).digest()
        if not hmac.compare_digest(unquote(parts["sig"]), base64.b64encode(signed).decode()):
            return 401
        resource = unquote(parts["sr"]).split("://")[1].partition("/")
        if resource[0].partition(":")[0] != "127.0.0.1" or resource[2].strip("/") not in ("", path):
            return 403
        return None if right in rule.rights else 403

    async def _listen(self, request: web.Request) -> web.StreamResponse:
        path = request.match_info["path"]
        token = request.headers.get("ServiceBusAuthorization") or request.query.get("sb-hc-token")
        if refused := self.refusal(token, path, "Listen"):
            return web.Response(status=refused)
        socket = web.WebSocketResponse()
        await socket.prepare(request)
        self._listeners[path] = socket
        self.listening.set()
        answered: dict[str, Any] = {}
        async for message in socket:
            if message.type is WSMsgType.TEXT and "response" in (frame := json.loads(message.data)):
                answered = frame["response"]
                if not answered.get("body"):
                    self._waiting.pop(answered["requestId"]).set_result((answered, b""))
            elif message.type is WSMsgType.BINARY:
                self._waiting.pop(answered["requestId"]).set_result((answered, message.data))
        self._listeners.pop(path, None)
        return socket

    async def _relay(self, request: web.Request) -> web.StreamResponse:
        path, token = request.match_info["path"], request.headers.get("ServiceBusAuthorization")
        self.tokens.append(token or "")
        if path not in self._paths:
            return web.Response(status=404, text="Endpoint does not exist.")
        if refused := self.refusal(token, path, "Send"):
            return web.Response(status=refused, text=f"{'Malformed or wrong' if refused == 401 else 'Weak'}: {token}")
        listener = self._listeners.get(path)
        if listener is None:
            return web.Response(status=404, text="There are no listeners connected for the endpoint.")
        id, body = str(uuid.uuid4()), await request.read()
        future = self._waiting[id] = asyncio.get_running_loop().create_future()
        headers = {name: value for name, value in request.headers.items() if name.lower() not in _OWN}
        frame = {
            "address": f"ws://127.0.0.1:{self.port}/$hc/{path}?sb-hc-action=request&sb-hc-id={id}",
            "id": id,
            "requestTarget": request.raw_path,
            "method": request.method,
            "remoteEndpoint": {"address": "127.0.0.1", "port": 1},
            "requestHeaders": headers,
            "body": bool(body),
        }
        await listener.send_str(json.dumps({"request": frame}))
        if body:
            await listener.send_bytes(body)
        answer, content = await future
        return web.Response(status=int(answer["statusCode"]), body=content)


def claims(token: str) -> dict[str, str]:
    """The claims of a token."""
    return {name: values[0] for name, values in parse_qs(token.removeprefix("SharedAccessSignature ")).items()}
