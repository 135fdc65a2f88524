"""Small changes to a source text, each of which some test should notice: the bugs that a tired person writes.

A mutation replaces one expression or statement. It never touches docstrings, annotations, `__repr__`, production
assertions or f-strings; texts for people are not its business, nor are figures that a module sets for itself.
"""

import ast
from collections.abc import Callable, Iterator
from copy import copy
from dataclasses import dataclass

COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
ARITHMETIC: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.FloorDiv,
    ast.FloorDiv: ast.Mult,
    ast.Div: ast.Mult,
    ast.Mod: ast.FloorDiv,
    ast.BitOr: ast.BitAnd,
    ast.BitAnd: ast.BitOr,
}
TWINS = {"min": "max", "max": "min", "any": "all", "all": "any"}
UNTOUCHED = (ast.Assert, ast.JoinedStr, ast.Import, ast.ImportFrom)


@dataclass(frozen=True)
class Mutation:
    """A replacement of bytes `start` to `end` of a text. `lines` are those of its statement, without a body.

    Who executes one of them reaches it. `within` is their text, by which it is known again when lines have moved.
    """

    kind: str
    start: int
    end: int
    before: str
    after: str
    lines: range
    within: str = ""

    @property
    def line(self) -> int:
        """Where a reader finds it."""
        return self.lines.start

    def apply(self, text: str) -> str:
        """The text with this mutation."""
        raw = text.encode()
        return (raw[: self.start] + self.after.encode() + raw[self.end :]).decode()


def mutations(text: str) -> list[Mutation]:
    """All mutations of a module, in the order of the text."""
    finder = _Finder(text)
    finder.visit(ast.parse(text))
    return sorted(finder.found, key=lambda each: (each.start, each.end, each.kind, each.after))


