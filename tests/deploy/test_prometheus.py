"""The files in deploy/ for Prometheus and Grafana, against Debian's Prometheus and a running server."""

import json
import re
import subprocess
from pathlib import Path

import pytest
import yaml

from recapito.api.operate.cluster_metrics import CLUSTER_TABLE
from recapito.api.operate.metric_table import TABLE
from tests.deploy.prometheus import need, scraping
from tests.system.machine import receiver, server, until

DEPLOY = Path(__file__).parents[2] / "deploy"
ALERTS = DEPLOY / "prometheus" / "alerts.yml"
DASHBOARD = DEPLOY / "grafana" / "recapito.json"
SUFFIXES = {
    "counter": ["_total"],
    "gauge": [""],
    "summary": ["_sum", "_count"],
    "histogram": ["_sum", "_count", "_bucket"],
}
KNOWN = {f"{metric.name}{suffix}" for metric in (*TABLE, *CLUSTER_TABLE) for suffix in SUFFIXES[metric.type]}
PROCESS = {"process_resident_memory_bytes"}


def used_in(text: str) -> set[str]:
    """The names of our metrics in a text."""
    return set(re.findall(r"\b(?:recapito|eventgrid|process)_\w+", text))


def expressions() -> list[str]:
    """Every query of the dashboard."""
    panels = json.loads(DASHBOARD.read_text("utf-8"))["panels"]
    return [target["expr"] for panel in panels for target in panel.get("targets", [])]


def test_the_rules_pass_promtool() -> None:
    """Prometheus' own checker takes the alert rules and the example configuration."""
    for check, path in (("rules", ALERTS), ("config", DEPLOY / "prometheus" / "prometheus.yml")):
        run = subprocess.run([need("promtool"), "check", check, path], capture_output=True, text=True)
        assert run.returncode == 0, run.stdout + run.stderr


@pytest.mark.parametrize(
    ("owned", "with_owner", "alarms"),
    [
        ((2, 2), (1, 1), []),
        ((2, 3), (1, 1), ["RecapitoClusterTwoOwners"]),
        ((2, 1), (0, 0), ["RecapitoClusterWithoutOwner"]),
        ((2, 1), (0, 1), ["RecapitoClusterWithoutOwner"]),
    ],
)
def test_alarms_of_owners(owned: list[int], with_owner: list[int], alarms: list[str], tmp_path: Path) -> None:
    """Two nodes share four partitions: each has an owner, or two nodes own one, or a node knows of none for one."""
    series = [
        {"series": f'{name}{{instance="{node}"}}', "values": f"{value}x40"}
        for name, values in (
            ("recapito_cluster_partitions", (4, 4)),
            ("recapito_cluster_owned_partitions", owned),
            ("recapito_cluster_has_owner", with_owner),
        )
        for node, value in zip("ab", values, strict=True)
    ]
    rules = {
        rule["alert"]: rule for group in yaml.safe_load(ALERTS.read_text("utf-8"))["groups"] for rule in group["rules"]
    }
    asked = [
        {
            "eval_time": "5m",
            "alertname": name,
            "exp_alerts": [{"exp_labels": rules[name]["labels"], "exp_annotations": rules[name]["annotations"]}]
            if name in alarms
            else [],
        }
        for name in ("RecapitoClusterTwoOwners", "RecapitoClusterWithoutOwner")
    ]
    tests = [{"interval": "15s", "input_series": series, "alert_rule_test": asked}]
    file = tmp_path / "rules.json"
    file.write_text(json.dumps({"rule_files": [str(ALERTS)], "evaluation_interval": "15s", "tests": tests}))
    run = subprocess.run([need("promtool"), "test", "rules", file], capture_output=True, text=True)
    assert run.returncode == 0, run.stdout + run.stderr


def test_alerts_and_dashboard_use_metrics_that_are_there() -> None:
    """A metric that is renamed cannot be forgotten there."""
    alerts = used_in(ALERTS.read_text("utf-8"))
    shown = used_in(" ".join(expressions()))
    assert alerts and shown and alerts | shown <= KNOWN | PROCESS
    for query in json.loads(DASHBOARD.read_text("utf-8"))["templating"]["list"][1:]:
        assert used_in(query["query"]["query"]) <= KNOWN


def test_panels_do_not_overlap() -> None:
    """Each panel of the dashboard has its own place and its own id."""
    panels = json.loads(DASHBOARD.read_text("utf-8"))["panels"]
    taken: set[tuple[int, int]] = set()
    for place in (panel["gridPos"] for panel in panels):
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not cells & taken and place["x"] + place["w"] <= 24
        taken |= cells
    assert len({panel["id"] for panel in panels}) == len(panels)


def test_prometheus_scrapes_a_running_server(tmp_path: Path) -> None:
    """It takes all that both processes show, answers what was delivered, and every query and rule works on it."""
    need("prometheus")
    with (
        receiver() as hook,
        server(tmp_path / "data") as recapito,
        scraping(tmp_path / "prometheus", recapito.port, ALERTS) as prometheus,
    ):
        hook.answer = lambda events: 200 if events[0]["id"] < "3" else 404
        recapito.subscribe("orders", hook.url)
        recapito.subscribe("others", hook.url, filter={"includedEventTypes": ["other"]})
        for n in range(5):
            assert recapito.publish(str(n)) == 200
        assert recapito.publish_raw(b"[]x")[0] == 400
        delivered = 'eventgrid_delivery_success_count_total{topic="demo",event_subscription_name="orders"}'
        assert until(lambda: prometheus.value(delivered) == 3)
        assert until(
            lambda: prometheus.value('sum(eventgrid_delivery_attempt_fail_count_total{error="NotFound"})') == 2
        )
        assert prometheus.value('eventgrid_publish_success_count_total{topic="demo"}') == 5
        assert until(lambda: prometheus.value('eventgrid_publish_fail_count_total{error="BadRequest"}') == 1)
        assert until(lambda: (prometheus.value('recapito_commit_seconds_count{role="dispatch"}') or 0) > 0)
        assert until(lambda: (prometheus.value('recapito_loop_delay_seconds_count{role="intake"}') or 0) > 0)
        assert until(lambda: prometheus.value("recapito_lanes") == 2)
        assert prometheus.value('up{job="recapito"}') == 1
        assert prometheus.value('count(ALERTS{alertname="RecapitoDown"})') is None
        for expression in expressions():
            prometheus.query(re.sub(r"\$\w+", ".*", expression.replace("$__rate_interval", "1m")))
