"""The command line: `commands` has one file per noun. An error that the user can correct is one line, no traceback."""

import sys
from collections.abc import Sequence
from errno import EPIPE
from typing import Annotated, ClassVar

import typer

from recapito.cli.toolkit.elsewhere import put_flags_last
from recapito.cli.toolkit.exit_codes import FAILED, INTERRUPTED, NOT_FOUND, TRY_AGAIN, WRONG_SETTINGS, WRONG_USE
from recapito.cli.toolkit.fatal import describe_defect, describe_os_error, give_up_output
from recapito.cli.toolkit.lazy import LazyGroup, LazyTarget
from recapito.errors import CallerError, ClusterUnreachable, NotFound, SettingsError, VolumeFull

COMMON_VALUED = frozenset(
    f"--{name}"
    for name in ("server", "subscription", "ca-file", "tenant", "client-id", "client-secret", "output", "query")
)
COMMON_SWITCHES = frozenset({"--only-show-errors"})
"""The flags that every command with a server has; they may stand before the command too."""


class Commands(LazyGroup):
    """All commands, in the order of the help."""

    table: ClassVar = {
        "serve": LazyTarget("serve", "serve", "Run the server."),
        "topic": LazyTarget("topic", "app", "Manage topics and their keys."),
        "event-subscription": LazyTarget("event_subscription", "app", "Manage event subscriptions."),
        "domain": LazyTarget("domain", "app", "Manage domains, their topics and their keys."),
        "system-topic": LazyTarget("system_topic", "app", "Manage system topics."),
        "topic-type": LazyTarget("topic_type", "app", "List topic types and their event types."),
        "publish": LazyTarget("publish", "app", "Publish events."),
        "listen": LazyTarget("listen", "app", "Run a webhook receiver that can simulate failures."),
        "explain": LazyTarget("explain", "app", "Explain the deliveries of an event."),
        "tail": LazyTarget("tail", "app", "Print deliveries as they happen."),
        "top": LazyTarget("top", "app", "Show rates and backlogs of event subscriptions, live."),
        "clock": LazyTarget("clock", "app", "Show or move the server's clock."),
        "deadletter": LazyTarget("deadletter", "app", "List, redrive and purge dead letters."),
        "retry-now": LazyTarget("retry_now", "app", "Try now what waits for its next attempt."),
        "replay": LazyTarget("replay", "app", "Deliver kept events to an event subscription again."),
        "limit": LazyTarget("limit", "app", "Limit the rate of an event subscription."),
        "damaged": LazyTarget("damaged", "app", "List and export damaged records."),
        "connection": LazyTarget("connection", "app", "Manage connections to Azure resources."),
        "apply": LazyTarget("estate", "apply_app", "Make a server what a file describes."),
        "export": LazyTarget("estate", "export_app", "Print all resources as a file."),
        "schema": LazyTarget("estate", "schema", "Print the JSON schema of estate files."),
        "sign": LazyTarget("sign", "app", "Sign the requests of an event subscription."),
        "schedule": LazyTarget("schedule", "app", "Print the retry schedule of a failing endpoint."),
        "doctor": LazyTarget("doctor", "app", "Find problems and name their remedies."),
        "config": LazyTarget("config", "app", "Show and set the defaults of flags."),
        "profile": LazyTarget("profile", "app", "Show the profiles: Event Grid's behaviour by date."),
        "settings": LazyTarget("info", "settings", "Print all settings of the server, with their defaults."),
        "tls": LazyTarget("tls", "tls", "Print how clients trust the server's own certificate."),
        "scrape-token": LazyTarget("scrape_token", "scrape_token", "Print the token for reading metrics."),
        "backup": LazyTarget("backup", "backup", "Copy the stores of a running server."),
        "restore": LazyTarget("backup", "restore", "Restore a backup as a data directory."),
        "cluster": LazyTarget("cluster", "app", "Make, join, show, drain, back up, restore and upgrade a cluster."),
        "move": LazyTarget("move", "move", "Move a store into a cluster, or out of one."),
        "completion": LazyTarget("info", "completion", "Print the completion script for your shell."),
        "version": LazyTarget("info", "version", "Print the version."),
    }


app = typer.Typer(
    cls=Commands,
    name="recapito",
    help="Azure Event Grid's push delivery that you run yourself.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["--help", "-h"]},
)


def _show_version(wanted: bool) -> None:
    if wanted:
        from recapito.cli.commands.info import version

        version()
        raise typer.Exit


@app.callback()
def recapito(
    version: Annotated[
        bool, typer.Option("--version", is_eager=True, callback=_show_version, help="Print the version.")
    ] = False,
) -> None:
    """Azure Event Grid's push delivery that you run yourself."""


def run(arguments: Sequence[str] | None = None) -> int:
    """Run a command; the exit code."""
    words = put_flags_last(sys.argv[1:] if arguments is None else arguments, COMMON_VALUED, COMMON_SWITCHES)
    try:
        app(words, prog_name="recapito")
    except SettingsError as error:
        return _end(str(error), TRY_AGAIN if isinstance(error, VolumeFull | ClusterUnreachable) else WRONG_SETTINGS)
    except CallerError as error:
        return _end(error.message, NOT_FOUND if isinstance(error, NotFound) else FAILED)
    except KeyboardInterrupt:
        return INTERRUPTED
    except OSError as error:
        give_up_output()
        return FAILED if error.errno == EPIPE else _end(describe_os_error(error), FAILED)
    except UnicodeEncodeError as error:
        return _end(f"{error.object!a} cannot be sent as text; check the locale", WRONG_USE)
    except Exception as error:
        return _end(describe_defect(error), FAILED)
    return 0


def _end(text: str, code: int) -> int:
    typer.echo(f"recapito: {text}", err=True)
    return code