class _Finder(ast.NodeVisitor):
    """Walks a module; remembers the statement and the function that it is in."""

    def __init__(self, text: str) -> None:
        self.found: list[Mutation] = []
        self._text = text
        self._offsets = [0]
        for line in text.encode().splitlines(keepends=True):
            self._offsets.append(self._offsets[-1] + len(line))
        self._lines = range(1, 2)
        self._function: ast.FunctionDef | ast.AsyncFunctionDef | None = None

    def visit(self, node: ast.AST) -> None:
        if isinstance(node, UNTOUCHED):
            return
        if isinstance(node, ast.stmt):
            self._lines = _header(node)
        mutate: Callable[[ast.AST], None] | None = getattr(self, f"_mutate_{type(node).__name__}", None)
        if mutate is not None:
            mutate(node)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            self._visit_function(node)
            return
        for child in _children(node):
            lines = self._lines
            self.visit(child)
            if not isinstance(child, ast.stmt):
                self._lines = lines

    def _visit_function(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        if node.name == "__repr__":
            return
        outer, self._function = self._function, node
        for child in (*node.args.defaults, *(d for d in node.args.kw_defaults if d), *node.body):
            self.visit(child)
        self._function = outer

    # One method for each kind of node.

    def _mutate_Compare(self, node: ast.Compare) -> None:
        for n, op in enumerate(node.ops):
            if type(op) in COMPARISONS:
                ops = [*node.ops[:n], COMPARISONS[type(op)](), *node.ops[n + 1 :]]
                self._replace("compare", node, _changed(node, ops=ops))

    def _mutate_BoolOp(self, node: ast.BoolOp) -> None:
        other = ast.And() if isinstance(node.op, ast.Or) else ast.Or()
        self._replace("and/or", node, _changed(node, op=other))
        for n in range(len(node.values)):
            left = [*node.values[:n], *node.values[n + 1 :]]
            self._replace("operand dropped", node, _changed(node, values=left) if len(left) > 1 else left[0])

    def _mutate_UnaryOp(self, node: ast.UnaryOp) -> None:
        if isinstance(node.op, ast.Not):
            self._replace("not", node, node.operand)

    def _mutate_BinOp(self, node: ast.BinOp) -> None:
        if type(node.op) in ARITHMETIC and (self._function is not None or not isinstance(node.op, ast.BitOr)):
            self._replace("arithmetic", node, _changed(node, op=ARITHMETIC[type(node.op)]()))

    def _mutate_Constant(self, node: ast.Constant) -> None:
        if isinstance(node.value, bool):
            self._replace("constant", node, ast.Constant(not node.value))
        elif isinstance(node.value, int) and self._function is not None:
            self._replace("constant", node, ast.Constant(node.value + 1))

    def _mutate_Call(self, node: ast.Call) -> None:
        if isinstance(node.func, ast.Name) and node.func.id in TWINS:
            self._replace("twin", node, _changed(node, func=ast.Name(TWINS[node.func.id])))

    def _mutate_If(self, node: ast.If | ast.While | ast.IfExp) -> None:
        if not isinstance(node.test, ast.Compare | ast.UnaryOp):  # whose own mutations do the same
            self._replace("condition", node.test, ast.UnaryOp(ast.Not(), node.test))

    _mutate_While = _mutate_IfExp = _mutate_If

    def _mutate_comprehension(self, node: ast.comprehension) -> None:
        for test in node.ifs:
            self._replace("condition", test, ast.Constant(True))

    def _mutate_Return(self, node: ast.Return) -> None:
        returns = ast.unparse(self._function.returns) if self._function and self._function.returns else ""
        if node.value is None or isinstance(node.value, ast.Constant):
            return
        if returns == "bool":
            self._replace("answer", node.value, ast.UnaryOp(ast.Not(), node.value))
        elif "None" in returns:
            self._replace("answer", node.value, ast.Constant(None))

    def _mutate_Expr(self, node: ast.Expr) -> None:
        value = node.value.value if isinstance(node.value, ast.Await) else node.value
        if isinstance(value, ast.Call):
            self._replace("call left out", node, ast.Pass())

    def _mutate_Assign(self, node: ast.Assign) -> None:
        if all(isinstance(target, ast.Attribute | ast.Subscript) for target in node.targets):
            self._replace("assignment left out", node, ast.Pass())

    def _mutate_AugAssign(self, node: ast.AugAssign) -> None:
        self._replace("assignment left out", node, ast.Pass())
        if type(node.op) in ARITHMETIC:
            self._replace("arithmetic", node, _changed(node, op=ARITHMETIC[type(node.op)]()))

    def _mutate_Raise(self, node: ast.Raise) -> None:
        self._replace("error left out", node, ast.Pass())

    def _mutate_Delete(self, node: ast.Delete) -> None:
        self._replace("deletion left out", node, ast.Pass())

    def _mutate_Break(self, node: ast.Break) -> None:
        self._replace("break/continue", node, ast.Continue())

    def _mutate_Continue(self, node: ast.Continue) -> None:
        self._replace("break/continue", node, ast.Break())

    def _replace(self, kind: str, node: ast.expr | ast.stmt, by: ast.AST) -> None:
        """Note that `by` may stand where `node` does."""
        assert node.end_lineno is not None and node.end_col_offset is not None
        start = self._offsets[node.lineno - 1] + node.col_offset
        end = self._offsets[node.end_lineno - 1] + node.end_col_offset
        text = ast.unparse(ast.fix_missing_locations(by))
        if isinstance(node, ast.expr) and not isinstance(by, ast.Constant):
            text = f"({text})"
        before = self._text.encode()[start:end].decode()
        within = "\n".join(self._text.splitlines()[self._lines.start - 1 : self._lines.stop - 1])
        self.found.append(Mutation(kind, start, end, _squeezed(before), text, self._lines, _squeezed(within)))


def _children(node: ast.AST) -> Iterator[ast.AST]:
    """The parts of a node that do something: no annotations, no type aliases of `isinstance`."""
    for name, value in ast.iter_fields(node):
        if name in ("annotation", "returns", "type_params", "decorator_list", "bases"):
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST):
                yield child


def _header(node: ast.stmt) -> range:
    """The lines of a statement without its body."""
    body = getattr(node, "body", None)
    last = node.end_lineno or node.lineno
    if isinstance(body, list) and body:
        last = max(node.lineno, body[0].lineno - 1)
    return range(node.lineno, last + 1)


def _changed(node: ast.AST, **fields: object) -> ast.AST:
    changed = copy(node)
    for name, value in fields.items():
        setattr(changed, name, value)
    return changed


def _squeezed(text: str) -> str:
    return " ".join(text.split())
