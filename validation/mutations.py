"""Small faults for a Python source: one operator, constant, index or statement changed at a time."""

import ast
import copy
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

_OPERATORS = "Lt LtE, Gt GtE, Eq NotEq, Is IsNot, In NotIn, Add Sub, Mult Div, BitOr BitAnd, LShift RShift, And Or"
_PAIRS = "min max, minimum maximum, argmin argmax, any all, floor ceil, zeros ones, zeros_like ones_like, nanmin nanmax"
FUNCTIONS, _OTHERS = (
    {one: other for pair in pairs.split(", ") for one, other in (pair.split(), pair.split()[::-1])}
    for pairs in (_PAIRS, _OPERATORS)
)
OPERATORS: dict[type, Any] = {getattr(ast, one): getattr(ast, other) for one, other in _OTHERS.items()}
OPERATORS |= {ast.FloorDiv: ast.Mult, ast.Mod: ast.FloorDiv, ast.Pow: ast.Mult}
# Functions whose first argument may stand for the result.
DROPPED = {"abs", "cumsum", "exp", "log", "reversed", "sorted", "sqrt", "square", "unique"}


@dataclass(frozen=True)
class Mutation:
    """One change of a source: the bytes `start` to `end`, which read `before`, become `after`.

    `left` and `right` are what stands beside them, where they alone say little.
    """

    file: str
    line: int
    function: str
    before: str
    after: str
    start: int
    end: int
    left: str = ""
    right: str = ""

    def apply(self, source: bytes) -> bytes:
        """Return the source with this change."""
        return source[: self.start] + self.after.encode() + source[self.end :]

    @property
    def key(self) -> tuple[str, ...]:
        """The mutant in the words of the table: the same when lines above are edited."""
        return self.file, self.function, *(_short(self.left + text + self.right) for text in (self.before, self.after))


def mutations(source: bytes, file: str) -> list[Mutation]:
    """Return every mutation of a source, in the order of the lines.

    Docstrings, annotations, decorators, imports, error messages, f-strings and `__all__` stay as they are.
    """
    starts = [0]
    for line in source.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    found = []
    for function, node in _walk(ast.parse(source), ""):
        start = starts[node.lineno - 1] + node.col_offset
        end = starts[node.end_lineno - 1] + node.end_col_offset
        before = source[start:end].decode()
        left, right = source[:start].decode(), source[end:].decode()
        beside = (left.split("\n")[-1][-20:], right.split("\n")[0][:20]) if len(before) < 12 else ("", "")
        for other in (*_statements(node), *_expressions(node)):
            after = ast.unparse(ast.fix_missing_locations(other))
            after = f"({after})" if isinstance(other, ast.expr) and not isinstance(other, ast.Constant) else after
            found.append(Mutation(file, node.lineno, function, before, after, start, end, *beside))
    return sorted(found, key=lambda one: (one.line, one.start))


def _walk(node: ast.AST, function: str) -> Iterator[tuple[str, Any]]:
    """Yield the nodes that may be changed, with the name of the function they are in."""
    for field, value in ast.iter_fields(node):
        if field in ("annotation", "returns", "decorator_list", "type_params", "format_spec", "pattern"):
            continue
        for child in value if isinstance(value, list) else [value]:
            if not isinstance(child, ast.AST) or _is_left_alone(child):
                continue
            inner = function
            if isinstance(child, ast.FunctionDef | ast.ClassDef):
                inner = f"{function}.{child.name}".lstrip(".")
            if isinstance(child, ast.expr | ast.stmt):
                yield inner, child
            if not isinstance(child, ast.Raise):
                yield from _walk(child, inner)


def _is_left_alone(node: ast.AST) -> bool:
    match node:
        case ast.JoinedStr() | ast.Import() | ast.ImportFrom() | ast.TypeAlias() | ast.Expr(value=ast.Constant()):
            return True
        case ast.Assign(targets=[ast.Name(id="__all__")]) | ast.Call(func=ast.Name(id="isinstance" | "cast")):
            return True
    return False


def _statements(node: ast.AST) -> Iterator[ast.stmt]:
    """Yield what a statement may become: most are left out."""
    match node:
        case ast.Expr(value=ast.Yield() | ast.YieldFrom() | ast.Await()):
            return
        case ast.Expr() | ast.AugAssign() | ast.Continue() | ast.Break() | ast.Raise():
            yield ast.Pass()
        case ast.Assign(targets=[ast.Subscript() | ast.Attribute()]):
            yield ast.Pass()
        case ast.Return(value=ast.BinOp() | ast.UnaryOp(op=ast.USub())):
            yield ast.Return(ast.UnaryOp(ast.USub(), node.value))
    if isinstance(node, ast.AugAssign) and type(node.op) in OPERATORS:
        yield _changed(node, op=OPERATORS[type(node.op)]())


def _expressions(node: ast.AST) -> Iterator[ast.expr]:
    """Yield what an expression may become."""
    match node:
        case ast.Compare():
            for i, op in enumerate(node.ops):
                yield _changed(node, ops=[*node.ops[:i], OPERATORS[type(op)](), *node.ops[i + 1 :]])
        case ast.BinOp(op=op) if type(op) in OPERATORS:
            yield _changed(node, op=OPERATORS[type(op)]())
        case ast.BoolOp():
            yield _changed(node, op=OPERATORS[type(node.op)]())
        case ast.UnaryOp(op=ast.Not() | ast.USub()):
            yield node.operand
        case ast.IfExp():
            yield _changed(node, body=node.orelse, orelse=node.body)
        case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name)):
            if name in FUNCTIONS:
                field = "id" if isinstance(node.func, ast.Name) else "attr"
                yield _changed(node, func=_changed(node.func, **{field: FUNCTIONS[name]}))
            if name in DROPPED and node.args:
                yield node.args[0]
        case ast.Subscript(slice=ast.Slice(lower=lower, upper=upper, step=step)):
            if lower is None and upper is None:
                yield node.value
            if lower is not None:
                yield _changed(node, slice=ast.Slice(_plus(lower, 1), upper, step))
            if upper is not None:
                yield _changed(node, slice=ast.Slice(lower, _plus(upper, -1), step))
        case ast.Subscript(slice=ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=1))):
            yield _changed(node, slice=ast.Constant(0))
        case ast.Subscript(slice=ast.Constant(value=0)):
            yield _changed(node, slice=ast.UnaryOp(ast.USub(), ast.Constant(1)))
        case ast.Constant(value=bool(value)):
            yield ast.Constant(not value)
        case ast.Constant(value=int(value)):
            yield ast.Constant(value + 1 if value < 10 else 2 * value)
        case ast.Constant(value=float(value)):
            yield ast.Constant(2 * value if value else 1.0)
            if value:
                yield ast.Constant(0.0)
                yield ast.UnaryOp(ast.USub(), node)


def _short(text: str) -> str:
    text = " ".join(text.replace("`", "'").split())
    return text if len(text) <= 70 else f"{text[:45]}…{text[-24:]}"


def _plus(bound: ast.expr, number: int) -> ast.expr:
    return ast.BinOp(bound, ast.Add() if number > 0 else ast.Sub(), ast.Constant(abs(number)))


def _changed(node: Any, **fields: Any) -> Any:
    other = copy.copy(node)
    for name, value in fields.items():
        setattr(other, name, value)
    return other
