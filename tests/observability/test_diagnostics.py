"""The file of diagnostic records: bounded in size and rate, and harmless."""

import json
from pathlib import Path

from recapito.domain import limits
from recapito.domain.instant import SECOND
from recapito.observability.diagnostics import DiagnosticLog


def lines(path: Path) -> list[dict[str, str]]:
    """The lines of a file."""
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def test_a_full_file_is_set_aside(tmp_path: Path) -> None:
    """There are two at most, and the newest record is in one of them."""
    log = DiagnosticLog(tmp_path / "logs" / "x.jsonl", lambda: 0, size=100)
    for n in range(20):
        log.write({"message": f"number {n:02}"})
    log.close()
    files = sorted(path.name for path in (tmp_path / "logs").iterdir())
    assert files in (["x.1.jsonl"], ["x.1.jsonl", "x.jsonl"])
    kept = [one["message"] for name in files for one in lines(tmp_path / "logs" / name)]
    assert kept[-1] == "number 19" or "number 19" in kept
    assert all((tmp_path / "logs" / name).stat().st_size <= 130 for name in files)


def test_too_many_lines_are_left_out_and_counted(tmp_path: Path) -> None:
    """Beyond N a second none is written; the next second begins with the number of those left out."""
    now = [0]
    log = DiagnosticLog(tmp_path / "x.jsonl", lambda: now[0])
    for n in range(limits.DIAGNOSTIC_LINES + 7):
        log.write({"message": str(n)})
    now[0] = SECOND
    log.write({"message": "later"})
    log.close()
    found = lines(tmp_path / "x.jsonl")
    assert len(found) == limits.DIAGNOSTIC_LINES + 2
    assert (found[-2]["category"], found[-2]["message"]) == ("LeftOut", "Message:leftOut=7")
    assert found[-1]["message"] == "later"


def test_a_file_that_can_not_be_written_is_harmless(tmp_path: Path) -> None:
    """The record is lost, and the caller goes on."""
    (tmp_path / "file").write_text("not a directory")
    log = DiagnosticLog(tmp_path / "file" / "x.jsonl", lambda: 0)
    log.write({"message": "lost"})
    log.close()
    assert (tmp_path / "file").read_text() == "not a directory"
