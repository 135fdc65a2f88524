"""`recapito backup` and `recapito restore`: copy the stores of a server, running or not, and put a copy in place."""

from pathlib import Path
from typing import Annotated

import typer

Data = Annotated[Path, typer.Option("--data", help="Data directory of the server.")]


def backup(
    target: Annotated[Path, typer.Argument(help="Empty or new directory for the copy.")],
    data: Data = Path("recapito-data"),
) -> None:
    """Copy the stores of a running server.

    The copy holds every event that was acknowledged before the backup began.
    """
    from recapito.composition.data_directory import DataDirectory

    DataDirectory(data).back_up(target, lambda line: typer.echo(line, err=True))
    typer.echo(f"Backed up {data} to {target}. Dead letters are plain files: copy {data / 'deadletters'} separately.")


def restore(
    source: Annotated[Path, typer.Argument(help="Directory that `recapito backup` made.")],
    data: Data = Path("recapito-data"),
) -> None:
    """Restore a backup to an empty or new data directory.

    The server must not run.
    """
    from recapito.composition.data_directory import DataDirectory

    DataDirectory(data).restore(source)
    typer.echo(f"Restored {source} to {data}. Events that were delivered after the backup may be delivered again.")
