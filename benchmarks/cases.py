"""Cases that are measured against goals: their rows, the file that keeps them, and their table.

The file holds the rows of each case with the machine and the commit that they come from. A case that is run again
replaces its own alone.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from rich.console import Console

from benchmarks import page, results
from benchmarks.environment import environment
from benchmarks.summary import Sheet
from thresher import Problem, Result, Status, train

Row = dict[str, Any]
Found = dict[str, Any]  # what a case found: its "rows", and whatever other tables show
STARTS = {"random": "Gaussian rows", "hadamard": "Hadamard rows"}  # start rows, as they are called in tables
CONSOLE = Console(width=max(Console().width, 160))
_REPEATS, _LONG = 3, 10.0  # times that anything is done if it takes fewer seconds than this
_MOST, _ENOUGH = 21, 3.0  # times that short work is done, and seconds after which it is not done again


def row(case: str, what: str, value: float, *, least: float | None = None, most: float | None = None) -> Row:
    """Return a figure beside its goal, if it has one."""
    within = (least is None or value >= least) and (most is None or value <= most)
    if least is not None and most is not None:
        goal = f"{least:.3g} to {most:.3g}"
    else:
        goal = f">= {least:.3g}" if least is not None else f"<= {most:.3g}" if most is not None else ""
    return {"case": case, "what": what, "value": value, "goal": goal, "reached": within}


def size_of(inputs: int, dimension: int, width: int) -> str:
    """Return what a case is called: n, d and m."""
    for base in (2, 10):
        power = round(math.log(width, base))
        if base**power == width:
            return f"n {inputs}, d {dimension}, m {base}^{power}"
    return f"n {inputs}, d {dimension}, m {width:,}"


class Taken(NamedTuple):
    """Seconds that something took, and seconds of all threads together."""

    seconds: float
    processor: float


def in_turn(works: Mapping[str, Callable[[], Any]]) -> dict[str, Taken]:
    """Do several works in turn and return the median of each, of three times or more if it takes less than 10 s.

    Work that times itself returns its seconds, a float.
    """
    taken: dict[str, list[Taken]] = {name: [] for name in works}
    for turn in range(_MOST):
        for name, work in works.items():
            before = [one.seconds for one in taken[name]]
            if turn == 0 or (before[0] < _LONG if turn < _REPEATS else sum(before) < _ENOUGH):
                began, spent = time.perf_counter(), time.process_time()
                told = work()
                seconds = told if isinstance(told, float) else time.perf_counter() - began
                taken[name].append(Taken(seconds, time.process_time() - spent))
    return {name: Taken(*(median(column) for column in zip(*of, strict=True))) for name, of in taken.items()}


def trained(problem: Problem, **options: Any) -> tuple[Result, float]:
    """Train to the end, on a fresh copy of a problem, which remembers nothing; return the seconds too."""
    fresh = Problem(problem.inputs, problem.targets)
    began = time.perf_counter()
    result = train(fresh, **options)
    seconds = time.perf_counter() - began
    if result.status != Status.CONVERGED:
        raise RuntimeError(f"training ended {result.status.value}: {result.message}")
    return result, seconds


def later_seconds(result: Result) -> list[float]:
    """Return the seconds of each iteration after the start pass, a first step inside that pass left out."""
    inside = 1 if result.history[1].solve.startswith("limit") else 0
    return [sum(record.seconds.values()) for record in result.history[1 + inside :]]


def measure_cases(
    cases: Mapping[str, Callable[[], Found]], *, chosen: Sequence[str] | None, output: Path
) -> dict[str, Found]:
    """Measure the chosen cases (all if none is named); return these and what the file holds of the others."""
    found: dict[str, Found] = results.read(output).get("cases", {})
    for name in chosen or cases:
        with CONSOLE.status(f"{name} ..."):
            told = _measured(name, cases[name])
        found[name] = {"environment": environment(), **told}
        results.write(output, {"cases": found})
        if told["rows"]:
            CONSOLE.print(sheet_of(told["rows"], title=name).rich())
    CONSOLE.print(f"Written to {output}.", highlight=False)
    return {name: found[name] for name in cases if name in found}


def _measured(name: str, measure: Callable[[], Found]) -> Found:
    """Return what a case found, or a row that says why it failed: an hour of other cases is not lost by it."""
    try:
        return measure()
    except Exception as error:
        failed = {"case": name, "what": f"failed: {type(error).__name__}: {error}", "value": None, "goal": "runs"}
        return {"rows": [{**failed, "reached": False}]}


def sheet_of(rows: list[Row], *, title: str = "") -> Sheet:
    """Return rows as a table."""
    lines = []
    for one in rows:
        mark = "" if not one["goal"] else "reached" if one["reached"] else "**missed**"
        value = "-" if one["value"] is None else f"{one['value']:.3g}"
        lines.append([one["case"], one["what"], value, one["goal"], mark])
    return Sheet(title, ["case", "measured", "value", "goal", ""], lines, left=2)


def captions(found: dict[str, Found]) -> list[str]:
    """Return machine and commit of some cases; in several lines, with the names of cases, if they have several."""
    told: dict[str, list[str]] = {}
    for name, of in found.items():
        told.setdefault(page.machine(of), []).append(name)
    return list(told) if len(told) == 1 else [f"Of {', '.join(names)}: {line}" for line, names in told.items()]


def table_of(found: dict[str, Found]) -> list[str]:
    """Return captions and the table of all rows."""
    return [*captions(found), sheet_of([one for of in found.values() for one in of["rows"]]).markdown()]
