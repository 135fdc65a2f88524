"""Our own command line beside az: the same words do the same, and show the same."""

import json
import os
import subprocess
import sys
from typing import Any

import pytest

from tests.clients.az import Az
from tests.clients.service import SUBSCRIPTION, Service
from tests.clients.webhook import Webhook

pytestmark = [pytest.mark.xdist_group("az"), pytest.mark.slow]
GROUP = f"/subscriptions/{SUBSCRIPTION}/resourceGroups/alike/providers"
TOPIC = f"{GROUP}/Microsoft.EventGrid/topics"
CONTAINER = f"{GROUP}/Microsoft.Storage/storageAccounts/store/blobServices/default/containers/dead"
CREATE_TOPIC = (
    "topic create -g alike -n {} -l local --tags team=red size=2 --input-schema customeventschema"
    " --input-mapping-fields id=number eventType=kind --input-mapping-default-values subject=none dataVersion=1"
    " --inbound-ip-rules 127.0.0.0/8 Allow --public-network-access enabled"
)
SUBSCRIBE = (
    "event-subscription create -n {} --source-resource-id {} --endpoint {} --endpoint-type webhook"
    " --included-event-types A B --subject-begins-with /a --subject-ends-with z --subject-case-sensitive true"
    " --advanced-filter data.n NumberInRange 1,10 20,30 --advanced-filter data.c StringIn red blue"
    " --advanced-filter data.b BoolEquals true --advanced-filter data.x IsNotNull"
    " --enable-advanced-filtering-on-arrays true --max-events-per-batch 10 --preferred-batch-size-in-kilobytes 128"
    " --max-delivery-attempts 5 --event-ttl 60 --deadletter-endpoint {} --labels one two"
    " --delivery-attribute-mapping X-Key static s true --delivery-attribute-mapping X-Kind dynamic kind"
    " --expiration-date 2100-01-31T12:00:00Z"
)


@pytest.fixture(scope="module")
def az_alone(recapito: Service, tmp_path_factory: pytest.TempPathFactory) -> Az:
    """Another az, signed in."""
    az = Az(recapito, tmp_path_factory.mktemp("az-alike"))
    az("cloud register -n Recapito --endpoint-resource-manager {}", recapito.url)
    az("cloud set -n Recapito")
    az("login --service-principal -u {} -p {} --tenant {}", *recapito.principal[1:], recapito.principal[0])
    return az


def ours(recapito: Service, line: str, *values: str) -> Any:
    """The same line, given to our command line."""
    remaining = iter(values)
    words = [next(remaining) if word == "{}" else word for word in line.split()]
    environment = {**os.environ, **recapito.trust, "RECAPITO_SERVER": recapito.url, "RECAPITO_CONFIG": "/dev/null"}
    command = [sys.executable, "-m", "recapito", *words]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=60)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout) if done.stdout else None


def leaves(value: Any, path: str = "") -> dict[str, Any]:
    """The values by their paths; nulls are left out, and times are written in two ways."""
    if isinstance(value, dict):
        return {key: leaf for name, one in value.items() for key, leaf in leaves(one, f"{path}.{name}").items()}
    if isinstance(value, list):
        return {key: leaf for n, one in enumerate(value) for key, leaf in leaves(one, f"{path}[{n}]").items()}
    if value is None or path.startswith(".systemData") or path.endswith("TimeUtc"):
        return {}
    return {path: value}


def test_the_same_words_do_the_same(az_alone: Az, recapito: Service, hook: Webhook) -> None:
    """A topic and a subscription made by az and by us with the same words are alike, and both show either alike."""
    az_alone(f"eventgrid {CREATE_TOPIC}", "by-az")
    ours(recapito, CREATE_TOPIC, "by-us")
    for name in ("by-az", "by-us"):
        shown = ours(recapito, "topic show -g alike -n {}", name)
        assert leaves(shown) == leaves(az_alone("eventgrid topic show -g alike -n {}", name))
    values = (f"{TOPIC}/by-az", f"{hook.url('alike')}?code=1", CONTAINER)
    az_alone(f"eventgrid {SUBSCRIBE}", "by-az", *values)
    ours(recapito, SUBSCRIBE, "by-us", *values)
    show = "event-subscription show -n {} --source-resource-id {} --include-full-endpoint-url true"
    both = [leaves(ours(recapito, show, name, values[0])) for name in ("by-az", "by-us")]
    assert both[0] == leaves(az_alone(f"eventgrid {show}", "by-az", values[0]))
    assert {key: value for key, value in both[0].items() if value != "by-az" and key != ".id"} == {
        key: value for key, value in both[1].items() if value != "by-us" and key != ".id"
    }
    listed = ours(recapito, "event-subscription list --source-resource-id {}", values[0])
    assert [leaves(one) for one in listed] == [
        leaves(one) for one in az_alone("eventgrid event-subscription list --source-resource-id {}", values[0])
    ]
