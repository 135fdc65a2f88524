"""`recapito damaged` against a server of which only the answers about damage are there."""

from base64 import b64encode
from pathlib import Path
from typing import Any

from recapito.domain.cluster.partition import Partition
from tests.cli.observed import Query, observed
from tests.cli.terminal import lines, recapito

KEY = "document:resourceGroup 0000/../local"


def answers(path: str, query: Query, body: Any) -> tuple[int, Any]:
    """A damaged document, whose name has a path in it."""
    record = {"name": KEY, "number": 0, "table": "document"}
    if path == "/damaged":
        return 200, {"value": [record], "next": None}
    return 200, {**record, "content": b64encode(b"rotten").decode(), "columns": ""}


def test_a_record_is_exported_under_a_file_name(tmp_path: Path) -> None:
    """No key of a document leads out of the directory, or to a file that cannot be made."""
    with observed(answers) as it:
        said = recapito("damaged", "export", "--to", str(tmp_path / "saved"), "--server", it.url)
    assert said.code == 0, said.err
    stem = "document:resourceGroup_0000_.._local"
    assert sorted(file.name for file in (tmp_path / "saved").iterdir()) == [f"{stem}.content", f"{stem}.json"]
    assert (tmp_path / "saved" / f"{stem}.content").read_bytes() == b"rotten"


def test_records_are_dismissed_in_each_partition() -> None:
    """The last number of each partition is dismissed, and no number that was not listed."""
    numbers = [0, 1, 2, Partition(2, 4).first_id + 1, Partition(3, 4).first_id + 4]

    def listed(path: str, query: Query, body: Any) -> tuple[int, Any]:
        if path == "/damaged":
            return 200, {"value": [{"name": str(n), "number": n} for n in numbers], "next": None}
        return 200, {"dismissed": body["number"]}

    with observed(listed) as it:
        said = recapito("damaged", "dismiss", "--server", it.url)
    assert said.json == {"dismissed": numbers[-1]}
    assert [body["number"] for path, _, body in it.asked if path == "/damaged/dismiss"] == [2, *numbers[3:]]


def test_records_of_resources_cannot_be_dismissed() -> None:
    """They are no warning to be ended: their resource cannot be used until a backup is restored."""
    with observed(answers) as it:
        said = recapito("damaged", "dismiss", "--server", it.url)
    assert said.code == 3
    assert lines(said.err) == ["recapito: Only records of resources are damaged: restore a backup."]
