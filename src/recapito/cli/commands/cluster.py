"""`recapito cluster`: make, join, show, drain, back up, restore and upgrade a cluster."""

import asyncio
import sys
from pathlib import Path
from types import ModuleType
from typing import Annotated, Any

import typer

from recapito.cli.toolkit.backup_place import SOURCE_HELP, TARGET_HELP, ContainerUrl, read_place
from recapito.cli.toolkit.exit_codes import FAILED
from recapito.cli.toolkit.lazy import commands
from recapito.cli.toolkit.output import Output
from recapito.cli.toolkit.verb import Noun
from recapito.domain import limits
from recapito.errors import SettingsError
from recapito.extras import require
from recapito.identity.cluster_secret import ClusterSecret
from recapito.settings import settings as settings_module
from recapito.settings.settings import Settings

app = commands("Make, join, show, drain, back up, restore and upgrade a cluster.")

Store = Annotated[str | None, typer.Option(help="NATS servers: nats://HOST:PORT,HOST:PORT,…")]
Data = Annotated[str | None, typer.Option(help="Data directory of the node.", show_default="recapito-data")]
SettingsFile = Annotated[Path | None, typer.Option("--settings", help="Settings file; see `recapito settings`.")]
Replicas = Annotated[int, typer.Option(min=3, max=5, help="NATS servers that keep a copy of each stream.")]
LogMb = Annotated[int, typer.Option(min=64, help="Most MB of the streams of events, on each server.")]
LanesMb = Annotated[int, typer.Option(min=64, help="Most MB of the streams of deliveries, on each server.")]
Partitions = Annotated[int, typer.Option(min=1, max=limits.PARTITIONS, help="Owners side by side; fixed for good.")]


def load(store: str | None, data: str | None, file: Path | None) -> Settings:
    """The settings of a node; without servers it is none."""
    chosen = settings_module.load(file, flags={"server.store": store, "server.data": data})
    if not chosen.in_cluster:
        raise SettingsError("server.store: name the NATS servers, by --store nats://HOST:PORT,… or in the settings")
    return chosen


def setup() -> ModuleType:
    """The module that makes and asks clusters, which the core does not bring the libraries for."""
    require("cluster", "There are no clusters here")
    from recapito.composition import cluster_setup

    return cluster_setup


def backups() -> ModuleType:
    """The module that copies whole clusters."""
    require("cluster", "There are no clusters here")
    from recapito.composition import cluster_backup

    return cluster_backup


@app.command()
def init(
    store: Store = None,
    data: Data = None,
    settings: SettingsFile = None,
    replicas: Replicas = 3,
    log_mb: LogMb = 4096,
    lanes_mb: LanesMb = 2048,
    partitions: Partitions = 1,
) -> None:
    """Make a cluster, once, with this data directory as its first node's."""
    chosen = load(store, data, settings)
    sizes = setup().StreamSizes(log_mb * limits.MB, lanes_mb * limits.MB, replicas, partitions)
    asyncio.run(setup().init(chosen, sizes))
    secret = chosen.cluster.secret_in(chosen.data)
    typer.echo(f"The cluster '{chosen.cluster.name}' is made, and {chosen.data} is its first node's directory.")
    typer.echo(f"Its secret is in {secret}. For each further node, copy that file there and run:")
    node = f"--store {chosen.server.store} --data DIRECTORY" if settings is None else "--settings FILE"
    typer.echo(f"  recapito cluster join {node} --secret FILE")


@app.command()
def join(
    secret: Annotated[str, typer.Option(help="File with the cluster's secret; - reads standard input.")],
    store: Store = None,
    data: Data = None,
    settings: SettingsFile = None,
) -> None:
    """Make a data directory that of a further node."""
    chosen = load(store, data, settings)
    asyncio.run(setup().join(chosen, _read_secret(secret)))
    typer.echo(f"{chosen.data} is the directory of a node of the cluster '{chosen.cluster.name}'. Start it by:")
    node = f"--store {chosen.server.store} --data {chosen.data} --node NAME"
    typer.echo(f"  recapito serve {node if settings is None else f'--settings {settings}'}")


@Noun(app).verb("status", session=False, form=Output.TABLE, to_lines=lambda shown: _lines(shown))
def status(store: Store = None, data: Data = None, settings: SettingsFile = None) -> dict[str, Any]:
    """Show nodes, owner, streams, and the servers that keep them."""
    shown: dict[str, Any] = asyncio.run(setup().status(load(store, data, settings))).show()
    return shown


@app.command()
def drain(
    node: Annotated[str, typer.Argument(help="Name of the node.")],
    store: Store = None,
    data: Data = None,
    settings: SettingsFile = None,
    undo: Annotated[bool, typer.Option("--undo", help="Let the node own again.")] = False,
) -> None:
    """Have a node hand over, and stand by until it restarts."""
    done = asyncio.run(setup().drain(load(store, data, settings), node, undo, wait_s=30))
    if not done:
        typer.echo(f"recapito: node '{node}' has not obeyed within 30 s; see `recapito cluster status`.", err=True)
        raise typer.Exit(FAILED)
    typer.echo(f"Node '{node}' {'may own again' if undo else 'is drained: it forwards, and does not own'}.")


