"""Certified search against a dense evaluation and dense Gauss-Newton, in one run, with the same threads.

    python -m benchmarks.certified [--case NAME ...] [--output results/certified.json]

Each case prints what it measured beside the goal; a figure that misses its goal is printed so. Compiling is done first
and reported apart. Timings are ratios within a run: nothing else should run on the machine meanwhile.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table
from sklearn.datasets import load_digits

from benchmarks import results
from benchmarks.dense import dense_evaluation, dense_iterations
from benchmarks.environment import environment
from benchmarks.floor import parts_of_start
from thresher import Problem, Result, Status, to_sphere, train
from thresher.datasets import random_problem
from thresher.engines import estimate_memory
from thresher.model.network import NetworkSettings
from thresher.parallel import core_count

Row = dict[str, Any]
CONSOLE = Console()


def settings_of(result: Result) -> NetworkSettings:
    return result.network.settings


def timed(problem: Problem, **options: Any) -> tuple[Result, float]:
    began = time.perf_counter()
    result = train(problem, **options)
    return result, time.perf_counter() - began


def iteration_seconds(result: Result) -> list[float]:
    """Seconds of each iteration after the start pass, a first step inside that pass left out."""
    inside = 1 if result.history[1].solve.startswith("limit") else 0
    return [sum(record.seconds.values()) for record in result.history[1 + inside :]]


def row(case: str, what: str, value: float, goal: str, reached: bool) -> Row:
    return {"case": case, "what": what, "value": value, "goal": goal, "reached": bool(reached)}


def flagship(*, inputs: int = 1000, dimension: int = 100, width: int = 2**20, repeats: int = 3) -> list[Row]:
    problem = random_problem(inputs=inputs, dimension=dimension)
    name = f"n {inputs}, d {dimension}, m 2^{int(math.log2(width))}"
    rows = []
    settings = NetworkSettings.checked(width=width, dimension=dimension)
    ratios: dict[str, list[float]] = {}
    for _ in range(repeats):
        evaluation = {kind: dense_evaluation(problem, settings, generator=kind) for kind in ("numpy", "thresher")}
        for twins in (False, True):
            result, seconds = timed(problem, width=width, twins=twins)
            assert result.status == Status.CONVERGED
            for kind, reference in evaluation.items():
                ratios.setdefault(f"{kind} {twins}", []).append(seconds / reference)
            if not twins:
                ratios.setdefault("iteration", []).append(float(np.mean(iteration_seconds(result))))
                ratios.setdefault("seconds", []).append(seconds)
        ratios.setdefault("evaluation", []).append(evaluation["numpy"])
    for twins, goal in ((False, 1.3), (True, 0.8)):
        label = "with twins" if twins else "no twins"
        value = float(np.median(ratios[f"numpy {twins}"]))
        rows.append(row(name, f"whole training, {label}, in dense evaluations", value, f"<= {goal}", value <= goal))
        value = float(np.median(ratios[f"thresher {twins}"]))
        rows.append(row(name, f"the same, evaluation with our generator, {label}", value, "", True))
    rows.append(row(name, "whole training, seconds", float(np.median(ratios["seconds"])), "", True))
    rows.append(row(name, "dense evaluation, seconds", float(np.median(ratios["evaluation"])), "", True))
    _, dense = dense_iterations(problem, settings, count=1)
    _, sparse = dense_iterations(problem, settings, count=1, of_pairs=True)
    mine = float(np.median(ratios["iteration"]))
    rows.append(row(name, "dense iteration with its Gram from firing pairs, seconds", sparse[0], "", True))
    rows.append(row(name, "iteration, times faster than that", sparse[0] / mine, "", True))
    speedup = dense[0] / mine
    rows.append(row(name, "mean iteration after the start, seconds", float(np.median(ratios["iteration"])), "", True))
    rows.append(row(name, "dense Gauss-Newton iteration, seconds", dense[0], "", True))
    rows.append(row(name, "iteration, times faster than dense", speedup, ">= 150", speedup >= 150))
    return rows


def floor(*, inputs: int = 1000, dimension: int = 100, width: int = 2**20) -> list[Row]:
    """Where the time of the first case goes, and what it cannot be less than."""
    problem = random_problem(inputs=inputs, dimension=dimension)
    rows = []
    for twins in (False, True):
        name = f"n {inputs}, d {dimension}, m 2^{int(math.log2(width))}, {'twins' if twins else 'no twins'}"
        settings = NetworkSettings.checked(width=width, dimension=dimension, twins=twins)
        parts, start_rows = parts_of_start(problem, settings), width // (2 if twins else 1)
        for part in ("numbers", "product", "scan"):
            rows.append(row(name, f"{part}, microseconds a start row and thread", 1e6 * parts[part], "", True))
        flops = 2 * inputs * dimension
        rows.append(row(name, "product, Gflop a second and thread", 1e-9 * flops / parts["product"], "", True))
        rows.append(row(name, "watchlists, bytes a start row", parts["bytes"], "", True))
        rows.append(row(name, "memory, GB a second and thread", 1e-9 * parts["bandwidth"], "", True))
        row_floor = parts["numbers"] + parts["product"] + parts["bytes"] / parts["bandwidth"]
        least = start_rows * row_floor / core_count()
        result, seconds = timed(problem, width=width, twins=twins)
        spent: dict[str, float] = {}
        for record in result.history:
            for part, taken in record.seconds.items():
                spent[part] = spent.get(part, 0.0) + taken
        spent["weights of the result"] = seconds - sum(spent.values())
        rows += [row(name, f"training: {part}, seconds", taken, "", True) for part, taken in spent.items()]
        rows.append(row(name, "floor: numbers, product, bytes of watchlists; seconds", least, "", True))
        rows.append(row(name, "training over floor", seconds / least, "", True))
    return rows


# Looks per iteration of a throw-away prototype with the textbook first step: the measure to keep.
LOOKS = {
    (1000, 100, 2**20): (3.1e7, 5.3e6, 5.2e5, 6.0e3),
    (200, 50, 2**20): (1.6e6, 3.5e5, 2.4e4, 1.9e2),
    (200, 50, 2**22): (2.7e6, 4.8e5, 2.1e4, 8.1e1),
}


def looks() -> list[Row]:
    rows = []
    for (inputs, dimension, width), table in LOOKS.items():
        problem = random_problem(inputs=inputs, dimension=dimension)
        name = f"n {inputs}, d {dimension}, m 2^{int(math.log2(width))}"
        total = {}
        for first_step in ("gram", "limit"):
            result = train(problem, width=width, first_step=first_step)
            counted = [record.looks for record in result.history[1:]]
            total[first_step] = sum(counted)
            if first_step == "gram":
                for t, (mine, theirs) in enumerate(zip(counted, table, strict=False), start=1):
                    rows.append(row(name, f"looks at t = {t}", mine, f"<= {1.1 * theirs:.3g}", mine <= 1.1 * theirs))
        third = sum(table) / 3
        rows.append(row(name, "looks in all, limit step", total["limit"], f"<= {third:.3g}", total["limit"] <= third))
    return rows


def growth() -> list[Row]:
    problem = random_problem(inputs=200, dimension=50)
    widths = [2**power for power in range(14, 23)]
    first, seconds = [], []
    for width in widths:
        first.append(train(problem, width=width, first_step="gram").history[1].looks)
        runs = [np.mean(iteration_seconds(train(problem, width=width))) for _ in range(3)]
        seconds.append(float(np.median(runs)))
    rows = []
    for what, values in (("looks at t = 1", first), ("seconds per iteration", seconds)):
        slope = float(np.polyfit(np.log(widths), np.log(values), 1)[0])
        rows.append(row("n 200, d 50, m 2^14 to 2^22", f"exponent of {what} in m", slope, "<= 0.6", slope <= 0.6))
    rows.append(row("n 200, d 50, m 2^14 to 2^22", "seconds per iteration at 2^22", seconds[-1], "", True))
    return rows


def digits() -> list[Row]:
    pixels, labels = load_digits(return_X_y=True)
    rows = []
    for centred, goal in ((True, 15), (False, 4)):
        problem = Problem(to_sphere(pixels[:1200], centre=centred), labels[:1200] / 4.5 - 1)
        name = f"digits, n 1200, m 2^18, {'centred' if centred else 'raw'}"
        result, seconds = timed(problem, width=2**18, tol=1e-5, twins=True)
        _, dense = dense_iterations(problem, settings_of(result), count=1)
        speedup = dense[0] / float(np.mean(iteration_seconds(result)))
        steps = [record.step for record in result.history[1:]]
        reached = result.status == Status.CONVERGED
        relative = result.history[-1].residual / result.history[0].residual
        rows.append(row(name, "relative residual reached", relative, "<= 1e-5", reached))
        rows.append(row(name, "iterations", len(steps), "", True))
        rows.append(row(name, "shortened steps", sum(step < 1 for step in steps), "", True))
        rows.append(row(name, "whole training, seconds", seconds, "", True))
        rows.append(row(name, "iteration, times faster than dense", speedup, f">= {goal}", speedup >= goal))
    return rows


def in_own_process(*, inputs: int, dimension: int, width: int, twins: bool, first_step: str) -> tuple[Any, ...]:
    """Train in a process of its own; return seconds, peak bytes, estimated bytes, status, relative residual."""
    code = (
        "import json, resource, time; from thresher import train; from thresher.datasets import random_problem\n"
        f"problem = random_problem(inputs={inputs}, dimension={dimension}); began = time.perf_counter()\n"
        f"result = train(problem, width={width}, twins={twins}, first_step={first_step!r})\n"
        "seconds = time.perf_counter() - began\n"
        "peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024\n"
        "relative = result.history[-1].residual / result.history[0].residual\n"
        "print(json.dumps([seconds, peak, str(result.status), relative]))"
    )
    problem = random_problem(inputs=inputs, dimension=dimension)
    settings = NetworkSettings.checked(width=width, dimension=dimension, twins=twins)
    estimate = estimate_memory(problem, settings, index="certified", threads=core_count(), first_step=first_step)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    seconds, peak, status, relative = json.loads(done.stdout)
    return seconds, peak, estimate, status, relative


def memory() -> list[Row]:
    """The estimate made before training against the peak of the process that trained."""
    rows = []
    for inputs, dimension, width in ((200, 50, 2**20), (200, 50, 2**22), (1000, 100, 2**20), (1000, 100, 2**21)):
        for twins, first_step in ((False, "limit"), (True, "limit"), (False, "gram")):
            case = {"inputs": inputs, "dimension": dimension, "width": width, "twins": twins, "first_step": first_step}
            _, peak, estimate, _, _ = in_own_process(**case)
            name = f"n {inputs}, d {dimension}, m 2^{int(math.log2(width))}{', twins' if twins else ''}, {first_step}"
            ratio = estimate / peak
            rows.append(row(name, "peak memory, GiB", peak / 2**30, "", True))
            rows.append(row(name, "estimate over peak", ratio, "2/3 to 3/2", 2 / 3 <= ratio <= 3 / 2))
    return rows


def huge(*, width: int = 10**8, inputs: int = 1000, dimension: int = 64) -> list[Row]:
    case = {"inputs": inputs, "dimension": dimension, "width": width, "twins": True, "first_step": "limit"}
    seconds, peak, estimate, status, relative = in_own_process(**case)
    problem = random_problem(inputs=inputs, dimension=dimension)
    settings = NetworkSettings.checked(width=width, dimension=dimension, twins=True)
    slice_of_it = NetworkSettings.checked(width=width // 10, dimension=dimension, shift=settings.shift)
    evaluation = 10 * dense_evaluation(problem, slice_of_it, generator="numpy")
    name = f"n {inputs}, d {dimension}, m {width:.0e}, twins"
    gib = peak / 2**30
    return [
        row(name, "relative residual reached", relative, "<= 1e-6", status == "converged"),
        row(name, "peak memory, GiB", gib, "< 16", gib < 16),
        row(name, "estimate over peak", estimate / peak, "2/3 to 3/2", 2 / 3 <= estimate / peak <= 3 / 2),
        row(name, "whole training, seconds", seconds, "", True),
        row(name, "in dense evaluations", seconds / evaluation, "<= 2", seconds / evaluation <= 2),
    ]


def numbers() -> list[Row]:
    settings = NetworkSettings.checked(width=2**20, dimension=100)
    ours, theirs = [], []
    generator, out = np.random.default_rng(0), np.empty((1024, 100), np.float32)
    for _ in range(5):
        began = time.perf_counter()
        for block in range(200):
            settings.start.base_block(1024 * block, 1024 * (block + 1))
        ours.append(time.perf_counter() - began)
        began = time.perf_counter()
        for _ in range(200):
            generator.standard_normal(out=out, dtype=np.float32)
        theirs.append(time.perf_counter() - began)
    ratio = min(ours) / min(theirs)
    return [row("start weights, one thread", "time over NumPy's float32 standard_normal", ratio, "<= 1", ratio <= 1)]


def imports() -> list[Row]:
    def seconds(code: str, **environment: str) -> float:
        began = time.perf_counter()
        subprocess.run([sys.executable, "-c", code], check=True, env={**os.environ, **environment})
        return time.perf_counter() - began

    bare = min(seconds("pass") for _ in range(3))
    load = min(seconds("import thresher") for _ in range(3)) - bare
    code = (
        "from thresher import train; from thresher.datasets import random_problem\n"
        "train(random_problem(inputs=9, dimension=5), width=999)"
    )
    with_cache = {"NUMBA_CACHE_DIR": str(Path(".cold-cache").absolute())}
    try:
        cold, warm = seconds(code, **with_cache), seconds(code, **with_cache)
    finally:
        subprocess.run(["rm", "-rf", ".cold-cache"], check=True)
    return [
        row("import", "import thresher, seconds", load, "< 1", load < 1),
        row("import", "first training with nothing compiled, seconds", cold, "< 30", cold < 30),
        row("import", "the same in the next process, seconds", warm, "", True),
    ]


CASES: dict[str, Callable[[], list[Row]]] = {
    "imports": imports,
    "numbers": numbers,
    "flagship": flagship,
    "floor": floor,
    "looks": looks,
    "growth": growth,
    "digits": digits,
    "memory": memory,
    "huge": huge,
}


def show(rows: list[Row]) -> None:
    table = Table()
    for name in ("case", "measured", "value", "goal", ""):
        table.add_column(name, justify="right" if name == "value" else "left")
    for one in rows:
        mark = "" if not one["goal"] else "reached" if one["reached"] else "MISSED"
        table.add_row(one["case"], one["what"], f"{one['value']:.3g}", one["goal"], mark)
    CONSOLE.print(table)


def _earlier(path: Path, *, without: list[str]) -> list[Row]:
    """Rows of an earlier run that are not measured again."""
    return [one for one in results.read(path).get("rows", []) if one.get("group") not in without]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--case", action="append", choices=CASES, help="run this one only; may be repeated")
    parser.add_argument("--output", type=Path, default=Path("results/certified.json"))
    options = parser.parse_args()
    began = time.perf_counter()
    for twins in (False, True):
        train(random_problem(inputs=20, dimension=10), width=4000, twins=twins)
        tiny = NetworkSettings.checked(width=4000, dimension=10)
        dense_iterations(random_problem(inputs=20, dimension=10), tiny, count=1, of_pairs=twins)
    compiling = time.perf_counter() - began
    CONSOLE.print(f"Compiling, or loading what was compiled before: {compiling:.1f} s, not counted below.")
    commit = environment()["commit"]
    rows = _earlier(options.output, without=options.case or list(CASES))
    for name in options.case or CASES:
        with CONSOLE.status(f"{name} ..."):
            found = [{**one, "group": name, "commit": commit} for one in CASES[name]()]
        show(found)
        rows += found
    results.write(options.output, {"environment": environment(), "rows": rows})
    CONSOLE.print(f"Written to {options.output}.")


if __name__ == "__main__":
    main()
