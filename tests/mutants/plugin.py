"""For pytest, in a process of its own: finds out which lines each test reaches, or runs just the tests it is given.

`MUTANTS_REACH=<file>` writes the lines by test and how long each took; `MUTANTS_TESTS=<file>` names tests to run.
"""

import json
import os
import sys
import time
from collections.abc import Iterator
from functools import _lru_cache_wrapper
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
PARTS = ("domain", "dispatch", "intake", "stores", "api")


class Reach:
    """Coverage of the service by test. For each line the tests that reach it are one number, with a bit for each."""

    def __init__(self, output: Path) -> None:
        import coverage

        self._output = output
        self._coverage = coverage.Coverage(
            data_file=None, source=[str(ROOT / "src" / "recapito" / part) for part in PARTS], config_file=False
        )
        self._took: dict[str, float] = {}
        self._failed: set[str] = set()

    def pytest_configure(self) -> None:
        self._coverage.start()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        _clear_caches()
        began = time.perf_counter()
        self._coverage.switch_context(item.nodeid)
        result = yield
        self._coverage.switch_context("")
        self._took[item.nodeid] = time.perf_counter() - began
        return result

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if not report.passed:
            self._failed.add(report.nodeid)

    def pytest_sessionfinish(self) -> None:
        self._coverage.stop()
        data = self._coverage.get_data()
        took = {test: seconds for test, seconds in self._took.items() if test not in self._failed}
        bit = {test: 1 << n for n, test in enumerate(took)}
        lines = {
            str(Path(file).relative_to(ROOT)): {
                line: hex(sum(bit.get(test, 0) for test in tests))
                for line, tests in data.contexts_by_lineno(file).items()
            }
            for file in sorted(data.measured_files())
        }
        self._output.write_text(json.dumps({"lines": lines, "took": took}))


def _clear_caches() -> None:
    """Forget remembered results: otherwise only the first test that asks for one would reach their lines."""
    for name, module in list(sys.modules.items()):
        if name.startswith("recapito."):
            for value in vars(module).values():
                if isinstance(value, _lru_cache_wrapper):
                    value.cache_clear()


class Selection:
    """Runs the given tests in the given order, and nothing else."""

    def __init__(self, tests: list[str]) -> None:
        self._order = {test: n for n, test in enumerate(tests)}

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        items[:] = sorted((item for item in items if item.nodeid in self._order), key=self._place)

    def _place(self, item: pytest.Item) -> int:
        return self._order[item.nodeid]


def pytest_configure(config: Any) -> None:
    if reach := os.environ.get("MUTANTS_REACH"):
        plugin = Reach(Path(reach))
        config.pluginmanager.register(plugin)
    if tests := os.environ.get("MUTANTS_TESTS"):
        config.pluginmanager.register(Selection(json.loads(Path(tests).read_text())))
