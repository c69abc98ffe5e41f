"""Every method side by side, in one run on one machine: the cases, and the processes that measure them.

    thresher bench [--full] [--case NAME ...]

Results go to a JSON file with their environment, commit and failures; a case that is run again replaces its own results
of the same tier alone. With ``--full`` in a clone the tables go into docs/benchmarks.md as well.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from benchmarks import page, results, summary
from benchmarks.child import LEVELS, Row, Task, describe
from benchmarks.environment import environment
from benchmarks.log import Limits
from benchmarks.methods import OURS, load_method, method_names
from benchmarks.problems import Size, load_problem, loss_of, problem_names
from thresher import InvalidInput, NotAvailable

ROOT = Path(__file__).parent.parent
TIERS = ("tiny", "quick", "full")
WIDTHS = {"tiny": range(9, 12), "quick": range(12, 19, 3), "full": range(12, 23)}
_PLAIN_WIDTH = 180  # of tables that go to a file or a pipe
_PATIENCE = 60.0  # seconds beyond those allowed after which a process is ended


def entrants(case: str) -> list[str]:
    """Return the methods that take part, ours first."""
    names = [name for name in method_names() if case in load_method(name).CASES]
    return sorted(names, key=lambda name: name not in OURS)


def race(tier: str) -> list[Task]:
    """Every method on the random sphere."""
    limits = Limits(seconds={"tiny": 2.0, "quick": 5.0, "full": 60.0}[tier])
    return [Task(name, "sphere", load_problem("sphere").SIZES[tier], limits) for name in entrants("race")]


def cross_entropy(tier: str) -> list[Task]:
    """Methods of several losses on random classes, to a mean cross-entropy."""
    limits = Limits(seconds={"tiny": 2.0, "quick": 5.0, "full": 60.0}[tier])
    size, goal = load_problem("classes").SIZES[tier], LEVELS["log_loss"][-1]
    return [Task(name, "classes", size, limits, goal) for name in entrants("cross_entropy")]


def width(tier: str) -> list[Task]:
    """Cost of an iteration and memory as the width grows."""
    inputs, dimension = {"tiny": (20, 10), "quick": (100, 20), "full": (200, 50)}[tier]
    limits = Limits(seconds={"tiny": 2.0, "quick": 5.0, "full": 30.0}[tier], iterations=8)
    return [
        Task(name, "sphere", Size(inputs, dimension, 2**power), limits)
        for name in entrants("width")
        for power in WIDTHS[tier]
    ]


def problems(tier: str) -> list[Task]:
    """Every other problem, those included where we lose."""
    limits = Limits(seconds={"tiny": 2.0, "quick": 3.0, "full": 40.0}[tier])
    names = [name for name in problem_names() if name != "sphere" and loss_of(name) == "squared_error"]
    return [
        Task(method, name, load_problem(name).SIZES[tier], limits) for name in names for method in entrants("problems")
    ]


CASES: dict[str, Callable[[str], list[Task]]] = {
    "race": race,
    "cross_entropy": cross_entropy,
    "width": width,
    "problems": problems,
}


def bench(*, cases: Sequence[str] = (), tier: str = "quick", output: Path) -> dict[str, Any]:
    """Run the named cases (all if none is named), print tables, and return all results in the file."""
    for name in cases:
        if name not in CASES:
            raise InvalidInput(f"case must be one of {', '.join(CASES)}; got {name!r}.")
    console = Console()
    if not console.is_terminal:
        console.width = _PLAIN_WIDTH
    results.read(output)  # a file that cannot be read is found before the work, not after it
    for name in cases or CASES:
        began = datetime.now(UTC)
        result = {"environment": environment(), "when": began.isoformat(timespec="seconds"), "tier": tier, "rows": []}
        for row in run_tasks(CASES[name](tier), name=name, console=console):
            result["rows"].append(row)
            result["seconds"] = (datetime.now(UTC) - began).total_seconds()
            _store(output, name, result)
        for table in summary.tables(name, result):
            console.print(table.rich())
    console.print(f"Written to {output}.")
    found = results.read(output)
    measured = {name: found[name][tier] for name in CASES if tier in found.get(name, {})}
    try:
        from benchmarks.figures import draw

        drawn = draw(measured, output.parent)
        console.print(f"Drawn: {', '.join(map(str, drawn))}.", highlight=False)
        if tier == "full" and page.PAGE.is_file():
            for part, lines in page.rivals(measured, figures=page.PAGE.parent / "figures").items():
                page.write(part, lines, page=page.PAGE)
    except NotAvailable as error:
        console.print(f"No figures: {error}", highlight=False, markup=False)
    return found


def _store(path: Path, case: str, result: dict[str, Any]) -> None:
    """Replace the results of one case and tier."""
    found = results.read(path)
    found.setdefault(case, {})[result["tier"]] = result
    results.write(path, found)


def run_tasks(tasks: Sequence[Task], *, name: str, console: Console) -> Iterator[Row]:
    """Yield the row of each task as it comes."""
    columns = (BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TextColumn("{task.fields[now]}"))
    with Progress(TextColumn("{task.description}"), *columns, console=console, transient=True) as progress:
        bar = progress.add_task(name, total=len(tasks), now="")
        for task in tasks:
            what = f"{task.method} on {task.problem}, width {task.size.width:,}"
            progress.update(bar, now=what)

            def tell(record: dict[str, Any], what: str = what) -> None:
                progress.update(bar, now=f"{what}: {record['iteration']}, residual {record['residual']:.2g}")

            row = run_task(task, tell)
            progress.advance(bar)
            if not console.is_terminal:
                console.print(f"{what}: {summary.ending(row)}", highlight=False, markup=False)
            yield row


def run_task(task: Task, tell: Callable[[dict[str, Any]], None] = lambda record: None) -> Row:
    """Measure in a process of its own; one that dies or hangs gives a row that says so."""
    allowed = 3 * task.limits.seconds + _PATIENCE
    row, heard = in_child("benchmarks.child", task._asdict(), allowed=allowed, tell=tell)
    if "levels" in row:
        return row
    if heard:
        row["reason"] += f" (relative residual {heard[-1]['residual'] / heard[0]['residual']:.2g} by then)"
    return {**describe(task), **row, "levels": {}, "iterations": max(len(heard) - 1, 0)}


def in_child(
    module: str,
    task: dict[str, Any],
    *,
    allowed: float,
    tell: Callable[[dict[str, Any]], None] = lambda record: None,
    variables: dict[str, str] | None = None,
) -> tuple[Row, list[dict[str, Any]]]:
    """Return the row that a module prints for a task, or one that says that it died or hung, and all lines before it.

    ``tell`` is called with each line as it comes; ``variables`` replace those of the environment.
    """
    heard: list[dict[str, Any]] = []
    began = time.perf_counter()
    with tempfile.TemporaryFile("w+") as errors:
        command = [sys.executable, "-m", module, json.dumps(task)]
        with subprocess.Popen(
            command, cwd=ROOT, stdout=subprocess.PIPE, stderr=errors, text=True, env=variables
        ) as child:
            timer = threading.Timer(allowed, child.kill)
            timer.start()
            try:
                for line in child.stdout or ():
                    if not line.startswith("{"):
                        continue  # a library that writes past Python's own output
                    record = json.loads(line)
                    if "row" in record:
                        return record["row"], heard
                    heard.append(record)
                    tell(record)
            finally:
                timer.cancel()
                child.kill()
        errors.seek(0)
        last = (errors.read().strip().splitlines() or ["nothing said"])[-1]
    took = time.perf_counter() - began
    reason = f"ended after {took:.0f} s" if took >= allowed else f"died with code {child.returncode}: {last}"
    return {"status": "failed", "reason": reason}, heard
