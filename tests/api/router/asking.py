"""One request on a connection of its own, written as text."""

import asyncio
import json
from typing import NamedTuple


class Answer(NamedTuple):
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def codes(self) -> list[str]:
        """The codes of an error of the data plane."""
        return [detail["code"] for detail in json.loads(self.body)["error"]["details"]]


async def ask_at(port: int, request: str) -> Answer:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(request.encode())
    head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
    headers = {line.partition(":")[0].lower(): line.partition(":")[2].strip() for line in head[1:] if line}
    body = await reader.readexactly(int(headers["content-length"])) if "content-length" in headers else b""
    writer.close()
    return Answer(int(head[0].split()[1]), headers, body)
