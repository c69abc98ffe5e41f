"""More rows than an exact fit can take: coefficients on centres, or a tree of exact models; rows held out decide."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thresher.errors import InvalidInput
from thresher.estimators.data.observations import Observations
from thresher.estimators.data.streams import Stream
from thresher.estimators.files.journal import Journal
from thresher.estimators.models.centres import fit_centres
from thresher.estimators.models.fitted import LeftOut, LimitFit, Task
from thresher.estimators.models.leaves import fit_leaves
from thresher.estimators.models.variance import Variance

__all__ = ["fit_beyond"]

Matrix = NDArray[np.float64]


def fit_beyond(
    inputs: Stream,
    rows: Callable[[], Matrix] | None,
    task: Task,
    *,
    way: str,
    journal: Journal,
    tell: Callable[[float], object],
) -> LimitFit:
    """Return the fit of centres or of leaves, or the better of both with ``way="auto"``.

    ``inputs`` (n, r + 1) are lifted rows. For leaves ``rows`` returns them before they are lifted, (n, r), those to fit
    and then those held out; None for no leaves. Rows held out stay so.

    Cost: O(n) times the centres, or the rows of a leaf, for each step of conjugate gradients.
    """
    data, left, sizes = task.data, task.data.at(task.held), task.sizes
    fits = dict[str, LimitFit]()

    def finish(name: str, outputs: Matrix, fit: LimitFit) -> None:
        error = task.measure(left, outputs[left.row])
        if math.isfinite(error) and error < fits.get(name, fit._replace(error=math.inf)).error:
            fits[name] = fit._replace(error=error, left_out=fit.left_out._replace(outputs=outputs[left.row]))

    empty = _unfitted(left)

    def common(name: str) -> dict[str, Any]:
        kept = {"saved": journal.kept(name), "save": partial(journal.keep, name)}
        return kept | {"ridges": task.ridges, "backend": task.backend}

    def centres(number: int, first: float, last: float) -> None:
        told: dict[str, Any] = {"tell": lambda share: tell(first + (last - first) * share)}
        rows: dict[str, Any] = {"kept": task.kept, "held": task.held, "centres": number, "sample": sizes.sample}
        made = fit_centres(
            inputs, data.targets, data.weights, kernel=task.kernel, **rows, **told, **common(f"centres {number}")
        )
        finish("centres", made.held_outputs, empty._replace(inputs=made.inputs, alpha=made.alpha, ridge=made.ridge))

    if way != "leaves":
        centres(sizes.centres, 0.0, 0.15)
    if way != "centres" and rows is not None:
        order = np.concatenate([task.kept, task.held])
        made = fit_leaves(
            rows(),
            data.targets[order],
            data.weights[order],
            held=len(task.held),
            kernel=task.kernel._replace(metric=None),
            size=sizes.leaf,
            enough=sizes.leaves_judged,
            tell=lambda share: tell(0.15 + 0.45 * share),
            **common("leaves"),
        )
        fit = empty._replace(inputs=made.inputs, alpha=made.alpha, ridge=made.ridge, leaves=made)
        finish("leaves", made.held_outputs, fit)
    if not fits:
        raise InvalidInput("no fit gave finite predictions. Use a larger ridge, or a smaller shift.")
    best, errors = min(fits, key=lambda name: fits[name].error), {name: fit.error for name, fit in fits.items()}
    if best == "centres":
        centres(sizes.more_centres, 0.6, 1.0)
        errors[f"{sizes.more_centres} centres"] = fits[best].error
    return _with_variance(fits[best], inputs, task)._replace(way=best, errors=errors)


def _unfitted(left: Observations) -> LimitFit:
    unknown, nothing = LeftOut(left, np.zeros(0), lambda: np.zeros(0)), np.zeros((0, 1))
    return LimitFit(nothing, nothing, np.zeros(0), 0.0, math.inf, unknown)


def _with_variance(fit: LimitFit, inputs: Stream, task: Task) -> LimitFit:
    """Return the fit with what error bars are made of: pivots, and what some of the rows say of their span."""
    sizes, backend, weights = task.sizes, task.backend, task.data.weights
    some = task.kept[: sizes.known]
    known_rows = inputs.take(some)
    few = known_rows[: 16 * sizes.pivots]
    low = backend.pivots(backend.operator(task.kernel, few, memory=0.0), rank=sizes.pivots)
    share = weights[some].sum() / weights[task.kept].sum()  # the rows stand for all
    penalty = share * task.kernel.penalty(fit.ridge, weights[some])
    known = Variance.of_pivots(few[low.pivots], task.kernel, backend=backend).with_rows(known_rows, penalty)
    variances = known.at(inputs.take(task.held))[fit.left_out.data.row]
    return fit._replace(
        penalty=task.kernel.penalty(fit.ridge, np.ones(len(fit.inputs))),
        pivots=few[low.pivots],
        core=known.core,
        left_out=fit.left_out._replace(variances=lambda: variances),
    )
