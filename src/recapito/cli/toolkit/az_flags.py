"""Flags as az has them: with several values up to the next flag, `--labels a b c`, or a truth that may be left out.

Which of them a flag is, its metavar says, so that the help and the parsing can not differ.
"""

import re
from typing import Any

import typer
from typer.core import TyperCommand

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
    return None if uses is None else [one for use in uses for one in split(use)]


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
    found = {}
    for word in words:
        key, equals, value = word.partition("=")
        if not key or not equals:
            raise typer.BadParameter(f"'{word}' is not KEY=VALUE", param_hint=flag)
        found[key] = value
    return found
