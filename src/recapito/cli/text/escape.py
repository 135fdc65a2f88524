"""Text of others on our terminal: only text, without the characters by which a terminal is commanded."""

import re

_CONTROL = re.compile("[\x7f-\x9f]")


def plain(text: str) -> str:
    """The text with a question mark for each character that does not print."""
    return text if text.isprintable() else "".join(char if char.isprintable() else "?" for char in text)


def escape(text: str) -> str:
    """JSON text with the control characters escaped that JSON itself leaves as they are."""
    return _CONTROL.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def visible(text: str) -> str:
    """The text with each character that does not print as its escape: nothing of an answer is hidden or obeyed."""
    return text if text.isprintable() else "".join(char if char.isprintable() else _escaped(char) for char in text)


def _escaped(char: str) -> str:
    return char.encode("unicode_escape", "surrogatepass").decode()
