"""What comes out of a fit, whichever way it was made; and what a fit of many rows is given."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from thresher.estimators.data.lift import SphereLift
from thresher.estimators.data.observations import Observations
from thresher.estimators.interfaces import Backend, Measure
from thresher.estimators.judging.search import Choice
from thresher.estimators.kernels.kernel import Coordinates, SphereKernel
from thresher.estimators.models.fit_check import Asked
from thresher.estimators.models.leaves import Leaves
from thresher.estimators.options import Learning, Taken
from thresher.estimators.sizes import Sizes
from thresher.theory import Shares
from thresher.training import Result

__all__ = ["Fitted", "LeftOut", "LimitFit", "Networks", "RowsToFit"]

Single = NDArray[np.float32]
Matrix = NDArray[np.float64]
Numbers = NDArray[np.int64]


class LeftOut(NamedTuple):
    """Observations that were left out, and what was predicted for them."""

    data: Observations
    outputs: Matrix  # (c, k)
    variances: Callable[[], Matrix]  # (c,): of the limit at each, when it is left out
    # Squared errors of new rows, as a multiple of those left out: above 1 where features were learnt on what was left
    # out, below 1 where many rows that were left out are fitted in the end.
    optimism: float = 1.0
    rows: Any = None  # (s, d): raw, at which they are
    fitted: Observations | None = None  # all that are fitted, at lifted inputs, where they are few


class RowsToFit(NamedTuple):
    """Many rows to fit, those that are held out to judge by, and with what they are fitted."""

    data: Observations
    kept: Numbers  # of the rows to fit, in random order
    held: Numbers  # of those that are held out
    kernel: SphereKernel
    ridges: list[float]  # to choose from
    measure: Measure  # by which ways to fit are compared
    backend: Backend
    sizes: Sizes
    careful: bool = False  # the fit is made again, since the first failed its check


class LimitFit(NamedTuple):
    """A kernel fitted to inputs, and what it predicted for observations that were left out before."""

    inputs: NDArray[Any]  # (n, d), lifted
    alpha: Matrix  # (n, k)
    penalty: Matrix  # (n,): what the ridge adds to the diagonal
    ridge: float
    error: float  # weighted mean of squares of observations left out, summed over outputs
    left_out: LeftOut
    pivots: Single | None = None  # (r, d): inputs that error bars are made of, None for all
    core: Matrix | None = None  # (r, r), see Variance
    way: str = "exact"  # or "centres", "leaves"
    errors: dict[str, float] = {}  # of the ways that were tried, on observations left out  # noqa: RUF012
    leaves: Leaves | None = None  # whose rows and coefficients these are
    residual: float = 0.0  # relative, at which the solve for all rows was to stop


class Networks(NamedTuple):
    """Networks that were trained, and how much worse than the limit their kernel is."""

    gains: Matrix  # (k,)
    results: list[Result]
    ridge: float
    penalty: Matrix  # (n,)
    loss: float  # share by which their error on rows left out exceeds that of the limit


class Fitted(NamedTuple):
    """Everything that came out of a fit."""

    lift: SphereLift
    coordinates: Coordinates  # made of scaled columns, on which the kernel is
    choice: Choice
    learning: Learning
    limit: LimitFit
    networks: Networks | None
    importances: Matrix  # (d,)
    asked: Asked  # rows whose answers are known
    again: Callable[[float], Fitted]  # makes the fit again with this ridge, with more care
    why: str = ""  # this width, if networks were compared with the limit
    errors_of_parts: dict[Shares, float] = {}  # of the shares that were tried  # noqa: RUF012

    @property
    def ridge(self) -> float:
        """The ridge of the networks, or of the limit if there are none."""
        return self.limit.ridge if self.networks is None else self.networks.ridge

    @property
    def penalty(self) -> Matrix:
        """What the ridge adds to the diagonal of the kernel (n,), with which error bars are made."""
        return self.limit.penalty if self.networks is None else self.networks.penalty

    @property
    def taken(self) -> Taken:
        """What was chosen."""
        return Taken(
            self.lift.scale,
            self.lift.scaling_,
            self.lift.indicators_,
            self.coordinates,
            self.choice._replace(ridge=self.limit.ridge),
            self.learning,
            self.limit.way,
            self.errors_of_parts,
        )

    @property
    def left_out(self) -> LeftOut:
        """Observations that were left out, and what was predicted for them."""
        return self.limit.left_out
