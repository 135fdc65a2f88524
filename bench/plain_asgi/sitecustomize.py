"""A server whose publish route is served by plain ASGI, without the express lane; Python imports this at start.

It is on the PYTHONPATH of a server under test: the product has no switch for it, since no user wants it slower.
"""

from typing import Any

from recapito.api.server import fast_publish
from recapito.api.server.protocol import HttpProtocol


class PlainProtocol(HttpProtocol):
    """The server's own, made like the one with the express lane in front."""

    def __init__(self, route: object, **arguments: Any) -> None:
        super().__init__(**arguments)


fast_publish.FastPublishProtocol = PlainProtocol  # type: ignore[assignment,misc]
