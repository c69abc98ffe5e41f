"""More rows than an exact fit can take: coefficients on centres, and what error bars are made of."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from thresher.errors import InvalidInput
from thresher.estimators.data.streams import Stream
from thresher.estimators.models.centres import fit_centres
from thresher.estimators.models.fitted import LeftOut, LimitFit, RowsToFit
from thresher.estimators.models.variance import Variance

__all__ = ["fit_beyond"]

Matrix = NDArray[np.float64]


def fit_beyond(inputs: Stream, given: RowsToFit, *, tell: Callable[[float], object]) -> LimitFit:
    """Return the fit of lifted rows (n, r + 1) on some centres, or on more if these are better. Rows held out stay so.

    Cost: O(n) times the centres, for each step of conjugate gradients.
    """
    sizes = given.sizes
    few = _on_centres(inputs, given, sizes.centres, lambda share: tell(0.3 * share))
    if not math.isfinite(few.error):
        raise InvalidInput("no fit gave finite predictions. Use a larger ridge, or a smaller shift.")
    more = _on_centres(inputs, given, sizes.more_centres, lambda share: tell(0.3 + 0.7 * share))
    best = more if more.error < few.error else few
    errors = {"centres": few.error, f"{sizes.more_centres} centres": best.error}
    return _with_variance(best, inputs, given)._replace(errors=errors)


def _on_centres(inputs: Stream, given: RowsToFit, centres: int, tell: Callable[[float], object]) -> LimitFit:
    """Return the fit on so many centres; variances and a penalty come at the end."""
    data, held_data = given.data, given.data.at(given.held)
    made = fit_centres(
        inputs,
        data.targets,
        data.weights,
        kept=given.kept,
        held=given.held,
        kernel=given.kernel,
        ridges=given.ridges,
        centres=centres,
        sample=given.sizes.sample,
        backend=given.backend,
        tell=tell,
    )
    outputs = made.held_outputs[held_data.row]
    seen = LeftOut(held_data, outputs, lambda: np.zeros(0))
    error = given.measure(held_data, outputs)
    return LimitFit(made.inputs, made.alpha, np.zeros(0), made.ridge, error, seen, way="centres")


def _with_variance(fit: LimitFit, inputs: Stream, given: RowsToFit) -> LimitFit:
    """Return the fit with what error bars are made of: pivots, and what some of the rows say of their span."""
    sizes, backend, weights = given.sizes, given.backend, given.data.weights
    some = given.kept[: sizes.known]
    known_rows = inputs.take(some)
    few = known_rows[: 16 * sizes.pivots]
    low = backend.pivots(backend.operator(given.kernel, few, memory=0.0), rank=sizes.pivots)
    share = weights[some].sum() / weights[given.kept].sum()  # the rows stand for all
    penalty = share * given.kernel.penalty(fit.ridge, weights[some])
    known = Variance.of_pivots(few[low.pivots], given.kernel, backend=backend).with_rows(known_rows, penalty)
    variances = known.at(inputs.take(given.held))[fit.left_out.data.row]
    return fit._replace(
        penalty=given.kernel.penalty(fit.ridge, np.ones(len(fit.inputs))),
        pivots=few[low.pivots],
        core=known.core,
        left_out=fit.left_out._replace(variances=lambda: variances),
    )
