"""Change the code of search, kernels and algebra in one place at a time, and see whether the tests notice.

    python -m reliability.mutants --minutes 30 [--seed 0] [--room kernels]

Mutants are drawn at random from all places where an operator, a comparison, a condition or a number can be changed.
Each is tried on a copy of the package: a kernel in plain Python, then with the tests of its room, those that noticed
others before first, then with others that train. What none notices is kept; reliability/survivors.json says why it may.
"""

from __future__ import annotations

import argparse
import ast
import copy
import json
import os
import random
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

SOURCE = Path("src")
SURVIVORS = Path("reliability/survivors.json")
ROOMS = {
    "search": "certified search limit",
    "algebra": "solvers sketches limit",
    "kernels": "generator certified search limit sketches",
}
PLAIN = "uncompiled.py::test_no_loop_leaves_its_arrays_and_every_audit_passes"  # notices before anything is compiled
TRAINING = "edges replay soak audit"  # further tests, for what its own do not notice
KERNELS_EVERY = 5  # mutants: those of kernels cost most, since they must be compiled
SWAPS: dict[type, type] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.And: ast.Or, ast.Or: ast.And,
    ast.FloorDiv: ast.Mult, ast.Pow: ast.Mult, ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.LShift: ast.RShift,
    ast.RShift: ast.LShift, ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd, ast.BitXor: ast.BitOr, ast.Mod: ast.Mult,
}  # fmt: skip
MOST_MEMORY = 12 << 30  # address space of the tests of one mutant


class Mutant(NamedTuple):
    """One change: where it is, and what it does to the first line of its statement."""

    room: str
    path: Path
    place: str  # file and function
    line: int
    what: str
    text: str  # of the whole file


class KillersFirst:
    """Runs first what noticed mutants before, and writes down what noticed this one."""

    def __init__(self, killers: dict[str, int], said: Path) -> None:
        self._killers, self._said = killers, said

    def pytest_collection_modifyitems(self, items: list[Any]) -> None:
        items.sort(key=lambda item: -self._killers.get(item.nodeid, 0))

    def pytest_runtest_logreport(self, report: Any) -> None:
        if report.failed:
            self._said.write_text(report.nodeid)


def mutants(room: str, path: Path) -> Iterator[Mutant]:
    """Yield every mutant of a file."""
    tree = ast.parse(path.read_text())
    statements = [
        (place, statement)
        for place, statement in _statements(tree, "")
        if not (isinstance(statement, ast.Assign) and ast.unparse(statement.targets[0]) == "__all__")
    ]
    for place, statement in statements:
        for number, _ in enumerate(_nodes(statement)):
            changed = copy.deepcopy(statement)
            _change(_nodes(changed)[number])
            what = f"{_first_line(statement)}  ->  {_first_line(changed)}"
            kept = dict(vars(statement))
            vars(statement).update(vars(changed))
            text = ast.unparse(tree)
            vars(statement).update(kept)
            where = f"{path.relative_to(SOURCE / 'thresher')}{place}"
            yield Mutant(room, path, where, statement.lineno, what, text)


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


class Trial:
    """A copy of the package, with compiled code, in which one file at a time is changed."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._package, self._clean = folder, folder / "src", folder / "clean"
        self._killers = Counter[str]()
        self.seconds: dict[str, float] = {}
        shutil.copytree(SOURCE, self._package)  # modification times are kept, so compiled code is good
        kernels = self._package / "thresher" / "kernels"
        self._users = {
            path.stem: {other.stem for other in kernels.glob("*.py") if f"kernels.{path.stem} " in other.read_text()}
            for path in kernels.glob("*.py")
        }

    def warm(self, tests: list[str]) -> None:
        """Run tests on the unchanged package; they must pass, and leave compiled code behind."""
        began = _cpu()
        if self.noticed(tests, most=3600):
            sys.exit(f"The tests {tests} fail on the unchanged package.")
        self.seconds |= {test: (_cpu() - began) / len(tests) for test in tests}
        shutil.rmtree(self._clean, ignore_errors=True)
        shutil.copytree(self._package / "thresher" / "kernels", self._clean)

    def survives(self, mutant: Mutant, *tiers: list[str]) -> bool:
        """Return whether no test of any tier notices the mutant."""
        target = self._package / mutant.path.relative_to(SOURCE)
        target.write_text(mutant.text)
        if mutant.room == "kernels":  # Numba does not see that a helper in another file has changed
            for stem in self._all_users(mutant.path.stem):
                for compiled in (target.parent / "__pycache__").glob(f"{stem}.*.nb*"):
                    compiled.unlink()
        try:
            most = 90 if mutant.room == "kernels" else 20  # seconds to compile and begin
            return not any(
                self.noticed(tests, most=int(most + 2 * sum(self.seconds[test] for test in tests))) for tests in tiers
            )
        finally:
            shutil.copy2(mutant.path, target)
            if mutant.room == "kernels":
                shutil.rmtree(target.parent)
                shutil.copytree(self._clean, target.parent)

    def _all_users(self, stem: str) -> set[str]:
        found, waiting = {stem}, [stem]
        while waiting:
            new = self._users[waiting.pop()] - found
            found |= new
            waiting += new
        return found

    def noticed(self, tests: list[str], *, most: int) -> bool:
        """Run tests against the package as it is now; True if one fails, or takes so many seconds of a processor."""
        paths = [str(self._package), str(Path.cwd()), *filter(None, [os.environ.get("PYTHONPATH")])]
        said = self._folder / "said"
        said.unlink(missing_ok=True)
        (self._folder / "killers").write_text(json.dumps(self._killers))
        command = [sys.executable, "-m", "reliability.mutants", "--try", str(self._folder), "--most", str(most), *tests]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
        done = subprocess.run(command, env=environment, capture_output=True)
        if said.exists():
            self._killers[said.read_text()] += 1
        return done.returncode != 0


def _cpu() -> float:
    """Return the seconds of a processor that ended children have used."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def run_tests(folder: Path, tests: list[str], *, most: int) -> int:
    """Run tests until the first failure, those first that noticed mutants before."""
    resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY, MOST_MEMORY))
    resource.setrlimit(resource.RLIMIT_CPU, (most, most))
    killers = KillersFirst(json.loads((folder / "killers").read_text()), folder / "said")
    return pytest.main(["-x", "-q", "-n", "0", "-p", "no:cacheprovider", "--tb=no", *tests], plugins=[killers])


