"""From observations to a fitted model: scale, kernel, features, ridge, fit, network; the same steps for any rows.

How each step is taken depends on how observations are left out, and that on the number of rows: one at a time, exactly,
with matrices (``few_rows.py``), or some rows together, with operators (``many_rows.py``).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from thresher.estimators.data.lift import SphereLift
from thresher.estimators.data.observations import Observations
from thresher.estimators.models.fitted import Fitted
from thresher.estimators.options import Options
from thresher.estimators.pipeline.budget import check_sizes, costs, require_memory
from thresher.estimators.pipeline.few_rows import FewRows
from thresher.estimators.pipeline.many_rows import ManyRows
from thresher.estimators.pipeline.parts import choose_indicators
from thresher.estimators.pipeline.route import Features, Model, Route
from thresher.estimators.pipeline.scale import Scale
from thresher.estimators.progress import Progress

__all__ = ["Pipeline"]

Matrix = NDArray[np.float64]


class Pipeline:
    """One fit of observations at raw rows."""

    def __init__(self, data: Observations, options: Options, progress: Progress) -> None:
        self._progress = progress
        check_sizes(data, options)
        require_memory(data, options)
        progress.plan(costs(data, options))
        progress.begin("choosing the scale")
        taken = options.taken
        self._options = options
        self._indicators = choose_indicators(data, options) if taken is None else taken.indicators
        if self._indicators is not None:
            data = data.with_rows(self._indicators.apply(data.X))
            options = options._replace(groups=self._indicators.groups(options.groups))
            require_memory(data, options)
        few = len(data) <= options.sizes.one_by_one
        self._route: Route = (FewRows if few else ManyRows)(data, options, progress)

    def run(self) -> Fitted:
        """Return what was chosen, learnt and trained. Cost: see :class:`ThresherRegressor`."""
        route, progress = self._route, self._progress
        with route.computing():
            scale = route.choose_scale()
            features = route.choose_kernel(scale)
            progress.begin("fitting all rows")
            importances = self._importances(features)

            def fit(ridge: float | None) -> Fitted:
                return self._fitted(scale, features, route.fit(ridge), importances, again)

            def again(ridge: float) -> Fitted:
                with route.computing():
                    return fit(ridge)

            fitted = fit(None)
        progress.end()
        return fitted

    def _importances(self, features: Features) -> Matrix:
        """Return the mean square of the gradient by each scaled column (d,), as a share of the sum of all."""
        (weights, basis), choice = features.coordinates, features.choice
        kernel = choice.kernel._replace(start=None, parts=None)
        inner = kernel.outer_products(features.some, choice.ridge, self._options.backend)
        matrix = features.coordinates.matrix(kernel.metric)
        d = features.some.X.shape[1] if basis is None else len(basis)
        if inner is None:
            return np.full(d, 1 / d)
        squares = np.maximum(inner.diagonal() if matrix is None else ((matrix @ inner) * matrix).sum(axis=1), 0.0)
        squares = squares if weights is None else squares * weights**2
        return squares / squares.sum() if squares.sum() > 0 else np.full(d, 1 / d)

    def _fitted(
        self, scale: Scale, features: Features, made: Model, importances: Matrix, again: Callable[[float], Fitted]
    ) -> Fitted:
        """Return everything that came out of a fit."""
        kernel, coordinates, indicators = features.choice.kernel, features.coordinates, self._indicators
        lift = SphereLift.made(
            scale.scaling,
            scale=scale.name,
            bias=kernel.bias,
            weights=coordinates.weights,
            metric=coordinates.matrix(kernel.metric),
            rest=kernel.rest and kernel.metric is None,
            last=made.last,
            indicators=indicators,
            angles=features.angles if kernel.parts is not None else None,
        )
        asked = made.asked
        return Fitted(
            lift=lift,
            coordinates=coordinates,
            choice=features.choice,
            learning=features.learning,
            limit=made.limit,
            networks=made.networks,
            importances=importances if indicators is None else indicators.by_column(importances),
            asked=asked if indicators is None else asked._replace(rows=indicators.undo(asked.rows)),
            again=again,
            why=made.why,
            errors_of_parts=features.errors_of_parts,
        )
