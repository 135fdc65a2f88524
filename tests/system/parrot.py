"""An endpoint that repeats each request to the reader of its answers: nothing of that may get further."""

import json
import re
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any

from tests.kit.http_server import ArrivedRequest, CannedReply, LoopbackServer

_SIGNED = ("authorization", "servicebusauthorization")


class Parrot:
    """Consents to subscriptions and takes events under `/fine`; under any other path it fails and repeats all it got.

    `secrets` are the validation codes that it was asked with, and the signatures that it was shown.
    """

    def __init__(self) -> None:
        self.secrets: set[str] = set()
        self.paths: list[str] = []
        self._server = LoopbackServer(self._take)
        self.port, self.url = self._server.port, self._server.url

    def _take(self, request: ArrivedRequest) -> CannedReply:
        self.paths.append(request.path.partition("?")[0])
        for name in _SIGNED:
            self.secrets |= set(re.findall(r"[\w+/%-]{20,}=*", request.headers.get(name, "")))
        code = self._code_of(request.body)
        if code is not None and not request.path.startswith("/refuse"):
            return CannedReply(200, json.dumps({"validationResponse": code}).encode())
        if request.path.startswith("/fine"):
            return CannedReply()
        return CannedReply(500 if code is None else 404, f"{request.path} {request.headers} ".encode() + request.body)

    def _code_of(self, body: bytes) -> str | None:
        try:
            (event,) = json.loads(body)
            code: Any = event["data"]["validationCode"]
            urls = event["data"]["validationUrl"]
        except (ValueError, TypeError, KeyError):
            return None
        self.secrets |= {str(code), str(urls).rpartition("=")[2]}
        return str(code)

    def close(self) -> None:
        self._server.close()


@contextmanager
def parrot() -> Iterator[Parrot]:
    """A parrot for the length of a block."""
    with closing(Parrot()) as endpoint:
        yield endpoint
