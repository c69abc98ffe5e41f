"""One method on one problem, in a process of its own: clean memory, and nobody else falls with it.

    python -m benchmarks.child '{"method": "ours", "problem": "sphere", ...}'

Takes a task, writes a line of JSON for every iteration, and last the row of the result.
"""

from __future__ import annotations

import gc
import json
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any, NamedTuple

from benchmarks import memory
from benchmarks.log import Limits, Log
from benchmarks.methods import Method, load_method, require_installed
from benchmarks.problems import Size, load_problem, loss_of
from thresher import Iteration, MemoryRefused, NotAvailable, Problem
from thresher.losses import LOSSES, choose_loss
from thresher.model.network import NetworkSettings

LEVELS = {"squared_error": (1e-2, 1e-4, 1e-6), "log_loss": (1e-1, 1e-2, 1e-3)}  # relative residuals; mean losses
Row = dict[str, Any]
_POINTS = 200  # of a history that are kept
_REPEATS, _SHORT = 3, 1 / 24  # runs that take less than this share of the seconds allowed are repeated
_ROUNDING = 3e-7  # of float32, allowed when a residual is computed anew
_OUTSIDE = ("start", "other")  # steps that are not part of an iteration


class Task(NamedTuple):
    """What to measure: a method on a problem of some size, until the goal or a limit is reached."""

    method: str
    problem: str
    size: Size
    limits: Limits
    goal: float = LEVELS["squared_error"][-1]


def measure(task: Task, told: Callable[[Iteration], object] = lambda record: None) -> Row:
    """Return what a run took and where it led. A method that cannot run or fails gives a row that says why."""
    log = Log(goal=task.goal, limits=task.limits, told=told, loss=choose_loss(loss_of(task.problem)))
    row = describe(task)
    try:
        method = load_method(task.method)
        require_installed(method)
        row |= _run(task, method, log)
    except NotAvailable as error:
        row |= {"status": "not available", "reason": str(error)}
    except MemoryRefused as error:
        row |= {"status": "refused", "reason": str(error)}
    except Exception as error:  # a rival's failure is a result
        row |= {"status": "failed", "reason": f"{type(error).__name__}: {error}"}
    return {**row, **_reading(log)} if "levels" not in row else row


def describe(task: Task) -> Row:
    """Return the part of a row that is known before anything has run."""
    method = load_method(task.method)
    return {
        "method": task.method,
        "label": method.LABEL,
        "cost": method.COST,
        "order": method.ORDER,
        "problem": task.problem,
        **task.size._asdict(),
        "loss": loss_of(task.problem),
        "goal": task.goal,
        "seconds_allowed": task.limits.seconds,
    }


