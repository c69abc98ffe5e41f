"""Looks per iteration of the certified search, with each activation, as the width grows."""

from __future__ import annotations

from typing import Any, get_args

import numpy as np

from benchmarks.summary import Sheet, fit_exponent
from thresher import train
from thresher.datasets import random_problem
from thresher.model.activations import ActivationName

NAMES = [name for name in get_args(ActivationName) if name != "max"]  # "max" differs from "relu" by a constant
ITERATIONS = 4


def measure(name: str, width: int, *, inputs: int, dimension: int) -> dict[str, Any]:
    """Return the mean of the looks of the first iterations, the start left out, and what remains of the residual."""
    problem = random_problem(inputs=inputs, dimension=dimension)
    history = train(problem, width=width, activation=name, max_iterations=ITERATIONS).history
    steps = history[1:]
    return {
        "activation": name,
        "width": width,
        "looks": float(np.mean([step.looks for step in steps])),
        "start": history[0].looks,
        "residual": history[-1].residual / history[0].residual,
    }


def exponents(rows: list[dict[str, Any]]) -> dict[str, tuple[float, float]]:
    """Return the slope of log(looks) over log(width), and its standard error, of each activation."""
    found = {}
    for name in dict.fromkeys(row["activation"] for row in rows):
        some = [row for row in rows if row["activation"] == name]
        found[name] = fit_exponent([row["width"] for row in some], [max(row["looks"], 1.0) for row in some])
    return found


def sheet(rows: list[dict[str, Any]], fitted: dict[str, tuple[float, float]]) -> Sheet:
    """Return the table: an activation a row."""
    widths = list(dict.fromkeys(row["width"] for row in rows))
    lines = []
    for name, (slope, error) in fitted.items():
        some = {row["width"]: row for row in rows if row["activation"] == name}
        counts = [f"{some[width]['looks']:,.0f}" for width in widths]
        lines.append([name, *counts, f"{slope:.2f} ± {error:.2f}", f"{some[widths[-1]]['residual']:.1g}"])
    return Sheet("", ["activation", *(f"{width:,}" for width in widths), "exponent", "residual at the end"], lines)
