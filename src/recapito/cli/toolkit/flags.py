"""Flags: those that several commands have, how az's forms of them are parsed, and dataclasses of flags.

az has flags with several values up to the next flag, `--labels a b c`, and truths whose value may be left out.
The metavar of a flag decides which it is, so that help and parsing cannot differ.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from inspect import Parameter
from typing import Annotated, Any, get_type_hints

import typer
from typer.core import TyperCommand

from recapito.domain.events import schema

SEPARATOR = "\x1f"  # no shell passes it by accident
MARK = "..."
TRUTH = "[true|false]"
_TRUE, _FALSE = ("true", "yes", "1"), ("false", "no", "0")
_NUMBER = re.compile(r"-[0-9.]")


class AzFlagsCommand(TyperCommand):
    """A command whose options with a metavar that ends in `...` take all that follows, up to the next flag.

    Those with the metavar `[true|false]` are true if nothing of the kind follows.
    """

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Put what belongs to one flag into one value before the usual parsing."""
        greedy = {opt for param in self.params if (param.metavar or "").endswith(MARK) for opt in param.opts}
        truths = {opt for param in self.params if param.metavar == TRUTH for opt in param.opts}
        return super().parse_args(ctx, _join(args, greedy, truths))


def _join(args: list[str], greedy: set[str], truths: set[str]) -> list[str]:
    joined: list[str] = []
    rest = list(args)
    while rest:
        word = rest.pop(0)
        joined.append(word)
        if word == "--":
            return joined + rest
        if word in truths and not (rest and rest[0].lower() in _TRUE + _FALSE):
            joined.append("true")
        elif word in greedy:
            values = []
            while rest and (not rest[0].startswith("-") or _NUMBER.match(rest[0])):
                values.append(rest.pop(0))
            if values:
                joined.append(SEPARATOR.join(values))
    return joined


def split(value: str) -> list[str]:
    """The values of one use of such a flag."""
    return value.split(SEPARATOR) if value else []


def flatten(uses: list[str] | None) -> list[str] | None:
    """The values of all uses of such a flag; None if it was not given. One empty value is none: `--labels ''`."""
    return None if uses is None else [word for use in uses for word in split(use)]


def truth(value: str | None, flag: str) -> bool | None:
    """The value of a flag that is true or false; None if it was not given."""
    if value is None:
        return None
    if value.lower() not in _TRUE + _FALSE:
        raise typer.BadParameter(f"'{value}' is neither true nor false", param_hint=flag)
    return value.lower() in _TRUE


def pairs(uses: list[str] | None, flag: str) -> dict[str, str] | None:
    """The values of a flag like `--tags a=b c=d`; None if it was not given."""
    words = flatten(uses)
    if words is None:
        return None
    values = {}
    for word in words:
        key, equals, value = word.partition("=")
        if not key or not equals:
            raise typer.BadParameter(f"'{word}' is not KEY=VALUE", param_hint=flag)
        values[key] = value
    return values


def spread(parameters: Sequence[Parameter]) -> list[Parameter]:
    """The parameters with each dataclass replaced by its fields, all by keyword."""
    return [flat for parameter in parameters for flat in _fields(parameter)]


def gather(parameters: Sequence[Parameter], given: Mapping[str, Any]) -> dict[str, Any]:
    """The given values, with the fields of each dataclass as one value."""
    return {parameter.name: _value(parameter, given) for parameter in parameters}


def _fields(parameter: Parameter) -> list[Parameter]:
    kind = parameter.annotation
    if not is_dataclass(kind):
        return [parameter.replace(kind=Parameter.KEYWORD_ONLY)]
    hints = get_type_hints(kind, include_extras=True)
    return [
        Parameter(field.name, Parameter.KEYWORD_ONLY, default=field.default, annotation=hints[field.name])
        for field in fields(kind)
    ]


def _value(parameter: Parameter, given: Mapping[str, Any]) -> Any:
    kind = parameter.annotation
    if not isinstance(kind, type) or not is_dataclass(kind):
        return given[parameter.name]
    return kind(**{field.name: given[field.name] for field in fields(kind)})


Name = Annotated[str | None, typer.Option("--name", "-n", help="Name of the resource.")]
NameOrId = Annotated[str | None, typer.Option("--name", "-n", "--ids", help="Name, or full resource id.")]
Group = Annotated[str | None, typer.Option("--resource-group", "-g", help="Resource group.", show_default="local")]
Location = Annotated[str | None, typer.Option("--location", "-l", help="Location.", show_default="local")]
Tags = Annotated[
    list[str] | None, typer.Option(metavar="KEY=VALUE...", help="Tags as KEY=VALUE pairs; '' removes all tags.")
]
InputSchema = Annotated[
    str | None,
    typer.Option(
        help=f"Input schema: {schema.listed(schema.InputSchema)}.",
        show_default=schema.InputSchema.EVENT_GRID.lower(),
    ),
]
MappingFields = Annotated[
    list[str] | None,
    typer.Option(
        "--input-mapping-fields",
        metavar="FIELD=SOURCE...",
        help="Source fields of id, topic, eventtime, subject, eventtype and dataversion.",
    ),
]
MappingDefaults = Annotated[
    list[str] | None,
    typer.Option(
        "--input-mapping-default-values",
        metavar="FIELD=VALUE...",
        help="Defaults of subject, eventtype and dataversion.",
    ),
]
IpRules = Annotated[
    list[str] | None,
    typer.Option(
        "--inbound-ip-rules", metavar="CIDR...", help="Address ranges that may publish, each followed by Allow."
    ),
]
PublicAccess = Annotated[
    str | None, typer.Option("--public-network-access", help="enabled, or disabled to let only this machine publish.")
]
NoLocalAuth = Annotated[
    str | None, typer.Option("--disable-local-auth", metavar=TRUTH, help="Accept tokens only, no keys.")
]
Filter = Annotated[str | None, typer.Option("--odata-query", help="Filter on names, such as contains(name, 'order').")]
NoWait = Annotated[bool, typer.Option("--no-wait", help="Do not wait for the operation to finish.")]
KeyName = Annotated[str, typer.Option("--key-name", help="key1 or key2.")]


def read_secret(given: str | None, what: str) -> str | None:
    """The given text; a dash reads it, which keeps a secret out of the list of processes and off the terminal."""
    if given != "-":
        return given
    stdin = typer.get_text_stream("stdin")
    if stdin.isatty():
        return str(typer.prompt(what, hide_input=True, err=True)).strip()
    if text := stdin.readline().strip():
        return text
    raise typer.BadParameter("standard input is empty", param_hint=what)
