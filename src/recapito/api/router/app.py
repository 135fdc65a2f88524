"""The ASGI applications of a standby and of a router: a few paths of their own, everything else forwarded to owners."""

from collections.abc import Awaitable, Callable, Mapping
from hmac import compare_digest
from typing import Any

import msgspec
from starlette.types import ASGIApp, Receive, Scope, Send

from recapito.api.auth.access import Access
from recapito.api.auth.management import check_near
from recapito.api.errors import Forbidden
from recapito.api.operate.cluster_metrics import CLUSTER_TABLE, FORWARDS, add_cluster
from recapito.api.operate.metric_table import READY
from recapito.api.operate.prometheus_text import CONTENT_TYPE, Metric, PrometheusText, labels
from recapito.api.publish.authenticate import bearer_of
from recapito.api.router.forward import ForwardCounts, Forwarder, GatheredAnswer
from recapito.api.router.histories import HistoryDesk
from recapito.api.router.partitions import PartitionRouter
from recapito.api.router.relabel import SHOWN_BY_ROUTER, Relabelled
from recapito.domain.cluster.member import NodeState
from recapito.domain.cluster.view import ClusterView

_JSON = "application/json; charset=utf-8"
_NO_TOKEN = msgspec.json.encode(
    {"error": {"code": "Unauthorized", "message": "Send the scrape token as a bearer token."}}
)


def make_standby(
    forwarder: Forwarder, view: Callable[[], ClusterView], access: Access, histories: HistoryDesk
) -> ASGIApp:
    """Health, readiness, metrics and history of this node, and the owner's answers to everything else."""

    async def ready(scope: Scope, details: bool) -> tuple[int, dict[str, Any]]:
        return readiness(view(), details)

    async def metrics(scope: Scope) -> bytes:
        return _metrics(view(), forwarder.counts, CLUSTER_TABLE)

    return _make_app(forwarder, access, ready, metrics, histories)


def make_router(
    router: PartitionRouter, view: Callable[[], ClusterView], access: Access, histories: HistoryDesk
) -> ASGIApp:
    """Health, readiness, metrics and history of this node's partitions, and the partitions' answers to the rest."""

    async def ready(scope: Scope, details: bool) -> tuple[int, dict[str, Any]]:
        near = await router.near(scope, scope["path"])
        return readiness_of_all(view(), near, details)

    async def metrics(scope: Scope) -> bytes:
        relabelled = Relabelled(_metrics(view(), router.counts, SHOWN_BY_ROUTER))
        for number, answer in (await router.near(scope, scope["path"])).items():
            if answer is not None and answer.status == 200:
                relabelled.add(answer.body, number)
        return relabelled.to_bytes()

    return _make_app(router, access, ready, metrics, histories)


def _make_app(
    rest: ASGIApp,
    access: Access,
    ready: Callable[[Scope, bool], Awaitable[tuple[int, dict[str, Any]]]],
    metrics: Callable[[Scope], Awaitable[bytes]],
    histories: HistoryDesk,
) -> ASGIApp:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        assert scope["type"] == "http"
        path = scope["path"] if scope["method"] in ("GET", "HEAD") else ""
        if path == "/healthz":
            await _answer(send, scope, 200, _JSON, msgspec.json.encode({"status": "ok"}))
        elif path == "/readyz":
            status, body = await ready(scope, _may_see(scope, access))
            await _answer(send, scope, status, _JSON, msgspec.json.encode(body))
        elif path == "/metrics" and not _may_see(scope, access):
            await _answer(send, scope, 401, _JSON, _NO_TOKEN)
        elif path == "/metrics":
            await _answer(send, scope, 200, CONTENT_TYPE, await metrics(scope))
        elif histories.is_asked(scope):
            await histories(scope, receive, send)
        else:
            await rest(scope, receive, send)

    return app


def readiness_of_all(
    view: ClusterView, near: Mapping[int, GatheredAnswer | None], details: bool
) -> tuple[int, dict[str, Any]]:
    """Ready while every partition has an owner, and those that this node owns are ready; with their warnings."""
    checks = {}
    warnings: dict[str, str] = view.warnings
    of_cluster = {f"cluster {name}" for name in view.warnings}  # each partition tells them too
    for partition in view.partitions:
        answer = near.get(partition.number)
        if not partition.owner:
            checks[partition.number] = _no_owner(view)
        elif partition.owner != view.node:
            continue
        elif answer is None or answer.status != 200:
            checks[partition.number] = _why(answer)
        else:
            own = {name: reason for name, reason in _failing(answer).items() if name not in of_cluster}
            warnings |= {f"partition {partition.number} {name}": reason for name, reason in own.items()}
    ready = bool(view.partitions) and not checks
    body: dict[str, Any] = {"status": "not ready" if not ready else "degraded" if warnings else "ready"}
    if details:
        owners = {
            f"partition {each.number}": checks.get(each.number, f"ok: node '{each.owner}' owns")
            for each in view.partitions
        }
        checked = {**owners, **warnings, **view.problems}
        body |= {"node": view.node, "state": view.state, "checks": checked}
    return (200 if ready else 503), body


def _why(answer: GatheredAnswer | None) -> str:
    """The reasons why a partition is not ready."""
    if answer is None:
        return "it starts, or does not answer"
    return "; ".join(f"{name}: {reason}" for name, reason in _failing(answer).items()) or "not ready"


def _failing(answer: GatheredAnswer) -> dict[str, str]:
    """The checks of a partition that fail or warn, as its intake tells them."""
    checks = msgspec.json.decode(answer.body, type=dict[str, Any]).get("checks", {})
    return {name: reason for name, reason in checks.items() if reason != "ok"}


def readiness(view: ClusterView, details: bool) -> tuple[int, dict[str, Any]]:
    """Ready while an owner is known; all problems of the cluster are warnings here."""
    ready = bool(view.owner)
    body: dict[str, Any] = {"status": "ready" if ready else "not ready"}
    if details:
        owner = f"ok: node '{view.owner}' owns" if ready else _no_owner(view)
        body |= {"node": view.node, "state": view.state, "checks": {"owner": owner, **view.problems}}
    return (200 if ready else 503), body


def _no_owner(view: ClusterView) -> str:
    if view.members and set(view.members.values()) == {NodeState.DRAINED}:
        return "no owner: every node is drained, which `recapito cluster drain NODE --undo` ends"
    return "no owner: wait, or look at `recapito cluster status`"


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


def _metrics(view: ClusterView, counts: ForwardCounts, table: tuple[Metric, ...]) -> bytes:
    metrics = PrometheusText((READY, *table))
    metrics.add(READY, int(bool(view.owner)), labels({"check": "owner"}))
    add_cluster(metrics, view, table)
    for outcome in ("forwarded", "unsent", "unknown"):
        metrics.add(FORWARDS, getattr(counts, outcome), labels({"outcome": outcome}))
    return b"".join(metrics.to_parts())


async def _answer(send: Send, scope: Scope, status: int, kind: str, body: bytes) -> None:
    headers = [(b"content-type", kind.encode()), (b"content-length", b"%d" % len(body))]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body if scope["method"] != "HEAD" else b""})
