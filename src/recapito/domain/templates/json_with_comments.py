"""JSON as template files and az write it: comments, texts over several lines, names without quotes, last commas."""

import re

_TOKEN = re.compile(
    r'(?P<text>"(?:[^"\\]|\\.)*")'
    r"|(?P<comment>//[^\n]*|/\*.*?\*/)"
    r"|(?P<name>[A-Za-z_$][\w$]*)(?=\s*:)"
    r"|(?P<comma>,)(?=(?:\s|//[^\n]*\n|/\*.*?\*/)*[}\]])",
    re.DOTALL,
)


def to_json(text: str) -> str:
    """The same as JSON. Lines stay lines, except for those within a text."""

    def write(token: re.Match[str]) -> str:
        found = token[0]
        match token.lastgroup:
            case "text":
                return found.replace("\r", "").replace("\n", "\\n").replace("\t", "\\t")
            case "comment":
                return "\n" * found.count("\n")
            case "name":
                return f'"{found}"'
        return ""

    return _TOKEN.sub(write, text)
