"""Fits by other losses than squares, on the kernel that squares have chosen.

Up to as many rows as a coefficient for each is bearable, by Newton's method on the kernel (:mod:`newton`); beyond, by
squares to working targets on centres, again and again (iteratively reweighted least squares).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from thresher.errors import InvalidInput
from thresher.estimators.centres import fit_centres
from thresher.estimators.data.observations import Observations
from thresher.estimators.data.streams import Stream
from thresher.estimators.fit import Fit
from thresher.estimators.leave_one_out import fit_kernel
from thresher.estimators.model import KernelModel
from thresher.estimators.newton import find_ridge, fit_loss, fit_loss_to_many, mean_loss, unsettled
from thresher.estimators.ridges import RIDGES, nearest
from thresher.estimators.settings import Settings
from thresher.estimators.variance import Variance
from thresher.losses import Loss
from thresher.parallel import blas_for_size

__all__ = ["LossResult", "fit_by_loss"]

Matrix = NDArray[np.float64]
_TOLERANCE, _ROUGHLY = 1e-4, 1e-3  # of the mean loss, up to which a fit is made, and fits that are compared
_ROOM = 0.8  # share of the free memory that the kernel of many rows may take
_SETTLED = 0.8  # share of the slopes before a fit that it may leave: steps end early, where they gain little
_SHARE, _DOUBLINGS = 0.25, 60  # of slope times step that a step must gain; a parabola that is right gains half
_STEPS, _ENOUGH = 6, 1e-3  # of reweighted squares, and the fall of the mean loss below which they end


class LossResult(NamedTuple):
    """A model fitted by a loss, and what it says of observations when they are left out."""

    model: KernelModel
    offset: Matrix  # (k,), added to the outputs of the model
    held: Observations  # with the targets of the loss
    outputs: Matrix  # (c, k): with the offset, of observations left out
    error: float  # weighted mean loss of these


def fit_by_loss(
    fit: Fit,
    targets: Callable[[Observations], Matrix],
    loss: Loss,
    offset: Matrix,
    settings: Settings,
    *,
    start: Matrix | None = None,
) -> LossResult | None:
    """Return the fit with a loss of the observations of another fit; None if there is none.

    Several outputs of a loss that is not joint are fits of their own. There is none with a joint loss of more outputs
    than a few at many rows: its steps take as long as all else, and predict no better than scores of squares.

    Parameters
    ----------
    fit : by squares, whose kernel is taken
    targets : returns what the loss compares with, (c, k), of observations
    offset : (k,), the outputs where all coefficients are zero
    start : coefficients (n, k) of few rows to begin from

    Cost: few rows O(n³) for each of some ten Newton steps; many rows O(n²) for each of some dozens of products; beyond
    that of some fits on centres.
    """
    few, sizes = fit.model.pivots is None, settings.sizes
    if loss.joint and not few and (len(offset) > sizes.ridge_outputs or fit.model.way != "exact"):
        return None
    told = fit.data.with_targets(targets(fit.data))
    columns = [slice(None)] if loss.joint else [slice(k, k + 1) for k in range(len(offset))]
    made = list[_Made]()
    for column in columns:
        own = told.with_targets(told.target[:, column])
        if few:
            found = _fit_few(fit, own, offset[column], None if start is None else start[:, column], loss, settings)
        elif fit.model.way == "exact":
            found = _fit_many(fit, own, offset[column], loss, settings)
        else:
            found = _fit_beyond(fit, own, offset[column], loss, settings) if len(columns) == 1 else None
        if found is None:
            return None
        if fit.model.way == "exact":
            _check(found, fit, own, loss, offset[column], settings)
        made.append(found)
    alpha, outputs = (np.hstack([getattr(one, name) for one in made]) for name in ("alpha", "outputs"))
    ridges = {one.ridge for one in made}
    ridge = made[0].ridge if len(ridges) == 1 else math.exp(float(np.mean([math.log(one.ridge) for one in made])))
    inputs = made[0].inputs
    # Error bars are made with the mean curvature of the outputs.
    penalty = ridge * fit.model.kernel.diagonal / np.mean([one.curvature for one in made], axis=0)
    model = fit.model._replace(inputs=inputs, alpha=alpha, ridge=ridge, penalty=penalty, leaves=None)
    model = model if model.way == "exact" else model._replace(way="centres")
    if model.pivots is not None and model.way == "exact":
        about = Variance.of_pivots(model.pivots, model.kernel, backend=settings.backend)
        model = model._replace(core=about.with_rows(model.inputs, penalty).core)
    held = told.last(sizes.left_out) if few else told.at(told.held_out(sizes.held)[0])
    errors = [mean_loss(loss, held.with_targets(held.target[:, one]), outputs[:, one]) for one in columns]
    return LossResult(model, np.concatenate([one.offset for one in made]), held, outputs, sum(errors))


class _Made(NamedTuple):
    inputs: NDArray[Any]  # (n, d)
    alpha: Matrix  # (n, k)
    offset: Matrix  # (k,)
    curvature: Matrix  # (n,)
    ridge: float
    outputs: Matrix  # (c, k), of observations left out


def _fit_few(
    fit: Fit, told: Observations, offset: Matrix, start: Matrix | None, loss: Loss, settings: Settings
) -> _Made | None:
    model, last = fit.model, min(settings.sizes.left_out, len(told))
    matrix, diagonal = np.asarray(settings.backend.dense(model.kernel, told.X).dense()), model.kernel.diagonal
    ridge = settings.ridge
    if ridge is None:
        ridge = _ridge_on_some(matrix, told, loss, offset, diagonal, guess=model.ridge, rows=settings.sizes.bias_rows)
    if ridge is None:
        return None
    begin = None if start is None else (start, np.zeros(start.shape[1]))
    found = fit_loss(
        matrix, told, loss, ridge=ridge, diagonal=diagonal, offset=offset, start=begin, tol=_TOLERANCE, last=last
    )
    if found is None or not np.isfinite(found.outputs).all():
        return None
    outputs = found.left_out(told.last(last), loss)
    return _Made(model.inputs, found.alpha, found.intercept + offset, found.curvature, ridge, outputs)


def _fit_many(fit: Fit, told: Observations, offset: Matrix, loss: Loss, settings: Settings) -> _Made | None:
    model, sizes, backend = fit.model, settings.sizes, settings.backend
    held, kept = told.held_out(sizes.held)
    order, inputs = np.concatenate([kept, held]), np.asarray(model.inputs)
    ridge = settings.ridge
    if ridge is None:
        ridge = _ridge_of_many(fit, told, np.sort(kept[: 2 * sizes.bias_rows]), inputs, offset, loss, settings)
    if ridge is None:
        return None
    rank = min(sizes.rank // 2, len(order) // 8)  # which is made anew as curvatures change
    room = max(_ROOM * backend.spare() - 4.0 * rank * len(order), 0.0)
    operator = backend.operator(model.kernel, inputs[order].astype(np.float32), memory=room)
    bare = told.with_rows(np.zeros((len(told), 0)))
    found = fit_loss_to_many(
        operator,
        backend.pivots(operator, rank=rank),
        bare.at(order),
        loss,
        kept=len(kept),
        ridge=ridge,
        larger=settings.ridge is None,
        offset=offset,
        backend=backend,
    )
    if found is None:
        return None
    alpha, curvature = np.empty_like(found.alpha), np.empty(len(order))
    alpha[order], curvature[order] = found.alpha, found.curvature
    return _Made(inputs, alpha, offset, curvature, found.ridge, found.held[bare.at(held).row])


def _ridge_of_many(
    fit: Fit,
    told: Observations,
    some: NDArray[np.int64],
    inputs: NDArray[Any],
    offset: Matrix,
    loss: Loss,
    settings: Settings,
) -> float | None:
    """Return the ridge to begin with: that of some rows, which differs from that of all as much as with squares."""
    model, backend, diagonal = fit.model, settings.backend, fit.model.kernel.diagonal
    few, squares = (data.with_rows(inputs).at(some) for data in (told, fit.data))
    with blas_for_size(len(some)):
        dense = backend.dense(model.kernel, few.X.astype(np.float64))
        plain = fit_kernel(dense, squares, diagonal=diagonal, ridge=None, last=len(some), guess=model.ridge)
        ridge = _ridge_on_some(
            np.asarray(dense.dense()), few, loss, offset, diagonal, guess=model.ridge, rows=len(some)
        )
    if ridge is None or plain is None:
        return ridge
    return RIDGES[nearest(ridge * model.ridge / plain.ridge)]


def _fit_beyond(fit: Fit, told: Observations, offset: Matrix, loss: Loss, settings: Settings) -> _Made | None:
    """Return the fit on centres, by squares to working targets: each step has the slope of the loss at the last one."""
    model, sizes, backend = fit.model, settings.sizes, settings.backend
    held, kept = told.held_out(sizes.held)
    stream = Stream(told.X, model.lift.transform)
    stream = stream if told.on_disk else stream.in_memory()
    targets, weights = told.targets[:, 0], told.weights
    outputs, before, found = np.full(len(targets), offset[0]), math.inf, None
    for _ in range(_STEPS):
        step, curvature = _working_step(loss, outputs, targets)
        made = fit_centres(
            stream,
            (outputs - offset[0] - step)[:, None],
            weights * curvature,
            kept=kept,
            held=held,
            kernel=model.kernel,
            ridges=[model.ridge if settings.ridge is None else settings.ridge],
            centres=sizes.centres,
            sample=sizes.sample,
            backend=backend,
        )
        parts = [
            backend.product(model.kernel, stream.inputs(block), made.inputs, made.alpha)[:, 0]
            for _, block in stream.blocks(1 << 16)
        ]
        outputs = np.concatenate(parts) + offset[0]
        if not np.isfinite(outputs).all():
            return None
        value = float(np.average(loss.value(outputs, targets), weights=weights))
        found = _Made(made.inputs, made.alpha, offset, np.ones(len(made.inputs)), made.ridge, outputs[held][:, None])
        if before - value < _ENOUGH:
            break
        before = value
    if found is None:
        return None
    rows = told.with_rows(np.zeros((len(told), 0))).at(held)
    return found._replace(outputs=found.outputs[rows.row])


def _working_step(loss: Loss, outputs: Matrix, targets: Matrix) -> tuple[Matrix, Matrix]:
    """Return the Newton step (n,) of each row, and curvatures raised until it gains a share of what it promises."""
    slope, curvature = loss.slope(outputs, targets), loss.curvature(outputs, targets).copy()
    before = loss.value(outputs, targets)
    for _ in range(_DOUBLINGS):
        step = slope / curvature
        with np.errstate(over="ignore", invalid="ignore"):
            short = ~(before - loss.value(outputs - step, targets) >= _SHARE * slope * step - 1e-14 * np.abs(before))
        if not short.any():
            break
        curvature[short] *= 2
    return slope / curvature, curvature


def _check(made: _Made, fit: Fit, told: Observations, loss: Loss, offset: Matrix, settings: Settings) -> None:
    """Refuse coefficients that are not those of a minimum where the model answers as it would for new rows.

    Cost: that of predicting at most 4,096 rows.
    """
    few = fit.model.pivots is None
    some = np.arange(len(told))[-settings.sizes.left_out :] if few else told.held_out(settings.sizes.held)[0]
    model = fit.model._replace(alpha=made.alpha)
    answers = model.outputs(np.asarray(model.inputs[some], np.float64), settings.backend) + made.offset
    bare, diagonal = told.with_rows(np.zeros((len(told), 0))).at(some), model.kernel.diagonal
    level = made.ridge * diagonal
    left = unsettled(loss, bare, answers, made.alpha[some], offset=offset, level=level, diagonal=diagonal)
    if not left <= _SETTLED:
        raise InvalidInput(
            f"the fit by {type(loss).__name__} has not come to its minimum: on {len(some):,} rows slopes of the loss "
            f"are {left:.3g} times those before the fit away, at most {_SETTLED:g} was expected, with "
            f"ridge={made.ridge:.3g}. Give a larger ridge."
        )


def _ridge_on_some(
    matrix: Matrix, told: Observations, loss: Loss, offset: Matrix, diagonal: float, *, guess: float, rows: int
) -> float | None:
    """Return the best ridge on no more than so many rows, always the same; None if the kernel is not positive."""
    n = len(told)
    some = np.arange(n) if n <= rows else np.sort(np.random.default_rng(0).permutation(n)[:rows])
    part = matrix if len(some) == n else matrix[np.ix_(some, some)]
    found = find_ridge(part, told.at(some), loss, guess=guess, diagonal=diagonal, offset=offset, tol=_ROUGHLY)
    return None if found is None else found.ridge
