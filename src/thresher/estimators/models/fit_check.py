"""Every fit ends with a check: the model is asked about rows whose answers are known, as it would be about new rows.

Three things are compared, each a root mean square over rows that were left out while choices were made:

- How far answers are from what the fit promises there. A fit of all rows by ridge regression, (H + p) alpha = y, says
  y - p alpha at a fitted row; rows that stay left out have answers already. What a solve left of its right-hand side,
  and the rounding of products, may lie between.
- The error of the answers, and that of the same rows when they were left out. A ridge regression that is given these
  rows too is nearer to their targets, never farther: its residuals are those of the rows left out times 1 - S, where
  the leverages S have eigenvalues from 0 to 1 (with weights, after scaling by their roots). This holds for all rows
  that were left out together, not for some of them: what one row far from the others does, it does to its neighbours.
- With many rows what answers explain of the targets, and what a fit to few rows does, by Cholesky in double precision:
  another method, which would not fail in the same way. More rows make a fit better; where approximations make it worse,
  not by so much that half of that is lost. Where next to nothing of all targets is explained, as with one that is far
  from all others, nothing is compared.

A fit that fails is made again, an exact one of many rows with more care, then with larger ridges; then it is refused.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol, Self, TypeVar

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning

from thresher.errors import InvalidInput
from thresher.estimators.data.observations import Observations
from thresher.estimators.judging.measures import mean_square

__all__ = ["ASKED", "DOUBLE", "SINGLE", "SOLVED", "Asked", "FitCheck", "check_answers", "ensure"]

Matrix = NDArray[np.float64]
ASKED = 1024  # rows at most that networks trained without a ridge are asked about
# Errors of a kernel between inputs that are all but equal, in single and in double precision: about the square root of
# the rounding of their inner product, see limit_block.
SINGLE, DOUBLE = 2e-4, 1e-7
SOLVED = 1.5  # times the residual that a solve or a training says it left, all of it at the rows asked about
_WORSE = 1.25  # times an error, as a root mean square, that a fit may have
_EXPLAINED = 0.5  # share of what a fit to few rows explains of the targets that one to many rows must explain
_NOISE = 0.05  # share of the variance of all targets that is worth explaining
_FAR = 0.8  # most that a system may be left unsolved, as a share of the targets: nothing solved is 1
_ROUNDED = 0.05  # most that is put down to rounding, as a share of the targets
_NOTHING = 1e-6  # distance that is none; targets have a deviation of about 1
_TIMES = 4  # that a fit is made again at most: first with its own ridge, then each time with half a power of ten more


class Asked(NamedTuple):
    """Rows that the model is asked about, and what is known of them."""

    rows: Any  # (s, d), raw
    data: Observations  # at these rows
    left_out: Matrix  # (c, k): what was predicted for observations when they were left out
    promised: Matrix | None  # (s, k): what the model should answer, None if only its error is known
    residual: float  # what the solve may have left of the targets, a root mean square over these rows
    rounding: float  # root mean square of the rounding of answers
    few_rows: Matrix | None = None  # (s, k): outputs of a fit to few rows, which has seen none of these
    size: float = math.nan  # root mean square of all targets, where there is such a fit

    def of_networks(self, outputs: Matrix | None, left: float, *, interrupted: bool) -> Asked:
        """Return the same for networks: outputs (s, k) they promise, and the norm of what training left of them."""
        if interrupted:  # on request: nothing is promised
            return self._replace(promised=None, left_out=self.left_out[:0], few_rows=None)
        return self._replace(promised=outputs, residual=SOLVED * left / math.sqrt(len(self.data)))


class FitCheck(NamedTuple):
    """What the check at the end of a fit has compared; distances are root mean squares, summed over outputs.

    Targets are as the fit sees them: with a deviation of 1 for regression, 0 or 1 less its mean for a class.
    """

    rows: int  # that the model was asked about
    error: float  # of its answers
    left_out_error: float  # of the same rows, left out; NaN where none are
    few_rows_error: float  # of the same rows, by a fit to few others; NaN where there was none
    distance: float  # of its answers from what the fit promised; NaN where only the error is known
    allowed: float  # the most that this may be
    constant_error: float  # of a constant guess, at the same rows
    size: float  # of all targets; NaN where no fit to few rows is compared
    repeated: int = 0  # how often the fit was made again: first with more care, then with larger ridges

    @property
    def failure(self) -> str:
        """What is wrong, in a few words; empty if nothing is."""
        if not math.isfinite(self.error):
            return "its answers are not numbers"
        if self.distance > self.allowed:  # false, as all that follows, where something is NaN: not known
            return (
                f"its answers are {self.distance:.3g} from what the fit promised, {self.allowed:.3g} at most was "
                "expected"
            )
        if self.error > _WORSE * self.left_out_error + self.allowed:
            return f"its error is {self.error:.3g}, that of the same rows left out was {self.left_out_error:.3g}"
        explained = self.constant_error**2 - self.few_rows_error**2
        most = math.sqrt(max(self.constant_error**2 - _EXPLAINED * explained, 0.0)) + self.allowed
        if explained > _NOISE * self.size**2 and self.error > most:
            return f"its error is {self.error:.3g}, that of a fit to few rows {self.few_rows_error:.3g}"
        return ""


class Refit(Protocol):
    """A fit that can be made again."""

    @property
    def ridge(self) -> float:
        """The ridge it was made with."""

    @property
    def asked(self) -> Asked:
        """Rows whose answers are known."""

    @property
    def again(self) -> Callable[[float], Self]:
        """Make the fit again with this ridge and with more care."""


SomeFit = TypeVar("SomeFit", bound=Refit)


def ensure(
    fitted: SomeFit, adopt: Callable[[SomeFit], object], answer: Callable[[Any], Matrix]
) -> tuple[SomeFit, FitCheck]:
    """Return a fit that passes the check, this one or one that is made again with more care, and its check.

    ``adopt`` gives a fit to the estimator, ``answer`` returns what it says of raw rows (s, k). Refuses, with the
    figures, if none passes. Cost: that of predicting 4096 rows at most.
    """
    adopt(fitted)
    first = check = check_answers(fitted.asked, answer(fitted.asked.rows))
    for time in range(_TIMES):
        if not check.failure:
            break
        fitted = fitted.again(fitted.ridge * (math.sqrt(10) if time else 1.0))
        adopt(fitted)
        check = check_answers(fitted.asked, answer(fitted.asked.rows))._replace(repeated=time + 1)
    if check.failure:
        raise InvalidInput(
            f"the fit does not agree with itself on {check.rows:,} rows: {check.failure}. It was made again "
            f"{check.repeated} times, up to ridge={fitted.ridge:g}. Give a larger ridge, or another shift."
        )
    if check.repeated:
        warnings.warn(
            f"the fit was made again with more care, with ridge={fitted.ridge:g}, as the first did not agree with "
            f"itself on {first.rows:,} rows: {first.failure}.",
            ConvergenceWarning,
            stacklevel=5,
        )
    return fitted, check


def check_answers(asked: Asked, answers: Matrix) -> FitCheck:
    """Return what comparing answers (s, k) with what is known gives. Cost: O(s)."""
    data = asked.data
    size = _distance(data.targets)
    whole = float(np.fmax(size, asked.size))  # these rows may have none of the few targets that are large
    rounding = min(asked.rounding, _ROUNDED * size) + _NOTHING
    distance = math.nan if asked.promised is None else _distance(answers - asked.promised)
    return FitCheck(
        len(answers),
        math.sqrt(mean_square(data, answers[data.row])) if np.isfinite(answers).all() else math.nan,
        math.sqrt(mean_square(data, asked.left_out)) if len(asked.left_out) else math.nan,
        math.nan if asked.few_rows is None else math.sqrt(mean_square(data, asked.few_rows[data.row])),
        distance,
        (asked.residual if asked.promised is None else min(asked.residual, _FAR * whole)) + rounding,
        math.sqrt(mean_square(data, np.zeros_like(data.target))),
        asked.size,
    )


def _distance(values: Matrix) -> float:
    return math.sqrt(float((values**2).sum()) / max(len(values), 1))
