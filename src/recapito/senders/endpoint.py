"""The route to one URL: the addresses of its host, and whether they may be dialled.

Our own resolver looks up names, and each address is judged after the lookup; the CurlLoop judges it again at dialling.
"""

from recapito.domain.access.egress import Egress, judge, parse_endpoint
from recapito.domain.delivery.attributes import is_sendable
from recapito.domain.delivery.outcome import Outcome, Result
from recapito.domain.excerpt import excerpt, secrets_of
from recapito.errors import InvalidInput
from recapito.senders.http.resolver import Resolved


class EndpointRoute:
    """The state that all requests to one URL share. `host` is empty for a literal address."""

    def __init__(self, egress: Egress, url: str) -> None:
        self._egress = egress
        self._resolved: Resolved | None = None
        self.url = self.host = ""  # the host only if it is a name
        self.resolve: str | None = None
        self.failure: Outcome | None = None
        self.secrets = secrets_of(url)
        try:
            endpoint = parse_endpoint(url)
        except InvalidInput as error:
            self.failure = Outcome(Result.GENERIC_ERROR, detail=error.message)
            return
        self.url = endpoint.url
        if endpoint.is_literal:
            self._allowed((endpoint.host,))
        else:
            self.host = endpoint.host
            self._port = endpoint.port

    def settle(self, resolved: Resolved) -> None:
        """Take the result of the lookup: libcurl's entry for the allowed addresses, or a failure."""
        if resolved is self._resolved:
            return
        self._resolved = resolved
        self.failure = None
        allowed = [f"[{a}]" if ":" in a else a for a in self._allowed(resolved.addresses)]
        # The plus: the entry times out in libcurl, so that it does not keep every name that it ever saw.
        self.resolve = f"+{self.host}:{self._port}:{','.join(allowed)}"
        if not resolved.addresses:
            self.failure = Outcome(Result.RESOLUTION_ERROR, detail=excerpt(resolved.problem))

    def _allowed(self, addresses: tuple[str, ...]) -> list[str]:
        reasons = {address: judge(address, self._egress) for address in addresses}
        allowed = [address for address, reason in reasons.items() if reason is None]
        if not allowed:
            refused = ", ".join(f"{address}: {reason}" for address, reason in reasons.items())
            self.failure = Outcome(Result.SOCKET_ERROR, detail=excerpt(f"egress refused {refused}"))
        return allowed


def header(name: str, value: str) -> list[str]:
    """One header, or none if the value could end the line: some values come from publishers."""
    if not is_sendable(value):
        return []
    return [f"{name}: {value}" if value else f"{name};"]  # libcurl's form of an empty value
