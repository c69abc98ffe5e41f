"""Arrays as an ONNX model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from thresher.errors import not_installed
from thresher.export.arrays import NOTHING, SEGMENTS, Arrays
from thresher.output import writing

__all__ = ["to_onnx"]

_OPSET = 17
Step = tuple[str, list[str], str, dict[str, Any]]  # of an ONNX graph: operator, inputs, name of the result, attributes


def to_onnx(arrays: Arrays, path: str | Path | None) -> Any:
    """Return an ONNX model that maps ``X`` (k, d), in the precision of the arrays, to ``outputs`` (k, outputs).

    A classifier's has ``label`` (k,), ``probabilities`` (k, classes) and ``scores`` instead. With a path it is also
    written there, under a temporary name first.
    """
    try:
        from onnx import checker, helper, numpy_helper
    except ImportError as error:
        raise not_installed("to_onnx needs onnx", extra="onnx") from error
    constants, steps = _constants(arrays), _steps(arrays)
    kind = helper.np_dtype_to_tensor_dtype(arrays["hidden"].dtype)
    columns = len(arrays["fill"] if "fill" in arrays else arrays["input_mean"])
    used = {one for _, inputs, _, _ in steps for one in inputs}
    graph = helper.make_graph(
        [helper.make_node(operator, inputs, [name], **more) for operator, inputs, name, more in steps],
        "thresher",
        [helper.make_tensor_value_info("X", kind, [None, columns])],
        [helper.make_tensor_value_info(name, number, [None, *shape]) for name, number, shape in _results(arrays)],
        [numpy_helper.from_array(value, name) for name, value in constants.items() if name in used],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", _OPSET)], ir_version=8)
    checker.check_model(model)
    if path is not None:
        with writing(Path(path)) as unfinished:
            unfinished.write_bytes(model.SerializeToString())
    return model


def _constants(arrays: Arrays) -> dict[str, Any]:
    """Return what stands in the graph as numbers, by name."""
    kind = arrays["hidden"].dtype
    left_out = ("hidden", "apart", "coefficients", "classes", "rest", "logarithmic", "multilabel", *SEGMENTS)
    found = {
        **{name: np.asarray(value) for name, value in arrays.items() if name not in left_out},
        **{name: arrays[name][None] for name in SEGMENTS},
        "last": arrays["last"].reshape(1, -1),
        "back": arrays["metric"].T.copy(),
        "last_axis": np.array([-1]),
        "middle_axis": np.array([1]),
        "zero": np.zeros((1, 1), kind),
        "one": np.ones((1, 1), kind),
        "nothing": np.full((1, 1), NOTHING, kind),
        "halves": np.array([[-0.5, 0.5]], kind),
        "above": -arrays["shift"].reshape(1),
        "below": arrays["shift"].reshape(1),
    }
    if "classes" in arrays:
        labels = arrays["classes"]
        found["classes"] = labels.astype(object) if labels.dtype.kind == "U" else labels
    twins = bool(arrays["apart"].shape[1])
    for place, hidden in enumerate(arrays["hidden"]):
        found[f"hidden{place}"] = (-hidden if twins else hidden).T.copy()
        found[f"coefficients{place}"] = arrays["coefficients"][place][:, None].copy()
        if twins:
            found[f"apart{place}"] = arrays["apart"][place].T.copy()
    return found


def _results(arrays: Arrays) -> list[tuple[str, int, list[int | None]]]:
    """Return the names, types and further sizes of what a graph returns."""
    from onnx import TensorProto, helper

    kind, outputs = helper.np_dtype_to_tensor_dtype(arrays["hidden"].dtype), len(arrays["hidden"])
    if "classes" not in arrays:
        return [("outputs", kind, [outputs])]
    labels = arrays["classes"].dtype
    label = TensorProto.STRING if labels.kind == "U" else helper.np_dtype_to_tensor_dtype(labels)
    if arrays["multilabel"]:
        label = TensorProto.INT64
    shape: list[int | None] = [outputs] if arrays["multilabel"] else []
    return [
        ("label", label, shape),
        ("probabilities", kind, [len(arrays["classes"])]),
        ("scores", kind, [outputs]),
    ]


def _steps(arrays: Arrays) -> list[Step]:
    """Return what an ONNX graph does, in order."""
    begin, raw = _filling_steps(arrays)
    rows, steps = _row_steps(arrays)
    outputs = range(len(arrays["hidden"]))
    return [
        *begin,
        *_column_steps(raw),
        *steps,
        ("Abs", [rows], "sizes", {}),
        ("ReduceMax", ["sizes"], "largest", {"axes": [1], "keepdims": 1}),
        ("Div", [rows, "largest"], "small", {}),
        ("Mul", ["small", "small"], "squares", {}),
        ("ReduceSum", ["squares", "last_axis"], "length2", {"keepdims": 1}),
        ("Sqrt", ["length2"], "length", {}),
        ("Div", ["small", "length"], "inputs", {}),
        *(step for place in outputs for step in _neuron_steps(place, twins=bool(arrays["apart"].shape[1]))),
        ("Concat", [f"raw{place}" for place in outputs], "raw", {"axis": 1}),
        ("Mul", ["raw", "unit"], "stretched", {}),
        ("Add", ["stretched", "mean"], "told", {}),
        ("Exp" if arrays["logarithmic"] else "Identity", ["told"], "above_floor", {}),
        ("Add", ["above_floor", "floor"], "scores" if "classes" in arrays else "outputs", {}),
        *_class_steps(arrays),
    ]


def _neuron_steps(place: int, *, twins: bool) -> list[Step]:
    """Return how unit-norm ``inputs`` become the raw output (k, 1) of one network."""
    hidden, more = ["inputs", f"hidden{place}"], {"alpha": 1.0}
    if not twins:
        return [
            ("Gemm", [*hidden, "above"], f"margins{place}", more),
            ("Relu", [f"margins{place}"], f"active{place}", {}),
            ("MatMul", [f"active{place}", f"coefficients{place}"], f"raw{place}", {}),
        ]
    return [
        ("Gemm", [*hidden, "below"], f"below{place}", more),
        ("MatMul", ["inputs", f"apart{place}"], f"difference{place}", {}),
        ("Max", [f"difference{place}", f"below{place}"], f"larger{place}", {}),
        ("Relu", [f"below{place}"], f"silent{place}", {}),
        ("Sub", [f"larger{place}", f"silent{place}"], f"active{place}", {}),
        ("MatMul", [f"active{place}", f"coefficients{place}"], f"raw{place}", {}),
    ]


def _class_steps(arrays: Arrays) -> list[Step]:
    """Return how ``scores`` become labels and probabilities; nothing for a regressor."""
    if "classes" not in arrays:
        return []
    from onnx import TensorProto

    if arrays["multilabel"]:
        return [
            ("Greater", ["scores", "zero"], "positive", {}),
            ("Cast", ["positive"], "label", {"to": TensorProto.INT64}),
            ("Mul", ["scores", "temperature"], "scaled_scores", {}),
            ("Sigmoid", ["scaled_scores"], "probabilities", {}),
        ]
    alone = arrays["hidden"].shape[0] == 1
    both = "both" if alone else "scores"
    return [
        *([("Mul", ["scores", "halves"], "both", {})] if alone else []),
        ("ArgMax", [both], "best", {"axis": 1, "keepdims": 0}),
        ("Gather", ["classes", "best"], "label", {}),
        ("Mul", [both, "temperature"], "scaled_scores", {}),
        ("Softmax", ["scaled_scores"], "probabilities", {"axis": 1}),
    ]


def _filling_steps(arrays: Arrays) -> tuple[list[Step], str]:
    """Return how missing numbers of ``X`` are replaced and told, and the name of the result."""
    if "source" not in arrays:
        return [], "X"
    return [
        ("IsNaN", ["X"], "missing", {}),
        ("Where", ["missing", "fill", "X"], "filled", {}),
        ("Gather", ["filled", "source"], "values", {"axis": 1}),
        ("Where", ["missing", "one", "zero"], "flags", {}),
        ("Gather", ["flags", "source"], "told_missing", {"axis": 1}),
        ("Where", ["indicator", "told_missing", "values"], "encoded", {}),
    ], "encoded"


def _column_steps(raw: str) -> list[Step]:
    """Return how raw columns become weighed ones, ``weighed``."""
    return [
        ("Max", [raw, "input_low"], "above_low", {}),
        ("Min", ["above_low", "input_high"], "inside", {}),
        ("Sub", [raw, "inside"], "out", {}),
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
            ("MatMul", ["turned", "back"], "spanned", {}),
            ("Sub", ["weighed", "spanned"], "outside", {}),
            ("Mul", ["outside", "outside"], "outside2", {}),
            ("ReduceSum", ["outside2", "last_axis"], "lost2", {"keepdims": 1}),
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
