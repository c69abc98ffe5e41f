"""Start rows drawn where they fire: the whole training against the width, beside one dense evaluation.

    python -m benchmarks.poisson [--tiny] [--output results/poisson.json]

Each training runs in a process of its own, which compiles first and tells its peak of memory. A dense evaluation makes
all start weights (float32, NumPy's generator) and multiplies them with the inputs once; it is timed in the same process
on some of its rows and scaled to the width. Seconds are of all cores, and of processor time as well: a machine with
other work on it stretches the former.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rich.console import Console

from benchmarks import memory, results
from benchmarks.dense import dense_evaluation
from benchmarks.environment import environment
from benchmarks.summary import Sheet, fit_exponent
from thresher import train
from thresher.datasets import random_problem
from thresher.engines import estimate_memory
from thresher.model.network import NetworkSettings
from thresher.parallel import core_count

Row = dict[str, Any]
TIMED_ROWS = 1 << 22  # of a dense evaluation
GROWTH = [(16, 32, 2**power) for power in range(20, 31, 2)]
LARGE = [(100, 64, 2**30), (16, 32, 10**10)]
TINY = [(8, 16, 2**power) for power in (14, 16, 18)]


def timed(work: Callable[[], Any]) -> tuple[Any, float, float]:
    """Return what some work returns, its seconds, and its seconds of processor time."""
    wall, cpu = time.perf_counter(), time.process_time()
    found = work()
    return found, time.perf_counter() - wall, time.process_time() - cpu


def measure(inputs: int, dimension: int, width: int) -> Row:
    """Train once, all included; and evaluate a dense network of the same width."""
    problem = random_problem(inputs=inputs, dimension=dimension)
    settings = NetworkSettings.checked(width=width, dimension=dimension, twins=True)
    part = settings._replace(width=min(width, TIMED_ROWS))
    train(problem, width=2**12, twins=True, start="poisson")  # compiles
    _, dense, dense_cpu = timed(lambda: dense_evaluation(problem, part, generator="numpy"))
    memory.reset_peak()
    result, seconds, cpu = timed(lambda: train(problem, width=width, twins=True, start="poisson"))
    peak = memory.peak()
    drawn, scaled = settings.drawn_at(problem.inputs), width / part.width
    return {
        "inputs": inputs,
        "dimension": dimension,
        "width": width,
        "neurons drawn": result.network.settings.neurons,
        "status": str(result.status),
        "iterations": len(result.history) - 1,
        "residual": result.history[-1].residual / result.history[0].residual,
        "seconds": seconds,
        "processor seconds": cpu,
        "start": result.history[0].seconds["start"],
        "peak": peak,
        "estimate": estimate_memory(problem, drawn, index="certified", threads=core_count()),
        "dense evaluation": dense * scaled,
        "dense evaluation, processor seconds": dense_cpu * scaled,
        "share of the dense evaluation that was timed": 1 / scaled,
    }


def in_own_process(inputs: int, dimension: int, width: int) -> Row:
    command = [sys.executable, "-m", "benchmarks.poisson", "--one", str(inputs), str(dimension), str(width)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    found: Row = json.loads(done.stdout)
    return found


def table_of(rows: list[Row]) -> Sheet:
    header = ["n, d", "width m", "neurons drawn", "seconds", "processor s", "of a dense evaluation", "GiB", "estimate"]
    header += ["steps", "residual"]
    lines = [
        [
            f"{row['inputs']}, {row['dimension']}",
            f"{row['width']:,}",
            f"{row['neurons drawn']:,}",
            f"{row['seconds']:.3g}",
            f"{row['processor seconds']:.3g}",
            f"1/{row['dense evaluation, processor seconds'] / row['processor seconds']:.3g}",
            f"{row['peak'] / 2**30:.2f}",
            f"{row['estimate'] / 2**30:.2f}",
            str(row["iterations"]),
            f"{row['residual']:.0e}",
        ]
        for row in rows
    ]
    return Sheet("Whole trainings to 1e-6 with start='poisson', twins, the paper's shift", header, lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tiny", action="store_true", help="small widths: whether it runs")
    parser.add_argument("--output", type=Path, default=Path("results/poisson.json"))
    parser.add_argument("--one", type=int, nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        print(json.dumps(measure(*options.one)))
        return
    console = Console(width=max(Console().width, 140))
    growth, large = (TINY, []) if options.tiny else (GROWTH, LARGE)
    rows: list[Row] = []
    for case in [*growth, *large]:
        with console.status(f"n {case[0]}, d {case[1]}, m {case[2]:,} ..."):
            rows.append(in_own_process(*case))
        found: dict[str, Any] = {"environment": environment(), "rows": rows}
        if len(rows) >= len(growth):
            some = rows[: len(growth)]
            widths = [row["width"] for row in some]
            for name in ("seconds", "processor seconds", "neurons drawn"):
                found[f"exponent of {name}"] = fit_exponent(widths, [row[name] for row in some])
        results.write(options.output, found)
    console.print(table_of(rows).rich())
    for name, value in found.items():
        if name.startswith("exponent"):
            console.print(f"{name}: {value[0]:.3f} ± {value[1]:.3f}")


if __name__ == "__main__":
    main()
