"""Fitted estimators for other programs: plain arrays, torch, ONNX. All compute in double precision.

Rows are scaled, multiplied by the metric, given a bias coordinate and divided by their norms; then output k is
mean_k + unit_k sum over r of coefficients[k, r] max(<hidden[k, r], x> - shift, 0), or floor_k plus the
exponential of that if it is logarithmic. What twins say nearly cancels, and the rest is multiplied by the gain: single
precision would not do.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thresher.errors import InvalidInput, NotAvailable
from thresher.output import writing

__all__ = ["predict_arrays", "to_numpy", "to_onnx", "to_torch"]

Arrays = dict[str, NDArray[np.float64]]
_OPSET = 17


def to_numpy(estimator: Any, *, mean: NDArray[np.float64], unit: NDArray[np.float64]) -> Arrays:
    """Return the arrays of a fitted estimator; :func:`predict_arrays` shows what they mean.

    Twins that never moved cancel and are dropped: this is the compact form. Outputs with fewer neurons than others, or
    with none, are filled up with coefficients 0. Cost: O(md) an output.
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
    metric = np.eye(lift.n_features_in_) if lift.metric is None else np.asarray(lift.metric, np.float64)
    return {
        "input_mean": lift.scaling_.mean,
        "input_unit": lift.scaling_.unit,
        "metric": metric,
        "last": np.array([lift.last_] if lift.bias else []),
        "hidden": hidden,
        "shift": np.array(estimator.shift_),
        "coefficients": coefficients,
        "mean": mean,
        "unit": unit,
        "logarithmic": np.array(float(estimator._floor is not None)),
        "floor": np.zeros_like(mean) if estimator._floor is None else estimator._floor,
    }


def predict_arrays(arrays: Arrays, X: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return what exported arrays say to raw rows (k, d): (k, outputs). NumPy alone; memory O(km)."""
    rows = (X - arrays["input_mean"]) / arrays["input_unit"] @ arrays["metric"]
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
    """Return a ``torch.nn.Module`` in double precision that takes raw rows (k, d) and gives (k, outputs)."""
    try:
        from thresher.estimators.torch_module import Model
    except ImportError as error:
        raise NotAvailable("to_torch needs torch. Install it with: pip install 'thresher[torch]'") from error
    return Model(arrays)


def to_onnx(arrays: Arrays, path: str | Path | None) -> Any:
    """Return an ONNX model that takes ``X`` (k, d) in double precision and gives ``outputs`` (k, outputs).

    With a path it is written there as well, under another name first.
    """
    try:
        from onnx import TensorProto, checker, helper, numpy_helper
    except ImportError as error:
        raise NotAvailable("to_onnx needs onnx. Install it with: pip install 'thresher[onnx]'") from error
    outputs, most, dimension = arrays["hidden"].shape
    constants = {
        **{
            name: np.asarray(arrays[name])
            for name in ("input_mean", "input_unit", "metric", "shift", "mean", "unit", "floor")
        },
        "last": arrays["last"].reshape(1, -1),
        "hidden": arrays["hidden"].reshape(outputs * most, dimension).T.copy(),
        "coefficients": arrays["coefficients"],
        "by_output": np.array([-1, outputs, most]),
        "last_axis": np.array([-1]),
        "zero": np.zeros((1, 1)),
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


def _steps(arrays: Arrays) -> list[tuple[str, list[str], str, dict[str, Any]]]:
    """Return what an ONNX graph does, in order: operator, inputs, name of the result, attributes."""
    rows = "longer" if len(arrays["last"]) else "weighed"
    bias: list[tuple[str, list[str], str, dict[str, Any]]] = [
        ("ReduceSum", ["weighed", "last_axis"], "sums", {"keepdims": 1}),
        ("Mul", ["sums", "zero"], "column", {}),
        ("Add", ["column", "last"], "bias", {}),
        ("Concat", ["weighed", "bias"], "longer", {"axis": 1}),
    ]
    return [
        ("Sub", ["X", "input_mean"], "centred", {}),
        ("Div", ["centred", "input_unit"], "scaled", {}),
        ("MatMul", ["scaled", "metric"], "weighed", {}),
        *(bias if rows == "longer" else []),
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
