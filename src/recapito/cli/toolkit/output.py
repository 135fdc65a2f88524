"""The formats of answers: `-o` and `--query`, as az has them.

As in az, `properties` are merged into their resource, and the resource group is a member of its own.
"""

import json
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from enum import StrEnum
from typing import Any

import typer

from recapito.cli.text.terminal import escape, plain

Select = Callable[[Any], Any]
ToLines = Callable[[Any], Iterable[str]]

_GROUP = re.compile(r"/resourceGroups/([^/]+)/", re.IGNORECASE)
_HIDDEN_COLUMNS = ("id", "type", "etag", "kind", "metricResourceId", "publicNetworkAccess", "disableLocalAuth")
_WIDE = 10_000


class Output(StrEnum):
    """The forms of an answer."""

    JSON = "json"
    JSONC = "jsonc"
    YAML = "yaml"
    TABLE = "table"
    TSV = "tsv"
    NONE = "none"


def read_output(text: str, hint: str) -> Output:
    """The format of that name, or an error that names its source, `hint`."""
    if text not in tuple(Output):
        raise typer.BadParameter(f"'{text}' is not one of {', '.join(Output)}", param_hint=hint)
    return Output(text)


def show(value: Any) -> Any:
    """A resource, or a list of them, as az shows it; what is not a resource stays as it is."""
    if isinstance(value, list):
        return [show(member) for member in value]
    return _flatten(value) if isinstance(value, dict) and isinstance(value.get("id"), str) else value


def _flatten(value: Any) -> Any:
    if isinstance(value, list):
        return [_flatten(member) for member in value]
    if not isinstance(value, dict):
        return value
    flat: dict[str, Any] = {}
    for name, member in value.items():
        if name == "properties" and isinstance(member, dict):
            flat.update(_flatten(member))
        else:
            flat[name] = _flatten(member)
    group = _GROUP.search(str(value.get("id", "")))
    if group and "name" in value:
        flat["resourceGroup"] = group[1]
    return dict(sorted(flat.items()))


def read_query(query: str | None) -> Select | None:
    """The function that selects from an answer, or an error before the server is asked."""
    if query is None:
        return None
    import jmespath
    from jmespath.exceptions import JMESPathError

    def explain(error: Exception) -> typer.BadParameter:
        reason = str(error).splitlines()[0].removesuffix(", for expression:")
        return typer.BadParameter(f"this is not a JMESPath expression: {reason}", param_hint="--query")

    try:
        compiled = jmespath.compile(query)
    except JMESPathError as error:
        raise explain(error) from None

    def select(value: Any) -> Any:
        try:
            return compiled.search(value)
        except JMESPathError as error:  # a function that was given what it cannot take
            raise explain(error) from None

    return select


class Printer:
    """Prints what one command answers: all of it, or bit by bit as it comes."""

    def __init__(self, output: Output, select: Select | None, to_lines: ToLines | None) -> None:
        self._output = output
        self._select = select
        self._to_lines = to_lines if output is Output.TABLE and select is None else None

    @property
    def live(self) -> bool:
        """True if a person reads the answer on a terminal as it comes."""
        return self._to_lines is not None and sys.stdout.isatty()

    def print(self, answer: Any) -> Any:
        """Print an answer, and give it back."""
        if isinstance(answer, Iterator):
            self._print_bits(answer)
        elif self._to_lines is not None and answer is not None:
            self._print_lines(answer)
        else:
            print_answer(answer, self._output, self._select)
        return answer

    def _print_bits(self, bits: Iterator[Any]) -> None:
        """Until there are no more; such an answer may have no end but Ctrl-C."""
        try:
            for bit in bits:
                self._print_bit(bit)
        except KeyboardInterrupt:
            return

    def _print_lines(self, value: Any) -> None:
        assert self._to_lines is not None
        for line in self._to_lines(value):
            typer.echo(line)

    def _print_bit(self, value: Any) -> None:
        """One of many: JSON on one line each, so that a program can read line by line."""
        if self._to_lines is not None:
            self._print_lines(value)
        elif self._output in (Output.YAML, Output.TSV):
            print_answer([value], self._output, self._select and (lambda bits: [self._pick(bit) for bit in bits]))
        elif self._output is not Output.NONE:
            typer.echo(escape(json.dumps(self._pick(value), ensure_ascii=False)))

    def _pick(self, value: Any) -> Any:
        return value if self._select is None else self._select(value)


def print_answer(value: Any, output: Output, select: Select | None = None) -> None:
    """Print an answer; None prints nothing, as az does after a delete."""
    if select is not None:
        value = select(value)
    if value is None or output is Output.NONE:
        return
    match output:
        case Output.JSON:
            typer.echo(_json(value))
        case Output.JSONC:
            from rich.console import Console
            from rich.syntax import Syntax

            Console().print(Syntax(_json(value), "json", background_color="default", word_wrap=True))
        case Output.YAML:
            import yaml

            typer.echo(yaml.safe_dump(value, allow_unicode=True, sort_keys=False), nl=False)
        case Output.TSV:
            for row in value if isinstance(value, list) else [value]:
                typer.echo("\t".join(_tsv(cell) for cell in _cells(row)))
        case Output.TABLE:
            _print_table(value)


def _json(value: Any) -> str:
    return escape(json.dumps(value, indent=2, ensure_ascii=False))


def _cells(row: Any) -> Iterable[Any]:
    if isinstance(row, dict):
        return row.values()
    return row if isinstance(row, list) else [row]


def _tsv(cell: Any) -> str:
    """A cell on one line, without tabs and line ends. As in az, only the size of a nested value is shown."""
    if isinstance(cell, dict | list):
        return str(len(cell))
    return plain(_text(cell).replace("\\", "\\\\").replace("\t", "\\t").replace("\n", "\\n"))


def _text(cell: Any) -> str:
    if cell is None:
        return ""
    return str(cell) if isinstance(cell, str | int | float) and not isinstance(cell, bool) else json.dumps(cell)


def _print_table(value: Any) -> None:
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    rows = [_row(resource) for resource in (value if isinstance(value, list) else [value])]
    if not rows:
        return
    columns = list(dict.fromkeys(name for row in rows for name in row))
    columns.sort(key=lambda name: name != "name")
    table = Table(box=SIMPLE_HEAD)
    for name in columns:
        table.add_column(name[:1].upper() + name[1:], overflow="fold")  # an id that is cut short is of no use
    for row in rows:
        table.add_row(*(Text(plain(_text(row.get(name)))) for name in columns))  # as text: markup in it is only text
    console = Console(highlight=False)
    if not console.is_terminal and "COLUMNS" not in os.environ:
        console.width = _WIDE  # a program that reads it wants all of it
    console.print(table)


def _row(value: Any) -> dict[str, Any]:
    """The members of a resource that a table shows: the plain values."""
    if isinstance(value, dict):
        plain = {name: cell for name, cell in value.items() if not isinstance(cell, dict | list) and cell is not None}
        hidden = _HIDDEN_COLUMNS if "id" in value else ()  # they are so of resources
        return {name: cell for name, cell in plain.items() if name not in hidden} or plain
    if isinstance(value, list):
        return {f"column{n}": cell for n, cell in enumerate(value, 1)}
    return {"result": value}
