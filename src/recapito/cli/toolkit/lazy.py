"""Commands that start quickly: a module is imported when its command runs, and Typer's slow conversions are skipped.

Typer converts every value by pydantic, which takes longer to load than most commands take to run. A value that has its
flag's type already, and a flag that was not given, skip that; all others go the usual way.
"""

from collections.abc import Mapping
from enum import Enum
from importlib import import_module
from typing import Any, ClassVar, NamedTuple

import typer
from typer.core import TyperCommand, TyperGroup

from recapito.cli.toolkit.elsewhere import place_of

_UNKNOWN = object()


def quicken(command: Any) -> None:
    """Skip the conversion of plain values in a command and all commands below it."""
    for parameter in command.params:
        _quicken(parameter)
    _quicken_help(command)
    for below in getattr(command, "commands", {}).values():
        quicken(below)


def _quicken_help(command: Any) -> None:
    """--help is no parameter of a command; Typer makes it on demand."""
    usual = command.get_help_option

    def get_help_option(ctx: Any) -> Any:
        option = usual(ctx)
        if option is not None:
            _quicken(option)
        return option

    command.get_help_option = get_help_option


def _quicken(parameter: Any) -> None:
    usual = parameter.process_value
    annotation = getattr(getattr(parameter, "type_descriptor", None), "annotation", None)

    def process_value(ctx: Any, value: Any) -> Any:
        converted = _unconverted(parameter, annotation, value)
        if converted is _UNKNOWN:
            return usual(ctx, value)
        return converted if parameter.callback is None else parameter.callback(ctx, parameter, converted)

    parameter.process_value = process_value


def _unconverted(parameter: Any, annotation: Any, value: Any) -> Any:
    if value is None and not parameter.required:
        return () if parameter.multiple or parameter.nargs == -1 else None
    if isinstance(annotation, type) and type(value) is annotation:
        return value
    if annotation == list[str] and isinstance(value, list | tuple) and all(type(member) is str for member in value):
        return list(value) if value or not parameter.required else _UNKNOWN
    if (
        isinstance(annotation, type)
        and issubclass(annotation, Enum)
        and value in [member.value for member in annotation]
    ):
        return annotation(value)
    return _UNKNOWN


class HelpfulGroup(TyperGroup):
    """A group that knows where a command is that it does not have."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """As usual; a command that is elsewhere is an error that names the place."""
        root = ctx.find_root()
        if args and args[0] not in self.commands:
            remedy = place_of(args[0], "" if ctx is root else self.name or "", root.command.commands)
            if remedy is not None:
                ctx.fail(f"No such command '{args[0]}' here. {remedy}")
        return super().resolve_command(ctx, args)


def commands(help: str | None = None, cls: type[TyperGroup] = HelpfulGroup) -> typer.Typer:
    """Commands of one noun, or one command alone."""
    return typer.Typer(
        cls=cls, help=help, no_args_is_help=help is not None, add_completion=False, rich_markup_mode=None
    )


class LazyTarget(NamedTuple):
    """A command: its module in `cli/commands`, its name there, and its line in the help."""

    module: str
    attribute: str
    help: str


class LazyCommand(TyperCommand):
    """Stands for a command or a group until it runs."""

    def __init__(self, name: str, target: LazyTarget) -> None:
        super().__init__(name, help=target.help, rich_markup_mode=None)
        self._target = target

    def load(self) -> TyperCommand | TyperGroup:
        """The command itself, from its module."""
        target = getattr(import_module(f"recapito.cli.commands.{self._target.module}"), self._target.attribute)
        if not isinstance(target, typer.Typer):
            alone = commands()
            alone.command(self.name)(target)
            target = alone
        real = typer.main.get_command(target)
        assert isinstance(real, TyperCommand | TyperGroup)
        real.name = self.name
        quicken(real)
        return real

    def make_context(self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any) -> Any:
        """The context of the command itself."""
        return self.load().make_context(info_name, args, parent, **extra)


class LazyGroup(HelpfulGroup):
    """A group whose commands are the entries of a table."""

    table: ClassVar[Mapping[str, LazyTarget]] = {}

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.commands.update({name: LazyCommand(name, target) for name, target in self.table.items()})

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """As usual. Only here are all flags known: Typer adds some to a group after its construction."""
        quicken(self)
        return super().parse_args(ctx, args)
