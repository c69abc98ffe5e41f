"""More rows than an exact fit can take: coefficients on centres, or a tree of exact models; rows held out decide."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from thresher.errors import InvalidInput
from thresher.estimators.data.streams import Stream
from thresher.estimators.models.centres import Centres, fit_centres
from thresher.estimators.models.fitted import LeftOut, LimitFit, RowsToFit
from thresher.estimators.models.leaves import Leaves, fit_leaves
from thresher.estimators.models.variance import Variance

__all__ = ["fit_beyond"]

Matrix = NDArray[np.float64]


def fit_beyond(
    inputs: Stream,
    rows: Callable[[], Matrix] | None,
    given: RowsToFit,
    *,
    way: str,
    tell: Callable[[float], object],
) -> LimitFit:
    """Return the fit of centres or of leaves, or the better of both with ``way="auto"``.

    ``inputs`` (n, r + 1) are lifted rows. For leaves ``rows`` returns them before they are lifted, (n, r), those to fit
    and then those held out; None for no leaves. Rows held out stay so.

    Cost: O(n) times the centres, or the rows of a leaf, for each step of conjugate gradients.
    """
    data, held_data, sizes, fits = given.data, given.data.at(given.held), given.sizes, dict[str, LimitFit]()

    def finish(name: str, made: Centres | Leaves, leaves: Leaves | None = None) -> None:
        outputs = made.held_outputs[held_data.row]
        error = given.measure(held_data, outputs)
        if math.isfinite(error) and (name not in fits or error < fits[name].error):
            seen = LeftOut(held_data, outputs, lambda: np.zeros(0))  # variances and a penalty come at the end
            fits[name] = LimitFit(made.inputs, made.alpha, np.zeros(0), made.ridge, error, seen, leaves=leaves)

    def centres(number: int, first: float, last: float) -> None:
        made = fit_centres(
            inputs,
            data.targets,
            data.weights,
            kept=given.kept,
            held=given.held,
            kernel=given.kernel,
            centres=number,
            sample=sizes.sample,
            tell=lambda share: tell(first + (last - first) * share),
            ridges=given.ridges,
            backend=given.backend,
        )
        finish("centres", made)

    if way != "leaves":
        centres(sizes.centres, 0.0, 0.15)
    if way != "centres" and rows is not None:
        order = np.concatenate([given.kept, given.held])
        made = fit_leaves(
            rows(),
            data.targets[order],
            data.weights[order],
            held=len(given.held),
            kernel=given.kernel._replace(metric=None),
            size=sizes.leaf,
            enough=sizes.leaves_judged,
            tell=lambda share: tell(0.15 + 0.45 * share),
            ridges=given.ridges,
            backend=given.backend,
        )
        finish("leaves", made, made)
    if not fits:
        raise InvalidInput("no fit gave finite predictions. Use a larger ridge, or a smaller shift.")
    best, errors = min(fits, key=lambda name: fits[name].error), {name: fit.error for name, fit in fits.items()}
    if best == "centres":
        centres(sizes.more_centres, 0.6, 1.0)
        errors[f"{sizes.more_centres} centres"] = fits[best].error
    return _with_variance(fits[best], inputs, given)._replace(way=best, errors=errors)


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
