"""Fitted estimators for other programs: plain arrays, torch, ONNX. All compute in double precision.

Columns are pulled in beyond their bounds, bent at knots and scaled; rows are multiplied by weights and metric, given
the length lost by the metric (if ``rest`` is 1) and a bias coordinate, and divided by their norms; then output k is
mean_k + unit_k sum over r of coefficients[k, r] max(<hidden[k, r], x> - shift, 0), or floor_k plus the
exponential of that if it is logarithmic. The outputs of twins nearly cancel, and the rest is multiplied by the
gain, so single precision would not be enough.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thresher.errors import InvalidInput, NotAvailable
from thresher.estimators.lift import NOTHING
from thresher.output import writing

__all__ = ["predict_arrays", "to_numpy", "to_onnx", "to_torch"]

Arrays = dict[str, NDArray[np.float64]]
_OPSET = 17
SEGMENTS = ("segment_begin", "segment_slope", "segment_low", "segment_high")
Step = tuple[str, list[str], str, dict[str, Any]]  # of an ONNX graph: operator, inputs, name of the result, attributes


def to_numpy(estimator: Any, *, mean: NDArray[np.float64], unit: NDArray[np.float64]) -> Arrays:
    """Return the arrays of a fitted estimator; :func:`predict_arrays` shows what they mean.

    Twins that never moved cancel and are dropped: this is the compact form. Outputs with fewer neurons than others, or
    with none, are padded with coefficients 0. Cost: O(md) per output.
    """
    networks = estimator.networks_
    if not networks:
        raise InvalidInput("an infinite network has no neurons to export. Fit with a finite width.")
    parts = [network.compact() for network in networks]
    most = max(1, *(len(part.vectors) for part in parts))
    hidden = np.zeros((len(parts), most, networks[0].settings.start.dimension))
    coefficients = np.zeros((len(parts), most))
    for place, (part, gain) in enumerate(zip(parts, estimator.gains_, strict=True)):
        hidden[place, : len(part.vectors)] = part.vectors
        coefficients[place, : len(part.vectors)] = gain * part.coefficients
    lift = estimator.lift_
    scaling, d = lift.scaling_, lift.n_features_in_
    bounded = scaling.low is not None
    return {
        "input_low": scaling.low if bounded else np.full(d, -np.inf),
        "input_high": scaling.high if bounded else np.full(d, np.inf),
        "input_soft": scaling.soft if bounded else np.ones(d),
        **_bends(scaling.knots, d),
        "input_mean": scaling.mean,
        "input_unit": scaling.unit,
        "weights": np.ones(d) if lift.weights is None else np.asarray(lift.weights, np.float64),
        "metric": np.eye(d) if lift.metric is None else np.asarray(lift.metric, np.float64),
        "rest": np.array(float(lift.rest)),
        "last": np.array([lift.last_] if lift.bias else []),
        "hidden": hidden,
        "shift": np.array(estimator.shift_),
        "coefficients": coefficients,
        "mean": mean,
        "unit": unit,
        "logarithmic": np.array(float(estimator._floor is not None)),
        "floor": np.zeros_like(mean) if estimator._floor is None else estimator._floor,
    }


def _bends(knots: NDArray[np.float64] | None, columns: int) -> Arrays:
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
    """Return the outputs (k, outputs) of exported arrays for raw rows (k, d). Needs only NumPy; memory O(km)."""
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


def to_torch(arrays: Arrays) -> Any:
    """Return a ``torch.nn.Module`` in double precision that maps raw rows (k, d) to (k, outputs)."""
    try:
        from thresher.estimators.torch_module import Model
    except ImportError as error:
        raise NotAvailable("to_torch needs torch. Install it with: pip install 'thresher[torch]'") from error
    return Model(arrays)


def to_onnx(arrays: Arrays, path: str | Path | None) -> Any:
    """Return an ONNX model that maps ``X`` (k, d) in double precision to ``outputs`` (k, outputs).

    With a path it is also written there, under a temporary name first.
    """
    try:
        from onnx import TensorProto, checker, helper, numpy_helper
    except ImportError as error:
        raise NotAvailable("to_onnx needs onnx. Install it with: pip install 'thresher[onnx]'") from error
    outputs, most, dimension = arrays["hidden"].shape
    names = ["input_low", "input_high", "input_soft", "first_level", "input_mean", "input_unit", "weights"]
    names += ["metric", "shift", "mean", "unit", "floor"]
    constants = {
        **{name: np.asarray(arrays[name]) for name in names},
        **{name: arrays[name][None] for name in SEGMENTS},
        "last": arrays["last"].reshape(1, -1),
        "hidden": arrays["hidden"].reshape(outputs * most, dimension).T.copy(),
        "coefficients": arrays["coefficients"],
        "by_output": np.array([-1, outputs, most]),
        "last_axis": np.array([-1]),
        "middle_axis": np.array([1]),
        "zero": np.zeros((1, 1)),
        "one": np.ones((1, 1)),
        "nothing": np.full((1, 1), NOTHING),
    }
    steps = _steps(arrays)
    nodes = [helper.make_node(kind, inputs, [name], **more) for kind, inputs, name, more in steps]
    used = {one for _, inputs, _, _ in steps for one in inputs}
    graph = helper.make_graph(
        nodes,
        "thresher",
        [helper.make_tensor_value_info("X", TensorProto.DOUBLE, [None, len(arrays["input_mean"])])],
        [helper.make_tensor_value_info("outputs", TensorProto.DOUBLE, [None, outputs])],
        [numpy_helper.from_array(value, name) for name, value in constants.items() if name in used],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", _OPSET)], ir_version=8)
    checker.check_model(model)
    if path is not None:
        with writing(Path(path)) as unfinished:
            unfinished.write_bytes(model.SerializeToString())
    return model


def _steps(arrays: Arrays) -> list[Step]:
    """Return what an ONNX graph does, in order."""
    rows, steps = _row_steps(arrays)
    return [
        *_column_steps(),
        *steps,
        ("Abs", [rows], "sizes", {}),
        ("ReduceMax", ["sizes"], "largest", {"axes": [1], "keepdims": 1}),
        ("Div", [rows, "largest"], "small", {}),
        ("Mul", ["small", "small"], "squares", {}),
        ("ReduceSum", ["squares", "last_axis"], "length2", {"keepdims": 1}),
        ("Sqrt", ["length2"], "length", {}),
        ("Div", ["small", "length"], "inputs", {}),
        ("MatMul", ["inputs", "hidden"], "flat", {}),
        ("Reshape", ["flat", "by_output"], "preactivations", {}),
        ("Sub", ["preactivations", "shift"], "above", {}),
        ("Relu", ["above"], "active", {}),
        ("Mul", ["active", "coefficients"], "weighted", {}),
        ("ReduceSum", ["weighted", "last_axis"], "raw", {"keepdims": 0}),
        ("Mul", ["raw", "unit"], "stretched", {}),
        ("Add", ["stretched", "mean"], "told", {}),
        ("Exp" if arrays["logarithmic"] else "Identity", ["told"], "above_floor", {}),
        ("Add", ["above_floor", "floor"], "outputs", {}),
    ]


def _column_steps() -> list[Step]:
    """Return how raw columns ``X`` become weighed ones, ``weighed``."""
    return [
        ("Max", ["X", "input_low"], "above_low", {}),
        ("Min", ["above_low", "input_high"], "inside", {}),
        ("Sub", ["X", "inside"], "out", {}),
        ("Sign", ["out"], "side", {}),
        ("Abs", ["out"], "distance", {}),
        ("Div", ["distance", "input_soft"], "distances", {}),
        ("Add", ["distances", "one"], "more", {}),
        ("Log", ["more"], "logarithm", {}),
        ("Mul", ["logarithm", "input_soft"], "softened", {}),
        ("Mul", ["softened", "side"], "signed", {}),
        ("Add", ["inside", "signed"], "pulled", {}),
        ("Unsqueeze", ["pulled", "middle_axis"], "apart", {}),
        ("Sub", ["apart", "segment_begin"], "beyond", {}),
        ("Max", ["beyond", "segment_low"], "after", {}),
        ("Min", ["after", "segment_high"], "along", {}),
        ("Mul", ["along", "segment_slope"], "rises", {}),
        ("ReduceSum", ["rises", "middle_axis"], "risen", {"keepdims": 0}),
        ("Add", ["risen", "first_level"], "bent", {}),
        ("Sub", ["bent", "input_mean"], "centred", {}),
        ("Div", ["centred", "input_unit"], "scaled", {}),
        ("Mul", ["scaled", "weights"], "weighed", {}),
    ]


def _row_steps(arrays: Arrays) -> tuple[str, list[Step]]:
    """Return the name of rows with all their coordinates, and how they come from weighed columns."""
    rows, steps = "turned", list[Step]([("MatMul", ["weighed", "metric"], "turned", {})])
    if arrays["rest"]:
        steps += [
            ("Mul", ["weighed", "weighed"], "whole2", {}),
            ("ReduceSum", ["whole2", "last_axis"], "whole", {"keepdims": 1}),
            ("Mul", ["turned", "turned"], "kept2", {}),
            ("ReduceSum", ["kept2", "last_axis"], "kept", {"keepdims": 1}),
            ("Sub", ["whole", "kept"], "lost2", {}),
            ("Mul", ["whole", "nothing"], "rounding", {}),
            ("Greater", ["lost2", "rounding"], "counts", {}),
            ("Where", ["counts", "lost2", "zero"], "lost", {}),
            ("Sqrt", ["lost"], "rest", {}),
            ("Concat", ["turned", "rest"], "wider", {"axis": 1}),
        ]
        rows = "wider"
    if len(arrays["last"]):
        steps += [
            ("ReduceSum", [rows, "last_axis"], "sums", {"keepdims": 1}),
            ("Mul", ["sums", "zero"], "column", {}),
            ("Add", ["column", "last"], "bias", {}),
            ("Concat", [rows, "bias"], "longer", {"axis": 1}),
        ]
        rows = "longer"
    return rows, steps
