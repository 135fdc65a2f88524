"""The `$filter` of lists: a condition on the name, in the small part of OData that Event Grid takes (spec §8).

    contains(name, 'x')   name eq 'x'   name ne 'x'   and   or   not   ( )

Names compare without case. `not` binds tighter than `and`, and `and` tighter than `or`.
"""

import re
from collections.abc import Callable

from recapito.domain import limits
from recapito.errors import InvalidInput

NameFilter = Callable[[str], bool]

_TOKEN = re.compile(r"\s*('(?:[^']|'')*'|[A-Za-z]+|[(),])")


def every_name(name: str) -> bool:
    """The filter that every name passes."""
    return True


def parse(text: str) -> NameFilter:
    """The filter that a text describes; a text that does not parse is the caller's error."""
    if not text.strip():
        return every_name
    if len(text) > limits.LIST_FILTER_CHARS:
        raise _wrong(f"it has more than {limits.LIST_FILTER_CHARS} characters")
    parser = _Parser(_split(text))
    name_filter = parser.disjunction()
    if parser.tokens:
        raise _wrong(f"nothing is expected at {parser.tokens[0]}")
    return name_filter


def _split(text: str) -> list[str]:
    tokens: list[str] = []
    position, end = 0, len(text.rstrip())
    while position < end:
        token = _TOKEN.match(text, position, end)
        if token is None:
            raise _wrong(f"character {position + 1} is not expected")
        tokens.append(token[1])
        position = token.end()
    if len(tokens) > limits.LIST_FILTER_TOKENS:
        raise _wrong("it has too many parts")
    return tokens


class _Parser:
    """Reads tokens from the left; each method reads one rule of the grammar."""

    def __init__(self, tokens: list[str]) -> None:
        self.tokens = tokens

    def disjunction(self) -> NameFilter:
        parts = [self.conjunction()]
        while self._takes("or"):
            parts.append(self.conjunction())
        return lambda name: any(part(name) for part in parts)

    def conjunction(self) -> NameFilter:
        parts = [self.negation()]
        while self._takes("and"):
            parts.append(self.negation())
        return lambda name: all(part(name) for part in parts)

    def negation(self) -> NameFilter:
        if self._takes("not"):
            inner = self.negation()
            return lambda name: not inner(name)
        if self._takes("("):
            inner = self.disjunction()
            self._expect(")")
            return inner
        return self.comparison()

    def comparison(self) -> NameFilter:
        if self._takes("contains"):
            self._expect("(")
            self._expect("name")
            self._expect(",")
            part = self._string()
            self._expect(")")
            return lambda name: part in name.casefold()
        self._expect("name")
        if self._takes("eq"):
            wanted = self._string()
            return lambda name: name.casefold() == wanted
        self._expect("ne")
        unwanted = self._string()
        return lambda name: name.casefold() != unwanted

    def _takes(self, word: str) -> bool:
        if self.tokens and self.tokens[0].lower() == word:
            del self.tokens[0]
            return True
        return False

    def _expect(self, word: str) -> None:
        if not self._takes(word):
            raise _wrong(f"'{word}' is expected at {self.tokens[0] if self.tokens else 'its end'}")

    def _string(self) -> str:
        if not (self.tokens and self.tokens[0].startswith("'")):
            raise _wrong(f"a text in single quotes is expected at {self.tokens[0] if self.tokens else 'its end'}")
        return self.tokens.pop(0)[1:-1].replace("''", "'").casefold()


def _wrong(why: str) -> InvalidInput:
    return InvalidInput("InvalidRequest", f"'$filter' is not valid: {why}.", "$filter")
