"""A fitted estimator as plain arrays for other programs."""

from __future__ import annotations

from typing import Any

import numpy as np

from thresher.errors import InvalidInput
from thresher.export import Arrays, make_arrays
from thresher.export.arrays import bends

__all__ = ["arrays_of"]


def arrays_of(estimator: Any) -> Arrays:
    """Return the arrays of an estimator with networks. Cost: O(md) per output."""
    if not estimator.results_:
        raise InvalidInput("an infinite network has no neurons to export. Fit with a finite width.")
    mean, unit = estimator._target_frame()
    both = zip((network.compact() for network in estimator.networks_), estimator.gains_, strict=True)
    parts = [one._replace(coefficients=gain * one.coefficients) for one, gain in both]
    lift, scaling, d = estimator.lift_, estimator.lift_.scaling_, estimator.lift_.n_features_in_
    more = {name: getattr(lift, name) for name in ("weights", "metric") if getattr(lift, name) is not None}
    if scaling.low is not None:
        more |= {"input_low": scaling.low, "input_high": scaling.high, "input_soft": scaling.soft}
    if estimator._floor is not None:
        more |= {"logarithmic": 1.0, "floor": estimator._floor}
    more |= {"rest": float(lift.rest), "last": [lift.last_] if lift.bias else [], "mean": mean, "unit": unit}
    more |= {"input_mean": scaling.mean, "input_unit": scaling.unit, **bends(scaling.knots, d)}
    return make_arrays(parts, **{name: np.asarray(value, np.float64) for name, value in more.items()})
