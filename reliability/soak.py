"""Train random problems for as long as told, and audit every iteration of each against a full scan.

    python -m reliability.soak --minutes 10 [--seed 0] [--only NUMBER] [--output results/reliability.json]

Sizes, shifts, coherence, duplicate and opposite inputs, heavy tails, targets from 1e-6 to 1e6, both precisions, twins,
random and Hadamard start rows, both first steps, several solvers. A failure is printed and kept with the seed and
number that make it again (--only).
"""

from __future__ import annotations

import argparse
import sys
import time
import traceback
from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

from reliability.record import RECORD, keep
from thresher import BrokenCertificate, Problem, Result, Status, to_sphere, train

LARGEST = 1 << 23  # pairs of one problem


def make_problem(seed: int, number: int) -> tuple[Problem, dict[str, Any]]:
    """Return one random problem and the options to train it with: a function of seed and number alone."""
    g = np.random.default_rng([seed, number])
    n, d = int(2 ** g.uniform(0, 8)), int(2 ** g.uniform(0, 6))
    rows = g.standard_t(1.5, size=(n, d)) if g.random() < 0.2 else g.normal(size=(n, d))
    rows = rows * g.choice([0.03, 0.3, 1.0]) + g.normal(size=d) if g.random() < 0.4 else rows
    rows[:, 0] += np.abs(rows).max(axis=1) == 0  # a row of zeros has no direction
    if g.random() < 0.3:
        rows = rows[g.integers(n, size=n)]  # duplicates
    if g.random() < 0.3:
        rows *= g.choice([-1.0, 1.0], size=(n, 1))
        rows[n // 2 :] = -rows[: n - n // 2]  # opposites
    targets = [
        g.normal(size=n),
        g.standard_t(1, size=n),
        np.full(n, g.normal()),
        np.sign(g.normal(size=n)),
        np.zeros(n),
    ]
    chosen = targets[g.choice(5, p=[0.5, 0.2, 0.1, 0.15, 0.05])] * 10 ** g.uniform(-6, 6)
    twins = bool(g.random() < 0.3)
    width = int(2 ** g.uniform(0, np.log2(LARGEST / n)))
    width += width % 2 if twins else 0
    dtype = str(g.choice(["float32", "float64"]))
    options = {
        "width": width,
        "shift": None if g.random() < 0.3 else float(g.uniform(0, 3)),
        "seed": int(g.integers(2**32)),
        "index": str(g.choice(["certified", "tournament"], p=[0.9, 0.1])),
        "solver": str(g.choice(["auto", "cg", "sketched"], p=[0.7, 0.15, 0.15])),
        "first_step": str(g.choice(["limit", "gram"])),
        "activation": str(g.choice(["relu", "max"], p=[0.8, 0.2])),
        "twins": twins,
        "damping": float(g.choice([0.0, 1e-3], p=[0.8, 0.2])),
        "dtype": dtype,
        "tol": 1e-6 if dtype == "float32" else 1e-10,
        "max_iterations": int(g.integers(1, 9)),
        "start": str(g.choice(["random", "hadamard"], p=[0.7, 0.3])),
    }
    return Problem(to_sphere(rows), chosen), options


def try_one(seed: int, number: int, **others: Any) -> Result:
    """Train one random problem with audits, some options replaced by others; raises what is wrong with it."""
    problem, options = make_problem(seed, number)
    result = train(problem, **options | others, audit=True)
    losses = [record.loss for record in result.history]
    if not np.isfinite(losses).all() or any(later > earlier for earlier, later in pairwise(losses)):
        raise AssertionError(f"losses must be finite and fall; they are {losses}")
    if result.status == Status.INTERRUPTED or not result.message:
        raise AssertionError(f"ended as {result!r}")
    return result


def soak(*, minutes: float, seed: int, console: Console, output: Path) -> int:
    """Run until the time is over; return the number of failures."""
    began = said = kept = time.monotonic()
    figures: dict[str, Any] = {"seed": seed, "problems": 0, "pairs": 0, "missed": 0, "ties": 0}
    figures |= {"worst_error": {"float32": 0.0, "float64": 0.0}, "failures": []}
    statuses = Counter[str]()
    number = 0
    while (now := time.monotonic()) - began < 60 * minutes:
        try:
            result = try_one(seed, number)
        except Exception as error:
            figures["missed"] += isinstance(error, BrokenCertificate)
            figures["failures"].append({"seed": seed, "number": number, "what": f"{type(error).__name__}: {error}"})
            console.print(
                f"FAILED --seed {seed} --only {number}: {traceback.format_exc()}", markup=False, highlight=False
            )
        else:
            statuses[result.status.value] += 1
            figures["pairs"] += result.audit.pairs
            figures["ties"] += result.audit.ties
            dtype = make_problem(seed, number)[1]["dtype"]
            figures["worst_error"][dtype] = max(figures["worst_error"][dtype], result.audit.error)
        number += 1
        figures |= {"problems": number, "minutes": (now - began) / 60, "statuses": dict(statuses)}
        if now - said > 10:
            said = now
            console.print(
                f"{figures['minutes']:.1f} min: {number:,} problems, {figures['pairs']:.3g} pairs audited, "
                f"{figures['missed']} missed, {len(figures['failures'])} failures",
                highlight=False,
            )
        if now - kept > 60:
            kept = now
            keep(f"soak {seed}", figures, output=output)
    keep(f"soak {seed}", figures, output=output)
    return len(figures["failures"])


def main() -> None:
    parser = argparse.ArgumentParser(description="Audit random trainings against full scans.")
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", type=int, help="train this one problem and say what happens")
    parser.add_argument("--output", type=Path, default=RECORD)
    arguments = parser.parse_args()
    if arguments.only is not None:
        problem, options = make_problem(arguments.seed, arguments.only)
        print(problem, options)
        result = try_one(arguments.seed, arguments.only)
        print(result, result.audit)
        return
    failures = soak(minutes=arguments.minutes, seed=arguments.seed, console=Console(), output=arguments.output)
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
