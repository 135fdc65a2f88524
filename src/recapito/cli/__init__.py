"""The command line: one file per noun. Nothing here prints a traceback for what the user can mend."""

import sys

import typer

from recapito.cli import backup, deadletter, profile, serve, settings, tls
from recapito.cli.exit import FAILED, WRONG_SETTINGS
from recapito.errors import CallerError, SettingsError

app = typer.Typer(
    name="recapito",
    help="Azure Event Grid's push delivery that you run yourself.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
app.command("serve")(serve.serve)
app.command("backup")(backup.backup)
app.command("restore")(backup.restore)
app.command("tls")(tls.tls)
app.command("settings")(settings.settings)
app.add_typer(profile.app, name="profile")
app.add_typer(deadletter.app, name="deadletter")


@app.command("version")
def version() -> None:
    """Print the version."""
    from recapito import __version__

    typer.echo(f"recapito {__version__}")


def run() -> int:
    """Run a command; the exit code."""
    try:
        app()
    except SettingsError as error:
        typer.echo(f"recapito: {error}", err=True)
        return WRONG_SETTINGS
    except CallerError as error:
        typer.echo(f"recapito: {error.message}", err=True)
        return FAILED
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        sys.stderr.close()
        return FAILED
    return 0
