"""Arrays as an ONNX model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from thresher.errors import NotAvailable
from thresher.export.arrays import NOTHING, SEGMENTS, Arrays
from thresher.output import writing

__all__ = ["to_onnx"]

_OPSET = 17
Step = tuple[str, list[str], str, dict[str, Any]]  # of an ONNX graph: operator, inputs, name of the result, attributes


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
