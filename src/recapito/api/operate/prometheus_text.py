"""The text format of Prometheus: families of metrics, each with its help, its type and its samples.

Labels are rendered once for all samples that share them: ten thousand subscriptions are a few hundred thousand lines.
"""

from collections.abc import Iterable, Mapping
from typing import Literal, NamedTuple

from recapito.domain.histogram import Histogram

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_ESCAPES = str.maketrans({"\\": "\\\\", "\n": "\\n", '"': '\\"'})


class Metric(NamedTuple):
    """A family: its name without the suffix of its type, its type, its help, and the names of its labels."""

    name: str
    type: Literal["counter", "gauge", "histogram", "summary"]
    help: str
    labels: tuple[str, ...] = ()

    @property
    def shown_name(self) -> str:
        """The name with the suffix of its type."""
        return f"{self.name}_total" if self.type == "counter" else self.name


def labels(of: Mapping[str, str]) -> str:
    """Labels as text; an empty value is left out."""
    return ",".join([f'{name}="{value.translate(_ESCAPES)}"' for name, value in of.items() if value])


class _Family:
    """The samples of a metric: lines, and the lines that are already packed into bytes."""

    def __init__(self, metric: Metric) -> None:
        self.name = metric.shown_name
        self.lines = [f"# HELP {self.name} {metric.help}", f"# TYPE {self.name} {metric.type}"]
        self.packed: list[bytes] = []

    def pack(self) -> None:
        if self.lines:
            self.packed.append(("\n".join(self.lines) + "\n").encode())
            self.lines = []


class PrometheusText:
    """Gathers samples by family, and returns them family by family.

    Call `pack` now and then, so that no step takes long, however many samples there are.
    """

    def __init__(self, table: Iterable[Metric]) -> None:
        self._families = {metric.name: _Family(metric) for metric in table}

    def add(self, metric: Metric, value: float, labels: str = "") -> None:
        """Add a sample of a counter or a gauge."""
        family = self._families[metric.name]
        family.lines.append(f"{family.name}{{{labels}}} {value}" if labels else f"{family.name} {value}")

    def add_sum(self, metric: Metric, total: float, count: int, labels: str = "") -> None:
        """Add a sample of a summary without quantiles."""
        name = metric.name
        self._families[name].lines += [f"{name}_sum{{{labels}}} {total}", f"{name}_count{{{labels}}} {count}"]

    def add_histogram(self, metric: Metric, histogram: Histogram, labels: str = "") -> None:
        comma, total = "," if labels else "", 0
        for bound, total in histogram.cumulative():
            text = "+Inf" if bound == float("inf") else repr(bound)
            self._families[metric.name].lines.append(f'{metric.name}_bucket{{{labels}{comma}le="{text}"}} {total}')
        self.add_sum(metric, histogram.sum, total, labels)

    def pack(self) -> None:
        """Turn the lines so far into bytes."""
        for family in self._families.values():
            family.pack()

    def to_parts(self) -> list[bytes]:
        """All families, also those without samples, so that every metric is visible."""
        self.pack()
        return [part for family in self._families.values() for part in family.packed]
