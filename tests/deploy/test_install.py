"""The install: the core is small, runs alone, and names the extra that it lacks; the metadata is complete."""

import email
import json
import os
import re
import subprocess
import tarfile
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from recapito.extras import LIBRARIES, MissingExtra, require
from tests.deploy.core_install import ROOT, FreshEnvironment, build, core_requirements
from tests.system.machine import GROUP, VERSION, Server

MOST_PACKAGES = 26  # Recapito and 25 others
MOST_BYTES = 60 * 1024 * 1024
PATIENCE_S = 120
ACCOUNT = GROUP.replace("Microsoft.EventGrid", "Microsoft.Storage/storageAccounts/orders")
QUEUE = {"endpointType": "StorageQueue", "properties": {"resourceId": ACCOUNT, "queueName": "orders"}}
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The built wheel; the source distribution is beside it."""
    return build(tmp_path_factory.mktemp("dist"))


@pytest.fixture(scope="module")
def core(built: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[FreshEnvironment]:
    """An environment with the core alone."""
    environment = FreshEnvironment(tmp_path_factory.mktemp("core") / "venv")
    environment.install_wheel(built)
    environment.copy(*core_requirements(environment.packages))
    yield environment


@pytest.mark.xdist_group("install")
def test_the_core_is_small(core: FreshEnvironment) -> None:
    """It has at most 25 packages besides Recapito, and 60 MB."""
    names, size = core.names(), core.size()
    print(f"{len(names)} packages, {size / 1024 / 1024:.1f} MB")
    assert len(names) <= MOST_PACKAGES, sorted(names)
    assert size <= MOST_BYTES


@pytest.mark.xdist_group("install")
def test_the_core_serves_and_names_what_it_lacks(core: FreshEnvironment, tmp_path: Path) -> None:
    """A server runs without the portal and says so; a storage queue is refused with the extra that it needs."""
    environment = {"RECAPITO_PORTAL_ENABLED": "true"}
    server = Server(tmp_path / "data", "--azurite", environment=environment, python=str(core.python))
    try:
        assert server.call("GET", f"{GROUP}/topics/demo?{VERSION}")["name"] == "demo"
        path = f"{GROUP}/topics/demo/providers/Microsoft.EventGrid/eventSubscriptions/orders?{VERSION}"
        status, answer = server.request("PUT", path, json.dumps({"properties": {"destination": QUEUE}}).encode())
        assert status == 400 and b"pip install 'recapito[azure]'" in answer
    finally:
        server.stop()
    assert any("there is no portal" in line and "pip install 'recapito[portal]'" in line for line in server.journal)


@pytest.mark.xdist_group("install")
@pytest.mark.parametrize(
    ("flags", "environment", "extra"),
    [
        (["--portal-port", "0"], {"RECAPITO_PORTAL_ENABLED": "true"}, "portal"),
        (["--no-portal", "--memory"], {"RECAPITO_TELEMETRY_OTLP_ENDPOINT": "http://127.0.0.1:1/v1/traces"}, "otel"),
        (["--no-portal", "--memory"], {"RECAPITO_DELIVERY_WEBHOOK_TOKENS": "entra"}, "azure"),
    ],
)
def test_a_server_that_needs_an_extra_ends(
    core: FreshEnvironment, tmp_path: Path, flags: list[str], environment: dict[str, str], extra: str
) -> None:
    """A setting that needs an extra ends the server with the command that installs the extra."""
    command = [core.python, "-m", "recapito", "serve", "--port", "0", "--data", tmp_path, *flags]
    variables = {**os.environ, **environment}
    ended = subprocess.run(command, env=variables, capture_output=True, text=True, timeout=PATIENCE_S)
    assert ended.returncode == os.EX_CONFIG and f"pip install 'recapito[{extra}]'" in ended.stderr


@pytest.mark.xdist_group("install")
def test_a_backup_that_needs_an_extra_ends(core: FreshEnvironment) -> None:
    """A backup to a blob container ends with the command that installs the extra, before anything is copied."""
    command = [core.python, "-m", "recapito", "backup", "https://safe.blob.core.windows.net/backups?sig=hidden"]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S)
    assert ended.returncode == os.EX_CONFIG and "pip install 'recapito[azure]'" in ended.stderr
    assert "hidden" not in ended.stderr


@pytest.mark.xdist_group("install")
def test_the_plugin_alone_runs_the_sample_project(core: FreshEnvironment) -> None:
    """With pytest and the sample's own requirement beside the core, all tests of the sample pass."""
    core.copy("pytest", "azure-eventgrid")
    command = [core.python, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    done = subprocess.run(
        command, cwd=ROOT / "examples" / "orders-service", capture_output=True, text=True, timeout=PATIENCE_S
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.xdist_group("install")
def test_the_metadata_of_the_wheel(core: FreshEnvironment) -> None:
    """The page of a package index has absolute links only, and every URL, classifier and extra is there."""
    (file,) = core.packages.glob("recapito-*.dist-info/METADATA")
    metadata = email.message_from_string(file.read_text("utf-8"))
    assert set(PROJECT["optional-dependencies"]) == set(metadata.get_all("Provides-Extra") or ())
    assert {"Framework :: Pytest", "Typing :: Typed"} <= set(metadata.get_all("Classifier") or ())
    assert len(metadata.get_all("Project-URL") or ()) == 4
    page = metadata.get_payload()
    assert isinstance(page, str)
    links = re.findall(r"\]\(([^)]+)\)", page)
    assert links and all(link.startswith("https://") for link in links)


@pytest.mark.xdist_group("install")
def test_the_source_distribution_has_what_it_needs(built: Path) -> None:
    """It has the package, the README and the licence, and neither tests nor documents."""
    (archive,) = built.parent.glob("*.tar.gz")
    with tarfile.open(archive) as content:
        tops = {name.split("/")[1] for name in content.getnames()}
    assert {"src", "README.md", "LICENSE", "pyproject.toml"} <= tops and not {"tests", "docs"} & tops


def test_the_locked_requirements_are_those_of_the_package() -> None:
    """`requirements/run.in` names the core and all extras, besides the tools that build and the bound of the tests."""
    extras = [line for name, lines in PROJECT["optional-dependencies"].items() if name != "all" for line in lines]
    lines = (ROOT / "requirements" / "run.in").read_text("utf-8").splitlines()
    locked = {str(Requirement(line)) for line in lines if not line.startswith("#")}
    besides = {line for line in locked if re.match("editables|hatch|docutils", line)}
    assert locked - besides == {str(Requirement(line)) for line in [*PROJECT["dependencies"], *extras]}


def test_every_extra_has_its_libraries() -> None:
    """Each extra of the package can be required by name; `fast` is never required, `all` is the sum."""
    assert set(LIBRARIES) == set(PROJECT["optional-dependencies"]) - {"fast", "all"}


def test_a_missing_library_is_a_missing_extra() -> None:
    """The extra is missing if one of its libraries is, or the package that the library is in."""

    def in_no_package(module: str) -> object:
        raise ModuleNotFoundError(module)

    require("otel", "never said", find=lambda module: module)
    for find in (lambda module: None, in_no_package):
        with pytest.raises(MissingExtra, match=r"Traces cannot be sent: .*pip install 'recapito\[otel\]'"):
            require("otel", "Traces cannot be sent", find=find)
