"""Columns: many values of one kind, field by field, made without a step of Python's for each value."""

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec
from msgspec.structs import astuple


def by_field(kind: type[msgspec.Struct], values: Iterable[msgspec.Struct]) -> Sequence[Sequence[Any]]:
    """The fields of values of this kind, each as a column."""
    return tuple(zip(*map(astuple, values), strict=True)) or ((),) * len(kind.__struct_fields__)


def numbered(names: Sequence[str]) -> tuple[list[str], list[int]]:
    """The distinct names, and for each name which of them it is; mostly there is but one."""
    distinct = list(dict.fromkeys(names))
    if len(distinct) == 1:
        return distinct, [0] * len(names)
    number = {name: n for n, name in enumerate(distinct)}
    return distinct, [number[name] for name in names]
