"""Certified search against goals: imports, random numbers, looks, growth with the width, digits, memory.

    python -m benchmarks.certified [--case NAME ...] [--output results/certified.json] [--page docs/benchmarks.md]

Compiling is done first and reported apart. Timings are ratios within a run: nothing else should run on the machine
meanwhile. Whole trainings and their start are measured by ``python -m benchmarks.start``.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits

from benchmarks import alone, page
from benchmarks.cases import CONSOLE, STARTS, Found, Row, later_seconds, measure_cases, row, size_of, table_of, trained
from benchmarks.dense import dense_iterations
from benchmarks.summary import fit_exponent
from thresher import Problem, to_sphere, train
from thresher.datasets import random_problem
from thresher.model.network import NetworkSettings

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
        name = size_of(inputs, dimension, width)
        total = {}
        for first_step in ("gram", "limit"):
            result = train(problem, width=width, first_step=first_step, start="random", twins=False)
            counted = [record.looks for record in result.history[1:]]
            total[first_step] = sum(counted)
            if first_step == "gram":
                for t, (mine, theirs) in enumerate(zip(counted, table, strict=False), start=1):
                    rows.append(row(name, f"looks at t = {t}", mine, most=1.1 * theirs))
        rows.append(row(name, "looks in all, limit step", total["limit"], most=sum(table) / 3))
    return rows


def growth() -> list[Row]:
    problem = random_problem(inputs=200, dimension=50)
    widths = [2**power for power in range(14, 23)]
    first, seconds = [], []
    for width in widths:
        first.append(train(problem, width=width, first_step="gram", start="random", twins=False).history[1].looks)
        runs = [np.mean(later_seconds(train(problem, width=width, start="random", twins=False))) for _ in range(3)]
        seconds.append(float(np.median(runs)))
    name = "n 200, d 50, m 2^14 to 2^22"
    rows = [row(name, "seconds per iteration at 2^22", seconds[-1])]
    for what, values in (("looks at t = 1", first), ("seconds per iteration", seconds)):
        rows.append(row(name, f"exponent of {what} in m", fit_exponent(widths, values)[0], most=0.6))
    return rows


def digits() -> list[Row]:
    pixels, labels = load_digits(return_X_y=True)
    rows = []
    for centred, start, goal in (
        (True, "random", 15), (True, "hadamard", 15), (False, "random", None), (False, "hadamard", 5),
    ):  # fmt: skip
        problem = Problem(to_sphere(pixels[:1200], centre=centred), labels[:1200] / 4.5 - 1)
        name = f"digits, n 1200, m 2^18, {'centred' if centred else 'raw'}, {STARTS[start]}"
        result, seconds = trained(problem, width=2**18, tol=1e-5, twins=True, start=start)
        _, dense = dense_iterations(problem, result.network.settings, count=1)
        steps = [record.step for record in result.history[1:]]
        relative = result.history[-1].residual / result.history[0].residual
        rows.append(row(name, "relative residual reached", relative, most=1e-5))
        rows.append(row(name, "iterations", len(steps)))
        rows.append(row(name, "shortened steps", sum(step < 1 for step in steps)))
        rows.append(row(name, "whole training, seconds", seconds))
        speedup = dense[0] / float(np.mean(later_seconds(result)))
        rows.append(row(name, "iteration, times faster than dense Gauss-Newton", speedup, least=goal))
    return rows


def memory() -> list[Row]:
    """The estimate made before training against the peak of the process that trained."""
    rows = []
    for inputs, dimension, width in ((200, 50, 2**20), (200, 50, 2**22), (1000, 100, 2**20), (1000, 100, 2**21)):
        for twins, first_step in ((False, "limit"), (True, "limit"), (False, "gram")):
            found = alone.run(
                inputs=inputs, dimension=dimension, width=width, twins=twins, first_step=first_step, evaluated=False
            )
            name = f"{size_of(inputs, dimension, width)}{', twins' if twins else ''}, {first_step}"
            rows.append(row(name, "peak memory, GiB", found["peak"] / 2**30))
            rows.append(row(name, "estimate over peak", found["estimate"] / found["peak"], least=2 / 3, most=3 / 2))
    return rows


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
    return [row("start weights, one thread", "time over NumPy's float32 standard_normal", ratio, most=1)]


def imports() -> list[Row]:
    def seconds(code: str, **environment: str) -> float:
        began = time.perf_counter()
        subprocess.run([sys.executable, "-c", code], check=True, env={**os.environ, **environment})
        return time.perf_counter() - began

    bare = min(seconds("pass") for _ in range(3))
    load, more = (
        min(seconds(code) for _ in range(3)) - bare for code in ("import thresher", "from thresher import train")
    )
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
        row("import", "import thresher, seconds", load, most=1),
        row("import", "from thresher import train, seconds", more, most=1),
        row("import", "first training with nothing compiled, seconds", cold, most=30),
        row("import", "the same in the next process, seconds", warm),
    ]


CASES: dict[str, Callable[[], list[Row]]] = {
    "imports": imports,
    "numbers": numbers,
    "looks": looks,
    "growth": growth,
    "digits": digits,
    "memory": memory,
}


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--case", action="append", choices=CASES, help="run this one only; may be repeated")
    page.add_options(parser, output="results/certified.json")
    options = parser.parse_args(arguments)
    began = time.perf_counter()
    for twins in (False, True):
        for start in STARTS:
            train(random_problem(inputs=20, dimension=10), width=4000, twins=twins, start=start)
    tiny = NetworkSettings.checked(width=4000, dimension=10)
    dense_iterations(random_problem(inputs=20, dimension=10), tiny, count=1)
    compiling = time.perf_counter() - began
    CONSOLE.print(f"Compiling, or loading what was compiled before: {compiling:.1f} s, not counted below.")
    cases = {name: lambda measure=measure: Found(rows=measure()) for name, measure in CASES.items()}
    found = measure_cases(cases, chosen=options.case, output=options.output)
    page.write("certified", table_of(found), page=page.page_of(options))


if __name__ == "__main__":
    main()
