"""What all commands that ask a server have in common: flags, the session, and how what they return is printed.

A command is a function of a session; the flags of every command are added here, once.
"""

import functools
import inspect
from collections.abc import Callable
from typing import Annotated, Any

import typer

from recapito.cli.toolkit.az_flags import AzFlagsCommand
from recapito.cli.toolkit.defaults import choose, source
from recapito.cli.toolkit.exit_codes import FAILED
from recapito.cli.toolkit.flags import gather, spread
from recapito.cli.toolkit.output import Output, Printer, Tell, read_output, read_query, show
from recapito.cli.toolkit.session import Session, connect

Command = Callable[..., Any]
Judge = Callable[[Any], bool]

_QUERY: dict[str, Any] = {
    "query": Annotated[str | None, typer.Option(help="A JMESPath expression that selects from the answer.")]
}
_CONNECTION: dict[str, Any] = {
    "server": Annotated[str | None, typer.Option(help="The URL of the server.", show_default="http://127.0.0.1:8585")],
    "subscription": Annotated[str | None, typer.Option(help="The Azure subscription id.")],
    "ca_file": Annotated[str | None, typer.Option(help="The authority that the server is trusted by, a PEM file.")],
    "tenant": Annotated[str | None, typer.Option(help="The tenant to sign in at.")],
    "client_id": Annotated[str | None, typer.Option(help="Who signs in.")],
    "client_secret": Annotated[str | None, typer.Option(help="The secret of who signs in.")],
    "only_show_errors": Annotated[
        bool | None, typer.Option("--only-show-errors", help="Say nothing but answers and errors.")
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
        tell: Tell | None = None,
    ) -> Callable[[Command], Command]:
        """A verb. With `session` its function gets one as its first argument.

        `form` is how it prints if nobody says otherwise; `judge` says whether the answer is a success; `tell` gives
        the lines that people read in place of a table. An answer that comes bit by bit, an iterator, is printed so.
        """

        def add(function: Command) -> Command:
            self._app.command(name, cls=AzFlagsCommand)(dress(function, session, form, judge, tell))
            return function

        return add


def dress(function: Command, session: bool, usual: Output, judge: Judge, tell: Tell | None = None) -> Command:
    """The function as Typer sees it: with the flags that all verbs have, printing what it returns.

    A flag of its own goes before the common one of the same name. A parameter `live` is no flag: it says whether a
    person looks at the answer as it comes.
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
        printer = Printer(_form(given.pop("output"), usual, session), read_query(given.pop("query")), tell)
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
        Output | None, typer.Option("--output", "-o", help="How the answer is printed.", show_default=usual.value)
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
    """How to print. Who asks no server is not strict: `recapito config` must work to put a wrong default right."""
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


__all__ = ["Noun", "Session"]
