"""An OCI image of Recapito, built without a container engine: `python deploy/container/oci.py FOLDER`.

The root file system is Debian's packages, unpacked by mmdebstrap, with the locked requirements and the wheel in
`/opt/recapito`. The image's configuration is read from the Containerfile, so the two cannot differ.
"""

import gzip
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
SUITE = "bookworm"
PYTHON = "python3.11"  # of that suite
PACKAGES = ("python3-minimal", "libpython3-stdlib", "ca-certificates")
USER = 8585
PATH = "/usr/local/bin:/usr/bin:/bin"
AUTHORITIES = Path("etc/ssl/certs/ca-certificates.crt")
SITE = Path("opt/recapito/lib") / PYTHON / "site-packages"
SOURCES = ("nkeys",)  # locked packages of pure Python that have no wheel
_COMMAND = """\
#!/opt/recapito/bin/python
import sys

from recapito.__main__ import main

sys.exit(main())
"""


def instructions(containerfile: str) -> list[tuple[str, str]]:
    """The instructions of a Containerfile, each on one line."""
    text = re.sub(r"^#.*\n", "", containerfile, flags=re.MULTILINE)
    lines = re.sub(r"\\\n\s*", "", text).splitlines()
    return [(line.split(" ", 1)[0], line.split(" ", 1)[1]) for line in lines if line]


def config_of(read: Sequence[tuple[str, str]]) -> dict[str, Any]:
    """The configuration of an image, from the instructions of its last stage."""
    last = max(place for place, (name, _) in enumerate(read) if name == "FROM")
    stage = [(name, text) for name, text in read[last:]]
    said = dict(stage)
    variables = [text.replace("$PATH", PATH) for name, line in stage if name == "ENV" for text in line.split()]
    return {
        "User": said["USER"],
        "Env": [*variables, f"SSL_CERT_FILE=/{AUTHORITIES}"],
        "ExposedPorts": {f"{port}/tcp": {} for port in said["EXPOSE"].split()},
        "Volumes": {said["VOLUME"]: {}},
        "Entrypoint": json.loads(said["ENTRYPOINT"]),
        "Cmd": json.loads(said["CMD"]),
        "WorkingDir": "/",
        "StopSignal": said["STOPSIGNAL"],
    }


