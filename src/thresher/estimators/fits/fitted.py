"""What comes out of a fit, whichever way it was made."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from thresher.estimators.choosing.choose import Choice
from thresher.estimators.choosing.features import Learning
from thresher.estimators.data.lift import SphereLift
from thresher.estimators.data.observations import Observations
from thresher.estimators.fits.fit_check import Asked
from thresher.training import Result

__all__ = ["Fitted", "LeftOut"]

Matrix = NDArray[np.float64]


class LeftOut(NamedTuple):
    """Observations that were left out, and what was predicted for them."""

    data: Observations
    outputs: Matrix  # (c, k)
    variances: Callable[[], Matrix]  # (c,): of the limit at each, when it is left out
    # Squared errors of new rows, as a multiple of those left out: above 1 where features were learnt on what was left
    # out, below 1 where many rows that were left out are fitted in the end.
    optimism: float


class Fitted(NamedTuple):
    """Everything that came out of a fit."""

    lift: SphereLift
    choice: Choice
    learning: Learning
    left_out: LeftOut
    inputs: NDArray[Any]  # (n, d), lifted
    ridge: float
    error: float  # weighted mean of squared errors of observations left out, summed over outputs
    alpha: Matrix  # (n, k)
    penalty: Matrix  # (n,)
    gains: Matrix  # (k,)
    results: list[Result]
    importances: Matrix  # (d,)
    asked: Asked  # rows whose answers are known
    again: Callable[[float], Any]  # makes the fit again with this ridge, with more care
    pivots: NDArray[np.float32] | None = None  # (r, d): inputs of which error bars are made, None for all
    core: Matrix | None = None  # of these, see Variance
    way: str = "exact"  # or "centres", "leaves"
    ways: dict[str, float] = {}  # errors of those that were tried  # noqa: RUF012
    leaves: Any = None  # Leaves, whose rows and coefficients these are
    loss: float = 0.0  # by how much a network's error on rows left out exceeds that of the limit, as a share of it
