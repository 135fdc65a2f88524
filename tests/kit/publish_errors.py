"""Asserts the whole error of a publish."""

import re

from tests.api.client import Answer

REPORT = re.compile(r"Report '[0-9a-f-]{36}:0:\d+/\d+/\d{4} \d+:\d\d:\d\d [AP]M \(UTC\)'")


def refused(answer: Answer, status: int, name: str, code: str, outcome: str = "NotStored") -> str:
    """Check the whole shape of a data plane error; its message. A fault of ours says what became of the events."""
    assert answer.status == status, answer.body
    assert set(answer.json) == {"error"}
    assert set(answer.error) == {"code", "message", "details"}
    assert answer.error["code"] == name
    assert [detail["code"] for detail in answer.error["details"]] == [code, outcome][: 1 + (status >= 500)]
    assert answer.error["details"][0]["message"] == answer.error["message"]
    assert REPORT.search(answer.error["message"])
    assert answer.headers["content-type"].startswith("application/json")
    assert answer.headers["content-length"] == str(len(answer.body))
    message: str = answer.error["message"]
    return message