def files(names: str) -> list[str]:
    return [f"tests/test_{name}" if ".py" in name else f"tests/test_{name}.py" for name in names.split()]


def order(everything: list[Mutant], seed: int) -> list[Mutant]:
    """Return the mutants in a random order in which one of so many is of a kernel."""
    random.Random(seed).shuffle(everything)
    kernels = [mutant for mutant in everything if mutant.room == "kernels"]
    others = [mutant for mutant in everything if mutant.room != "kernels"]
    mixed = []
    while kernels or others:
        mixed += others[: KERNELS_EVERY - 1] + kernels[:1]
        others, kernels = others[KERNELS_EVERY - 1 :], kernels[1:]
    return mixed


def main() -> None:
    parser = argparse.ArgumentParser(description="Mutation tests of search, kernels and algebra.")
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--more", action="store_true", help="go on where the record ends")
    parser.add_argument("--room", choices=list(ROOMS))
    parser.add_argument("--only", help="try the mutants whose place or change contains this")
    parser.add_argument("--output", type=Path, help="results/reliability.json by default")
    parser.add_argument("--try", dest="folder", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--most", type=int, help=argparse.SUPPRESS)
    parser.add_argument("tests", nargs="*", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.folder is not None:
        sys.exit(run_tests(arguments.folder, arguments.tests, most=arguments.most))
    from benchmarks import results  # these import the package, which a trial must not do before its time

    from reliability.record import RECORD, keep

    everything = [
        mutant
        for room in ([arguments.room] if arguments.room else ROOMS)
        for path in sorted((SOURCE / "thresher" / room).glob("*.py"))
        for mutant in mutants(room, path)
        if not arguments.only or arguments.only in f"{mutant.place} {mutant.what}"
    ]
    everything = order(everything, arguments.seed)
    output = arguments.output or RECORD
    known = results.read(output).get("mutants", {}) if arguments.more else {}
    tried, survivors = Counter[str](known.get("tried", {})), list(known.get("survivors", []))
    with tempfile.TemporaryDirectory() as folder:
        trial = Trial(Path(folder))
        print("Compiling, and running the tests on the unchanged package ...", flush=True)
        rooms = dict.fromkeys(mutant.room for mutant in everything)
        for test in dict.fromkeys(files(" ".join([PLAIN, TRAINING, *(ROOMS[room] for room in rooms)]))):
            trial.warm([test])
        began = time.monotonic()
        for mutant in everything[tried.total() :]:
            if time.monotonic() - began > 60 * arguments.minutes:
                break
            tiers = [PLAIN] if mutant.room == "kernels" else []
            survived = trial.survives(mutant, *map(files, [*tiers, ROOMS[mutant.room], TRAINING]))
            tried[mutant.room] += 1
            if survived:
                survivors.append({"place": mutant.place, "line": mutant.line, "what": mutant.what})
            said = "SURVIVED" if survived else "noticed"
            minutes = (time.monotonic() - began) / 60
            print(f"{minutes:.1f} min, {tried.total()} of {len(everything)}: {said} {mutant.place}:{mutant.line} {mutant.what}", flush=True)  # fmt: skip  # noqa: E501
            figures = {"possible": dict(Counter(one.room for one in everything)), "tried": dict(tried)}
            figures |= {"noticed": tried.total() - len(survivors), "survivors": survivors, "seed": arguments.seed}
            keep("mutants", figures, output=output)


if __name__ == "__main__":
    main()
