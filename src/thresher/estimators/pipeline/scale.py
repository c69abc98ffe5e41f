"""Which scale of the columns, by observations left out."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from thresher.errors import InvalidInput
from thresher.estimators.data.observations import Observations
from thresher.estimators.data.scaling import BY_RANK, CANDIDATES, Scaling
from thresher.estimators.interfaces import Judge
from thresher.estimators.judging.leave_one_out import LeaveOneOut
from thresher.estimators.judging.measures import mean_square
from thresher.estimators.judging.search import Choice, search
from thresher.estimators.options import Options
from thresher.parallel import blas_for_size

__all__ = ["GUESS", "Scale", "Trials", "choose_scale", "error_left_out", "left_one_by_one"]

Matrix = NDArray[np.float64]
GUESS = 1e-2  # the first ridge that is tried


class Trials(NamedTuple):
    """How scales are compared on some rows."""

    rows: Observations  # raw, from which the scalings that are compared are learnt
    judge: Callable[[Scaling], Judge]  # for a first look, with the first bias and shift
    closer: Callable[[Scaling], Judge]  # for the best of them
    all_kernels: bool  # whether the closer look tries all biases and shifts
    looked: float  # times the error of the first scale below which another gets a closer look
    clearly: float  # times the error of the first scale below which another is taken after that
    most: int  # scales besides the first that get a closer look


class Scale(NamedTuple):
    """A scale, what it makes of columns, and what is known of kernels with it."""

    name: str
    scaling: Scaling
    choice: Choice


def left_one_by_one(data: Observations, options: Options) -> Trials:
    """Return how scales are compared by leaving out observations of some rows, one at a time.

    So few errors are noisy: another scale must leave nine tenths of that of the first, and again with all kernels.
    """
    few, judges = data.some(options.rows), list[tuple[Scaling, LeaveOneOut]]()

    def judge(scaling: Scaling) -> LeaveOneOut:
        for known, made in judges:
            if known is scaling:
                return made
        scaled = few.with_rows(scaling.apply(few.X))
        made = LeaveOneOut(scaled, options.backend, measure=options.measure, last=options.sizes.left_out)
        judges.append((scaling, made))
        return made

    return Trials(few, judge, judge, all_kernels=True, looked=0.9, clearly=0.9, most=1)


def choose_scale(data: Observations, trials: Trials | None, options: Options) -> Scale:
    """Return the scale of the least error on observations left out: the first unless another is clearly better.

    A first look has the first bias and shift, and the ridge of the first scale, or a ridge of its own if that is
    better. The scaling that is returned is learnt from ``data``; the choice is one to start from. No trials are needed
    where a scale was asked for.

    Cost: that of the judges for each ridge of each kernel tried.
    """
    nothing, taken = Choice(options.first_kernel, GUESS, math.inf, []), options.taken
    if taken is not None:
        return Scale(taken.scale, taken.scaling, nothing)
    if options.scale is not None:
        return Scale(options.scale, _scaling(data, options.scale), nothing)
    first = best = CANDIDATES[0]
    plain = _scaling(data, first)
    if trials is None or data.count.sum() < options.sizes.for_scales:
        return Scale(first, plain, nothing)
    looks, scalings = dict[str, Choice](), _scalings(trials.rows, plain, columns=options.sizes.columns)
    look = partial(_look, options, trials.judge)
    for name, scaling in scalings.items():
        known = looks.get(first)
        looks[name] = look(scaling, ridge=None if known is None else known.ridge)
        if known is not None and looks[name].error < known.error:  # worth a ridge of its own
            looks[name] = look(scaling, guess=known.ridge)
    error = looks[first].error
    rivals = sorted((name for name in looks if name != first), key=lambda name: looks[name].error)[: trials.most]
    rivals = [name for name in rivals if looks[name].error < trials.looked * error]
    if rivals:
        look = partial(_look, options, trials.closer, all_kernels=trials.all_kernels)
        for name in (first, *rivals):
            looks[name] = look(scalings[name], known=looks[name])
        best = min(rivals, key=lambda name: looks[name].error)
        best = best if looks[best].error < trials.clearly * looks[first].error else first
    try:
        return Scale(best, plain if best == first else _scaling(data, best), looks[best])
    except InvalidInput:  # of all rows some are too far apart
        return Scale(first, plain, looks[first])


def _scalings(few: Observations, first: Scaling, *, columns: int) -> dict[str, Scaling]:
    """Return the first scaling, and those of some rows that are worth a look as they give other rows."""
    found, seen = dict[str, Scaling](), list[Matrix]()
    binary = bool(((few.X.min(axis=0) == few.X) | (few.X.max(axis=0) == few.X)).all())
    for name in CANDIDATES:
        if name in BY_RANK and few.X.shape[1] > columns:  # for each column a search of its own
            continue
        if binary and name not in (CANDIDATES[0], "common"):  # two values are the same on every scale of their own
            continue
        try:
            scaling = _scaling(few, name) if found else first
        except InvalidInput:  # values too far apart for this one
            continue
        rows = scaling.apply(few.X)
        if not any(np.allclose(rows, other, rtol=1e-6, atol=1e-9) for other in seen):
            seen.append(rows)
            found[name] = scaling
    return found


def _scaling(data: Observations, scale: str) -> Scaling:
    return Scaling.of(data.X, scale=scale, weights=data.weights)


def _look(
    options: Options,
    judge_of: Callable[[Scaling], Judge],
    scaling: Scaling,
    *,
    ridge: float | None = None,
    guess: float = GUESS,
    all_kernels: bool = False,
    known: Choice | None = None,
) -> Choice:
    """Return the best choice with a scaling, with the error by the measure that was asked for.

    With the first bias and shift alone, or with all; ``known`` is a look that was taken before.
    """
    judge, number = judge_of(scaling), None if all_kernels else 1
    choice = search(
        judge,
        options.first_kernel,
        biases=options.tried_biases[:number],
        shifts=options.tried_shifts[:number],
        ridge=options.ridge if ridge is None else ridge,
        guess=guess if known is None else known.ridge,
        known=known.tried if known is not None and all_kernels else (),
    )
    if options.measure is mean_square or choice.error == math.inf:
        return choice
    judged = judge.evaluate(choice.kernel, ridge=choice.ridge)
    return choice._replace(error=math.inf if judged is None else judge.measured(judged))


def error_left_out(data: Observations, options: Options, *, quick: bool) -> float:
    """Return the error of the limit on observations left out one at a time, at some rows, with the best scale.

    ``quick`` with the first scale, bias and shift. Infinity if they are too few, or the kernel is not positive: a tiny
    ridge, which a network may still do with.

    Cost: O(r³) for each ridge of each kernel tried, on r rows at most; see :class:`Options`.
    """
    if data.count.sum() < options.sizes.for_judging:
        return math.inf
    if quick and options.scale is None:
        options = options._replace(scale=CANDIDATES[0])
    with blas_for_size(options.rows):
        trials = left_one_by_one(data, options)
        scale = choose_scale(data, trials, options)
        look = partial(_look, options, trials.judge, scale.scaling, all_kernels=not quick)
        return look(known=None if math.isinf(scale.choice.error) else scale.choice).error
