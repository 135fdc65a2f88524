"""Asserts the whole error of ARM."""

from tests.api.client import Answer


def refused(answer: Answer, status: int, code: str, target: str | None = None) -> str:
    """Check the whole shape of an ARM error; its message."""
    assert answer.status == status, answer.body
    assert answer.error == {"code": code, "message": answer.error["message"], "target": target, "details": []}
    assert answer.headers["content-type"].startswith("application/json")
    message: str = answer.error["message"]
    return message
