"""A network, or an estimator, as plain arrays, and what they mean.

Missing numbers are replaced, and told by columns of their own, if the estimator was fitted to some. Columns are pulled
in beyond their bounds, bent at knots and scaled; rows are multiplied by the metric, given the length that this
loses (if ``rest`` is 1) and a bias coordinate, and divided by their norms. Then output k is
mean_k + unit_k sum over r of coefficients[k, r] a_r, or floor_k plus the exponential of that if it is logarithmic.

A neuron has a_r = max(<hidden[k, r], x> - shift, 0), with one shift for all or shift[k, r] for each. A pair of twins,
whose outputs nearly cancel, has
a_r = max(<apart[k, r], x>, q) - max(q, 0) with q = shift - <hidden[k, r], x>: the difference of the two, in which no
large numbers cancel, so that single precision will do. A network without an estimator takes rows of norm 1 as they are.

The limit of infinite width has no neurons. In the place of the sum over them stands that over stored rows z_r of
alpha[r, k] K(x, z_r). K is rho P(rho) for the product rho of the two rows, with P a table of cubics of the fourth root
of 1 - |rho|; or a sum of parts, which see the angles and codes of single columns. Columns are prepared in double
precision, whatever the precision of the rest.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["NOTHING", "SEGMENTS", "Arrays", "Neurons", "bends", "block_rows", "classify_arrays", "limit_arrays",
           "make_arrays", "outputs_of", "predict_arrays", "shifts_of", "with_precision"]  # fmt: skip

Arrays = dict[str, NDArray[Any]]
NOTHING = 1e-12  # share of a squared length that rounding leaves
SEGMENTS = ("segment_begin", "segment_slope", "segment_low", "segment_high")
# What is stored, and added up, in the precision that was asked for; what prepares columns and rows stays in double.
_SHORT = ("hidden", "apart", "coefficients", "shift", "stored", "alpha", "stored_angles", "cubics", "layer_cubics",
          "parts", "metric", "mean", "unit", "floor", "temperature")  # fmt: skip
_BLOCK = 1 << 18  # numbers of a block of the kernel
# What rounding leaves of 1 - |rho| for equal rows, and what then stands there, so that its root has a slope.
_EQUAL, _NEAREST = 1e-15, 1e-24


class Neurons(NamedTuple):
    """The neurons (k,) of an output, or its pairs of twins: then ``hidden`` (k, d) is the one with a negative factor.

    ``apart`` (k, d) is what the other twin has more; (0, d) for single neurons.
    """

    hidden: NDArray[np.float64]
    apart: NDArray[np.float64]
    coefficients: NDArray[np.float64]
    shift: float | NDArray[np.float64]  # of all, or of each (k,)
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
    apart = apart if any(len(one.apart) for one in outputs) else apart[:, :0]
    shift = np.array(outputs[0].shift)
    if shift.ndim:
        shift = np.zeros((len(outputs), most))
        for place, one in enumerate(outputs):
            shift[place, : len(one.hidden)] = one.shift
    own = {"hidden": hidden, "apart": apart, "shift": shift, "coefficients": coefficients}
    offsets = np.array([one.offset for one in outputs])
    d = len(more.get("input_mean", hidden[0, 0]))
    return {**_plain_columns(d), **_plain_outputs(len(outputs)), "mean": offsets, **own, **more}


def shifts_of(arrays: Mapping[str, Any]) -> Any:
    """Return the shift, or shifts (r,), of the neurons of each output."""
    shift = arrays["shift"]
    return shift if shift.ndim else [shift] * len(arrays["hidden"])


def limit_arrays(stored: NDArray[np.float64], alpha: NDArray[np.float64], **more: NDArray[Any]) -> Arrays:
    """Return the arrays of the limit: stored rows (n, r) of norm 1 and coefficients (n, k); ``more`` is as above."""
    own = {"stored": stored, "shrink": np.ones(len(stored)), "alpha": alpha}
    return {**_plain_columns(len(more["input_mean"])), **_plain_outputs(alpha.shape[1]), **own, **more}


def _plain_columns(d: int) -> Arrays:
    """Return what leaves d columns as they are."""
    return {
        "columns": np.array(d),
        "input_low": np.full(d, -np.inf),
        "input_high": np.full(d, np.inf),
        "input_soft": np.ones(d),
        **bends(None, d),
        "input_mean": np.zeros(d),
        "input_unit": np.ones(d),
        "metric": np.eye(d),
        "rest": np.array(0.0),
        "last": np.array([]),
    }


def _plain_outputs(outputs: int) -> Arrays:
    return {
        "mean": np.zeros(outputs),
        "unit": np.ones(outputs),
        "logarithmic": np.array(0.0),
        "floor": np.zeros(outputs),
    }


def with_precision(arrays: Arrays, dtype: Any) -> Arrays:
    """Return the arrays in single or double precision; labels, places and what prepares columns stay what they are."""
    made = {name: one.astype(dtype) if name in _SHORT else one for name, one in arrays.items()}
    if "stored" in made:  # rounded rows are not quite of norm 1, and a row must find itself
        made["shrink"] = 1 / np.maximum(np.linalg.norm(made["stored"].astype(np.float64), axis=1), NOTHING)
    return made


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

    NumPy alone, in the precision of the arrays; memory O(km) for neurons, that of a block for the limit.
    """
    found: NDArray[Any] = outputs_of(np, arrays, np.asarray(X))
    return found


