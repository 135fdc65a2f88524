"""Tokens of Microsoft Entra for webhooks that an application protects, fetched with this server's identity at Azure.

A token is fetched once for each tenant and application, also for concurrent calls, and again after half its lifetime.
"""

import asyncio
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from recapito.domain import limits
from recapito.domain.delivery.outcome import Outcome, Result
from recapito.domain.instant import SECOND

if TYPE_CHECKING:
    from azure.core.credentials_async import AsyncTokenCredential


class _KnownToken(NamedTuple):
    token: str
    until: int

    def __repr__(self) -> str:
        return "<token>"


class EntraTokens:
    """Fetches tokens and caches them. `credential` makes the server's identity; `now` is real time."""

    def __init__(
        self, credential: "Callable[[], AsyncTokenCredential] | None" = None, now: Callable[[], int] = time.time_ns
    ) -> None:
        self._credential = credential
        self._now = now
        self._known: dict[tuple[str, str], _KnownToken] = {}
        self._fetching: dict[tuple[str, str], asyncio.Task[str | Outcome]] = {}

    def __repr__(self) -> str:
        return f"<EntraTokens, {len(self._known)} known>"

    def known(self, tenant: str, application: str) -> str | None:
        """The cached token, if it is young enough."""
        cached = self._known.get((tenant, application))
        return cached.token if cached is not None and self._now() < cached.until else None

    def forget(self, tenant: str, application: str) -> None:
        """Drop a token that was refused: the next one is fetched."""
        self._known.pop((tenant, application), None)

    async def token(self, tenant: str, application: str) -> str | Outcome:
        """A token for the application, or the outcome of a delivery without one, which is tried again later."""
        cached, key = self.known(tenant, application), (tenant, application)
        if cached is not None:
            return cached
        if key not in self._fetching:
            task = self._fetching[key] = asyncio.get_running_loop().create_task(self._fetch(tenant, application))
            task.add_done_callback(lambda _: self._fetching.pop(key, None))
        return await asyncio.shield(self._fetching[key])

    async def _fetch(self, tenant: str, application: str) -> str | Outcome:
        if self._credential is None:
            self._credential = await asyncio.to_thread(_load)
        try:
            async with asyncio.timeout(limits.ISSUER_WAIT_NS / SECOND), self._credential() as credential:
                token = await credential.get_token(f"{application}/.default", tenant_id=tenant or None)
        except Exception as error:  # Microsoft's library promises no closed set; a failed delivery is an Outcome
            return Outcome(
                Result.UNAUTHORIZED,
                detail=f"there is no token of tenant {tenant or 'home'} for {application}: this server has no identity"
                f" that Microsoft Entra accepts there ({type(error).__name__})",
            )
        if len(self._known) >= limits.WEBHOOK_TOKENS:
            self._known.clear()
        now = self._now()
        self._known[tenant, application] = _KnownToken(token.token, now + (token.expires_on * SECOND - now) // 2)
        return token.token


def _load() -> "Callable[[], AsyncTokenCredential]":
    from azure.identity.aio import DefaultAzureCredential

    return lambda: DefaultAzureCredential(additionally_allowed_tenants=["*"])
