"""Which parts the kernel has, and whether whole numbers are numbers or categories, by observations left out.

Neurons that see one or two columns (``theory/parts.py``) serve tables that are sums of functions of few columns.
Features belong to the part that sees all of them, so parts are compared by folds in which features are learnt anew, or
on rows that were held out while they were.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from thresher.estimators.data.observations import Observations
from thresher.estimators.data.scaling import CANDIDATES, Scaling
from thresher.estimators.data.single_columns import Angles, Groups, Indicators, few_levels
from thresher.estimators.interfaces import Backend
from thresher.estimators.judging.holdout import HoldOut, Solved
from thresher.estimators.judging.leave_one_out import LeaveOneOut, solve_kernel
from thresher.estimators.judging.measures import mean_square
from thresher.estimators.judging.search import Choice
from thresher.estimators.kernels.kernel import SphereKernel
from thresher.estimators.options import Options
from thresher.parallel import blas_for_size
from thresher.tables.rows_on_disk import Part
from thresher.theory import Parts, Shares

__all__ = ["Learner", "angles_of", "choose_indicators", "choose_on_held_rows", "choose_shares", "judge_rows",
           "seeing", "shares_for", "surely"]  # fmt: skip

Matrix = NDArray[np.float64]
# Beside the kernel of all columns: half of it and half of columns and pairs, or of a layer of columns; columns and
# pairs alone; and sharp ones, for steps: half of the kernel, or most of it, single columns.
TRIED = (
    Shares(0.5, 0.25, 0.25),
    Shares(0.5, layer=0.5),
    Shares(0.0, 0.5, 0.5),
    Shares(0.5, 0.25, 0.25, sharpness=8.0),
    Shares(0.25, 0.75, sharpness=32.0),
)
_FOLDS = 4
_COLUMNS = 128  # that are seen one by one at most, unless parts were asked for
_INDICATORS = 400  # columns at most that whole numbers become
_NUMBERS = 1 << 27  # in a table with indicators at most: a gigabyte
_FEW, _DOUBTS = 150, (1.0, 0.0)  # observations below which a gain must be this many standard errors, and beyond
_ON_MANY = 1.0  # standard errors by which parts must be better on many rows
_BEHIND = 0.1  # what k folds put behind the best by a k-th of this share of its error is given up
_CLEARLY = 0.97  # share of another error than that of squares which may be left: little is known of its chances
_WORTH = 0.01  # share of the squared error that indicators must gain, as they make rows longer
_WAYS = ("both", "instead")  # indicators beside whole numbers, or instead of them
# Learns from observations: a function to coordinates of rows, and the kernel there.
Learner = Callable[[Observations], tuple[Callable[[Matrix], Matrix], Choice]]


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


def shares_for(angles: Angles) -> tuple[Shares, ...]:
    """Return the shares to try; where all columns are categories a sharpness changes nothing."""
    return TRIED if len(angles.numbers) else tuple(one for one in TRIED if one.sharpness == 1.0)


def choose_shares(
    data: Observations, angles: Matrix, learn: Learner, tried: Sequence[Shares], options: Options
) -> tuple[Shares, dict[Shares, float]]:
    """Return the shares of the least error on observations left out in folds, and the errors of those that were tried.

    ``data`` are observations at scaled rows (n, r), with ``angles`` (n, u) beside them; ``learn`` learns features from
    some of them. The kernel of all columns is kept unless another is surely better.

    Cost: that of learning for each fold, and O(n³) for each of those tried.
    """
    u, found = angles.shape[1], {one: list[Matrix]() for one in (Shares(), *tried)}
    told, ridges, weights = dict.fromkeys(found, 0.0), dict[Shares, float](), list[Matrix]()
    both = data.with_rows(np.hstack([data.X, angles]))
    for fold, (kept, held) in enumerate(both.folds(int(min(_FOLDS, max(2, data.count.sum()))))):
        turn, choice = learn(kept.with_rows(kept.X[:, :-u]))
        rows = [np.hstack([turn(one.X[:, :-u]), one.X[:, -u:]]) for one in (kept, held)]
        weights.append(held.weight)
        for shares, errors in found.items():
            kernel = choice.kernel._replace(parts=Parts.of(u, shares))
            known = ridges.get(shares) if options.ridge is None else options.ridge
            made = _held_out(
                kernel, kept.with_rows(rows[0]), held.with_rows(rows[1]), known, choice.ridge, options.backend
            )
            ridges.setdefault(shares, made[0])
            errors.append(((made[1] - held.target) ** 2).sum(axis=1))
            share = float(held.weight.sum() / data.weight.sum())
            told[shares] += share * options.measure(held, made[1])
        most = (1 + _BEHIND / (fold + 1)) * min(told[one] for one in found)
        found = {one: errors for one, errors in found.items() if one == Shares() or told[one] <= most}
        if len(found) == 1:
            break
    weight, joined = np.concatenate(weights), {one: np.concatenate(errors) for one, errors in found.items()}
    if options.measure is mean_square:
        better = [one for one in joined if surely(joined[Shares()], joined[one], weight)]
    else:
        better = [one for one in joined if told[one] < _CLEARLY * told[Shares()]]
    seen = float(weight.sum() / data.weight.sum())  # below 1 if nothing else was left after some folds
    return min(better, key=told.__getitem__, default=Shares()), {one: told[one] / seen for one in found}


def _held_out(
    kernel: SphereKernel, kept: Observations, held: Observations, ridge: float | None, guess: float, backend: Backend
) -> tuple[float, Matrix]:
    """Return the ridge, the best if none is given, and the outputs (c, k) of a fit at observations held out."""
    inputs, _, last = kernel.lift(kept.X, kept.weights)
    asked, place = np.unique(held.row, return_inverse=True)
    others = kernel.lift(held.X[asked], last=last).inputs
    alpha, ridge = solve_kernel(backend.dense(kernel, inputs), kept, kernel, ridge=ridge, guess=guess)
    if alpha is None:
        return ridge, np.full(held.target.shape, np.inf)
    return ridge, backend.product(kernel, others, inputs, alpha, double=True)[place]


def choose_on_held_rows(
    plain: tuple[HoldOut, HoldOut],
    seen: tuple[HoldOut, HoldOut],
    choice: Choice,
    angles: Angles,
    fit: Callable[[HoldOut, Choice], Solved | None],
    options: Options,
) -> tuple[Choice, dict[Shares, float]]:
    """Return the choice with the parts asked for, or those that are better on rows held out; and errors on few rows.

    ``plain`` are few rows and many, ``seen`` the same with the ``angles`` of single columns; features were learnt
    without the rows that are held out. The best on few rows must be surely so on many, where features of all columns
    are known better. ``fit`` fits many rows.

    Cost: that of a fit to few rows for each of those tried, and of two to many.
    """

    def with_parts(shares: Shares) -> Choice:
        return choice._replace(kernel=choice.kernel._replace(parts=Parts.of(len(angles), shares)))

    def evaluate(hold: HoldOut, one: Choice) -> Solved | None:
        return hold.evaluate(one.kernel, ridge=options.ridge, guess=one.ridge)

    tried = shares_for(angles) if options.shares is None else (options.shares,)
    found = {Shares(): evaluate(plain[0], choice)} | {one: evaluate(seen[0], with_parts(one)) for one in tried}
    errors = {one: seen[0].measured(made) for one, made in found.items() if made is not None}
    best = min(tried, key=lambda one: errors.get(one, math.inf))
    before, after = found[Shares()], found[best]
    made = with_parts(best) if after is None else with_parts(best)._replace(ridge=after.ridge)
    if options.shares is not None:
        return made, errors
    if before is None or after is None or not seen[0].surely_better(after, before, sure=0.0):
        return choice, errors
    if len(plain[1].data) > len(plain[0].data):
        before, after = fit(plain[1], choice), fit(seen[1], made)
        if before is None or after is None or not seen[1].surely_better(after, before, sure=_ON_MANY):
            return choice, errors
    return made._replace(ridge=after.ridge, error=after.error), errors


def choose_indicators(data: Observations, options: Options) -> Indicators | None:
    """Return indicators for whole numbers of few values, beside the numbers or instead of them, if they surely help.

    All such columns are taken together, on some rows, with the first scale, bias and shift and all parts but the layer.

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
    shares = TRIED[0] if options.shares is None else options.shares
    scaled = Scaling.of(data.X, scale=options.scale or CANDIDATES[0], weights=data.weights).apply(data.X)
    kernel = options.first_kernel._replace(parts=Parts.of(len(angles), shares))
    judge = LeaveOneOut(data.with_rows(np.hstack([scaled, angles.apply(data.X)])), options.backend)
    fit = judge.evaluate(kernel, ridge=options.ridge, **({} if guess is None else {"guess": guess}))
    if fit is None or not math.isfinite(fit.error):
        return None
    return fit.ridge, ((judge.left_out(fit) - judge.held.target) ** 2).sum(axis=1)