def outputs_of(xp: Any, arrays: Mapping[str, Any], X: Any) -> Any:
    """Return the outputs (k, outputs) for raw rows (k, d): ``xp`` is NumPy, or torch with its tensors as arrays."""
    columns = _columns(xp, arrays, _cast(X, xp.float64))
    rows = _rows(xp, arrays, columns)
    if "stored" in arrays:
        raw = _limit(xp, arrays, rows, _angles(xp, arrays, columns))
    else:
        raw = _active(xp, arrays, _cast(_lifted(xp, rows, arrays["last"]), arrays["hidden"].dtype))
    told = raw * arrays["unit"] + arrays["mean"]
    return xp.exp(told) + arrays["floor"] if arrays["logarithmic"] else told


def _cast(values: Any, dtype: Any) -> Any:
    """Return an array, or a tensor with its gradient, in another precision."""
    return values.to(dtype) if hasattr(values, "to") else values.astype(dtype, copy=False)


def _active(xp: Any, arrays: Mapping[str, Any], rows: Any) -> Any:
    """Return what the neurons of each output say (k, outputs) of rows of norm 1."""
    outputs = []
    parts = zip(arrays["hidden"], arrays["apart"], arrays["coefficients"], shifts_of(arrays), strict=True)
    for hidden, apart, coefficients, shift in parts:
        if len(apart):
            below = shift - rows @ hidden.T
            active = xp.maximum(rows @ apart.T, below)
            active -= xp.clip(below, 0, None)
        else:
            active = xp.clip(rows @ hidden.T - shift, 0, None)
        outputs.append(active @ coefficients)
    return xp.stack(outputs, axis=1)


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


def _columns(xp: Any, arrays: Mapping[str, Any], X: Any) -> Any:
    """Return raw rows (k, d) as columns of numbers: none missing, and with the indicators of whole numbers."""
    if "source" in arrays:
        missing = xp.isnan(X)
        filled = xp.where(missing, arrays["fill"], X)[:, arrays["source"]]
        X = xp.where(arrays["indicator"], missing[:, arrays["source"]], filled)
    if "indicated" in arrays:
        X = xp.hstack([X[:, arrays["kept"]], X[:, arrays["indicated"]] == arrays["indicated_values"]])
    return X


def _scaled(xp: Any, arrays: Mapping[str, Any], X: Any, which: str = "") -> Any:
    """Return scaled columns (k, d): pulled in, bent, centred; ``which`` is before the names of the arrays."""
    inside = xp.clip(X, arrays[f"{which}input_low"], arrays[f"{which}input_high"])
    out, soft = X - inside, arrays[f"{which}input_soft"]
    pulled = inside + xp.sign(out) * soft * xp.log1p(xp.abs(out) / soft)
    bent = arrays[f"{which}first_level"] + xp.zeros_like(pulled)
    for begin, slope, low, high in zip(*(arrays[which + name] for name in SEGMENTS), strict=True):
        bent = bent + slope * xp.clip(pulled - begin, low, high)
    return (bent - arrays[f"{which}input_mean"]) / arrays[f"{which}input_unit"]


def _rows(xp: Any, arrays: Mapping[str, Any], columns: Any) -> Any:
    """Return the coordinates of rows before they are lifted, from columns (k, d)."""
    scaled, metric = _scaled(xp, arrays, columns), _cast(arrays["metric"], xp.float64)
    rows = scaled @ metric
    if arrays["rest"]:  # the columns of the metric are orthonormal
        whole, lost = (scaled**2).sum(axis=1), ((scaled - rows @ metric.T) ** 2).sum(axis=1)
        there = lost > NOTHING * whole
        rows = xp.hstack([rows, xp.where(there, xp.sqrt(xp.where(there, lost, 1)), 0)[:, None]])  # 0 has no slope
    return rows


