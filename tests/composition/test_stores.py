"""The demands on a data directory before a server begins on it."""

import asyncio
from pathlib import Path

import pytest

from recapito.composition import stores
from recapito.errors import SettingsError
from recapito.observability.journal import silent
from recapito.settings import settings


def test_a_log_that_is_missing_is_not_made_anew(tmp_path: Path) -> None:
    """Without it the other file is refused, and nothing is made; without both a server begins anew."""
    chosen = settings.load(environment={}, flags={"server.data": str(tmp_path)})
    asyncio.run(stores.make_backend(chosen, silent).prepare())
    log, ledger = tmp_path / "log.db", tmp_path / "dispatch.db"
    log.unlink()
    with pytest.raises(SettingsError, match=r"log\.db is missing, and dispatch\.db is there: put it back"):
        asyncio.run(stores.make_backend(chosen, silent).prepare())
    assert not log.exists()
    ledger.unlink()
    asyncio.run(stores.make_backend(chosen, silent).prepare())
    assert log.exists() and ledger.exists()
