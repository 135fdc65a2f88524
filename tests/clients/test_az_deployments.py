"""`az deployment group`, unmodified: a template with parameters, variables, copies and outputs makes resources here."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.clients.az import Az
from tests.clients.webhook import Webhook

pytestmark = [pytest.mark.xdist_group("az"), pytest.mark.slow]

TEMPLATE: dict[str, Any] = {
    "$schema": "https://schema.management.azure.com/schemas/2019-04-01/deploymentTemplate.json#",
    "contentVersion": "1.0.0.0",
    "parameters": {
        "topic": {"type": "string", "minLength": 3},
        "hook": {"type": "securestring"},
        "kinds": {"type": "array", "defaultValue": ["Created", "Paid"]},
    },
    "variables": {"topicId": "[resourceId('Microsoft.EventGrid/topics', parameters('topic'))]"},
    "resources": [
        {
            "type": "Microsoft.EventGrid/topics/eventSubscriptions",
            "apiVersion": "2022-06-15",
            "name": "[format('{0}/{1}', parameters('topic'), toLower(parameters('kinds')[copyIndex()]))]",
            "copy": {"name": "subscriptions", "count": "[length(parameters('kinds'))]"},
            "dependsOn": ["[variables('topicId')]"],
            "properties": {
                "destination": {"endpointType": "WebHook", "properties": {"endpointUrl": "[parameters('hook')]"}},
                "filter": {"includedEventTypes": ["[concat('Order.', parameters('kinds')[copyIndex()])]"]},
            },
        },
        {
            "type": "Microsoft.EventGrid/topics",
            "apiVersion": "2022-06-15",
            "name": "[parameters('topic')]",
            "location": "[resourceGroup().location]",
            "tags": {"made-by": "[deployment().name]"},
        },
    ],
    "outputs": {
        "endpoint": {"type": "string", "value": "[reference(variables('topicId')).endpoint]"},
        "key": {"type": "string", "value": "[listKeys(variables('topicId'), '2022-06-15').key1]"},
    },
}


def test_a_template_is_deployed(signed_in: Az, hook: Webhook, tmp_path: Path) -> None:
    """create makes the resources, what-if then finds nothing to do, and a wrong template is refused."""
    az = signed_in
    az("group create -n az-deployments -l local")
    file = tmp_path / "template.json"
    file.write_text(json.dumps(TEMPLATE), "utf-8")
    given = ("topic=az-deployed", f"hook={hook.url('deployed')}")
    line = "deployment group {} -g az-deployments -n first --template-file {} --parameters {} {}"
    made = az(line, "create", str(file), *given)["properties"]
    assert made["provisioningState"] == "Succeeded"
    assert made["parameters"]["topic"]["value"] == "az-deployed"
    assert "value" not in made["parameters"]["hook"] or made["parameters"]["hook"]["value"] is None
    assert made["outputs"]["endpoint"]["value"].endswith("/topics/az-deployed/api/events")
    assert len(made["outputs"]["key"]["value"]) == 44
    assert len(hook.handshakes("deployed")) == 2
    again = az(f"{line} --no-pretty-print", "what-if", str(file), *given)
    assert [change["changeType"] for change in again["changes"]] == ["NoChange"] * 3
    file.write_text(json.dumps(TEMPLATE).replace("toLower", "toLowr"), "utf-8")
    said = az.fails(line, "create", str(file), *given)
    assert "tolowr() is not known. Did you mean 'tolower'?" in said
