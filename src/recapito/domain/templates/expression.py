"""The language of template expressions: `[concat('a', parameters('b').c[0])]` into a tree.

A text in brackets is an expression; `[[` at its beginning stands for one bracket of a plain text. Names of functions
compare without case.
"""

import re
from functools import lru_cache
from typing import Any, NamedTuple

from recapito.domain import limits


class Literal(NamedTuple):
    """A text or a whole number."""

    value: str | int


class Call(NamedTuple):
    """A function with its arguments; the name is in lower case."""

    name: str
    arguments: tuple[Any, ...]


class Member(NamedTuple):
    """A member of an object by its name, or of an array by its index."""

    of: Any
    key: Any


Expression = Literal | Call | Member

_TOKEN = re.compile(r"\s*(?:(?P<text>'(?:[^']|'')*')|(?P<number>-?\d+)|(?P<name>[A-Za-z_]\w*)|(?P<mark>[(),.\[\]]))")


class NotAnExpression(ValueError):
    """The text between the brackets does not follow the language."""


def is_expression(text: str) -> bool:
    return text.startswith("[") and text.endswith("]") and not text.startswith("[[")


def plain_text(text: str) -> str:
    """The text that a string which is no expression stands for."""
    return text[1:] if text.startswith("[[") else text


def escape(text: str) -> str:
    """The string that stands for a text."""
    return f"[{text}" if text.startswith("[") else text


@lru_cache(1024)
def parse(text: str) -> Expression:
    """The tree of an expression, given with its brackets."""
    if len(text) > limits.EXPRESSION_CHARS:
        raise NotAnExpression(f"it is longer than {limits.EXPRESSION_CHARS} characters")
    return _ExpressionParser(text[1:-1]).whole()


class _ExpressionParser:
    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._depth = 0
        self._kind, self._token = self._read()

    def whole(self) -> Expression:
        tree = self._expression()
        if self._kind != "end":
            raise self._unexpected()
        return tree

    def _read(self) -> tuple[str, str]:
        match = _TOKEN.match(self._text, self._at)
        if match is None:
            if self._text[self._at :].strip():
                raise NotAnExpression(f"'{self._text[self._at :].strip()[0]}' is not expected there")
            return "end", ""
        self._at = match.end()
        kind = match.lastgroup or ""
        return kind, match[kind]

    def _next(self) -> str:
        token = self._token
        self._kind, self._token = self._read()
        return token

    def _expect(self, mark: str) -> None:
        if self._kind != "mark" or self._token != mark:
            raise self._unexpected(f"'{mark}'")
        self._next()

    def _unexpected(self, wanted: str = "") -> NotAnExpression:
        found = f"'{self._token}'" if self._token else "the end"
        return NotAnExpression(f"{found} is not expected there" + (f", but {wanted}" if wanted else ""))

    def _expression(self) -> Expression:
        self._depth += 1
        if self._depth > limits.EXPRESSION_DEPTH:
            raise NotAnExpression(f"it is nested more than {limits.EXPRESSION_DEPTH} times")
        tree = self._primary()
        while self._kind == "mark" and self._token in ".[":
            tree = Member(tree, self._key())
        self._depth -= 1
        return tree

    def _primary(self) -> Expression:
        if self._kind == "text":
            return Literal(self._next()[1:-1].replace("''", "'"))
        if self._kind == "number":
            return Literal(int(self._next()))
        if self._kind != "name":
            raise self._unexpected("a function")
        name = self._next().lower()
        self._expect("(")
        arguments: list[Expression] = []
        while not (self._kind == "mark" and self._token == ")"):
            if arguments:
                self._expect(",")
            arguments.append(self._expression())
        self._expect(")")
        return Call(name, tuple(arguments))

    def _key(self) -> Expression:
        if self._next() == ".":
            if self._kind != "name":
                raise self._unexpected("a name")
            return Literal(self._next())
        key = self._expression()
        self._expect("]")
        return key
