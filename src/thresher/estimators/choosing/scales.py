"""Which scale of the columns, by leave-one-out on the limit; and what was asked for."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from thresher.engines import LOCAL, Where
from thresher.errors import InvalidInput
from thresher.estimators.choosing import choose
from thresher.estimators.choosing.choose import Choice, Judge, mean_square
from thresher.estimators.choosing.features import COLUMNS, Plan
from thresher.estimators.choosing.space import Space
from thresher.estimators.data.observations import Observations
from thresher.estimators.data.scaling import BY_RANK, CANDIDATES, Scaling
from thresher.estimators.kernels.device import Device
from thresher.model.start import Sequence as SequenceName
from thresher.parallel import blas_for_size

__all__ = ["FEW", "Options", "choose_scale", "error_left_out"]

FEW = 8  # observations below which leaving some out says nothing of targets or features
_FOR_SCALES = 50  # observations from which scales are compared
_CLEARLY = 0.9  # share of the error that another scale must leave to be taken
_NOTHING = Choice(math.nan, math.nan, 1e-2, math.inf, [])  # known of the choice; the first ridge that is tried


class Options(NamedTuple):
    """What was asked for; None is to be chosen."""

    width: int | float
    shift: float | None
    ridge: float | None
    bias: float | None
    plan: Plan | None
    scale: str | None
    sequence: SequenceName
    tol: float
    max_iterations: int | None  # None for the rule of thresher.train
    seed: int
    threads: int
    biases: Sequence[float]  # to choose from
    rows: int  # on which bias, shift, scale and features are chosen; the ridge on 1024
    device: Device
    judge: Judge = mean_square  # of scales and features
    checkpoint: Path | None = None  # where a long fit keeps its progress
    approximation: str = "auto"
    where: Where = LOCAL  # networks are trained
    or_limit: bool = False  # whether the limit of infinite width replaces a network that is measurably worse


def error_left_out(data: Observations, options: Options, *, quick: bool) -> float:
    """Return the error of the limit on observations left out, at some rows, with the scale that is best for them.

    ``quick`` with the first scale, bias and shift. Infinity if they are too few, or the kernel is not positive: a tiny
    ridge, which a network may still do with.

    Cost: O(r³) for each ridge of each kernel tried, on r rows at most; see :class:`Options`.
    """
    if data.count.sum() < FEW:
        return math.inf
    if quick and options.scale is None:
        options = options._replace(scale=CANDIDATES[0])
    with blas_for_size(options.rows):
        _, scaling, guess = choose_scale(data, options)
        some = data.some(options.rows)
        return _judged(some.with_rows(scaling.apply(some.X)), options, quick=quick, guess=guess).error


def choose_scale(data: Observations, options: Options) -> tuple[str, Scaling, Choice]:
    """Return the scale of the least leave-one-out error on some rows: the first unless another is clearly better.

    Another must be so with the first bias and shift, at the ridge of the first scale and at its own, and again after
    both have chosen bias and shift. The choice, with all that was tried at the scaled rows, is one to start from.

    Cost: O(r³) for each ridge of each kernel tried, on r rows at most; see :class:`Options`.
    """

    if options.scale is not None:
        return options.scale, _scaling(data, options.scale), _NOTHING
    first = _scaling(data, CANDIDATES[0])
    if data.count.sum() < _FOR_SCALES:
        return CANDIDATES[0], first, _NOTHING
    few = data.some(options.rows)
    rows = {CANDIDATES[0]: few.with_rows(first.apply(few.X))}
    binary = bool(((few.X.min(axis=0) == few.X) | (few.X.max(axis=0) == few.X)).all())
    for scale in CANDIDATES[1:]:
        if scale in BY_RANK and data.X.shape[1] > COLUMNS:  # for each column a search of its own
            continue
        if binary and scale != "common":  # two values are the same on every scale of their own
            continue
        try:
            some = few.with_rows(_scaling(few, scale).apply(few.X))
        except InvalidInput:  # values too far apart for this one
            continue
        if not any(np.allclose(some.X, other.X, rtol=1e-6, atol=1e-9) for other in rows.values()):
            rows[scale] = some
    plain = _judged(rows[CANDIDATES[0]], options, quick=True)
    found = {CANDIDATES[0]: plain}
    for scale in list(rows)[1:]:
        found[scale] = _judged(rows[scale], options, quick=True, ridge=plain.ridge)
        if found[scale].error < plain.error:  # worth a ridge of its own
            found[scale] = _judged(rows[scale], options, quick=True, guess=plain)
    best = min(found, key=lambda scale: found[scale].error)
    if not found[best].error < _CLEARLY * plain.error:
        return CANDIDATES[0], first, plain
    whole, other = (_judged(rows[scale], options, quick=False, guess=found[scale]) for scale in (CANDIDATES[0], best))
    if not other.error < _CLEARLY * whole.error:
        return CANDIDATES[0], first, whole
    try:
        return best, _scaling(data, best), other
    except InvalidInput:  # of all rows some are too far apart
        return CANDIDATES[0], first, whole


def _scaling(data: Observations, scale: str) -> Scaling:
    return Scaling.of(data.X, scale=scale, weights=data.weights)


def _judged(
    some: Observations, options: Options, *, quick: bool, guess: Choice | None = None, ridge: float | None = None
) -> Choice:
    """Return the best choice for the limit, with the judge's error of observations left out.

    ``quick`` with the first bias and shift alone; with this ridge, or the best, starting from a guess.
    """
    biases: Sequence[float] = options.biases if options.bias is None else [options.bias]
    shifts: Sequence[float] = choose.SHIFTS if options.shift is None else [options.shift]
    if quick:
        biases, shifts = biases[:1], shifts[:1]
    ridge = options.ridge if ridge is None else ridge
    guess = _NOTHING if guess is None else guess
    choice = choose.choose(
        some,
        biases=biases,
        shifts=shifts,
        ridge=ridge,
        guess=guess.ridge,
        kernel_of=options.device.kernel,
        known=() if quick else guess.tried,
    )
    if options.judge is mean_square or choice.error == math.inf:
        return choice
    kernel = options.device.kernel(Space(some).inputs(choice.bias)[0], choice.shift)
    fit = choose.fit_kernel(kernel, some, shift=choice.shift, ridge=choice.ridge)
    return choice._replace(error=math.inf if fit is None else options.judge(some, fit.left_out(some)))
