"""The body of a subscription with a webhook."""

from typing import Any

from tests.api.client import webhook


def body(**properties: Any) -> dict[str, Any]:
    return {"properties": {"destination": webhook(), **properties}}
