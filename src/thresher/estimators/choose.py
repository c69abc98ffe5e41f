"""The choices of a fit, each by observations left out, and the table that shows them."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from thresher.estimators.data.observations import Observations
from thresher.estimators.data.scaling import SCALE, Scaling
from thresher.estimators.data.single_columns import Angles, Groups, Indicators, few_levels
from thresher.estimators.interfaces import Backend
from thresher.estimators.kernel import SphereKernel
from thresher.estimators.leave_one_out import LeaveOneOutFit, fit_kernel, surely
from thresher.estimators.settings import Settings
from thresher.parallel import blas_for_size
from thresher.tables.rows_on_disk import Part
from thresher.theory import Parts, Shares

__all__ = ["Choice", "Choices", "choose_bias", "choose_indicators", "judge_rows"]

Matrix = NDArray[np.float64]
FIRST_RIDGE = 1e-2  # that is tried
_INDICATORS = 400  # columns at most that whole numbers become
_NUMBERS = 1 << 27  # in a table with indicators at most: a gigabyte
_WORTH = 0.01  # share of the squared error that indicators must gain, as they make rows longer
_WAYS = ("both", "instead")  # indicators beside whole numbers, or instead of them


class Choice(NamedTuple):
    """One thing that a fit has chosen: what was tried, with its error on observations left out, and what was taken."""

    name: str
    tried: dict[str, float]
    taken: str
    measure: str = "squared error"

    def to_json(self) -> list[object]:
        """Return it as JSON knows it."""
        return [self.name, {key: float(value) for key, value in self.tried.items()}, self.taken, self.measure]


class Choices(tuple[Choice, ...]):
    """All that a fit has chosen. It prints as a table."""

    def __new__(cls, choices: Iterable[Choice] = ()) -> Choices:
        """Return the choices, in the order in which they were made."""
        return super().__new__(cls, choices)

    def __getitem__(self, key: Any) -> Any:
        """Return the choice of this name, or at this index."""
        return next(one for one in self if one.name == key) if isinstance(key, str) else super().__getitem__(key)

    def __str__(self) -> str:
        wide = max((len(choice.name) for choice in self), default=0)
        lines = []
        for choice in self:
            tried = ", ".join(f"{key} {value:.4g}" for key, value in choice.tried.items())
            lines.append(f"{choice.name:<{wide}}  {choice.taken}" + (f"  ({choice.measure}: {tried})" if tried else ""))
        return "\n".join(lines)

    __repr__ = __str__


class BiasChoice(NamedTuple):
    """The kernel with the bias of the least error, its ridge, and the errors of all biases tried."""

    kernel: SphereKernel
    ridge: float
    errors: dict[float, float]

    @property
    def error(self) -> float:
        """The least error."""
        return self.errors[self.kernel.bias]


def choose_bias(
    data: Observations,
    kernel: SphereKernel,
    biases: Iterable[float],
    *,
    ridge: float | None,
    guess: float,
    backend: Backend,
) -> BiasChoice:
    """Return the bias and the ridge of the least leave-one-out error on some rows (n, r).

    Cost: O(n³) for each of about two ridges of each bias.
    """
    errors, fits = dict[float, float](), dict[float, LeaveOneOutFit]()
    with blas_for_size(len(data)):
        for bias in biases:
            least = min(errors, key=lambda one: errors[one], default=None)
            tried = kernel._replace(bias=bias)
            matrix = backend.dense(tried, tried.lift(data.X, data.weights).inputs)
            near = guess if least not in fits else fits[least].ridge
            rival = math.inf if least is None else errors[least]
            fit = fit_kernel(
                matrix, data, diagonal=kernel.diagonal, ridge=ridge, last=len(data), guess=near, rival=rival
            )
            errors[bias] = math.inf if fit is None else fit.error
            if fit is not None:
                fits[bias] = fit
    best = min(errors, key=lambda one: errors[one])
    return BiasChoice(kernel._replace(bias=best), fits[best].ridge if best in fits else guess, errors)


def choose_indicators(data: Observations, settings: Settings) -> tuple[Indicators | None, dict[str, float]]:
    """Return indicators for whole numbers of few values, beside the numbers or instead of them, if they surely help.

    All such columns are taken together, on some rows, with the first bias and parts. Beside them the errors of what was
    tried, empty if there was nothing to try.

    Cost: O(r³) for each ridge tried, on r rows.
    """
    known = not settings.guesses_categories or settings.shares == (Shares(),)
    if known or isinstance(data.X, Part) or data.count.sum() < settings.sizes.for_judging:
        return None, {}
    if data.X.shape[1] > settings.sizes.columns:
        return None, {}
    few = data.some(settings.sizes.bias_rows)
    columns = [k for k in few_levels(data.X, settings.groups) if settings.measured is None or k in settings.measured]
    if not columns:
        return None, {}
    made = {"numbers": None, **{name: Indicators.of(data.X, columns, instead=name == "instead") for name in _WAYS}}
    longest = max(len(one.sources) for one in made.values() if one is not None)
    if longest - data.X.shape[1] > _INDICATORS or longest * len(data) > _NUMBERS:
        return None, {}
    errors, ridge = dict[str, Matrix](), None
    with blas_for_size(len(few)):
        for name, one in made.items():
            rows = few.X if one is None else one.apply(few.X)
            groups = settings.groups if one is None else one.groups(settings.groups)
            judged = judge_rows(few.with_rows(rows), groups, settings, ridge)
            if judged is not None:
                ridge, errors[name] = judged
    if "numbers" not in errors:
        return None, {}
    better = [
        one for one in errors if one != "numbers" and surely(errors["numbers"], errors[one], few.weight, least=_WORTH)
    ]
    total = {name: float(error @ few.weight / few.weight.sum()) for name, error in errors.items()}
    return made[min(better, key=lambda one: total[one], default="numbers")], total


def judge_rows(
    data: Observations, groups: Groups, settings: Settings, guess: float | None
) -> tuple[float, Matrix] | None:
    """Return the best ridge, and the squared errors (c,) of observations left out one at a time."""
    angles = Angles.of(data.X, groups, weights=data.weights)
    if angles is None:
        return None
    scaled = Scaling.of(data.X, scale=SCALE, weights=data.weights).apply(data.X)
    kernel = SphereKernel(settings.biases[0], settings.shift, parts=Parts.of(len(angles), settings.shares[0]))
    if settings.shares[0].whole == 1:
        kernel = kernel._replace(parts=None)
    rows = data.with_rows(scaled if kernel.parts is None else np.hstack([scaled, angles.apply(data.X)]))
    matrix = settings.backend.dense(kernel, kernel.lift(rows.X, rows.weights).inputs)
    near = FIRST_RIDGE if guess is None else guess
    fit = fit_kernel(matrix, rows, diagonal=kernel.diagonal, ridge=settings.ridge, last=len(rows), guess=near)
    if fit is None or not math.isfinite(fit.error):
        return None
    return fit.ridge, ((fit.left_out(rows) - rows.target) ** 2).sum(axis=1)
