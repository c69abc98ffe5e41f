"""What an iteration costs as the width grows: by ``method="paper"``, and by certified search with every loss.

    python -m benchmarks.scaling [--inputs 16] [--dimension 32] [--least 14] [--most 20] [--output FILE.json]
        [--page FILE.md]

Prints moved neurons, node visits, nodes touched and flips per iteration of the paper's method for each width, and the
exponent of a straight line through their logarithms; then looks per iteration after the first, of default options and
each loss, on more inputs. Operations are counted, not timed, so the figures are the same on every machine.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

from benchmarks import page, results
from benchmarks.environment import environment
from benchmarks.summary import Sheet, fit_exponent
from thresher import Status, train
from thresher.datasets import random_problem

LOSSES = ("squared_error", "log_loss", "log_loss, three classes", "huber", "quantile", "poisson")
LOSS = 1e-3  # mean loss that others than squares go to
Matrix = NDArray[Any]
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


def loss_problem(loss: str, *, inputs: int, dimension: int) -> tuple[Matrix, Matrix, dict[str, Any]]:
    """Return inputs (n, d), targets (n, k) that a loss takes, and options of the training."""
    problem = random_problem(inputs=inputs, dimension=dimension)
    y = problem.targets
    counts = np.random.default_rng(0).poisson(np.exp(np.minimum(y, 5.0)))
    kinds = np.digitize(y, np.quantile(y, [1 / 3, 2 / 3]))
    targets = {"log_loss": y > 0, "poisson": counts, LOSSES[2]: np.eye(3)[kinds]}.get(loss, y)
    tol = 1e-6 if loss == LOSSES[0] else LOSS
    return problem.inputs, targets.reshape(len(y), -1), {"loss": loss.split(",")[0], "tol": tol}


def looks_of(loss: str, widths: Sequence[int], *, inputs: int, dimension: int) -> list[dict[str, float]]:
    """Return looks per iteration after the first, as a share of all pairs too, and how many iterations it took."""
    X, targets, options = loss_problem(loss, inputs=inputs, dimension=dimension)
    rows = []
    for width in widths:
        result = train(X, targets, width=width, **options)
        looks = float(np.mean([step.looks for step in result.history[2:] or result.history[1:]]))
        pairs = width * inputs * targets.shape[1]
        rows.append({"width": width, "looks": looks, "pairs": pairs, "iterations": len(result.history) - 1})
        rows[-1]["converged"] = float(result.status == Status.CONVERGED)
    return rows


def exponent(rows: list[dict[str, float]], counter: str) -> tuple[float, float]:
    """Return the slope of log(counter) over log(width) and its standard error."""
    return fit_exponent([row["width"] for row in rows], [max(row[counter], 1.0) for row in rows])


def losses_part(found: dict[str, Any]) -> list[str]:
    """Return the table of losses."""
    lines = []
    for loss, rows in found["losses"].items():
        slope, error = exponent(rows, "looks")
        last = rows[-1]
        lines.append(
            [loss, *(f"{row['looks']:,.0f}" for row in rows), f"{last['looks'] / last['pairs']:.2%}",
             f"{last['iterations']:.0f}" + " (not converged)" * (not last["converged"]),
             f"{slope:.2f} ± {error:.2f}"]
        )  # fmt: skip
    head = ["loss", *(f"{row['width']:,}" for row in next(iter(found["losses"].values())))]
    return [
        f"Certified search with each loss, n = {found['more inputs']}, d = {found['more dimensions']}: pre-activations "
        "computed per iteration after the first, at each width; of the largest, their share of all pairs and the "
        "iterations it took; the exponent of the width. Squares go to a residual of 1e-6, others to a mean loss of "
        f"{LOSS:g}, towards outputs that have it. Those of classes and of counts of 0 are far from 0, so more pairs "
        "flip than with targets of ordinary size.\n",
        Sheet("", [*head, "share", "iterations", "exponent"], lines).markdown(),
    ]


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
        *losses_part(found),
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
    figures: dict[str, Any] = {
        "rows": rows, "exponents": fitted, "inputs": options.inputs, "dimension": options.dimension,
    }  # fmt: skip
    more = {"inputs": 12 * options.inputs, "dimension": 2 * options.dimension}
    widths = [2**power for power in range(options.least, options.most + 1, 2)]
    with console.status("losses ..."):
        figures["losses"] = {loss: looks_of(loss, widths, **more) for loss in LOSSES}
    figures |= {"more inputs": more["inputs"], "more dimensions": more["dimension"]}
    for loss, counted in figures["losses"].items():
        slope, error = exponent(counted, "looks")
        console.print(f"looks per iteration with loss={loss!r}: exponent {slope:.2f} ± {error:.2f}")
    found = {"environment": environment(), **figures}
    results.write(options.output, found)
    page.write("scaling", part(found), page=page.page_of(options))


if __name__ == "__main__":
    main()
