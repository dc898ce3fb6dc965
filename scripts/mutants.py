"""Small faults: each changes one constant, sign, operator or condition of one module."""

import ast
import copy
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent

SWAPPED_OPERATORS: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.Mult,
    ast.Pow: ast.Mult,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
}
#: The nearest other comparison, and the opposite one.
SWAPPED_COMPARISONS: dict[type[ast.cmpop], tuple[type[ast.cmpop], ...]] = {
    ast.Lt: (ast.LtE, ast.GtE),
    ast.LtE: (ast.Lt, ast.Gt),
    ast.Gt: (ast.GtE, ast.LtE),
    ast.GtE: (ast.Gt, ast.Lt),
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
}
_PAIRS = (
    ("min", "max"),
    ("minimum", "maximum"),
    ("argmin", "argmax"),
    ("floor", "ceil"),
    ("any", "all"),
    ("bisect_left", "bisect_right"),
)
SWAPPED_NAMES = {a: b for pair in _PAIRS for a, b in (pair, pair[::-1])}
#: Arguments whose value only matters where there is another fault.
INERT_ARGUMENTS = frozenset({"strict", "frozen", "slots", "kw_only"})


@dataclass(frozen=True, slots=True)
class Mutant:
    """One changed module."""

    path: Path
    line: int
    source: str  #: text of the line that is changed
    change: str
    place: int  #: which of the module's places
    variant: int  #: which of its changes
    function: int = 0  #: first line of the function that it is in; 0: what runs on import

    def tree(self) -> ast.Module:
        """Parse the module with the change."""
        made = ast.parse(self.path.read_text())
        _apply(list(_places(made))[self.place], self.variant)
        return made

    def __str__(self) -> str:
        return f"{self.path.relative_to(ROOT)}:{self.line}: {self.change} in: {self.source}"


def mutants(path: Path) -> list[Mutant]:
    """Every mutant of one module, in the order of its text."""
    text = path.read_text()
    lines, tree = text.splitlines(), ast.parse(text)
    inside = dict(_functions(tree))
    return [
        Mutant(
            path,
            node.lineno,
            lines[node.lineno - 1].strip(),
            change,
            place,
            variant,
            inside.get(id(node), 0),
        )
        for place, node in enumerate(_places(tree))
        for variant, change in enumerate(_changes(node))
    ]


def _functions(tree: ast.AST, first: int = 0) -> Iterator[tuple[int, int]]:
    """Each node of a body with the first line of its outermost function.

    Defaults and decorators run on import.
    """
    for name, value in ast.iter_fields(tree):
        for child in value if isinstance(value, list) else [value]:
            if not isinstance(child, ast.AST):
                continue
            own = first
            if isinstance(tree, ast.FunctionDef) and name == "body":
                own = first or min([tree.lineno, *(one.lineno for one in tree.decorator_list)])
            yield id(child), own
            yield from _functions(child, own)


def _places(tree: ast.AST) -> Iterator[ast.expr | ast.stmt]:
    """Nodes that may change: no annotation, text, message of an error, or inert argument."""
    for name, value in ast.iter_fields(tree):
        if name in {"annotation", "returns", "type_comment"} or isinstance(tree, ast.JoinedStr):
            continue
        for child in value if isinstance(value, list) else [value]:
            if not isinstance(child, ast.AST) or _is_inert(child):
                continue
            if isinstance(child, ast.expr | ast.stmt) and _changes(child):
                yield child
            yield from _places(child)


def _is_inert(node: ast.AST) -> bool:
    # An alias of a type is an annotation by another name.
    alias = isinstance(node, ast.Assign) and isinstance(node.value, ast.Subscript)
    typed = alias and isinstance(node.value.value, ast.Name)  # type: ignore[attr-defined]
    upper = typed and node.value.value.id[:1].isupper()  # type: ignore[attr-defined]
    return (
        (isinstance(node, ast.keyword) and node.arg in INERT_ARGUMENTS)
        or isinstance(node, ast.Raise | ast.ImportFrom | ast.Import)
        or upper
    )


def _changes(node: ast.AST) -> list[str]:
    """Say what each variant of ``node`` changes."""
    before: object
    after: list[object] = []
    match node:
        case ast.Constant(value=before):
            after = [other for other in [_other_constant(before)] if other is not None]
        case ast.BinOp(op=operator) | ast.AugAssign(op=operator):
            before = type(operator)
            after = [SWAPPED_OPERATORS[before]] if before in SWAPPED_OPERATORS else []
        case ast.Compare(ops=comparisons):
            return [
                f"{_text(one)} -> {_text(other)}" + f" ({place})" * (len(comparisons) > 1)
                for place, one, other in _other_comparisons(comparisons)
            ]
        case ast.BoolOp(op=joint):
            before, after = type(joint), [_other_joint(joint)]
        case ast.UnaryOp(op=(ast.USub() | ast.Not() | ast.Invert()) as sign):
            before, after = type(sign), ["nothing"]
        case ast.Name(id=before) | ast.Attribute(attr=before) if before in SWAPPED_NAMES:
            after = [SWAPPED_NAMES[before]]
        case ast.If(test=test) | ast.IfExp(test=test) | ast.While(test=test):
            plain = isinstance(test, ast.Name | ast.Attribute | ast.Call)
            before, after = "condition", ["negated"] if plain else []
        case _:
            return []
    return [f"{_text(before)} -> {_text(one)}" for one in after]


def _other_comparisons(
    comparisons: list[ast.cmpop],
) -> list[tuple[int, type[ast.cmpop], type[ast.cmpop]]]:
    """Place, type and other type of each comparison of a chain."""
    return [
        (place, type(one), other)
        for place, one in enumerate(comparisons)
        for other in SWAPPED_COMPARISONS[type(one)]
    ]


def _text(thing: object) -> str:
    return thing.__name__ if isinstance(thing, type) else str(thing)


def _other_joint(joint: ast.boolop) -> type[ast.boolop]:
    return ast.Or if isinstance(joint, ast.And) else ast.And


def _other_constant(value: Any) -> Any:
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return value + 1
    if isinstance(value, float):
        return 2 * value if value else 1.0
    return None


def _apply(node: Any, variant: int) -> None:
    """Make variant ``variant`` of ``node`` in place."""
    if isinstance(node, ast.Constant):
        node.value = _other_constant(node.value)
    elif isinstance(node, ast.BinOp | ast.AugAssign):
        node.op = SWAPPED_OPERATORS[type(node.op)]()
    elif isinstance(node, ast.Compare):
        place, _, other = _other_comparisons(node.ops)[variant]
        node.ops[place] = other()
    elif isinstance(node, ast.BoolOp):
        node.op = _other_joint(node.op)()
    elif isinstance(node, ast.UnaryOp):
        # +x stands for x; bool(x) for what `not` took.
        plain = node.op
        node.op = ast.UAdd() if isinstance(plain, ast.USub | ast.Invert) else ast.Not()
        if isinstance(plain, ast.Not):
            node.operand = ast.UnaryOp(ast.Not(), node.operand)
        ast.fix_missing_locations(node)
    elif isinstance(node, ast.Name):
        node.id = SWAPPED_NAMES[node.id]
    elif isinstance(node, ast.Attribute):
        node.attr = SWAPPED_NAMES[node.attr]
    else:
        node.test = ast.fix_missing_locations(
            ast.copy_location(ast.UnaryOp(ast.Not(), copy.copy(node.test)), node.test)
        )
