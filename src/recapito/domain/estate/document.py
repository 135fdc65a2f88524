"""The text of an estate file or a template, as plain data; each value knows its line.

YAML as JSON's users expect it: `yes`, `on` and dates are texts. JSON is YAML here. A key that is there twice is
refused, and aliases count as often as they are used, so that a small file cannot become a large one.
"""

import re
from typing import Any, NamedTuple

import yaml

from recapito.domain import limits
from recapito.domain.templates.faults import DocumentFault, at
from recapito.domain.templates.json_with_comments import to_json

_INTEGER = re.compile(r"[-+]?(?:0|[1-9][0-9]*)")
_FLOAT = re.compile(r"[-+]?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?")
_WORDS = {"true": True, "false": False, "null": None, "~": None, "": None}
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # ten times as fast
_STEP = re.compile(r"(?:\[[^\[\]]*\]|\.?[^.\[\]]*)$")


class ParsedDocument(NamedTuple):
    """Plain data, and the line of each path in it, counted from 1."""

    data: Any
    lines: dict[str, int]

    def line(self, path: str) -> int:
        """The line of a key, or of the closest value around it that the document has.

        The path may be as the server names it; an estate file writes a webhook's destination as `endpoint`.
        """
        if path.startswith("line "):
            return int(path.removeprefix("line "))
        item, found, _ = path.partition(".destination")
        if found and path not in self.lines and f"{item}.endpoint" in self.lines:
            return self.lines[f"{item}.endpoint"]
        while path and path not in self.lines:
            path = _STEP.sub("", path)
        return self.lines.get(path, 1)


def read_document(text: str) -> ParsedDocument:
    """The data of a text. A DocumentFault names the line when the text itself is wrong."""
    if len(text.encode("utf-8", "replace")) > limits.ESTATE_BYTES:
        raise DocumentFault(f"The file is larger than {limits.ESTATE_BYTES // limits.MB} MB.", "")
    if text.lstrip("\ufeff \t\r\n").startswith("{"):
        text = to_json(text.lstrip("\ufeff")).replace("\t", " ")  # JSON may be indented by tabs, YAML may not
    try:
        loader = _LOADER(text)
        try:
            root = loader.get_single_node()
        finally:
            loader.dispose()
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        raise DocumentFault(_not_yaml(error, text.splitlines()[line - 1 : line]), f"line {line}") from None
    except (yaml.YAMLError, RecursionError):
        what = "it has characters that are not text, or is nested too deeply"
        raise DocumentFault(f"The file is not YAML: {what}.", "") from None
    if root is None:
        raise DocumentFault("The file is empty.", "")
    reader = _Reader()
    data = reader.read(root, "", 0)
    return ParsedDocument(data, reader.lines)


def _not_yaml(error: yaml.MarkedYAMLError, lines: list[str]) -> str:
    if any("\t" in line[: len(line) - len(line.lstrip())] for line in lines):
        return "The line is indented by a tab; YAML takes spaces only."
    problem = f"{error.context}, {error.problem}" if str(error.problem).startswith("but ") else error.problem
    return f"The line is not YAML: {problem}."


class _Reader:
    def __init__(self) -> None:
        self.lines: dict[str, int] = {}
        self._nodes = 0

    def read(self, node: yaml.Node, path: str, depth: int) -> Any:
        self._nodes += 1
        line = node.start_mark.line + 1
        if self._nodes > limits.ESTATE_NODES:
            raise DocumentFault(f"The file has more than {limits.ESTATE_NODES} values.", f"line {line}")
        if depth > limits.ESTATE_DEPTH:
            raise DocumentFault(f"The line is nested more than {limits.ESTATE_DEPTH} deep.", f"line {line}")
        self.lines.setdefault(path, line)
        if isinstance(node, yaml.ScalarNode):
            return _scalar(node)
        if isinstance(node, yaml.SequenceNode):
            return [self.read(item, at(path, n), depth + 1) for n, item in enumerate(node.value)]
        return self._mapping(node, path, depth)

    def _mapping(self, node: yaml.Node, path: str, depth: int) -> dict[str, Any]:
        data: dict[str, Any] = {}
        for key, value in node.value:
            line = key.start_mark.line + 1
            if not isinstance(key, yaml.ScalarNode):
                raise DocumentFault("The line has a key that is no text.", f"line {line}")
            name = str(key.value)
            if name in data:
                raise DocumentFault(f"The key '{name}' is there twice.", f"line {line}")
            self.lines[at(path, name)] = line
            data[name] = self.read(value, at(path, name), depth + 1)
        return data


def _scalar(node: yaml.ScalarNode) -> Any:
    text = str(node.value)
    return text if node.style else _plain(text)  # with a style it is quoted, or a block


def _plain(text: str) -> Any:
    """The value of a text without quotes."""
    if text.lower() in _WORDS and text in (text.lower(), text.capitalize(), text.upper()):
        return _WORDS[text.lower()]
    if len(text) <= limits.NUMBER_DIGITS and _INTEGER.fullmatch(text):
        return int(text)
    if len(text) <= limits.NUMBER_DIGITS and _FLOAT.fullmatch(text):
        return float(text)
    return text


class _Dumper(yaml.SafeDumper):  # type: ignore[misc]
    """Writes texts that would be read as something else in quotes, and lists indented."""

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:
        super().increase_indent(flow, False)

    def ignore_aliases(self, data: Any) -> bool:
        return True


_Dumper.add_representer(
    str,
    lambda dumper, text: dumper.represent_scalar(
        "tag:yaml.org,2002:str", text, style=None if isinstance(_plain(text), str) else "'"
    ),
)


def write_document(data: Any) -> str:
    """The text of plain data; `read_document` returns the same data."""
    return str(yaml.dump(data, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=120))
