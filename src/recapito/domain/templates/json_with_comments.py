"""JSON as template files and az write it: comments, texts over several lines, names without quotes, last commas."""

import re

_TEXT = r'(?P<text>"(?:[^"\\]|\\.)*")'
_COMMENT = re.compile(_TEXT + r"|//[^\n]*|/\*.*?\*/", re.DOTALL)
_LOOSE = re.compile(_TEXT + r"|(?P<name>[A-Za-z_$][\w$]*)(?=\s*:)|,(?=\s*[}\]])", re.DOTALL)


def to_json(text: str) -> str:
    """The same as JSON. Lines stay lines, except for those within a text."""
    return _LOOSE.sub(_tighten, _COMMENT.sub(_uncomment, text))


def _uncomment(found: re.Match[str]) -> str:
    return found[0] if found["text"] else "\n" * found[0].count("\n")


def _tighten(found: re.Match[str]) -> str:
    if found["text"]:
        return found[0].replace("\r", "").replace("\n", "\\n").replace("\t", "\\t")
    return f'"{found["name"]}"' if found["name"] else ""
