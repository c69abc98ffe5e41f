"""How wrong predictions for observations left out are."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from thresher.estimators.data.observations import Observations

__all__ = ["mean_square", "share_of_guess"]

Matrix = NDArray[np.float64]


def mean_square(data: Observations, outputs: Matrix) -> float:
    """Return the weighted mean of squared errors of outputs (c, k), summed over outputs."""
    return float(data.weight @ ((outputs - data.target) ** 2).sum(axis=1) / data.weight.sum())


def share_of_guess(data: Observations, outputs: Matrix, own: Callable[[Matrix], Matrix] = np.asarray) -> float:
    """Return the squared error of outputs (c, k) as a share of that of a constant guess for the same observations.

    ``own`` turns targets and outputs (c, k) into the units that they are compared in. The guess is the mean of the
    targets; shares of several outputs are averaged, without those whose targets are all the same. NaN without others.
    """
    target, found = own(data.target), own(outputs)
    spread = data.weight @ (target - np.average(target, axis=0, weights=data.weight)) ** 2
    error = data.weight @ (found - target) ** 2
    return float(np.mean(error[spread > 0] / spread[spread > 0])) if (spread > 0).any() else math.nan
