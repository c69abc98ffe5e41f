"""Arrays as an ONNX model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from thresher.errors import not_installed
from thresher.export.arrays import Arrays, shifts_of
from thresher.export.graph import Graph
from thresher.export.limit_graph import add_limit
from thresher.export.rows_graph import add_columns, add_inputs
from thresher.export.table_graph import Table, add_table
from thresher.output import writing

__all__ = ["to_onnx"]

_RESULTS = ("outputs", "label", "probabilities", "scores")


def to_onnx(arrays: Arrays, path: str | Path | None, table: Table | None = None) -> Any:
    """Return an ONNX model that maps ``X`` (k, d), in the precision of the arrays, to ``outputs`` (k, outputs).

    Of a ``table``, the name of each column and what was learnt of it, there is an input (k, 1) for each column instead.
    A classifier's has ``label`` (k,), ``probabilities`` (k, classes) and ``scores`` instead. With a path it is also
    written there, under a temporary name first. A result that has the name of a column gets an underscore.
    """
    try:
        from onnx import TensorProto, checker, helper, numpy_helper
    except ImportError as error:
        raise not_installed("to_onnx needs onnx", extra="onnx") from error
    graph, arrays = Graph(arrays["mean"].dtype, taken=[one[0] for one in table or ()]), _in_units(arrays)
    kind = helper.np_dtype_to_tensor_dtype(graph.dtype)
    if table is None:
        inputs, X = [helper.make_tensor_value_info("X", kind, [None, int(arrays["columns"])])], graph.long("X")
        names = {one: one for one in _RESULTS}
    else:
        columns, X = add_table(graph, table)
        inputs = [
            helper.make_tensor_value_info(one.name, TensorProto.STRING if one.text else kind, [None, 1], one.words)
            for one in columns
        ]
        names = {one: _free(one, {each.name for each in columns}) for one in _RESULTS}
    _add_outputs(graph, arrays, add_columns(graph, arrays, X), names)
    told = _results(arrays)
    results = [helper.make_tensor_value_info(names[name], number, [None, *shape]) for name, number, shape in told]
    constants = [numpy_helper.from_array(value, name) for name, value in graph.constants.items()]
    made = helper.make_graph(graph.nodes, "thresher", inputs, results, constants)
    domains = [helper.make_opsetid(*one) for one in graph.domains.items()]
    model = helper.make_model(made, opset_imports=domains, ir_version=9)
    checker.check_model(model)
    if path is not None:
        with writing(Path(path)) as unfinished:
            unfinished.write_bytes(model.SerializeToString())
    return model


def _free(name: str, taken: set[str]) -> str:
    """Return a name that is not taken: this one, or with underscores behind it."""
    while name in taken:
        name += "_"
    return name


def _in_units(arrays: Arrays) -> Arrays:
    """Return the arrays with units, and the largest factor of the kernel, multiplied into coefficients.

    A number beside a product of matrices becomes a part of that step in onnxruntime, which rounds the number.
    """
    made, unit = dict(arrays), arrays["unit"]
    if "parts" in arrays:
        most = arrays["parts"].max()
        made |= {"parts": arrays["parts"] / most, "alpha": arrays["alpha"] * most}
    for name in {"coefficients", "alpha", "knot_slopes", "first_values"} & set(made):
        made[name] = made[name] * (unit[:, None] if name == "coefficients" else unit)
    return made


def _results(arrays: Arrays) -> list[tuple[str, int, list[int | None]]]:
    """Return the names, types and further sizes of what a graph returns."""
    from onnx import TensorProto, helper

    kind, outputs = helper.np_dtype_to_tensor_dtype(arrays["mean"].dtype), len(arrays["mean"])
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


def _add_outputs(graph: Graph, arrays: Arrays, columns: str, names: dict[str, str]) -> None:
    """Add what is predicted from columns of numbers (k, d), under these names."""
    if "stored" in arrays:
        raw = add_limit(graph, arrays, columns)
    else:
        raw = _add_neurons(graph, arrays, graph.short(add_inputs(graph, arrays, columns)))
    last, mean = names["scores" if "classes" in arrays else "outputs"], graph.put(arrays["mean"])
    if not arrays["logarithmic"]:
        graph("Add", raw, mean, name=last)
    else:
        graph("Add", graph("Exp", graph("Add", raw, mean)), graph.put(arrays["floor"]), name=last)
    if "classes" in arrays:
        _add_classes(graph, arrays, names)


def _add_neurons(graph: Graph, arrays: Arrays, inputs: str) -> str:
    """Return what the neurons of each output say (k, outputs) of rows of norm 1."""
    found, twins = [], bool(arrays["apart"].shape[1])
    outputs = zip(arrays["hidden"], arrays["apart"], arrays["coefficients"], shifts_of(arrays), strict=True)
    for hidden, apart, coefficients, one in outputs:
        shift = graph.put(one)
        product = graph("MatMul", inputs, graph.put(hidden.T))
        if twins:
            below = graph("Sub", shift, product)
            larger = graph("Max", graph("MatMul", inputs, graph.put(apart.T)), below)
            active = graph("Sub", larger, graph("Relu", below))
        else:
            active = graph("Relu", graph("Sub", product, shift))
        found.append(graph("MatMul", active, graph.put(coefficients[:, None])))
    return found[0] if len(found) == 1 else graph("Concat", *found, axis=1)


def _add_classes(graph: Graph, arrays: Arrays, names: dict[str, str]) -> None:
    """Add how scores become labels and probabilities."""
    scores = names["scores"]
    temperature = graph.put(arrays["temperature"])
    if arrays["multilabel"]:
        from onnx import TensorProto

        graph("Cast", graph("Greater", scores, graph.number(0)), name=names["label"], to=TensorProto.INT64)
        graph("Sigmoid", graph("Mul", scores, temperature), name=names["probabilities"])
        return
    both = scores
    if len(arrays["mean"]) == 1:
        both = graph("Mul", scores, graph.put(np.array([[-0.5, 0.5]], graph.dtype)))
    best = graph("ArgMax", both, axis=1, keepdims=0)
    graph("Gather", graph.put(arrays["classes"]), best, name=names["label"])
    graph("Softmax", graph("Mul", both, temperature), name=names["probabilities"], axis=1)
