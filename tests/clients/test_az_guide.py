"""The guide on moving from Azure: its az commands, as they stand but for the names of the endpoint and the cloud."""

import os
import subprocess
from pathlib import Path

import pytest

from tests.clients.az import PYTHON, Az
from tests.clients.service import Service
from tests.clients.webhook import Webhook
from tests.guides.page import block

pytestmark = [pytest.mark.xdist_group("az"), pytest.mark.slow]
PATIENCE_S = 300.0


def test_the_commands_that_made_a_workload(recapito: Service, hook: Webhook, tmp_path: Path) -> None:
    """A script that makes a topic and an event subscription in Azure makes them here."""
    az = Az(recapito, tmp_path)
    az("cloud register -n Recapito --endpoint-resource-manager {}", recapito.url)
    az("cloud set -n Recapito")
    tenant, client, secret = recapito.principal
    az("login --service-principal -u {} -p {} --tenant {}", client, secret, tenant)
    script = block("move-from-azure", "sh", "az eventgrid topic create")
    script = script.replace("https://billing.example/hook", hook.url("moved-by-az"))
    environment = {**os.environ, **recapito.trust, "AZURE_CONFIG_DIR": str(tmp_path)}
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", f'az() {{ {PYTHON} -m azure.cli "$@"; }}\n{script}'],
        env={**environment, "AZURE_CORE_COLLECT_TELEMETRY": "no", "AZURE_CORE_INSTANCE_DISCOVERY": "false"},
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )
    assert done.returncode == 0, done.stderr
    assert hook.handshakes("moved-by-az")
    topic = az("eventgrid topic show -g shop -n orders")
    [made] = az("eventgrid event-subscription list --source-resource-id {}", topic["id"])
    assert made["retryPolicy"]["maxDeliveryAttempts"] == 10
