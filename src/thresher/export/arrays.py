"""A network, or an estimator, as plain arrays, and what they mean.

Missing numbers are replaced, and told by columns of their own, if the estimator was fitted to some. Columns are pulled
in beyond their bounds, bent at knots and scaled; rows are multiplied by weights and metric, given the length that the
metric loses (if ``rest`` is 1) and a bias coordinate, and divided by their norms. Then output k is
mean_k + unit_k sum over r of coefficients[k, r] a_r, or floor_k plus the exponential of that if it is logarithmic.

A neuron has a_r = max(<hidden[k, r], x> - shift, 0). A pair of twins, whose outputs nearly cancel, has
a_r = max(<apart[k, r], x>, q) - max(q, 0) with q = shift - <hidden[k, r], x>: the difference of the two, in which no
large numbers cancel, so that single precision will do. A network without an estimator takes rows of norm 1 as they are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["NOTHING", "SEGMENTS", "Arrays", "Neurons", "bends", "classify_arrays", "make_arrays", "outputs_of",
           "predict_arrays", "with_precision"]  # fmt: skip

Arrays = dict[str, NDArray[Any]]
NOTHING = 1e-12  # share of a squared length that rounding leaves
SEGMENTS = ("segment_begin", "segment_slope", "segment_low", "segment_high")


class Neurons(NamedTuple):
    """The neurons (k,) of an output, or its pairs of twins: then ``hidden`` (k, d) is the one with a negative factor.

    ``apart`` (k, d) is what the other twin has more; (0, d) for single neurons.
    """

    hidden: NDArray[np.float64]
    apart: NDArray[np.float64]
    coefficients: NDArray[np.float64]
    shift: float
    offset: float  # added to every output


def make_arrays(outputs: Sequence[Neurons], **more: NDArray[Any]) -> Arrays:
    """Return the arrays of neurons of each output, on rows (k, d) of norm 1; ``more`` replaces some of them.

    Outputs with fewer neurons than others, or with none, are filled up with coefficients 0. Cost: O(md) per output.
    """
    most, inside = max(1, *(len(one.hidden) for one in outputs)), outputs[0].hidden.shape[1]
    hidden, apart = np.zeros((2, len(outputs), most, inside))
    coefficients = np.zeros((len(outputs), most))
    for place, one in enumerate(outputs):
        hidden[place, : len(one.hidden)], apart[place, : len(one.apart)] = one.hidden, one.apart
        coefficients[place, : len(one.hidden)] = one.coefficients
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
        "apart": apart if any(len(one.apart) for one in outputs) else apart[:, :0],
        "shift": np.array(outputs[0].shift),
        "coefficients": coefficients,
        "mean": np.array([one.offset for one in outputs]),
        "unit": np.ones(len(outputs)),
        "logarithmic": np.array(0.0),
        "floor": np.zeros(len(outputs)),
    }
    return {**plain, **more}


def with_precision(arrays: Arrays, dtype: Any) -> Arrays:
    """Return the arrays with their numbers in single or double precision; labels and places stay what they are."""
    return {name: one.astype(dtype) if one.dtype.kind == "f" and name != "classes" else one
            for name, one in arrays.items()}  # fmt: skip


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


def predict_arrays(arrays: Arrays, X: NDArray[Any]) -> NDArray[Any]:
    """Return what exported arrays predict for raw rows (k, d): (k, outputs), of a classifier the scores.

    NumPy alone, in the precision of the arrays; memory O(km).
    """
    found: NDArray[Any] = outputs_of(np, arrays, np.asarray(X, arrays["hidden"].dtype))
    return found


def outputs_of(xp: Any, arrays: Mapping[str, Any], X: Any) -> Any:
    """Return the outputs (k, outputs) for raw rows (k, d): ``xp`` is NumPy, or torch with its tensors as arrays."""
    rows = _inputs(xp, arrays, X)
    outputs = []
    for hidden, apart, coefficients in zip(arrays["hidden"], arrays["apart"], arrays["coefficients"], strict=True):
        if len(apart):
            below = arrays["shift"] - rows @ hidden.T
            active = xp.maximum(rows @ apart.T, below)
            active -= xp.clip(below, 0, None)
        else:
            active = xp.clip(rows @ hidden.T - arrays["shift"], 0, None)
        outputs.append(active @ coefficients)
    told = xp.stack(outputs, axis=1) * arrays["unit"] + arrays["mean"]
    return xp.exp(told) + arrays["floor"] if arrays["logarithmic"] else told


def classify_arrays(arrays: Arrays, X: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return the labels (k,) and the probabilities (k, classes) that exported arrays of a classifier give rows (k, d).

    For several labels per row, both are (k, labels).
    """
    scores, temperature = predict_arrays(arrays, X), arrays["temperature"]
    if arrays["multilabel"]:
        return (scores > 0).astype(np.int64), 1 / (1 + np.exp(-temperature * scores))
    both = np.hstack([-scores / 2, scores / 2]) if scores.shape[1] == 1 else scores
    powers = np.exp(temperature * (both - both.max(axis=1, keepdims=True)))
    return arrays["classes"][both.argmax(axis=1)], powers / powers.sum(axis=1, keepdims=True)


def _inputs(xp: Any, arrays: Mapping[str, Any], X: Any) -> Any:
    """Return the unit-norm inputs of raw rows (k, d)."""
    if "source" in arrays:
        missing = xp.isnan(X)
        filled = xp.where(missing, arrays["fill"], X)[:, arrays["source"]]
        X = xp.where(arrays["indicator"], missing[:, arrays["source"]], filled)
    inside = xp.clip(X, arrays["input_low"], arrays["input_high"])
    out, soft = X - inside, arrays["input_soft"]
    pulled = inside + xp.sign(out) * soft * xp.log1p(xp.abs(out) / soft)
    bent = arrays["first_level"] + xp.zeros_like(pulled)
    for begin, slope, low, high in zip(*(arrays[name] for name in SEGMENTS), strict=True):
        bent = bent + slope * xp.clip(pulled - begin, low, high)
    weighed = (bent - arrays["input_mean"]) / arrays["input_unit"] * arrays["weights"]
    rows = weighed @ arrays["metric"]
    if arrays["rest"]:  # the columns of the metric are orthonormal
        whole, lost = (weighed**2).sum(axis=1), ((weighed - rows @ arrays["metric"].T) ** 2).sum(axis=1)
        rows = xp.hstack([rows, xp.sqrt(xp.where(lost > NOTHING * whole, lost, 0))[:, None]])
    rows = xp.hstack([rows, xp.broadcast_to(arrays["last"], (len(rows), len(arrays["last"])))])
    rows = rows / xp.amax(xp.abs(rows), axis=1, keepdims=True)  # so that squares do not overflow
    return rows / xp.linalg.norm(rows, axis=1, keepdims=True)