def make_rootfs(folder: Path) -> None:
    """Unpack Debian's packages, without running their scripts, and add what those and the Containerfile would do."""
    command = ["mmdebstrap", "--quiet", "--variant=extract", f"--include={','.join(PACKAGES)}", SUITE, str(folder)]
    subprocess.run(command, check=True)
    for name in ("dev", "proc", "sys", "tmp", "run", "var/lib/recapito", "etc/recapito", str(SITE), "opt/recapito/bin"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    (folder / "etc/passwd").write_text(
        f"root:x:0:0:root:/root:/bin/false\nrecapito:x:{USER}:{USER}::/var/lib/recapito:/bin/false\n"
    )
    (folder / "etc/group").write_text(f"root:x:0:\nrecapito:x:{USER}:\n")
    certificates = sorted((folder / "usr/share/ca-certificates/mozilla").glob("*.crt"))
    (folder / AUTHORITIES).parent.mkdir(parents=True, exist_ok=True)
    (folder / AUTHORITIES).write_text("".join(path.read_text("ascii") for path in certificates))
    home = folder / "opt/recapito"
    (home / "pyvenv.cfg").write_text("home = /usr/bin\ninclude-system-site-packages = false\n")
    for name in ("python", "python3"):
        (home / "bin" / name).symlink_to(f"/usr/bin/{PYTHON}")
    (home / "bin/recapito").write_text(_COMMAND)
    (home / "bin/recapito").chmod(0o755)
    shutil.copy(HERE / "health.py", home / "health.py")
    for name in ("recapito.toml", "estate.yaml"):
        shutil.copy(HERE / name, folder / "etc/recapito" / name)


def install(folder: Path) -> None:
    """Install the locked requirements and Recapito, for the suite's Python and without a compiler."""
    target = ["--target", str(folder / SITE), "--quiet", "--disable-pip-version-check"]
    pip = [sys.executable, "-m", "pip", "install", *target]
    version = PYTHON.removeprefix("python")
    wheels = ["--only-binary", ":all:", "--no-binary", ",".join(SOURCES)]
    locked = ["--require-hashes", "--no-deps", *wheels, "--python-version", version]
    subprocess.run([*pip, *locked, "-r", str(ROOT / "requirements/run.txt")], check=True)
    with tempfile.TemporaryDirectory() as built:
        subprocess.run([sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", built], cwd=ROOT, check=True)
        (wheel,) = Path(built).glob("*.whl")
        subprocess.run([*pip, "--no-deps", str(wheel)], check=True)


def write_layout(rootfs: Path, folder: Path, config: dict[str, Any], name: str = "recapito:latest") -> None:
    """Write an image of one layer as an OCI layout. The same files make the same bytes."""
    blobs = folder / "blobs/sha256"
    blobs.mkdir(parents=True)
    unpacked = blobs / "layer.tar"
    with tarfile.open(unpacked, "w", format=tarfile.PAX_FORMAT) as archive:
        for path in sorted(rootfs.rglob("*")):
            archive.add(path, str(path.relative_to(rootfs)), recursive=False, filter=_anonymous)
    packed = blobs / "layer.tar.gz"
    with unpacked.open("rb") as source, packed.open("wb") as raw, gzip.GzipFile("", "wb", 6, raw, mtime=0) as target:
        shutil.copyfileobj(source, target, 1 << 20)
    layer_id = _digest(unpacked)
    unpacked.unlink()
    machine = {"x86_64": "amd64", "aarch64": "arm64"}.get(os.uname().machine, os.uname().machine)
    image = {
        "architecture": machine,
        "os": "linux",
        "config": config,
        "rootfs": {"type": "layers", "diff_ids": [layer_id]},
    }
    manifest = {
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "config": _keep_json(blobs, image, "application/vnd.oci.image.config.v1+json"),
        "layers": [_keep(blobs, packed, "application/vnd.oci.image.layer.v1.tar+gzip")],
    }
    described = _keep_json(blobs, manifest, manifest["mediaType"])
    described["annotations"] = {"org.opencontainers.image.ref.name": name}
    (folder / "index.json").write_text(json.dumps({"schemaVersion": 2, "manifests": [described]}))
    (folder / "oci-layout").write_text('{"imageLayoutVersion": "1.0.0"}')


def _anonymous(entry: tarfile.TarInfo) -> tarfile.TarInfo | None:
    """An entry without the time and the user of the build; the data directory belongs to the server."""
    entry.mtime = 0
    entry.uid = entry.gid = USER if entry.name == "var/lib/recapito" else 0
    entry.uname = entry.gname = ""
    return None if entry.ischr() or entry.isblk() else entry


def _keep_json(blobs: Path, value: object, kind: object) -> dict[str, Any]:
    path = blobs / "new.json"
    path.write_text(json.dumps(value))
    return _keep(blobs, path, kind)


def _keep(blobs: Path, path: Path, kind: object) -> dict[str, Any]:
    """Name a blob by its digest; its descriptor."""
    digest, size = _digest(path), path.stat().st_size
    path.rename(blobs / digest.removeprefix("sha256:"))
    return {"mediaType": kind, "digest": digest, "size": size}


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return f"sha256:{hashlib.file_digest(file, 'sha256').hexdigest()}"


def main(folder: Path) -> None:
    """Build the image into a folder that does not exist yet."""
    with tempfile.TemporaryDirectory() as scratch:
        rootfs = Path(scratch) / "rootfs"
        make_rootfs(rootfs)
        install(rootfs)
        write_layout(rootfs, folder, config_of(instructions((HERE / "Containerfile").read_text("utf-8"))))
    size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    print(f"{folder} is an OCI layout of {size / 2**20:.0f} MB; `skopeo copy oci:{folder} …` takes it to an engine.")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
