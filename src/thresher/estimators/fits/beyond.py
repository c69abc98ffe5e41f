"""More rows than an exact fit can take: coefficients on centres, or a tree of exact models; rows left out decide."""

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
from thresher.estimators.fits.centres import fit_centres
from thresher.estimators.fits.deviations import Variance
from thresher.estimators.fits.exact import PIVOTS, LimitFit, Table
from thresher.estimators.fits.fitted import LeftOut
from thresher.estimators.fits.leaves import fit_leaves
from thresher.theory import firing_probability

__all__ = ["CENTRES", "LEAF", "fit_beyond"]

Matrix = NDArray[np.float64]
CENTRES = 2048, 4096  # tried first; taken if they are better than leaves
LEAF = 4096  # rows of a leaf
_KNOWN = 1 << 17  # rows at most that error bars are made of


def fit_beyond(
    inputs: Stream,
    rows: Callable[[], Matrix] | None,
    table: Table,
    *,
    way: str,
    journal: Journal,
    tell: Callable[[float], object],
) -> LimitFit:
    """Return the fit of centres or of leaves, or the better of both with ``way="auto"``.

    ``inputs`` (n, r + 1) are lifted rows. For leaves ``rows`` returns them before they are lifted, (n, r), those to fit
    and then those left out; None for no leaves. Rows left out stay left out.

    Cost: O(n) times the centres, or the rows of a leaf, for each step of conjugate gradients.
    """
    data, left = table.data, table.data.at(table.held)
    found = dict[str, LimitFit]()

    def judge(outputs: Matrix) -> float:
        return table.judge(left, outputs[left.row])

    def finish(name: str, outputs: Matrix, fit: LimitFit) -> None:
        error = judge(outputs)
        if math.isfinite(error) and error < found.get(name, fit._replace(error=math.inf)).error:
            found[name] = fit._replace(error=error, left_out=fit.left_out._replace(outputs=outputs[left.row]))

    empty = _unfitted(left)

    def common(name: str) -> dict[str, Any]:
        kept = {"saved": journal.kept(name), "save": partial(journal.keep, name)}
        return kept | {"shift": table.shift, "ridges": table.ridges, "device": table.device}

    def centres(number: int, first: float, last: float) -> None:
        rows: dict[str, Any] = {"kept": table.kept, "held": table.held, "centres": number, "judge": judge}
        told: dict[str, Any] = {
            "tell": lambda share: tell(first + (last - first) * share),
            **common(f"centres {number}"),
        }
        made = fit_centres(inputs, data.targets, data.weights, **rows, **told)
        finish("centres", made.held_outputs, empty._replace(inputs=made.inputs, alpha=made.alpha, ridge=made.ridge))

    if way != "leaves":
        centres(CENTRES[0], 0.0, 0.15)
    if way != "centres" and table.bias > 0 and rows is not None:
        order = np.concatenate([table.kept, table.held])
        made = fit_leaves(
            rows(),
            data.targets[order],
            data.weights[order],
            held=len(table.held),
            bias=table.bias,
            size=LEAF,
            tell=lambda share: tell(0.15 + 0.45 * share),
            **common("leaves"),
        )
        fit = empty._replace(inputs=made.inputs, alpha=made.alpha, ridge=made.ridge, leaves=made)
        finish("leaves", made.held_outputs, fit)
    if not found:
        raise InvalidInput("no fit gave finite predictions. Use a larger ridge, or a smaller shift.")
    best, errors = min(found, key=lambda name: found[name].error), {name: fit.error for name, fit in found.items()}
    if best == "centres":
        centres(CENTRES[1], 0.6, 1.0)
        errors[f"{CENTRES[1]} centres"] = found[best].error
    return _with_variance(found[best], inputs, table)._replace(way=best, errors=errors)


def _unfitted(left: Observations) -> LimitFit:
    unknown, nothing = LeftOut(left, np.zeros(0), lambda: np.zeros(0), 1.0), np.zeros((0, 1))
    return LimitFit(nothing, nothing, 0.0, math.inf, unknown, nothing.astype(np.float32), None)


def _with_variance(fit: LimitFit, inputs: Stream, table: Table) -> LimitFit:
    """Return the fit with what error bars are made of: pivots, and what some of the rows say of their span."""
    some, weights = table.kept[:_KNOWN], table.data.weights
    known_rows = inputs.take(some)
    few = known_rows[: 16 * PIVOTS]
    low = table.device.pivots(table.device.matrix(few, table.shift, memory=0.0), rank=PIVOTS)
    share = weights[some].sum() / weights[table.kept].sum()  # the rows stand for all
    penalty = share * fit.ridge * firing_probability(table.shift) / weights[some]
    known = Variance.of_pivots(few[low.pivots], table.shift, device=table.device).with_rows(known_rows, penalty)
    variances = known.at(inputs.take(table.held))[fit.left_out.data.row]
    return fit._replace(
        pivots=few[low.pivots], core=known.core, left_out=fit.left_out._replace(variances=lambda: variances)
    )
