"""A fitted estimator as plain arrays for other programs."""

from __future__ import annotations

from typing import Any

import numpy as np

from thresher.errors import InvalidInput
from thresher.export import Arrays, make_arrays
from thresher.export.arrays import bends
from thresher.tables.kinds import Numbers
from thresher.tables.saying import name_some

__all__ = ["arrays_of"]


def arrays_of(estimator: Any, *, encoded: bool) -> Arrays:
    """Return the arrays of an estimator with networks; ``encoded`` if they get what its encoder returns.

    Cost: O(md) per output.
    """
    if not estimator.results_:
        raise InvalidInput(
            "the limit of infinite width has no neurons to export. Fit with a finite width, such as width=4096."
        )
    if estimator.lift_.indicators_ is not None:
        raise InvalidInput(
            "an export takes numbers as they are, and some became categories here: see categories_. Fit with "
            "parts='all', or name all categories in categorical_features."
        )
    mean, unit = estimator._target_frame()
    both = zip((network.neurons() for network in estimator.networks_), estimator.gains_, strict=True)
    parts = [one._replace(coefficients=gain * one.coefficients) for one, gain in both]
    lift, scaling, d = estimator.lift_, estimator.lift_.scaling_, estimator.lift_.n_features_in_
    more = {name: getattr(lift, name) for name in ("weights", "metric") if getattr(lift, name) is not None}
    if scaling.low is not None:
        more |= {"input_low": scaling.low, "input_high": scaling.high, "input_soft": scaling.soft}
    if estimator._floor is not None:
        more |= {"logarithmic": 1.0, "floor": estimator._floor}
    more |= {"rest": float(lift.rest), "last": [lift.last_] if lift.bias else [], "mean": mean, "unit": unit}
    more |= {"input_mean": scaling.mean, "input_unit": scaling.unit, **bends(scaling.knots, d)}
    labels = estimator._class_labels
    if labels is not None:
        more |= {"temperature": estimator.temperature_, "multilabel": float(estimator.multilabel_)}
    arrays = {name: np.asarray(value, np.float64) for name, value in more.items()}
    if labels is not None:
        arrays["classes"] = labels.astype(np.str_) if labels.dtype.kind == "O" else labels
    if estimator.encoder_ is not None and not encoded:
        arrays |= _filling(estimator.encoder_)
    return make_arrays(parts, **arrays)


def _filling(encoder: Any) -> Arrays:
    """Return how missing numbers are replaced and told; refuse encoders of other columns than numbers."""
    if not encoder.is_numeric_:
        others = [name for name, kind in encoder.kinds_.items() if kind.outputs("") and not isinstance(kind, Numbers)]
        raise InvalidInput(
            f"an export takes numbers, and {name_some(others)} of the table are not. Export with encoded=True, and "
            "give the export what encoder_.transform returns."
        )
    kinds = list(encoder.kinds_.values())
    fill = [kind.fill if isinstance(kind, Numbers) else 0.0 for kind in kinds]
    told = [place > 0 for kind in kinds for place in range(len(kind.outputs("")))]
    return {"fill": np.array(fill), "source": encoder.sources_, "indicator": np.array(told, np.bool_)}
