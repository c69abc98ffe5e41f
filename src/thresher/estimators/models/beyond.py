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
from thresher.estimators.models.leaves import LeavesFit, fit_leaves
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
    """Return the fit on centres or in leaves, or the better of both with ``way="auto"``.

    ``inputs`` (n, r + 1) are lifted rows. For leaves ``rows`` returns them before they are lifted, (n, r), those to fit
    and then those held out; None for no leaves. Rows held out stay so. Leaves are given up if the first of them are no
    better than a few centres; where they win, more centres are not tried.

    Cost: O(n) times the centres, or the rows of a leaf, for each step of conjugate gradients.
    """
    sizes, tried = given.sizes, dict[str, LimitFit]()

    def centres(number: int, first: float, last: float) -> tuple[LimitFit, Matrix]:
        made = fit_centres(
            inputs,
            given.data.targets,
            given.data.weights,
            kept=given.kept,
            held=given.held,
            kernel=given.kernel,
            ridges=given.ridges,
            centres=number,
            sample=sizes.sample,
            backend=given.backend,
            tell=lambda share: tell(first + (last - first) * share),
        )
        return _judged(made, given, "centres"), made.held_outputs

    rival = None
    if way != "leaves":
        tried["centres"], rival = centres(sizes.centres, 0.0, 0.2)
    if way != "centres" and rows is not None:
        order = np.concatenate([given.kept, given.held])
        made = fit_leaves(
            rows(),
            given.data.targets[order],
            given.data.weights[order],
            held=len(given.held),
            kernel=given.kernel._replace(metric=None),
            ridges=given.ridges,
            size=sizes.leaf,
            enough=sizes.leaves_judged,
            rival=rival,
            backend=given.backend,
            tell=lambda share: tell(0.2 + 0.4 * share),
        )
        tried |= {} if made is None else {"leaves": _judged(made, given, "leaves")._replace(leaves=made.leaves)}
    errors = {name: fit.error for name, fit in tried.items() if math.isfinite(fit.error)}
    if not errors:
        raise InvalidInput("no fit gave finite predictions. Use a larger ridge, or a smaller shift.")
    best = tried[min(errors, key=lambda name: errors[name])]
    if best.way == "centres":
        more, _ = centres(sizes.more_centres, 0.6, 1.0)
        best = more if more.error < best.error else best
        errors[f"{sizes.more_centres} centres"] = best.error
    return _with_variance(best, inputs, given)._replace(errors=errors)


def _judged(made: Centres | LeavesFit, given: RowsToFit, way: str) -> LimitFit:
    """Return what was fitted with its error on rows held out; variances and a penalty come at the end."""
    held_data = given.data.at(given.held)
    outputs = made.held_outputs[held_data.row]
    error, seen = given.measure(held_data, outputs), LeftOut(held_data, outputs, lambda: np.zeros(0))
    return LimitFit(made.inputs, made.alpha, np.zeros(0), made.ridge, error, seen, way=way)


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
