"""Names that others rely on, and that no page of docs/reference has: the journal's, the flags' forms, the API's."""

import ast
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer.main
from typer.core import TyperGroup

from tests.api.client import World
from tests.golden import imports as it

SOURCE = Path(it.package.__file__).parent


def journal() -> str:
    """Every event of the journal with the names of its fields, as the source writes them down."""
    found: dict[str, set[str]] = {}
    for event, fields in _lines_of_journal():
        found.setdefault(event, set()).update(fields)
    return "".join(f"{' '.join([event, *sorted(fields)])}\n" for event, fields in sorted(found.items()))


def _lines_of_journal() -> Iterator[tuple[str, list[str]]]:
    for path in sorted(SOURCE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Call) and _called(node.func).endswith(it.JOURNAL) and node.args:
                yield from _events(node, path)


def _events(call: ast.Call, path: Path) -> Iterator[tuple[str, list[str]]]:
    """The events of one call: a name, or one of two; anything else could not be found in the source."""
    named = call.args[0]
    choices = [named.body, named.orelse] if isinstance(named, ast.IfExp) else [named]
    for choice in choices:
        assert isinstance(choice, ast.Constant) and isinstance(choice.value, str), (
            f"{path.name}, line {call.lineno}: the journal's event is not written down"
        )
        yield choice.value, [keyword.arg or "**" for keyword in call.keywords]


def _called(function: ast.expr) -> str:
    return (
        function.attr if isinstance(function, ast.Attribute) else function.id if isinstance(function, ast.Name) else ""
    )


def command_line() -> str:
    """Every command with its parameters: all their spellings, what they take, and what they are without being given."""
    root = typer.main.get_command(it.cli_app)
    assert isinstance(root, TyperGroup)
    return "".join(f"{line}\n" for line in _commands(root, "recapito"))


def _commands(group: TyperGroup, prefix: str) -> Iterator[str]:
    for name, lazy in sorted(group.commands.items()):
        command = lazy.load() if isinstance(lazy, it.LazyCommand) else lazy
        yield f"{prefix} {name}{' (hidden)' if command.hidden else ''}"
        if isinstance(command, TyperGroup):
            yield from _commands(command, f"{prefix} {name}")
        else:
            yield from (f"    {_parameter(one)}" for one in command.params if one.name != "help")


def _parameter(parameter: Any) -> str:
    """Arguments have no spelling that anybody writes, but an order."""
    is_option = parameter.param_type_name == "option"
    spelled = ", ".join([*parameter.opts, *parameter.secondary_opts]) if is_option else "ARGUMENT"
    holds = {
        "flag": getattr(parameter, "is_flag", False),
        "required": parameter.required,
        "repeated": parameter.multiple or parameter.nargs != 1,
        "hidden": parameter.hidden,
    }
    shown = parameter.default if isinstance(parameter.show_default, bool) else parameter.show_default
    default = "" if callable(shown) or shown in (None, False, (), []) else f"= {getattr(shown, 'value', shown)}"
    variable = f"${parameter.envvar}" if parameter.envvar else ""
    return " ".join(filter(None, [spelled, *(word for word, so in holds.items() if so), default, variable]))


async def description() -> str:
    """The description of the API, as a server shows it, but on many lines."""
    async with World() as world:
        answer = await world.call("GET", "/openapi.json")
    assert answer.status == 200
    shown = json.loads(answer.body)
    assert shown["info"]["version"] == it.package.__version__
    shown["info"]["version"] = "<version>"
    return json.dumps(shown, indent=1, ensure_ascii=False) + "\n"
