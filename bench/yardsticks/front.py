"""The HTTP front of a yardstick: checks the key, reads the JSON, enqueues the event, and answers when Redis has it.

`python -m bench.yardsticks.front taskiq|celery` prints its port.
"""

import importlib
import json
import secrets
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

KEY = "bench"


def make_app(queue: Any) -> Starlette:
    """The front of a queue, which is a module with `enqueue`, `start` and `stop`."""

    async def publish(request: Request) -> Response:
        if not secrets.compare_digest(request.headers.get("aeg-sas-key", ""), KEY):
            return Response(status_code=401)
        body = await request.body()
        if not isinstance(json.loads(body), list):
            return Response(status_code=400)
        await queue.enqueue(body.decode())
        return Response(status_code=200)

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        await queue.start()
        yield
        await queue.stop()

    return Starlette(routes=[Route("/publish", publish, methods=["POST"])], lifespan=lifespan)


def main() -> None:
    """Serve until told to stop."""
    app = make_app(importlib.import_module(f"bench.yardsticks.{sys.argv[1]}_queue"))
    with socket.create_server(("127.0.0.1", 0), backlog=2048) as listener:
        print(listener.getsockname()[1], flush=True)
        config = uvicorn.Config(app, loop="uvloop", http="httptools", ws="none", access_log=False, log_level="warning")
        uvicorn.Server(config).run(sockets=[listener])


if __name__ == "__main__":
    main()
