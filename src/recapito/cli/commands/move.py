"""`recapito move`: move a store into a cluster, or out of one."""

import asyncio
from pathlib import Path
from typing import Annotated

import typer

from recapito.cli.commands.cluster import LanesMb, LogMb, Replicas, SettingsFile, progress, setup, show_proof
from recapito.cli.commands.cluster import load as load_cluster
from recapito.domain import limits
from recapito.errors import SettingsError
from recapito.settings.cluster import servers_in


def move(
    source: Annotated[str, typer.Option("--from", help="Directory of a stopped server, or a cluster's nats://…")],
    target: Annotated[str, typer.Option("--to", help="A new cluster's nats://…, or an empty directory.")],
    data: Annotated[Path, typer.Option(help="Directory of a node: empty to move in, any to move out.")],
    settings: SettingsFile = None,
    replicas: Replicas = 3,
    log_mb: LogMb = 4096,
    lanes_mb: LanesMb = 2048,
) -> None:
    """Move a store into a new cluster, or out of one."""
    into = bool(servers_in(target))
    if into == bool(servers_in(source)):
        raise SettingsError("move: one of --from and --to is a directory, the other nats://HOST:PORT,…")
    chosen = load_cluster(target if into else source, str(data), settings)
    if into:
        sizes = setup().StreamSizes(log_mb * limits.MB, lanes_mb * limits.MB, replicas)
        moved = asyncio.run(setup().move_in(chosen, Path(source), sizes, progress))
    else:
        moved = asyncio.run(setup().move_out(chosen, Path(target), progress))
    show_proof(moved)
    typer.echo("Both sides are equal. The source is unchanged. Dead letters in directories are plain files: copy them.")
