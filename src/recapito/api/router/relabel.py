"""The metrics of a node's partitions as one text: each sample of a partition gets its label.

A family that tells about the node or the cluster is shown once, by the router; a family of the partitions is shown
for each partition that this node owns.
"""

from recapito.api.operate.cluster_metrics import CLUSTER_TABLE, DOUBT, LEASE_AGE

SHOWN_BY_ROUTER = tuple(metric for metric in CLUSTER_TABLE if metric not in (DOUBT, LEASE_AGE))
_ONCE = frozenset(metric.shown_name for metric in SHOWN_BY_ROUTER)


class Relabelled:
    """Gathers the texts of partitions behind that of the router, family by family."""

    def __init__(self, own: bytes) -> None:
        self._heads: dict[str, list[str]] = {}
        self._samples: dict[str, list[str]] = {}
        self._take(own.decode(), "", frozenset())

    def add(self, text: bytes, partition: int) -> None:
        self._take(text.decode(), f'partition="{partition}"', _ONCE)

    def to_bytes(self) -> bytes:
        lines = [line for name, head in self._heads.items() for line in (*head, *self._samples[name])]
        return ("\n".join(lines) + "\n").encode()

    def _take(self, text: str, label: str, left_out: frozenset[str]) -> None:
        family, is_new = "", False
        for line in text.splitlines():
            if line.startswith("# "):
                name = line.split(" ", 3)[2]
                is_new = (name not in self._heads) if name != family else is_new
                family = name
                self._samples.setdefault(name, [])
                head = self._heads.setdefault(name, [])
                if is_new:
                    head.append(line)
            elif line and family not in left_out:
                self._samples[family].append(_labelled(line, label))


def _labelled(line: str, label: str) -> str:
    """A sample with one more label. The name has neither brace nor space; label values may have both."""
    if not label:
        return line
    brace, space = line.find("{"), line.find(" ")
    if 0 <= brace < space:
        return f"{line[: brace + 1]}{label},{line[brace + 1 :]}"
    return f"{line[:space]}{{{label}}}{line[space:]}"
