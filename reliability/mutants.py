"""Change the code of search and algebra in one place at a time, and see whether the tests notice.

    python -m reliability.mutants --minutes 15 [--seed 0]

Mutants are drawn at random from all places where an operator, a comparison, a condition or a number can be changed.
Each is tried on a copy of the package with the tests of its room. Those that no test notices are printed and kept.
"""

from __future__ import annotations

import argparse
import ast
import copy
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rich.console import Console

from reliability.record import RECORD, keep

SOURCE = Path("src")
ROOMS = {
    "search": ["tests/test_certified.py", "tests/test_search.py", "tests/test_limit.py"],
    "algebra": ["tests/test_solvers.py", "tests/test_sketches.py", "tests/test_limit.py"],
}
SWAPS: dict[type, type] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.And: ast.Or, ast.Or: ast.And,
    ast.FloorDiv: ast.Mult, ast.Pow: ast.Mult, ast.Is: ast.IsNot, ast.IsNot: ast.Is,
}  # fmt: skip
LONGEST = 240  # seconds for the tests of one mutant


def mutants(tree: ast.Module) -> Iterator[tuple[int, str, ast.Module]]:
    """Yield (line, what was changed, changed tree), one place at a time."""
    places = [node for node in ast.walk(tree) if _changes(node)]
    for place in range(len(places)):
        changed = copy.deepcopy(tree)
        node = [one for one in ast.walk(changed) if _changes(one)][place]
        before = ast.unparse(node)
        _change(node)
        yield getattr(node, "lineno", 0), f"{before}  ->  {ast.unparse(node)}", changed


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


def noticed(folder: Path, tests: list[str]) -> bool:
    """Run the tests against the package in a folder; True if one of them fails, or none ends in time."""
    paths = [str(folder), str(Path.cwd()), *filter(None, [os.environ.get("PYTHONPATH")])]
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-n", "0", "-p", "no:cacheprovider", *tests]
    try:
        done = subprocess.run(
            command, env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)}, capture_output=True, timeout=LONGEST
        )
    except subprocess.TimeoutExpired:
        return True
    return done.returncode != 0


def main() -> None:
    parser = argparse.ArgumentParser(description="Mutation tests of search and algebra.")
    parser.add_argument("--minutes", type=float, default=15.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--output", type=Path, default=RECORD)
    arguments = parser.parse_args()
    console, began = Console(), time.monotonic()
    everything = [
        (room, path, line, what, tree)
        for room in ROOMS
        for path in sorted((SOURCE / "thresher" / room).glob("*.py"))
        for line, what, tree in mutants(ast.parse(path.read_text()))
        if "__all__" not in what
    ]
    random.Random(arguments.seed).shuffle(everything)
    tried, survivors = 0, []
    with tempfile.TemporaryDirectory() as folder:
        package = Path(folder) / "src"
        shutil.copytree(SOURCE, package)  # with its compiled code: modification times are kept
        for room, path, line, what, tree in everything:
            if time.monotonic() - began > 60 * arguments.minutes:
                break
            target = package / path.relative_to(SOURCE)
            target.write_text(ast.unparse(tree))
            survived = not noticed(package, ROOMS[room])
            shutil.copy2(path, target)
            tried += 1
            where = f"{path.relative_to(SOURCE / 'thresher')}:{line}"
            if survived:
                survivors.append({"where": where, "what": what})
            said = "SURVIVED" if survived else "noticed"
            console.print(f"{tried} of {len(everything)}: {said} {where} {what}", highlight=False, markup=False)
            figures = {"possible": len(everything), "tried": tried, "noticed": tried - len(survivors)}
            keep("mutants", {**figures, "survivors": survivors, "seed": arguments.seed}, output=arguments.output)


if __name__ == "__main__":
    main()
