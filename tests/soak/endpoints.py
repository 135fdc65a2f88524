"""Endpoints for a soak: one that is always well, one that fails now and then, two that refuse some events for good."""

import zlib

from tests.kit.http_server import ArrivedRequest, CannedReply, LoopbackServer
from tests.soak.books import Books

PATHS = ("steady", "moody", "refusing", "buried")
MOODY = 40  # of so many first attempts one fails
REFUSED = 10  # of so many events one is refused


class Endpoints:
    """All of them on one port. Whatever ends a delivery at its endpoint, a refusal too, is entered in the books."""

    def __init__(self, books: Books) -> None:
        self._books = books
        self._seen: set[str] = set()
        self._server = LoopbackServer(self._take)

    def _take(self, request: ArrivedRequest) -> CannedReply:
        return CannedReply(self.answer(request.path.strip("/"), [event["id"] for event in request.events]))

    def url(self, path: str) -> str:
        """The URL of the endpoint at a path."""
        return f"{self._server.url}/{path}"

    def answer(self, path: str, ids: list[str]) -> int:
        """The status of the endpoint at a path for these events."""
        if path == "moody" and self._fails(ids):
            return 500
        self._books.arrive(path, ids)
        return 400 if path in ("refusing", "buried") and _drawn(ids, REFUSED) else 200

    def _fails(self, ids: list[str]) -> bool:
        """The first attempt of some events fails, the second is fine; never enough in a row for a hold."""
        first = ids[0]
        with self._books.lock:
            fails = _drawn(ids, MOODY) and first not in self._seen
            if fails:
                self._seen.add(first)
        return fails

    def close(self) -> None:
        self._server.close()


def _drawn(ids: list[str], of: int) -> bool:
    return zlib.crc32(ids[0].encode()) % of == 0
