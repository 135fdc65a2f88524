"""`recapito scrape-token`: the token that reads metrics of a server that other machines reach."""

from pathlib import Path
from typing import Annotated

import typer

from recapito.composition.identity import scrape_token_file
from recapito.errors import SettingsError
from recapito.settings import settings as settings_module


def scrape_token(
    data: Annotated[str | None, typer.Option(help="The data directory of the server.")] = None,
    settings: Annotated[Path | None, typer.Option(help="A settings file; see `recapito settings`.")] = None,
) -> None:
    """Print the token that Prometheus reads metrics with."""
    path = scrape_token_file(settings_module.load(settings, flags={"server.data": data}))
    try:
        typer.echo(path.read_text("latin-1").strip())
    except FileNotFoundError:
        raise SettingsError(f"there is no scrape token at {path}; `recapito serve` makes it") from None
