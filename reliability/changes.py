"""All mutants of a file: one operator, comparison, condition or number changed in each."""

from __future__ import annotations

import ast
import copy
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

SOURCE = Path("src")
SWAPS: dict[type, type] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.And: ast.Or, ast.Or: ast.And,
    ast.FloorDiv: ast.Mult, ast.Pow: ast.Mult, ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.LShift: ast.RShift,
    ast.RShift: ast.LShift, ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd, ast.BitXor: ast.BitOr, ast.Mod: ast.Mult,
}  # fmt: skip


class Mutant(NamedTuple):
    """One change: where it is, and what it does to the first line of its statement."""

    room: str  # folder of the package
    path: Path
    place: str  # file and function
    line: int
    what: str
    lines: range  # of the statement, in the file as ``ast.unparse`` writes it
    text: str  # of the whole file

    @property
    def name(self) -> tuple[str, str]:
        """What tells it from others, and stays when lines are added above."""
        return self.place, self.what


def mutants(path: Path) -> Iterator[Mutant]:
    """Yield every mutant of a file."""
    tree = ast.parse(path.read_text())
    written = ast.parse(ast.unparse(tree))  # the same statements, on the lines that they have in the copy
    known, room = Counter[str](), str(path.parent.relative_to(SOURCE / "thresher"))
    for (place, statement), (_, on_lines) in zip(_statements(tree, ""), _statements(written, ""), strict=True):
        if isinstance(statement, ast.Assign) and ast.unparse(statement.targets[0]) == "__all__":
            continue
        body = getattr(on_lines, "body", None)
        last = max(body[0].lineno - 1, on_lines.lineno) if body else on_lines.end_lineno
        for number, _ in enumerate(_nodes(statement)):
            changed = copy.deepcopy(statement)
            _change(_nodes(changed)[number])
            what = f"{_first_line(statement)}  ->  {_first_line(changed)}"
            kept = dict(vars(statement))
            vars(statement).update(vars(changed))
            text = ast.unparse(tree)
            vars(statement).update(kept)
            where = f"{path.relative_to(SOURCE / 'thresher')}{place}"
            known[where + what] += 1
            if (again := known[where + what]) > 1:
                what += f"  (number {again})"
            yield Mutant(room, path, where, statement.lineno, what, range(on_lines.lineno, last + 1), text)


def _statements(node: ast.AST, place: str) -> Iterator[tuple[str, ast.stmt]]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef | ast.ClassDef):
            yield from _statements(child, f"{place}{' ' if not place else '.'}{child.name}")
        elif isinstance(child, ast.stmt):
            yield place, child
            yield from _statements(child, place)


def _nodes(statement: ast.stmt) -> list[ast.AST]:
    """Return the nodes of a statement that can be changed, without those of the statements in it."""
    found: list[ast.AST] = [statement] if _changes(statement) else []
    types = getattr(statement, "annotation", None)  # which nobody evaluates
    parts = ast.iter_child_nodes(statement)
    waiting: list[ast.AST] = [one for one in parts if not isinstance(one, ast.stmt) and one is not types]
    while waiting:
        node = waiting.pop()
        if _changes(node):
            found.append(node)
        waiting += ast.iter_child_nodes(node)
    return found


def _changes(node: ast.AST) -> bool:
    if isinstance(node, ast.Compare):
        return type(node.ops[0]) in SWAPS
    if isinstance(node, ast.BinOp | ast.BoolOp | ast.AugAssign):
        return type(node.op) in SWAPS
    if isinstance(node, ast.If | ast.While | ast.IfExp):
        return True
    return isinstance(node, ast.Constant) and type(node.value) in (int, float)


def _change(node: Any) -> None:
    if isinstance(node, ast.Compare):
        node.ops[0] = SWAPS[type(node.ops[0])]()
    elif isinstance(node, ast.BinOp | ast.BoolOp | ast.AugAssign):
        node.op = SWAPS[type(node.op)]()
    elif isinstance(node, ast.Constant):
        node.value = node.value + 1 if isinstance(node.value, int) else node.value * 1.5 + 1e-3
    else:
        node.test = ast.UnaryOp(ast.Not(), node.test)
        ast.fix_missing_locations(node)


def _first_line(statement: ast.stmt) -> str:
    return ast.unparse(statement).splitlines()[0]
