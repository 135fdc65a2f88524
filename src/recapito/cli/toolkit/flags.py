"""Flags that several verbs have, as one value: a dataclass whose fields are flags.

Typer reads flags from a signature: there such a parameter is its fields, and what was given is put together again.
"""

from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from inspect import Parameter
from typing import Any, get_type_hints


def spread(parameters: Sequence[Parameter]) -> list[Parameter]:
    """The parameters with each dataclass replaced by its fields, all by keyword."""
    return [flat for parameter in parameters for flat in _fields(parameter)]


def gather(parameters: Sequence[Parameter], given: Mapping[str, Any]) -> dict[str, Any]:
    """What was given, with the fields of each dataclass put together."""
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
