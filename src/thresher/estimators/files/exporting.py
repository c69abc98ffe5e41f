"""A fitted estimator as plain arrays for other programs."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from thresher.checks import name_some
from thresher.errors import InvalidInput
from thresher.estimators.data.scaling import Scaling
from thresher.export import Arrays, limit_arrays
from thresher.export.arrays import bends
from thresher.export.table_graph import LearntColumns
from thresher.tables.kinds import Numbers
from thresher.theory.kernel import probability_cubics
from thresher.theory.parts import APART, Parts

__all__ = ["arrays_of", "filling_arrays", "label_arrays", "table_columns"]

Matrix = NDArray[np.float64]


def arrays_of(estimator: Any, *, encoded: bool) -> Arrays:
    """Return the arrays of an estimator; ``encoded`` if they get what its encoder returns.

    Cost: O(md) per output, O(nd) for the limit.
    """
    if getattr(getattr(estimator, "predictive_", None), "fits", None) is not None:
        raise InvalidInput("an export has one prediction for a row, and no quantiles. Fit with another loss.")
    mean, unit = estimator._target_frame()
    lift = estimator.model_.lift
    more = {} if lift.metric is None else {"metric": lift.metric}
    if estimator._floor is not None:
        more |= {"logarithmic": 1.0, "floor": estimator._floor}
    more |= {"rest": float(lift.rest), "last": [lift.last_] if lift.bias else [], "mean": mean, "unit": unit}
    more |= _scaling(lift.scaling_)
    labels = estimator._class_labels
    arrays = {name: np.asarray(value, np.float64) for name, value in more.items()}
    if labels is not None:
        arrays |= label_arrays(labels, estimator.temperature_, several=estimator.multilabel_)
    if lift.indicators_ is not None:
        kept, columns, values = lift.indicators_
        arrays |= {"kept": kept, "indicated": columns, "indicated_values": values}
    if estimator.encoder_ is not None and not encoded:
        arrays |= filling_arrays(estimator.encoder_)
    arrays["columns"] = np.array(len(arrays["fill"]) if "fill" in arrays else lift.n_features_in_)
    return _limit(estimator, arrays)


def _scaling(scaling: Scaling, which: str = "") -> dict[str, Any]:
    """Return what scales columns; ``which`` is before the names of the arrays."""
    d = len(scaling.mean)
    made: dict[str, Any] = {"input_mean": scaling.mean, "input_unit": scaling.unit, **bends(scaling.knots, d)}
    pulled = scaling.low is not None
    made["input_low"] = scaling.low if pulled else np.full(d, -np.inf)
    made["input_high"] = scaling.high if pulled else np.full(d, np.inf)
    made["input_soft"] = scaling.soft if pulled else np.ones(d)
    return {which + name: value for name, value in made.items()}


def _limit(estimator: Any, arrays: Arrays) -> Arrays:
    """Return the arrays of the limit: stored rows and their coefficients."""
    if estimator.model_.leaves is not None:
        raise InvalidInput("a model of leaves is not exported. Fit with approximation='centres', or 'exact'.")
    kernel = estimator.model_.kernel
    vectors, angles = kernel.split(np.asarray(estimator.model_.inputs))
    arrays = {**arrays, "cubics": probability_cubics(kernel.shift).reshape(-1, 4)}
    if kernel.parts is not None:
        arrays |= _parts(estimator.model_.lift, kernel.parts, np.asarray(angles, np.float64), kernel.diagonal)
    return limit_arrays(np.asarray(vectors, np.float64), np.asarray(estimator.model_.alpha, np.float64), **arrays)


def _parts(lift: Any, parts: Parts, angles: Matrix, diagonal: float) -> Arrays:
    """Return how single columns are seen, and the angles and codes (n, u) of stored rows."""
    seen, d = lift.angles_, len(lift.scaling_.mean)
    codes = np.zeros((d, len(seen.groups)))
    for place, group in enumerate(seen.groups):
        codes[list(group), place] = APART * np.arange(1, len(group) + 1)
    made = {
        "angle_columns": np.asarray(seen.numbers, np.int64),
        "codes": codes,
        "stored_angles": angles,
        "parts": parts.factors(diagonal),
        "layer_cubics": probability_cubics(0.0).reshape(-1, 4),
    }
    return {**made, **_scaling(seen.scaling, "angle_")}


def label_arrays(labels: NDArray[Any], temperature: Any, *, several: bool) -> Arrays:
    """Return what turns scores into labels and probabilities."""
    return {
        "temperature": np.asarray(temperature, np.float64),
        "multilabel": np.asarray(float(several)),
        "classes": labels.astype(np.str_) if labels.dtype.kind == "O" else labels,
    }


def table_columns(encoder: Any) -> LearntColumns | None:
    """Return the columns of a table that is encoded, and what was learnt of each; None if all are numbers."""
    return None if encoder is None or encoder.is_numeric_ else encoder.to_json()


def filling_arrays(encoder: Any) -> Arrays:
    """Return how missing numbers are replaced and told; refuse encoders of other columns than numbers."""
    if not encoder.is_numeric_:
        others = [name for name, kind in encoder.kinds_.items() if kind.outputs("") and not isinstance(kind, Numbers)]
        others += [one.name for one in encoder.made_]
        raise InvalidInput(
            f"an export takes numbers, and {name_some(others)} of the table are not. Export with encoded=True, and "
            "give the export what encoder_.transform returns; to_onnx takes the table itself."
        )
    kinds = list(encoder.kinds_.values())
    fill = [kind.fill if isinstance(kind, Numbers) else 0.0 for kind in kinds]
    told = [place > 0 for kind in kinds for place in range(len(kind.outputs("")))]
    return {"fill": np.array(fill), "source": encoder.sources_, "indicator": np.array(told, np.bool_)}
