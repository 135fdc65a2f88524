"""The container file and its composition: what can be known of them without building one."""

import gzip
import hashlib
import io
import json
import os
import re
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any

import yaml

from deploy.container import oci
from recapito.settings import settings
from tests.system.machine import server

ROOT = Path(__file__).parents[2]
CONTAINER = ROOT / "deploy" / "container"
PATIENCE_S = 60


def instructions() -> list[tuple[str, str]]:
    """The instructions of the container file, each on one line."""
    return oci.instructions((CONTAINER / "Containerfile").read_text("utf-8"))


def compose() -> dict[str, Any]:
    read: dict[str, Any] = yaml.safe_load((ROOT / "deploy" / "compose.yaml").read_text("utf-8"))
    return read


def container_environment() -> dict[str, str]:
    return dict(pair.split("=", 1) for name, text in instructions() if name == "ENV" for pair in text.split())


def test_the_image_knows_which_packages_have_no_wheel() -> None:
    """A locked package with one hash has a source distribution alone, which the image's build has to allow by name."""
    lock = (ROOT / "requirements" / "run.txt").read_text("utf-8")
    hashes = {part.split("==")[0]: part.count("--hash=") for part in re.split(r"^(?=\S)", lock, flags=re.MULTILINE)[1:]}
    assert len(hashes) > 50
    assert {name for name, count in hashes.items() if count == 1} == set(oci.SOURCES)


def test_what_is_copied_is_there() -> None:
    """Each source of COPY is in the repository, and everything that the build needs is copied."""
    copied = [text.split() for name, text in instructions() if name == "COPY" and "--from" not in text]
    sources = [word for words in copied for word in words[:-1]]
    assert sources and all((ROOT / source).exists() for source in sources)
    assert {"src", "pyproject.toml", "README.md", "LICENSE", "requirements/run.txt"} <= set(sources)


def test_it_does_not_run_as_root() -> None:
    """The last user is a number that is not root's, and the data is a volume that it owns."""
    assert [text for name, text in instructions() if name == "USER"] == ["8585"]
    assert [text for name, text in instructions() if name == "VOLUME"] == ["/var/lib/recapito"]


def test_its_environment_is_made_of_settings() -> None:
    """Every variable of Recapito's, here and in the composition, is a setting with a value that it takes."""
    service = compose()["services"]["recapito"]
    shown = {**container_environment(), **service["environment"]}
    ours = {name: value for name, value in shown.items() if name.startswith(settings.ENVIRONMENT_PREFIX)}
    assert ours.pop("RECAPITO_SETTINGS") == "/etc/recapito/recapito.toml"
    chosen = settings.load(CONTAINER / "recapito.toml", environment=ours)
    assert chosen.server.host == "0.0.0.0"
    assert chosen.server.data == "/var/lib/recapito"
    assert chosen.portal.host == "0.0.0.0" and chosen.server.development and chosen.azure.azurite
    assert service["volumes"] == [f"recapito:{chosen.server.data}", f"./container/estate.yaml:{chosen.estate.file}:ro"]


def test_the_composition_builds_this_container() -> None:
    """Its build names the container file, from the root of the repository."""
    build = compose()["services"]["recapito"]["build"]
    root = (ROOT / "deploy" / build["context"]).resolve()
    assert root == ROOT and (root / build["dockerfile"]).samefile(CONTAINER / "Containerfile")


def test_its_health_is_that_of_the_server(tmp_path: Path) -> None:
    """The health check passes while a server answers, with TLS too, and fails without one."""
    for flags in ([], ["--tls"]):
        with server(tmp_path / f"data{len(flags)}", *flags) as it:
            port = str(it.port)
            assert health(port) == 0
        assert health(port) == 1


def health(port: str) -> int:
    environment = {**os.environ, "RECAPITO_SERVER_PORT": port}
    return subprocess.run([sys.executable, CONTAINER / "health.py"], env=environment, timeout=PATIENCE_S).returncode


def test_the_composition_needs_no_secret_and_opens_to_this_machine_only() -> None:
    """No variable of the caller is needed, and the ports are published on loopback alone."""
    text = (ROOT / "deploy" / "compose.yaml").read_text("utf-8")
    assert "${" not in text
    assert compose()["services"]["recapito"]["ports"] == ["127.0.0.1:8585:8585", "127.0.0.1:8586:8586"]


def test_the_layout_of_an_image(tmp_path: Path) -> None:
    """The layout has one layer and the configuration of the Containerfile; the same files make the same image."""
    rootfs = tmp_path / "rootfs"
    (rootfs / "var/lib/recapito").mkdir(parents=True)
    (rootfs / "hello").write_text("hello")
    config = oci.config_of(instructions())
    for name in ("one", "two"):
        oci.write_layout(rootfs, tmp_path / name, config)
    index = json.loads((tmp_path / "one" / "index.json").read_text())
    assert (tmp_path / "two" / "index.json").read_text() == json.dumps(index)
    (described,) = index["manifests"]
    manifest = json.loads(blob(tmp_path / "one", described))
    image = json.loads(blob(tmp_path / "one", manifest["config"]))
    assert image["config"]["User"] == "8585" and set(image["config"]["ExposedPorts"]) == {"8585/tcp", "8586/tcp"}
    assert image["config"]["Entrypoint"] == ["recapito"] and image["config"]["Cmd"] == ["serve", "--quiet"]
    assert "PATH=/opt/recapito/bin:/usr/local/bin:/usr/bin:/bin" in image["config"]["Env"]
    (layer,) = manifest["layers"]
    unpacked = gzip.decompress(blob(tmp_path / "one", layer))
    assert image["rootfs"]["diff_ids"] == [f"sha256:{hashlib.sha256(unpacked).hexdigest()}"]
    with tarfile.open(fileobj=io.BytesIO(unpacked)) as content:
        owners = {entry.name: entry.uid for entry in content}
    assert owners["hello"] == 0 and owners["var/lib/recapito"] == 8585


def blob(layout: Path, descriptor: dict[str, Any]) -> bytes:
    """A blob that has the digest and the size of its descriptor."""
    content = (layout / "blobs" / "sha256" / descriptor["digest"].removeprefix("sha256:")).read_bytes()
    assert descriptor["digest"] == f"sha256:{hashlib.sha256(content).hexdigest()}"
    assert descriptor["size"] == len(content)
    return content
