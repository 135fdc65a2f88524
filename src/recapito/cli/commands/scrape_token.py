"""`recapito scrape-token`: the token that reads the metrics of a server on a network."""

from pathlib import Path
from typing import Annotated

import typer

from recapito.composition.identity import scrape_token_file
from recapito.errors import SettingsError
from recapito.settings import settings as settings_module


def scrape_token(
    data: Annotated[str | None, typer.Option(help="Data directory of the server.")] = None,
    settings: Annotated[Path | None, typer.Option(help="Settings file; see `recapito settings`.")] = None,
) -> None:
    """Print the token for reading metrics, as Prometheus does."""
    path = scrape_token_file(settings_module.load(settings, flags={"server.data": data}))
    try:
        typer.echo(path.read_text("latin-1").strip())
    except FileNotFoundError:
        raise SettingsError(f"there is no scrape token at {path}; `recapito serve` creates it") from None