@app.command()
def backup(
    target: Annotated[str, typer.Argument(help=TARGET_HELP)],
    store: Store = None,
    data: Data = None,
    settings: SettingsFile = None,
) -> None:
    """Copy the stores and keys of a running cluster.

    The copy holds every event that was acknowledged before the backup began.
    """
    chosen = load(store, data, settings)
    match place := read_place(target):
        case ContainerUrl(url):
            found = asyncio.run(backups().back_up_to_container(chosen, url, progress))
        case Path():
            found = asyncio.run(backups().back_up(chosen, place, progress))
    for name, digest in found.items():
        typer.echo(f"{name}: {digest.rows} rows, digest {digest.sum:016x}")
    typer.echo(f"Backed up the cluster '{chosen.cluster.name}' to {place}.")
    typer.echo(
        "Its keys are sealed: keep the cluster's secret apart from it. Dead letters in directories are not in it."
    )


@app.command()
def restore(
    source: Annotated[str, typer.Argument(help=SOURCE_HELP)],
    secret: Annotated[str, typer.Option(help="File with the secret of the old cluster; - reads standard input.")],
    store: Store = None,
    data: Data = None,
    settings: SettingsFile = None,
    replicas: Replicas = 3,
    log_mb: LogMb = 4096,
    lanes_mb: LanesMb = 2048,
) -> None:
    """Make a new cluster out of a backup, with as many partitions.

    It has a secret of its own; every other node joins it with an empty directory.
    """
    chosen = load(store, data, settings)
    sizes = setup().StreamSizes(log_mb * limits.MB, lanes_mb * limits.MB, replicas)
    if source == secret == "-":
        raise typer.BadParameter(
            "the URL and the secret cannot both be read from standard input", param_hint="--secret"
        )
    match place := read_place(source):
        case ContainerUrl(url):
            restoring = backups().restore_from_container(chosen, url, _read_secret(secret), sizes, progress)
        case Path():
            restoring = backups().restore(chosen, place, _read_secret(secret), sizes, progress)
    show_proof(asyncio.run(restoring))
    typer.echo(f"Restored {place} as the cluster '{chosen.cluster.name}'; {chosen.data} is its first node's directory.")
    typer.echo(
        f"Its new secret is in {chosen.cluster.secret_in(chosen.data)}. Other nodes join with empty directories."
    )
    typer.echo("Events that were delivered after the backup may be delivered again.")


@app.command()
def upgrade(store: Store = None, data: Data = None, settings: SettingsFile = None) -> None:
    """Bring the stores of a cluster to the formats of this version.

    All nodes must be stopped. A run that broke off is run again.
    """
    done = asyncio.run(backups().upgrade(load(store, data, settings), progress))
    for name, (before, after) in done.items():
        typer.echo(f"{name}: schema {before}" + (", up to date" if before == after else f", now {after}"))
    typer.echo("Start all nodes with this version.")


def show_proof(moved: Any) -> None:
    """Print the digests before and after; a difference is a failure."""
    for name, digest in moved.before.items():
        after = moved.after[name]
        typer.echo(f"{name}: {digest.rows} rows, digest {digest.sum:016x}; then {after.rows} rows, {after.sum:016x}")
    if not moved.equal:
        typer.echo("recapito: the digests differ: keep the source, and do not use the target.", err=True)
        raise typer.Exit(FAILED)


def progress(line: str) -> None:
    """Print a line about long work where it is not taken for output."""
    typer.echo(line, err=True)


def _read_secret(file: str) -> ClusterSecret:
    try:
        text = sys.stdin.read() if file == "-" else Path(file).read_text("ascii")
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"--secret: {file} cannot be read: {error}") from None
    return ClusterSecret.from_text(text, "--secret")


def _lines(shown: dict[str, Any]) -> list[str]:
    if len(shown["partitions"]) == 1:
        lines = [f"owner     {shown['owner'] or 'none'}"]
    else:
        lines = [f"partition {each['partition']}: {each['owner'] or 'no owner'}" for each in shown["partitions"]]
    for member in shown["members"]:
        behind = "" if member["behind"] in (0, None) else f", {member['behind']} messages behind"
        clock = "" if member["clock"] == "ok" else f", {member['clock']}"
        lines.append(
            f"node      {member['name']}: {member['state']}, {member['url']}, {member['version']}{behind}{clock}"
        )
    for stream in shown["streams"]:
        late = f", behind: {', '.join(stream['behind'])}" if stream["behind"] else ""
        copies = ", ".join([stream["leader"], *stream["replicas"]])
        told = f"{stream['first']} to {stream['last']}, {stream['fillPercent']} % full"
        lines.append(f"stream    {stream['name']}: {told}, on {copies}{late}")
    for server in shown["servers"]:
        if not server["answers"]:
            lines.append(f"server    {server['monitor']}: no answer ({server['problem']})")
            continue
        syncs = "syncs each commit" if server["syncsEachCommit"] else "DOES NOT SYNC each commit"
        lacks = "".join(f", lacks {count} messages of {name}" for name, count in server["lacks"].items())
        lines.append(f"server    {server['monitor']}: {syncs}{lacks}")
    return lines
