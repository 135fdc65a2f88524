"""`recapito config`: show and set the defaults of flags."""

from pathlib import Path
from typing import Annotated, Any

import typer

from recapito.cli.toolkit.defaults import DEFAULTS, choose, file_path, read_file, source, write_file
from recapito.cli.toolkit.lazy import commands
from recapito.cli.toolkit.output import Output, read_output
from recapito.cli.toolkit.session import host_of
from recapito.cli.toolkit.verb import Noun

app = commands("Show and set the defaults of flags.")
noun = Noun(app)

Key = Annotated[str, typer.Argument(help=f"One of {', '.join(DEFAULTS)}.")]


@noun.verb("set", session=False)
def set_default(key: Key, value: Annotated[str, typer.Argument(help="New default.")]) -> None:
    """Set the default of a flag."""
    _check(key)
    if "\n" in value or not value.isprintable():
        raise typer.BadParameter("a value is one line of text", param_hint="VALUE")
    if key == "server":
        host_of(value, "VALUE")
    elif key == "output":
        read_output(value, "VALUE")
    elif key == "ca_file" and value:
        value = str(Path(value).absolute())  # it is meant from wherever a command runs
    path = write_file(read_file() | {key: value})
    typer.echo(f"Wrote {key} to {path}.", err=True)


@noun.verb("unset", session=False)
def unset(key: Key) -> None:
    """Restore the built-in default of a flag."""
    _check(key)
    write_file({name: value for name, value in read_file().items() if name != key})


@noun.verb("show", session=False, form=Output.TABLE)
def show() -> list[dict[str, Any]]:
    """Show each default and its source; keys stay hidden."""
    return [
        {"name": key, "value": _hide(key, choose(key, None)), "source": source(key), "meaning": default.help}
        for key, default in DEFAULTS.items()
    ]


@noun.verb("path", session=False)
def path() -> None:
    """Print the path of the configuration file."""
    typer.echo(str(file_path()))


def _check(key: str) -> None:
    if key not in DEFAULTS:
        raise typer.BadParameter(f"'{key}' is not one of {', '.join(DEFAULTS)}", param_hint="KEY")


def _hide(key: str, value: str) -> str:
    return "(set)" if key == "key" and value else value
