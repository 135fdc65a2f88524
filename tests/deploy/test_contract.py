"""The contract of the image, as the guide states it: the Containerfile, the recipes and the manifests keep it."""

import ast
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from deploy.container import oci
from recapito.settings import settings
from tests.guides.page import PAGES, block
from tests.kit.launch import program

ROOT = Path(__file__).parents[2]
GUIDE = PAGES["containers"].read_text("utf-8")
CONTAINERFILE = (ROOT / "deploy/container/Containerfile").read_text("utf-8")
CONFIG = oci.config_of(oci.instructions(CONTAINERFILE))
VARIABLES = dict(text.split("=", 1) for text in CONFIG["Env"])
PATIENCE_S = 60


def row(part: str) -> str:
    """The value of a row of the contract."""
    [found] = re.findall(rf"^\| {part} \| (.+) \|$", GUIDE, re.MULTILINE)
    return str(found)


def test_the_contract_is_that_of_the_image() -> None:
    """Ports, user, volume, mounted files and variables of the guide are those of the image's configuration."""
    ports = [re.findall(r"`(\d+)`", row(part))[0] for part in ("API", "portal")]
    assert [f"{port}/tcp" for port in ports] == list(CONFIG["ExposedPorts"])
    assert row("user") == f"`{CONFIG['User']}`"
    assert f"`{VARIABLES['RECAPITO_SETTINGS']}`" in row("settings")
    assert f"`{VARIABLES['RECAPITO_SERVER_DATA']}`" in row("data") and list(CONFIG["Volumes"]) == ["/var/lib/recapito"]
    ours = {name: value for name, value in VARIABLES.items() if name.startswith("RECAPITO_")}
    chosen = settings.load(ROOT / "deploy/container/recapito.toml", {**ours, "RECAPITO_DEV": "1"})
    assert [str(chosen.server.port), str(chosen.portal.port)] == ports and chosen.server.development
    assert f"`{chosen.estate.file}`" in row("set-up")
    [(copied, folder)] = re.findall(r"^COPY (.*recapito\.toml .*) (/\S+)$", CONTAINERFILE, re.MULTILINE)
    assert f"{folder}{Path(copied.split()[1]).name}" == chosen.estate.file


@pytest.mark.parametrize("language", ["python", "csharp", "java", "go"])
def test_the_recipes_keep_the_contract(language: str) -> None:
    """Each recipe names the image, the port, the URL of readiness and the variable of development mode."""
    recipe = block("containers", language, "recapito:latest")
    for part in ("8585", "/readyz", '"RECAPITO_DEV"', '"1"'):
        assert part in recipe
    if language == "python":
        ast.parse(recipe)


def rendered(name: str) -> dict[tuple[str, str], dict[str, Any]]:
    """The objects of a variant, by kind and name without the hash of its content."""
    kubectl = program("kubectl", "install kubernetes-client")
    folder = ROOT / "deploy" / "kubernetes" / name
    done = subprocess.run([kubectl, "kustomize", str(folder)], capture_output=True, text=True, timeout=PATIENCE_S)
    assert done.returncode == 0 and not done.stderr, done.stderr
    objects = [one for one in yaml.safe_load_all(done.stdout) if one]
    return {(one["kind"], re.sub(r"-[a-z0-9]{10}$", "", one["metadata"]["name"])): one for one in objects}


@pytest.mark.parametrize(("name", "nodes"), [("base", 1), ("jetstream", 2)])
def test_the_manifests_keep_the_contract(name: str, nodes: int) -> None:
    """A pod runs as the image's user on a read-only root, with its volume, its settings and its probes."""
    objects = rendered(name)
    spec = objects["StatefulSet", "recapito"]["spec"]
    pod, [container] = spec["template"]["spec"], spec["template"]["spec"]["containers"]
    assert spec["replicas"] == nodes and spec["serviceName"] == "recapito"
    assert str(pod["securityContext"]["runAsUser"]) == CONFIG["User"] and pod["enableServiceLinks"] is False
    assert container["securityContext"]["readOnlyRootFilesystem"] is True
    assert {f"{port['containerPort']}/tcp" for port in container["ports"]} == set(CONFIG["ExposedPorts"])
    assert container["readinessProbe"]["httpGet"]["path"] == "/readyz"
    mounts = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
    assert (
        mounts["data"] in CONFIG["Volumes"] and f"{mounts['settings']}/recapito.toml" == VARIABLES["RECAPITO_SETTINGS"]
    )
    assert [claim["metadata"]["name"] for claim in spec["volumeClaimTemplates"]] == ["data"]
    service = objects["Service", "recapito"]["spec"]
    assert service["selector"].items() <= spec["template"]["metadata"]["labels"].items()
    text = objects["ConfigMap", "recapito-settings"]["data"]["recapito.toml"]
    assert "[server]" in text


def test_the_settings_of_the_manifests_are_settings() -> None:
    """The server takes the settings file of the base."""
    chosen = settings.load(ROOT / "deploy/kubernetes/base/recapito.toml", {})
    assert chosen.public_url == "http://recapito:8585"


def test_the_nodes_know_all_nats_servers() -> None:
    """The store of a node names every NATS server of the variant, and these find each other and sync each commit."""
    objects = rendered("jetstream")
    count = objects["StatefulSet", "nats"]["spec"]["replicas"]
    [container] = objects["StatefulSet", "recapito"]["spec"]["template"]["spec"]["containers"]
    given = {variable["name"]: variable.get("value", "") for variable in container["env"]}
    store, conf = given["RECAPITO_SERVER_STORE"], objects["ConfigMap", "nats-config"]["data"]["nats.conf"]
    for number in range(count):
        assert f"nats-{number}.nats:4222" in store and f"nats-{number}.nats:6222" in conf
    assert "sync_interval: always" in conf
