"""Score: how well predictions do, and what the best constant answer would get."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from thresher.runs.run import Test

__all__ = ["score"]


def score(predicted: NDArray[Any], y: NDArray[Any], *, task: str, known: NDArray[Any]) -> Test:
    """Return how well predictions (k,) of y do: accuracy, or root mean squared error in the target's own units.

    The best constant answer is the commonest, or the mean, of the targets that were ``known`` before.
    """
    if task == "classification":
        values, counts = np.unique(known, return_counts=True)
        guess = np.mean(y == values[counts.argmax()])
        return Test("accuracy", float(np.mean(predicted == y)), len(y), float(guess))
    error, guess = (np.sqrt(np.mean((one - y) ** 2)) for one in (predicted, known.mean()))
    return Test("RMSE", float(error), len(y), float(guess))
