"""The limit of infinite width with more hidden layers, beside that of the one layer that thresher trains.

Kernel regression with the neural tangent kernel of ReLU networks with L hidden layers, all of them trained, in closed
form. Bias and ridge are chosen by the exact squared error of leaving one row out; only rows to fit are seen.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
from scipy import linalg

from benchmarks.depth.tables import Split, Table
from thresher.theory import limit_kernel

Matrix = np.ndarray
BIASES = (0.25, 0.5, 1.0, 2.0)  # as multiples of the typical length of a row
RIDGES = 10.0 ** np.arange(-7, 1.5, 0.5)  # as multiples of the diagonal
DEPTHS = (1, 2, 3, 4)
OWN = "the wide layer alone"


def tangent_kernel(products: Matrix, layers: int) -> Matrix:
    """Return the neural tangent kernel of inner products (k, n) of unit inputs, with a diagonal of 1.

    One layer up, a correlation r of outputs becomes k1(r), and the kernel gets k0(r) times itself plus the new
    correlation: (Jacot et al. 2018), with the arc-cosine kernels of Cho and Saul.
    """
    correlation = np.clip(products, -1.0, 1.0)
    kernel = correlation
    for _ in range(layers):
        angle = np.arccos(correlation)
        slope = 1 - angle / np.pi
        correlation = np.clip(np.sin(angle) / np.pi + correlation * slope, -1.0, 1.0)
        kernel = kernel * slope + correlation
    return kernel / (layers + 1)


KERNELS: dict[str, Callable[[Matrix], Matrix]] = {
    OWN: lambda products: 2 * limit_kernel(np.clip(products, -1.0, 1.0), 0.0, symmetric=False),
    **{f"{depth} hidden": partial(tangent_kernel, layers=depth) for depth in DEPTHS},
}


def lifted(split: Split, bias: float) -> tuple[Matrix, Matrix]:
    """Return unit vectors of both parts: columns standardised on the rows to fit, and one more coordinate."""
    centre, spread = split.inputs.mean(axis=0), split.inputs.std(axis=0)
    scaled = [(one - centre) / np.where(spread > 0, spread, 1.0) for one in (split.inputs, split.new)]
    length = bias * np.sqrt(np.mean(np.sum(scaled[0] ** 2, axis=1)))
    vectors = [np.column_stack([one, np.full(len(one), length)]) for one in scaled]
    first, second = (one / np.linalg.norm(one, axis=1, keepdims=True) for one in vectors)
    return first, second


def left_out_errors(kernel: Matrix, targets: Matrix, ridges: Sequence[float]) -> list[float]:
    """Return the mean squared error of rows (n, n), (n, k) left out one at a time, for each ridge. Cost: O(n³)."""
    values, vectors = linalg.eigh(kernel)
    turned, squares = vectors.T @ targets, vectors**2
    errors = []
    for ridge in ridges:
        inverse = 1 / (np.maximum(values, 0.0) + ridge)
        missed = (vectors @ (inverse[:, None] * turned)) / (squares @ inverse)[:, None]
        errors.append(float(np.mean(missed**2)))
    return errors


def score(split: Split, kernel: Callable[[Matrix], Matrix], *, labelled: bool) -> float:
    """Return accuracy or R² on the rows to judge, with the bias and ridge that leave-one-out chooses."""
    codes = _codes(split.targets) if labelled else split.targets[:, None].astype(float)
    centre = codes.mean(axis=0)
    best, chosen = np.inf, (BIASES[0], RIDGES[0])
    for bias in BIASES:
        rows = lifted(split, bias)[0]
        errors = left_out_errors(kernel(rows @ rows.T), codes - centre, RIDGES)
        place = int(np.argmin(errors))
        if errors[place] < best:
            best, chosen = errors[place], (bias, RIDGES[place])
    rows, new = lifted(split, chosen[0])
    system = kernel(rows @ rows.T) + chosen[1] * np.eye(len(rows))
    predicted = kernel(new @ rows.T) @ linalg.solve(system, codes - centre, assume_a="pos") + centre
    if labelled:
        return float(np.mean(np.unique(split.targets)[predicted.argmax(axis=1)] == split.answers))
    return explained(predicted[:, 0], split.answers)


def explained(predicted: Matrix, answers: Matrix) -> float:
    """Return R²."""
    return float(1 - np.sum((predicted - answers) ** 2) / np.sum((answers - answers.mean()) ** 2))


def _codes(labels: Matrix) -> Matrix:
    return np.where(labels[:, None] == np.unique(labels), 1.0, -1.0)


def measure(tables: Sequence[Table]) -> list[dict[str, Any]]:
    """Return, for each table, the mean over its splits of accuracy or R² with each kernel."""
    found = []
    for table in tables:
        scores = {
            name: float(np.mean([score(split, kernel, labelled=table.labelled) for split in table.splits()]))
            for name, kernel in KERNELS.items()
        }
        found.append({"table": table.name, "rows": table.size, "labelled": table.labelled, "scores": scores})
        print(table.name, {name: round(value, 4) for name, value in scores.items()}, flush=True)
    return found
