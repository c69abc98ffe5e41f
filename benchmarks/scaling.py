"""The paper's cost claim, measured: what an iteration of ``method="paper"`` costs as the width grows.

    python -m benchmarks.scaling [--inputs 16] [--dimension 32] [--least 14] [--most 20] [--output FILE.json]
        [--page FILE.md]

Prints moved neurons, node visits, nodes touched and flips per iteration for each width, and the exponent of a straight
line through their logarithms. Operations are counted, not timed, so the figures are the same on every machine.
"""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks import page, results
from benchmarks.environment import environment
from benchmarks.summary import Sheet, fit_exponent
from thresher import Status, train
from thresher.datasets import random_problem

COUNTERS = ("moved", "visits", "touches", "flips", "firing")


def measure(width: int, *, inputs: int, dimension: int) -> dict[str, float]:
    result = train(random_problem(inputs=inputs, dimension=dimension), width=width, method="paper")
    steps = result.history[1:]
    row: dict[str, float] = {name: float(np.mean([getattr(step, name) for step in steps])) for name in COUNTERS}
    row["width"] = width
    row["iterations"] = len(steps)
    row["worst contraction"] = max(step.contraction for step in steps)
    row["full steps"] = float(all(step.step == 1 for step in steps))
    row["converged"] = float(result.status == Status.CONVERGED)
    return row


def exponent(rows: list[dict[str, float]], counter: str) -> tuple[float, float]:
    """Return the slope of log(counter) over log(width) and its standard error."""
    return fit_exponent([row["width"] for row in rows], [max(row[counter], 1.0) for row in rows])


def part(found: dict[str, Any]) -> list[str]:
    """Return the table of the page."""
    lines = [
        [
            f"{row['width']:,}",
            *(f"{row[name]:,.0f}" for name in COUNTERS),
            f"{row['iterations']:.0f}",
            f"{row['worst contraction']:.3f}",
        ]
        for row in found["rows"]
    ]
    fitted = [f"{slope:.2f} ± {error:.2f}" for slope, error in map(found["exponents"].get, COUNTERS)]
    lines.append(["exponent", *fitted, "", ""])
    return [
        f'`method="paper"`, n = {found["inputs"]}, d = {found["dimension"]}: counters per iteration, and the exponent '
        "of the width in each. A pass over all pairs has exponent 1; the paper bounds the firing neurons by m^0.76.\n",
        page.machine(found),
        Sheet("", ["width", *COUNTERS, "iterations", "worst contraction"], lines).markdown(),
    ]


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--inputs", type=int, default=16)
    parser.add_argument("--dimension", type=int, default=32)
    parser.add_argument("--least", type=int, default=14, help="smallest width, as a power of two")
    parser.add_argument("--most", type=int, default=20, help="largest width, as a power of two")
    page.add_options(parser, output="results/scaling.json")
    options = parser.parse_args(arguments)

    console = Console()
    table = Table(title=f"Thousands per iteration, method='paper', n = {options.inputs}, d = {options.dimension}")
    for name in ("", *COUNTERS, "steps", "worst"):
        table.add_column(name, justify="right")
    rows = []
    for power in range(options.least, options.most + 1):
        with console.status(f"width 2^{power} ..."):
            rows.append(measure(2**power, inputs=options.inputs, dimension=options.dimension))
        counts = [f"{rows[-1][name] / 1000:,.1f}" for name in COUNTERS]
        halved = f"{rows[-1]['worst contraction']:.3f}"
        table.add_row(f"2^{power}", *counts, f"{rows[-1]['iterations']:.0f}", halved)
    fitted = {name: exponent(rows, name) for name in COUNTERS}
    table.add_section()
    table.add_row("exponent", *(f"{slope:.2f}" for slope, _ in fitted.values()), "", "")
    table.add_row("+-", *(f"{error:.3f}" for _, error in fitted.values()), "", "")
    console.print(table)
    console.print("A pass over all pairs has exponent 1; the paper's bound on firing neurons has 0.76.")
    console.print("worst: the largest contraction of the residual norm in one step; the paper promises at most 0.5.")
    figures = {"rows": rows, "exponents": fitted, "inputs": options.inputs, "dimension": options.dimension}
    found = {"environment": environment(), **figures}
    results.write(options.output, found)
    page.write("scaling", part(found), page=page.page_of(options))


if __name__ == "__main__":
    main()
