"""Commands that are imported when they are run, so that the help and a small command start quickly."""

from collections.abc import Mapping
from importlib import import_module
from typing import Any, ClassVar, NamedTuple

import typer
from typer.core import TyperCommand, TyperGroup

from recapito.cli.toolkit.typer_startup import quicken


def commands(help: str | None = None, cls: type[TyperGroup] = TyperGroup) -> typer.Typer:
    """Commands of one noun, or one command alone."""
    return typer.Typer(
        cls=cls, help=help, no_args_is_help=help is not None, add_completion=False, rich_markup_mode=None
    )


class Target(NamedTuple):
    """Where a command is: a module of `cli/commands` and what it is called there, with what the help says of it."""

    module: str
    attribute: str
    help: str


class LazyCommand(TyperCommand):
    """Stands for a command or a group until somebody runs it."""

    def __init__(self, name: str, target: Target) -> None:
        super().__init__(name, help=target.help, rich_markup_mode=None)
        self._target = target

    def load(self) -> TyperCommand | TyperGroup:
        """The real one."""
        found = getattr(import_module(f"recapito.cli.commands.{self._target.module}"), self._target.attribute)
        if not isinstance(found, typer.Typer):
            alone = commands()
            alone.command(self.name)(found)
            found = alone
        real = typer.main.get_command(found)
        assert isinstance(real, TyperCommand | TyperGroup)
        real.name = self.name
        quicken(real)
        return real

    def make_context(self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any) -> Any:
        """The real one's context, in which the real one is the command."""
        return self.load().make_context(info_name, args, parent, **extra)


class LazyGroup(TyperGroup):
    """A group whose commands are the entries of a table."""

    table: ClassVar[Mapping[str, Target]] = {}

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.commands.update({name: LazyCommand(name, target) for name, target in self.table.items()})

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """As usual; only here are all flags known, since Typer adds some to a group that is made."""
        quicken(self)
        return super().parse_args(ctx, args)
