"""Programs in Java and Go with Microsoft's clients: each reads one JSON value, and prints one."""

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.clients.service import SUBSCRIPTION, Service, requirement

HERE = Path(__file__).parent
PATIENCE_S = 120.0


class Program:
    """A compiled program; a call runs it."""

    def __init__(self, recapito: Service, command: list[str], environment: dict[str, str]) -> None:
        self._command = command
        self._environment = {**os.environ, **environment}
        self._given = {"url": recapito.url, "subscription": SUBSCRIPTION, **recapito.principal._asdict()}

    def __call__(self, **given: Any) -> Any:
        """The printed value; besides the given ones the program knows the service's URL and the principal."""
        done = subprocess.run(
            self._command,
            input=json.dumps({**self._given, **given}),
            capture_output=True,
            text=True,
            env=self._environment,
            timeout=PATIENCE_S,
        )
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)


def go_program(recapito: Service) -> Program:
    """The program of go/main.go."""
    program = HERE / "go" / "build" / "clients"
    if reason := requirement(program, "the program in Go is not built; `make test` builds it where there is go"):
        pytest.skip(reason)
    return Program(recapito, [str(program)], recapito.trust)


def java_program(recapito: Service, scratch: Path) -> Program:
    """The program of java/src, which trusts the certificate authority of the service by a store of its own."""
    target = HERE / "java" / "target"
    if reason := requirement(target / ".clients", "the program in Java is not built; `make test` builds it by mvn"):
        pytest.skip(reason)
    java, keytool = shutil.which("java"), shutil.which("keytool")
    assert java and keytool, "the program in Java is built, and there is no java to run it"
    store = scratch / "trust.p12"
    authority = ["-alias", "recapito", "-file", recapito.trust["NODE_EXTRA_CA_CERTS"]]
    subprocess.run(
        [keytool, "-importcert", "-noprompt", *authority, "-keystore", str(store), "-storepass", "changeit"],
        capture_output=True,
        check=True,
        timeout=PATIENCE_S,
    )
    trust = [f"-Djavax.net.ssl.trustStore={store}", "-Djavax.net.ssl.trustStorePassword=changeit"]
    fast = ["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"]
    return Program(recapito, [java, *fast, *trust, "-cp", f"{target}/classes:{target}/lib/*", "Clients"], {})
