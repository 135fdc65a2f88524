"""Text of others on our terminal: only text, without the characters by which a terminal is commanded."""

import re

_CONTROL = re.compile("[\x7f-\x9f]")


def plain(text: str) -> str:
    """The text with a question mark for each character that does not print."""
    return text if text.isprintable() else "".join(char if char.isprintable() else "?" for char in text)


def escape(text: str) -> str:
    """JSON text with the control characters escaped that JSON itself leaves as they are."""
    return _CONTROL.sub(lambda found: f"\\u{ord(found[0]):04x}", text)
