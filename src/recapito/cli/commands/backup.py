"""`recapito backup` and `recapito restore`: copy the stores of a server, running or not, and put a copy in place."""

import asyncio
from pathlib import Path
from typing import Annotated

import typer

from recapito.cli.toolkit.backup_place import SOURCE_HELP, TARGET_HELP, ContainerUrl, read_place
from recapito.settings import settings as settings_module

Data = Annotated[Path, typer.Option("--data", help="Data directory of the server.")]
SettingsFile = Annotated[
    Path | None, typer.Option("--settings", help="Settings file with the connection to a container.")
]


def backup(
    target: Annotated[str, typer.Argument(help=TARGET_HELP)],
    data: Data = Path("recapito-data"),
    settings: SettingsFile = None,
) -> None:
    """Copy the stores of a running server.

    The copy holds every event that was acknowledged before the backup began.
    """
    from recapito.composition.data_directory import DataDirectory

    match place := read_place(target):
        case ContainerUrl(url):
            chosen = settings_module.load(settings)
            asyncio.run(DataDirectory(data).back_up_to_container(chosen, url, _progress))
        case Path():
            DataDirectory(data).back_up(place, _progress)
    typer.echo(f"Backed up {data} to {place}. Dead letters are plain files: copy {data / 'deadletters'} separately.")


def restore(
    source: Annotated[str, typer.Argument(help=SOURCE_HELP)],
    data: Data = Path("recapito-data"),
    settings: SettingsFile = None,
) -> None:
    """Restore a backup to an empty or new data directory.

    The server must not run.
    """
    from recapito.composition.data_directory import DataDirectory

    match place := read_place(source):
        case ContainerUrl(url):
            chosen = settings_module.load(settings)
            asyncio.run(DataDirectory(data).restore_from_container(chosen, url, _progress))
        case Path():
            DataDirectory(data).restore(place)
    typer.echo(f"Restored {place} to {data}. Events that were delivered after the backup may be delivered again.")


def _progress(line: str) -> None:
    typer.echo(line, err=True)
