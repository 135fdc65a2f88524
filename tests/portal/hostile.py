"""Texts that would run if a page took them for anything but text, and an endpoint that answers with all of them."""

from collections.abc import Iterator
from contextlib import closing, contextmanager

from tests.kit.http_server import CannedReply, LoopbackServer

RAN = "window.__ran"
CORPUS = (
    "<script>window.__ran=1</script>",
    '<img src=x onerror="window.__ran=1">',
    '"><svg onload=window.__ran=1>',
    "</script><script>window.__ran=1</script>",
    "</textarea><iframe srcdoc='<script>parent.__ran=1</script>'>",
    "{{ window.__ran = 1 }} ${window.__ran=1} `window.__ran=1`",
    "{{constructor.constructor('window.__ran=1')()}}",
    'x" :onclick="window.__ran=1" v-html="1',
    "javascript:window.__ran=1",
    "<a href=javascript:alert(1)>alert</a><b style=background:url(//evil.example)>",
)


@contextmanager
def hostile() -> Iterator[str]:
    """The URL of an endpoint that refuses every event, with the whole corpus as its reason."""
    reply = CannedReply(400, "\n".join(CORPUS).encode())
    with closing(LoopbackServer(lambda request: reply)) as server:
        yield f"{server.url}/refuse"
