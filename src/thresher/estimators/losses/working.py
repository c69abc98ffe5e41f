"""Working targets: what a loss makes of targets, given outputs that are near.

A fit of squares to working targets t with weights h is a step to the fit with the loss: slope and, where outputs are
right, minimum are the same. So whatever fits squares fits losses, by a few fits one after the other.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from thresher.losses import Poisson

__all__ = ["KNEES", "count_targets", "moved_targets", "robust_size", "weighted_quantile"]

Matrix = NDArray[np.float64]
# Deviations of what is left out that are tried as knees: how far a target may lie from what the others say of it,
# before it pulls no harder.
KNEES = (54.0, 18.0, 6.0, 3.0, 1.5)
_NORMAL = 1.482602, 0.607957  # a deviation, in medians of absolute errors, and in their quantiles 0.9, if normal
_FAR = 1.0  # distance of an output from the logarithm of a count beyond which its parabola is made for the way there


def weighted_quantile(values: Matrix, share: float, weights: Matrix | None) -> float:
    """Return the least value (n,) that this share of the weights does not exceed."""
    order = np.argsort(values, kind="stable")
    total = np.cumsum(np.ones(len(values)) if weights is None else weights[order])
    return float(values[order][np.searchsorted(total, share * total[-1] * (1 - 1e-12))])


def robust_size(errors: Matrix, weights: Matrix | None) -> float:
    """Return the deviation (a number) that most errors (n,) would have if they were normal.

    From their median; or, where more than half are near zero, from the quantile 0.9.
    """
    sizes = np.abs(errors)
    found = (weighted_quantile(sizes, share, weights) for share in (0.5, 0.9))
    return max(factor * one for factor, one in zip(_NORMAL, found, strict=True))


def moved_targets(targets: Matrix, expected: Matrix, knee: Matrix) -> Matrix:
    """Return the working targets (n, k) of Huber's loss: none lies beyond the knee from what is expected there.

    One that lies beyond twice the knee says nothing at all: it becomes what is expected, as if its row were left out.
    """
    near = np.clip(targets, expected - knee, expected + knee)
    with np.errstate(over="ignore"):
        return np.where(np.abs(targets - expected) > 2 * knee, expected, near)


def count_targets(counts: Matrix, outputs: Matrix) -> tuple[Matrix, Matrix]:
    """Return the working targets (n,) of the logarithm of a mean, and their weights (n,), where outputs (n,) are near.

    Newton's parabola touches the loss at the output: weight exp f. For a count far above, it would lead far beyond:
    there the parabola has its minimum at the logarithm of the count, and lies above the loss on the way.
    """
    loss = Poisson()
    slope, weight = loss.slope(outputs, counts), loss.curvature(outputs, counts)
    logs = np.log(np.maximum(counts, np.finfo(float).tiny))
    far = logs - outputs > _FAR
    weight = np.where(far, -slope / np.where(far, logs - outputs, 1.0), weight)
    return outputs - slope / weight, weight
