"""Which parts the kernel has, and whether whole numbers are numbers or categories, by observations left out.

Neurons that see single columns, and a layer on top of them (``theory/parts.py``), serve tables that are near sums of
functions of few columns. The metric belongs to the part that sees all of them.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from thresher.estimators.data.observations import Observations
from thresher.estimators.data.scaling import CANDIDATES, Scaling
from thresher.estimators.data.single_columns import Angles, Groups, Indicators, few_levels
from thresher.estimators.interfaces import Judge
from thresher.estimators.judging.leave_one_out import LeaveOneOut
from thresher.estimators.judging.search import Choice
from thresher.estimators.options import Options
from thresher.parallel import blas_for_size
from thresher.tables.rows_on_disk import Part
from thresher.theory import Parts, Shares

__all__ = ["angles_of", "choose_indicators", "choose_shares", "judge_rows", "seeing", "surely"]

Matrix = NDArray[np.float64]
_COLUMNS = 128  # that are seen one by one at most, unless parts were asked for
_INDICATORS = 400  # columns at most that whole numbers become
_NUMBERS = 1 << 27  # in a table with indicators at most: a gigabyte
_FEW, _DOUBTS = 150, (1.0, 0.0)  # observations below which a gain must be this many standard errors, and beyond
_WORTH = 0.01  # share of the squared error that indicators must gain, as they make rows longer
_WAYS = ("both", "instead")  # indicators beside whole numbers, or instead of them


def surely(before: Matrix, after: Matrix, weight: Matrix, *, least: float = 0.0, sure: float | None = None) -> bool:
    """Return whether squared errors (c,) of observations with weights are lower ``after``, by more than chance.

    ``least`` is the share of the error ``before`` that must be gained, and ``sure`` the standard errors. By default few
    observations must say so more clearly: there a wrong choice costs much.
    """
    share = weight / weight.sum()
    gain, error = float(share @ (before - after)), float(share @ before)
    doubt = float(np.linalg.norm(share * (before - after - gain)))
    sure = _DOUBTS[len(before) >= _FEW] if sure is None else sure
    return gain > max(least * error, sure * doubt, 0.0)


def angles_of(data: Observations, options: Options) -> Angles | None:
    """Return what sees the columns of raw rows one by one; None if there are too many columns, or none varies."""
    columns = data.X.shape[1] - sum(len(group) - 1 for group in options.groups)
    if options.shares == Shares() or (options.shares is None and columns > _COLUMNS):
        return None
    return Angles.of(data.X, options.groups, weights=data.weights)


def seeing(choice: Choice, angles: Angles | None) -> Choice:
    """Return a choice with its parts for the columns that vary here, which may be others than where it was made."""
    parts = choice.kernel.parts
    if parts is not None:
        parts = None if angles is None else Parts.of(len(angles), parts.shares)
    return choice._replace(kernel=choice.kernel._replace(parts=parts))


def choose_shares(judge: Judge, choice: Choice, columns: int, options: Options) -> tuple[Choice, dict[Shares, float]]:
    """Return the choice with the shares of the least error on observations left out, and the errors of those compared.

    The rows of the judge end with the angles of so many ``columns``. Where few observations are left out, which says
    nothing, the first shares are taken.

    Cost: that of the judge for each of the shares.
    """
    judged = len(judge.held.row) >= options.sizes.for_judging
    best, errors = choice, dict[Shares, float]()
    for shares in options.tried_shares[: None if judged else 1]:
        kernel = choice.kernel._replace(parts=Parts.of(columns, shares))
        fit = judge.evaluate(kernel, ridge=options.ridge, guess=choice.ridge)
        error = math.inf if fit is None else judge.measured(fit)
        if not errors or error < min(errors.values()):
            ridge = choice.ridge if fit is None else fit.ridge
            kernel = kernel if shares != Shares() else choice.kernel
            best = choice._replace(kernel=kernel, ridge=ridge, error=error)
        errors[shares] = error
    return best, errors if len(errors) > 1 else {}


def choose_indicators(data: Observations, options: Options) -> Indicators | None:
    """Return indicators for whole numbers of few values, beside the numbers or instead of them, if they surely help.

    All such columns are taken together, on some rows, with the first scale, bias, shift and parts.

    Cost: O(r³) for each ridge tried, on r rows.
    """
    known = not options.guesses_categories or options.shares == Shares()
    if known or isinstance(data.X, Part) or data.count.sum() < options.sizes.for_judging:
        return None
    if data.X.shape[1] > options.sizes.columns:
        return None
    few = data.some(options.sizes.weighed)
    columns = [k for k in few_levels(data.X, options.groups) if options.measured is None or k in options.measured]
    if not columns:
        return None
    made = {"numbers": None, **{name: Indicators.of(data.X, columns, instead=name == "instead") for name in _WAYS}}
    longest = max(len(one.sources) for one in made.values() if one is not None)
    if longest - data.X.shape[1] > _INDICATORS or longest * len(data) > _NUMBERS:
        return None
    errors, ridge = dict[str, Matrix](), None
    with blas_for_size(len(few)):
        for name, one in made.items():
            rows = few.X if one is None else one.apply(few.X)
            groups = options.groups if one is None else one.groups(options.groups)
            judged = judge_rows(few.with_rows(rows), groups, options, ridge)
            if judged is not None:
                ridge, errors[name] = judged
    if "numbers" not in errors:
        return None
    better = [
        one for one in errors if one != "numbers" and surely(errors["numbers"], errors[one], few.weight, least=_WORTH)
    ]
    best = min(better, key=lambda one: float(errors[one] @ few.weight), default="numbers")
    return made[best]


def judge_rows(
    data: Observations, groups: Groups, options: Options, guess: float | None
) -> tuple[float, Matrix] | None:
    """Return the best ridge, and the squared errors (c,) of observations left out one at a time."""
    angles = Angles.of(data.X, groups, weights=data.weights)
    if angles is None:
        return None
    scaled = Scaling.of(data.X, scale=options.scale or CANDIDATES[0], weights=data.weights).apply(data.X)
    kernel = options.first_kernel._replace(parts=Parts.of(len(angles), options.tried_shares[0]))
    judge = LeaveOneOut(data.with_rows(np.hstack([scaled, angles.apply(data.X)])), options.backend)
    fit = judge.evaluate(kernel, ridge=options.ridge, **({} if guess is None else {"guess": guess}))
    if fit is None or not math.isfinite(fit.error):
        return None
    return fit.ridge, ((judge.left_out(fit) - judge.held.target) ** 2).sum(axis=1)
