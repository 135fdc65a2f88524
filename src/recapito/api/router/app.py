"""The ASGI application of a standby: three paths of its own, everything else forwarded to the owner."""

from collections.abc import Callable
from hmac import compare_digest
from typing import Any

import msgspec
from starlette.types import ASGIApp, Receive, Scope, Send

from recapito.api.auth.access import Access
from recapito.api.auth.management import check_near
from recapito.api.errors import Forbidden
from recapito.api.operate.cluster_metrics import CLUSTER_TABLE, FORWARDS, add_cluster
from recapito.api.operate.metric_table import READY
from recapito.api.operate.prometheus_text import CONTENT_TYPE, PrometheusText, labels
from recapito.api.publish.authenticate import bearer_of
from recapito.api.router.forward import Forwarder
from recapito.domain.cluster.view import ClusterView

_JSON = "application/json; charset=utf-8"


def make_standby(forwarder: Forwarder, view: Callable[[], ClusterView], access: Access) -> ASGIApp:
    """Health, readiness and metrics of this node, and the owner's answers to everything else."""

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        assert scope["type"] == "http"
        path = scope["path"] if scope["method"] in ("GET", "HEAD") else ""
        if path == "/healthz":
            await _answer(send, scope, 200, _JSON, msgspec.json.encode({"status": "ok"}))
        elif path == "/readyz":
            status, body = readiness(view(), _may_see(scope, access))
            await _answer(send, scope, status, _JSON, msgspec.json.encode(body))
        elif path == "/metrics":
            if _may_see(scope, access):
                await _answer(send, scope, 200, CONTENT_TYPE, _metrics(view(), forwarder))
            else:
                body = {"error": {"code": "Unauthorized", "message": "Send the scrape token as a bearer token."}}
                await _answer(send, scope, 401, _JSON, msgspec.json.encode(body))
        else:
            await forwarder(scope, receive, send)

    return app


def readiness(view: ClusterView, details: bool) -> tuple[int, dict[str, Any]]:
    """Ready while an owner is known; the problems of the cluster are warnings here, and failures at the owner."""
    ready = bool(view.owner)
    body: dict[str, Any] = {"status": "ready" if ready else "not ready"}
    if details:
        owner = f"ok: node '{view.owner}' owns" if ready else "no owner: wait, or look at `recapito cluster status`"
        body |= {"node": view.node, "state": view.state, "checks": {"owner": owner, **view.problems}}
    return (200 if ready else 503), body


def _may_see(scope: Scope, access: Access) -> bool:
    """Whether a caller may see metrics and details: with the scrape token, or from this machine where that is open."""
    token = bearer_of(dict(scope["headers"])) or ""
    if not access.status_authenticated:
        return True
    if access.scrape_token and compare_digest(token.encode("latin-1"), access.scrape_token.encode("latin-1")):
        return True
    if not access.open_to_loopback:
        return False
    try:
        check_near(scope, access.near)
    except Forbidden:
        return False
    return True


def _metrics(view: ClusterView, forwarder: Forwarder) -> bytes:
    metrics = PrometheusText((READY, *CLUSTER_TABLE))
    metrics.add(READY, int(bool(view.owner)), labels({"check": "owner"}))
    add_cluster(metrics, view)
    counts = forwarder.counts
    for outcome in ("forwarded", "unsent", "unknown"):
        metrics.add(FORWARDS, getattr(counts, outcome), labels({"outcome": outcome}))
    return b"".join(metrics.to_parts())


async def _answer(send: Send, scope: Scope, status: int, kind: str, body: bytes) -> None:
    headers = [(b"content-type", kind.encode()), (b"content-length", b"%d" % len(body))]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body if scope["method"] != "HEAD" else b""})
