"""The frame of all commands that ask a server: common flags, the session, and the printing of the answer.

A command is a function of a session; the flags of every command are added here, once.
"""

import functools
import inspect
from collections.abc import Callable
from typing import Annotated, Any

import typer

from recapito.cli.toolkit.defaults import choose, source
from recapito.cli.toolkit.exit_codes import FAILED
from recapito.cli.toolkit.flags import AzFlagsCommand, gather, spread
from recapito.cli.toolkit.output import Output, Printer, ToLines, read_output, read_query, show
from recapito.cli.toolkit.session import CommandSession, connect

Command = Callable[..., Any]
Judge = Callable[[Any], bool]

_QUERY: dict[str, Any] = {
    "query": Annotated[str | None, typer.Option(help="JMESPath expression applied to the answer.")]
}
_CONNECTION: dict[str, Any] = {
    "server": Annotated[str | None, typer.Option(help="URL of the server.", show_default="http://127.0.0.1:8585")],
    "subscription": Annotated[str | None, typer.Option(help="Azure subscription id.")],
    "ca_file": Annotated[str | None, typer.Option(help="CA certificate (PEM file) used to verify the server.")],
    "tenant": Annotated[str | None, typer.Option(help="Tenant to sign in to.")],
    "client_id": Annotated[str | None, typer.Option(help="Client id to sign in with.")],
    "client_secret": Annotated[str | None, typer.Option(help="Client secret to sign in with.")],
    "only_show_errors": Annotated[
        bool | None, typer.Option("--only-show-errors", help="Print only answers and errors.")
    ],
}
COMMON = ("output", *_QUERY, *_CONNECTION)
_NAME = Annotated[str | None, typer.Argument(metavar="NAME", help="The same as --name.", show_default=False)]


class Noun:
    """Adds verbs to the commands of a noun."""

    def __init__(self, app: typer.Typer) -> None:
        self._app = app

    def verb(
        self,
        name: str,
        session: bool = True,
        form: Output = Output.JSON,
        judge: Judge = lambda answer: True,
        to_lines: ToLines | None = None,
    ) -> Callable[[Command], Command]:
        """A verb. With `session` its function gets one as its first argument.

        `form` is the default format; `judge` returns whether an answer is a success; `to_lines` makes the lines that
        people read in place of a table. An answer that is an iterator is printed item by item.
        """

        def add(function: Command) -> Command:
            self._app.command(name, cls=AzFlagsCommand)(dress(function, session, form, judge, to_lines))
            return function

        return add


def dress(function: Command, session: bool, usual: Output, judge: Judge, to_lines: ToLines | None = None) -> Command:
    """The function as Typer sees it: with the flags that all verbs have, printing what it returns.

    A flag of its own replaces the common one of the same name. A parameter `live` is no flag: it is true if a person
    reads the answer as it comes.
    """
    signature = inspect.signature(function, eval_str=True)
    own = list(signature.parameters.values())[1 if session else 0 :]
    asks_live = "live" in signature.parameters
    own = [parameter for parameter in own if parameter.name != "live"]
    flat = spread(own)
    names = {parameter.name for parameter in flat}
    by_position = "name" in names
    asking = {key: hint for key, hint in _CONNECTION.items() if session and key not in names}

    @functools.wraps(function)
    def run(**given: Any) -> None:
        printer = Printer(_form(given.pop("output"), usual, session), read_query(given.pop("query")), to_lines)
        connection = {key: given.pop(key) for key in asking}
        if by_position:
            given["name"] = _pick(given.pop("positional_name"), given["name"])
        wanted = gather(own, given) | ({"live": printer.live} if asks_live else {})
        if session:
            with connect(**connection) as opened:
                answer = printer.print(show(function(opened, **wanted)))
        else:
            answer = printer.print(function(**wanted))
        if not judge(answer):
            raise typer.Exit(FAILED)

    first = [_parameter("positional_name", _NAME)] if by_position else []
    common = {"output": _printed(usual), **_QUERY, **asking}
    parameters = first + flat + [_parameter(key, hint) for key, hint in common.items()]
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return run


def _printed(usual: Output) -> Any:
    return Annotated[
        Output | None, typer.Option("--output", "-o", help="Format of the answer.", show_default=usual.value)
    ]


def _parameter(name: str, annotation: Any) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation)


def _pick(positional: str | None, flag: str | None) -> str:
    if positional is not None and flag is not None and positional != flag:
        raise typer.BadParameter(f"the name is given twice, '{positional}' and '{flag}'", param_hint="--name")
    name = positional if flag is None else flag
    if name is None:
        raise typer.BadParameter("a name is required", param_hint="--name")
    return name


def _form(output: Output | None, usual: Output, strict: bool) -> Output:
    """The format. Commands without a server ignore a wrong default: `recapito config` must run to correct it."""
    if output is not None:
        return output
    if source("output") == "default":
        return usual
    chosen = choose("output", None)
    try:
        return read_output(chosen, source("output"))
    except typer.BadParameter:
        if strict:
            raise
        return usual


__all__ = ["CommandSession", "Noun"]
