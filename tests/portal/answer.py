"""An answer of the portal's sign-in."""

import http.client
from urllib.parse import urlsplit

from tests.system.machine import PATIENCE_S


class Answer:
    """The answer to one request."""

    def __init__(self, url: str, method: str, path: str, body: str | None = None, **headers: str) -> None:
        place = urlsplit(url)
        connection = http.client.HTTPConnection(place.hostname or "", place.port, timeout=PATIENCE_S)
        try:
            given = {name.replace("_", "-"): value for name, value in headers.items()}
            connection.request(method, path, body, given)
            answer = connection.getresponse()
            self.status, self.headers = answer.status, answer.headers
            self.text = "" if answer.status == 101 else answer.read().decode()
        finally:
            connection.close()