def _lifted(xp: Any, rows: Any, last: Any) -> Any:
    """Return rows (k, r) with the bias coordinate ``last`` (1,), or none (0,), divided by their norms."""
    rows = xp.hstack([rows, xp.broadcast_to(last, (len(rows), len(last)))])
    rows = rows / xp.amax(xp.abs(rows), axis=1, keepdims=True)  # so that squares do not overflow
    return rows / xp.linalg.norm(rows, axis=1, keepdims=True)


def _angles(xp: Any, arrays: Mapping[str, Any], columns: Any) -> Any:
    """Return the angles and codes (k, u) of single columns, from columns (k, d); (k, 0) without parts."""
    if "parts" not in arrays:
        return columns[:, :0]
    scaled = _scaled(xp, arrays, columns[:, arrays["angle_columns"]], "angle_")
    return xp.hstack([xp.arctan2(xp.ones_like(scaled), scaled), columns @ _cast(arrays["codes"], xp.float64)])


def block_rows(arrays: Mapping[str, Any]) -> int:
    """Return how many rows go through the kernel at a time."""
    seen = arrays["stored_angles"].shape[1] if "parts" in arrays else 1
    return max(1, min(256, _BLOCK // max(1, len(arrays["stored"]) * seen)))


def _limit(xp: Any, arrays: Mapping[str, Any], rows: Any, angles: Any) -> Any:
    """Return the outputs (k, outputs) of the limit for rows (k, r) that are not lifted yet, a block at a time."""
    size, found = block_rows(arrays), [arrays["alpha"][:0]]
    inputs, alpha = _lifted(xp, rows, arrays["last"]), _cast(arrays["alpha"], xp.float64)
    for first in range(0, len(rows), size):
        kernel = _kernel(xp, arrays, inputs[first : first + size], angles[first : first + size])
        found.append(_cast(_cast(kernel, xp.float64) @ alpha, kernel.dtype))  # large terms cancel
    return xp.vstack(found)


def _kernel(xp: Any, arrays: Mapping[str, Any], inputs: Any, angles: Any) -> Any:
    """Return the kernel (k, n) between inputs (k, r), of norm 1, with angles (k, u), and the stored rows."""
    kind = arrays["alpha"].dtype
    parts = [1.0, 0.0, 0.0, 0.0] if "parts" not in arrays else [float(one) for one in arrays["parts"]]
    total: Any = 0.0
    if parts[0]:
        rho = inputs @ _cast(arrays["stored"], xp.float64).T * arrays["shrink"]
        room = _cast(1 - xp.abs(rho), kind)  # in single precision the product would lose it
        total = parts[0] * _cast(rho, kind) * _together(xp, arrays["cubics"], room, rho < 0)
    if any(parts[1:]):
        others = arrays["stored_angles"].T
        away = xp.clip(xp.abs(_cast(angles, kind)[:, :, None] - others), None, np.pi)
        share, sine = away / np.pi, xp.sin(away / 2)
        lost = share + 2 * sine * sine * (1 - share)  # 1 less the kernel of a column
        count, sums, squares = len(others), lost.sum(axis=1), (lost**2).sum(axis=1)
        total = total + parts[1] * (count - sums) + parts[2] * ((count - sums) ** 2 - (count - 2 * sums + squares))
    if parts[3]:
        mean, share = 1 - sums / count, sums / count
        room = xp.where(mean < 0, 2 - share, share)
        total = total + 2 * parts[3] * mean * _together(xp, arrays["layer_cubics"], room, mean < 0)
    return total


def _together(xp: Any, cubics: Any, room: Any, opposite: Any) -> Any:
    """Return how likely a neuron fires on two rows: ``room`` is 1 - |rho|, ``opposite`` whether rho is below 0."""
    size = len(cubics) // 2
    place = xp.sqrt(xp.sqrt(xp.where(room > _EQUAL, room, _NEAREST))) * size
    node = xp.clip(xp.floor(place), None, size - 1)
    t, four = place - node, cubics[_cast(node, xp.int64) + xp.where(opposite, size, 0)]
    value = four[..., 0] + t * (four[..., 1] + t * (four[..., 2] + t * four[..., 3]))
    return xp.clip(value, 0, None)