def _run(task: Task, method: Method, log: Log) -> Row:
    def make() -> Problem:  # anew for each run, so that nothing it remembers is had for nothing
        return load_problem(task.problem).make(inputs=task.size.inputs, dimension=task.size.dimension)

    problem = make()
    settings = NetworkSettings.checked(width=task.size.width, dimension=problem.dimension)
    row: Row = {"shift": settings.shift, "warm_up_seconds": _warm_up(task, method, log)}
    before, began = memory.reset_peak(), time.perf_counter()
    options = _tune(method, problem, settings, log.trial(task.limits))
    if options:
        row["tuning"] = {
            "how": getattr(method, "TUNING", ""),
            "chosen": options,
            "seconds": time.perf_counter() - began,
        }
    gc.collect()
    memory.reset_peak()
    runs, spent = [log], [_processor_seconds(method, make(), settings, log, options)]
    row["memory"] = {"before": before, "peak": max(before, memory.peak())}  # what was there may have shrunk
    while len(runs) < _REPEATS and runs[0].seconds < _SHORT * task.limits.seconds:
        gc.collect()
        runs.append(log.trial(task.limits))
        spent.append(_processor_seconds(method, make(), settings, runs[-1], options))
    middle = sorted(runs, key=lambda run: run.seconds)[len(runs) // 2]
    row["repeats"], row["processor_seconds"] = [run.seconds for run in runs], spent[runs.index(middle)]
    if middle.ended == "reached" and middle.checked is not None and middle.checked > task.goal + _ROUNDING:
        middle.ended = f"reached by its own account, but {middle.checked:.1e} when computed anew"
    return {**row, "status": "reached" if middle.ended == "reached" else "not reached", **_reading(middle)}


def _processor_seconds(
    method: Method, problem: Problem, settings: NetworkSettings, log: Log, options: dict[str, Any]
) -> float:
    """Run, and return the seconds of all threads together: on a machine that does other things, a fairer clock."""
    before = time.process_time()
    method.run(problem, settings, log, **options)
    return time.process_time() - before


def _tune(method: Method, problem: Problem, settings: NetworkSettings, log: Log) -> dict[str, Any]:
    tune: Callable[..., dict[str, Any]] | None = getattr(method, "tune", None)
    return tune(problem, settings, log) if tune else {}


def _warm_up(task: Task, method: Method, log: Log) -> float:
    """Compile and load everything on a tiny problem of the same kind; return the seconds, which are not charged."""
    began = time.perf_counter()
    made = load_problem(task.problem)
    size = made.SIZES["tiny"]
    problem = made.make(inputs=size.inputs, dimension=size.dimension)
    settings = NetworkSettings.checked(width=size.width, dimension=problem.dimension)
    if hasattr(method, "warm_up"):
        method.warm_up()
    options = _tune(method, problem, settings, log.trial(Limits(seconds=1.0)))
    method.run(problem, settings, log.trial(Limits(seconds=60.0, iterations=12)), **options)
    return time.perf_counter() - began


def _reading(log: Log) -> Row:
    """Return what the history says: levels reached, seconds by step, counters; the first crossing, not interpolated."""
    if not log.history:
        return {"iterations": 0, "relative": None, "seconds": 0.0, "levels": {}, "history": []}
    points, spent, looks = [], 0.0, 0
    split: dict[str, float] = {}
    for record in log.history:
        for step, seconds in record.seconds.items():
            split[step] = split.get(step, 0.0) + seconds
        spent, looks = spent + sum(record.seconds.values()), looks + record.looks
        points.append((spent, log.share(record), looks))
    levels = {}
    for level in next(levels for loss, levels in LEVELS.items() if isinstance(log.loss, LOSSES[loss])):
        crossed = next((t for t, point in enumerate(points) if point[1] <= level), None)
        levels[f"{level:.0e}"] = None if crossed is None else {"iterations": crossed, "seconds": points[crossed][0]}
    # A first step that was taken within the start pass has no seconds of its own.
    later = [record for record in log.history[1:] if not record.solve.startswith("limit")]
    costs = [sum(seconds for step, seconds in one.seconds.items() if step not in _OUTSIDE) for one in later]
    every = -(-len(points) // _POINTS)
    counters = ("looks", "flips", "moved", "visits", "touches", "inner_iterations")
    return {
        "iterations": len(log.history) - 1,
        "relative": points[-1][1],
        "lowest": min(point[1] for point in points),
        "checked": log.checked,
        "ended": log.ended,
        "seconds": spent,
        "seconds_per_iteration": statistics.mean(costs) if costs else None,
        "looks_per_iteration": statistics.mean(record.looks for record in later) if later else None,
        "split": split,
        "levels": levels,
        "counters": {name: sum(getattr(record, name) for record in log.history) for name in counters},
        "history": [*points[::every], points[-1]],
    }


def main() -> None:
    told = json.loads(sys.argv[1])
    task = Task(told["method"], told["problem"], Size(*told["size"]), Limits(*told["limits"]), told["goal"])
    lines, sys.stdout = sys.stdout, sys.stderr  # what methods print must not stand between the lines

    def tell(record: Iteration) -> None:
        print(json.dumps({"iteration": record.iteration, "residual": record.residual}), file=lines, flush=True)

    print(json.dumps({"row": measure(task, tell)}), file=lines, flush=True)


if __name__ == "__main__":
    main()
