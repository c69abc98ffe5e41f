"""A network, or an estimator, as plain arrays, and what they mean.

Columns are pulled in beyond their bounds, bent at knots and scaled; rows are multiplied by weights and metric, given
the length that the metric loses (if ``rest`` is 1) and a bias coordinate, and divided by their norms; then output k is
mean_k + unit_k sum over r of coefficients[k, r] max(<hidden[k, r], x> - shift, 0), or floor_k plus the
exponential of that if it is logarithmic. The outputs of twins nearly cancel, and the rest is multiplied by the gain:
single precision would not do. A network without an estimator takes rows of norm 1 as they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

__all__ = ["NOTHING", "SEGMENTS", "Arrays", "Neurons", "bends", "make_arrays", "predict_arrays"]

Arrays = dict[str, NDArray[np.float64]]
NOTHING = 1e-12  # share of a squared length that rounding leaves
SEGMENTS = ("segment_begin", "segment_slope", "segment_low", "segment_high")


class Neurons(Protocol):
    """f(x) = offset + sum of coefficients[r] max(<vectors[r], x> - shift, 0): vectors (k, d) and coefficients (k,)."""

    @property
    def vectors(self) -> NDArray[np.floating]:
        """Weight vectors (k, d)."""

    @property
    def coefficients(self) -> NDArray[np.floating]:
        """Factors (k,)."""

    @property
    def shift(self) -> float:
        """Threshold above which a neuron fires."""

    @property
    def offset(self) -> float:
        """What is added to every output."""


def make_arrays(outputs: Sequence[Neurons], **more: NDArray[np.float64]) -> Arrays:
    """Return the arrays of neurons of each output, on rows (k, d) of norm 1; ``more`` replaces some of them.

    Outputs with fewer neurons than others, or with none, are filled up with coefficients 0. Cost: O(md) per output.
    """
    most, inside = max(1, *(len(one.vectors) for one in outputs)), outputs[0].vectors.shape[1]
    hidden = np.zeros((len(outputs), most, inside))
    coefficients = np.zeros((len(outputs), most))
    for place, one in enumerate(outputs):
        hidden[place, : len(one.vectors)] = one.vectors
        coefficients[place, : len(one.vectors)] = one.coefficients
    d = len(more.get("input_mean", hidden[0, 0]))
    plain = {
        "input_low": np.full(d, -np.inf),
        "input_high": np.full(d, np.inf),
        "input_soft": np.ones(d),
        **bends(None, d),
        "input_mean": np.zeros(d),
        "input_unit": np.ones(d),
        "weights": np.ones(d),
        "metric": np.eye(d),
        "rest": np.array(0.0),
        "last": np.array([]),
        "hidden": hidden,
        "shift": np.array(outputs[0].shift),
        "coefficients": coefficients,
        "mean": np.array([one.offset for one in outputs]),
        "unit": np.ones(len(outputs)),
        "logarithmic": np.array(0.0),
        "floor": np.zeros(len(outputs)),
    }
    return {**plain, **more}


def bends(knots: NDArray[np.float64] | None, columns: int) -> Arrays:
    """Return straight lines between knots (2, q, d) as segments (q - 1, d): where each begins, its slope and its ends.

    The sum of slope * clip(x - begin, low, high), plus the first level, is what x becomes: no two large numbers cancel.
    """
    values, levels = np.array([np.zeros((2, columns))] * 2) if knots is None else knots
    if knots is None:
        values[1] = levels[1] = 1.0
    gaps = np.diff(values, axis=0)
    slopes = np.divide(np.diff(levels, axis=0), gaps, out=np.zeros_like(gaps), where=gaps > 0)
    low, high = np.zeros_like(gaps), gaps.copy()
    low[0] = -np.inf
    last = len(gaps) - 1 - (gaps[::-1] > 0).argmax(axis=0)  # knots at the end may be repeated
    high[last, np.arange(columns)] = np.inf
    return {
        "first_level": levels[0],
        "segment_begin": values[:-1],
        "segment_slope": slopes,
        "segment_low": low,
        "segment_high": high,
    }


def predict_arrays(arrays: Arrays, X: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return what exported arrays predict for raw rows (k, d): (k, outputs). NumPy alone; memory O(km)."""
    inside = np.clip(X, arrays["input_low"], arrays["input_high"])
    out, soft = X - inside, arrays["input_soft"]
    pulled = inside + np.sign(out) * soft * np.log1p(np.abs(out) / soft)
    bent = arrays["first_level"] + np.zeros_like(pulled)
    for begin, slope, low, high in zip(*(arrays[name] for name in SEGMENTS), strict=True):
        bent = bent + slope * np.clip(pulled - begin, low, high)
    weighed = (bent - arrays["input_mean"]) / arrays["input_unit"] * arrays["weights"]
    rows = weighed @ arrays["metric"]
    if arrays["rest"]:
        whole = (weighed**2).sum(axis=1)
        lost = whole - (rows**2).sum(axis=1)
        rows = np.hstack([rows, np.sqrt(np.where(lost > NOTHING * whole, lost, 0))[:, None]])
    rows = np.hstack([rows, np.broadcast_to(arrays["last"], (len(rows), len(arrays["last"])))])
    rows = rows / np.abs(rows).max(axis=1, keepdims=True)  # so that squares do not overflow
    rows = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    outputs = [
        np.maximum(rows @ hidden.T - arrays["shift"], 0) @ coefficients
        for hidden, coefficients in zip(arrays["hidden"], arrays["coefficients"], strict=True)
    ]
    told = np.stack(outputs, axis=1) * arrays["unit"] + arrays["mean"]
    return np.exp(told) + arrays["floor"] if arrays["logarithmic"] else told
