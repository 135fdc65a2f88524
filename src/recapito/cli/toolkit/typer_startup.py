"""Start quickly: Typer coerces every value by pydantic, which takes longer to load than most commands to run.

What is of its flag's type already, and what was not given, goes past it; all else takes Typer's own way.
"""

from enum import Enum
from typing import Any

_UNKNOWN = object()


def quicken(command: Any) -> None:
    """Let a command, and the commands below it, take plain values as they are."""
    for parameter in command.params:
        _quicken(parameter)
    _quicken_help(command)
    for below in getattr(command, "commands", {}).values():
        quicken(below)


def _quicken_help(command: Any) -> None:
    """--help is no parameter of a command; it is made when it is asked for."""
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
        known = _as_it_is(parameter, annotation, value)
        if known is _UNKNOWN:
            return usual(ctx, value)
        return known if parameter.callback is None else parameter.callback(ctx, parameter, known)

    parameter.process_value = process_value


def _as_it_is(parameter: Any, annotation: Any, value: Any) -> Any:
    if value is None and not parameter.required:
        return () if parameter.multiple or parameter.nargs == -1 else None
    if isinstance(annotation, type) and type(value) is annotation:
        return value
    if annotation == list[str] and isinstance(value, list | tuple) and all(type(one) is str for one in value):
        return list(value) if value or not parameter.required else _UNKNOWN
    if isinstance(annotation, type) and issubclass(annotation, Enum) and value in [one.value for one in annotation]:
        return annotation(value)
    return _UNKNOWN
