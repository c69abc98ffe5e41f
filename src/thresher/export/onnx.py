"""Arrays as an ONNX model: the steps of ``arrays.py``, in the same order.

Columns are prepared in double precision. So are products with stored rows, and what they leave of 1, which single
precision would lose near a stored row; terms of the limit are added up in double. The rest is in the precision of what
is stored. Of the limit, rows go through a block at a time.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thresher.errors import not_installed
from thresher.export.arrays import NOTHING, SEGMENTS, Arrays, block_rows, shifts_of
from thresher.export.graph import Graph
from thresher.export.table_graph import LearntColumns, add_table
from thresher.output import writing

__all__ = ["to_onnx"]

_RESULTS = ("outputs", "label", "probabilities", "scores")


def to_onnx(arrays: Arrays, path: str | Path | None, table: LearntColumns | None = None) -> Any:
    """Return an ONNX model that maps ``X`` (k, d), in the precision of the arrays, to ``outputs`` (k, outputs).

    Of a ``table``, the name of each column and what was learnt of it, there is an input (k, 1) for each column instead;
    the metadata of the model say what to give to each. A classifier's has ``label`` (k,), ``probabilities``
    (k, classes) and ``scores`` instead. With a path it is also written there, under a temporary name first. A result
    that has the name of a column gets an underscore.
    """
    try:
        from onnx import checker, helper, numpy_helper
    except ImportError as error:
        raise not_installed("to_onnx needs onnx", extra="onnx") from error
    graph, arrays = Graph(arrays["mean"].dtype, taken=[one[0] for one in table or ()]), _in_units(arrays)
    kind = helper.np_dtype_to_tensor_dtype(graph.dtype)
    if table is None:
        inputs, X = [helper.make_tensor_value_info("X", kind, [None, int(arrays["columns"])])], graph.long("X")
        names, given = {one: one for one in _RESULTS}, {"X": "numbers, the columns in order"}
    else:
        columns, X = add_table(graph, table)
        given = {one.name: one.words for one in columns}
        types = [helper.np_dtype_to_tensor_dtype(np.dtype(one.dtype)) for one in columns]
        both = zip(given.items(), types, strict=True)
        inputs = [helper.make_tensor_value_info(name, number, [None, 1], words) for (name, words), number in both]
        names = {one: _free(one, set(given)) for one in _RESULTS}
    _add_outputs(graph, arrays, _add_columns(graph, arrays, X), names)
    told = _results(arrays)
    results = [helper.make_tensor_value_info(names[name], number, [None, *shape]) for name, number, shape in told]
    constants = [numpy_helper.from_array(value, name) for name, value in graph.constants.items()]
    made = helper.make_graph(graph.nodes, "thresher", inputs, results, constants)
    domains = [helper.make_opsetid(*one) for one in graph.domains.items()]
    model = helper.make_model(made, opset_imports=domains, ir_version=9)
    helper.set_model_props(model, given)
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
    for name in {"coefficients", "alpha"} & set(made):
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
        raw = _add_limit(graph, arrays, columns)
    else:
        raw = _add_neurons(graph, arrays, graph.short(_add_inputs(graph, arrays, columns)))
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


def _add_columns(graph: Graph, arrays: Arrays, X: str) -> str:
    """Return raw rows (k, d) as columns of numbers: none missing, and with the indicators of whole numbers."""
    if "source" in arrays:
        source = graph.put(arrays["source"])
        missing = graph("IsNaN", X)
        values = graph("Gather", graph("Where", missing, graph.double(arrays["fill"]), X), source, axis=1)
        told = graph("Gather", graph.cast(missing, np.float64), source, axis=1)
        X = graph("Where", graph.put(arrays["indicator"]), told, values)
    if "indicated" in arrays:
        found = graph("Gather", X, graph.put(arrays["indicated"]), axis=1)
        told = graph.cast(graph("Equal", found, graph.double(arrays["indicated_values"])), np.float64)
        X = graph("Concat", graph("Gather", X, graph.put(arrays["kept"]), axis=1), told, axis=1)
    return X


def _add_scaled(graph: Graph, arrays: Arrays, X: str, which: str = "") -> str:
    """Return scaled columns (k, d): pulled in, bent, centred; ``which`` is before the names of the arrays."""

    def known(name: str) -> str:
        return graph.double(arrays[which + name])

    inside = graph("Min", graph("Max", X, known("input_low")), known("input_high"))
    out = graph("Sub", X, inside)
    distances = graph("Div", graph("Abs", out), known("input_soft"))
    softened = graph("Mul", graph("Log", graph("Add", distances, graph.double(1))), known("input_soft"))
    pulled = graph("Add", inside, graph("Mul", softened, graph("Sign", out)))
    begin, slope, low, high = (graph.double(arrays[which + name][None]) for name in SEGMENTS)
    beyond = graph("Sub", graph("Unsqueeze", pulled, graph.put([1])), begin)
    rises = graph("Mul", graph("Min", graph("Max", beyond, low), high), slope)
    bent = graph("Add", graph("ReduceSum", rises, graph.put([1]), keepdims=0), known("first_level"))
    return graph("Div", graph("Sub", bent, known("input_mean")), known("input_unit"))


def _add_rows(graph: Graph, arrays: Arrays, columns: str) -> str:
    """Return the coordinates of rows before they are lifted, from columns (k, d)."""
    scaled = _add_scaled(graph, arrays, columns)
    rows = graph("MatMul", scaled, graph.long(graph.put(arrays["metric"])))
    if not arrays["rest"]:
        return rows
    outside = graph("Sub", scaled, graph("MatMul", rows, graph.long(graph.put(arrays["metric"].T))))
    whole, lost = (graph("ReduceSum", graph("Mul", one, one), graph.put([-1])) for one in (scaled, outside))
    counts = graph("Greater", lost, graph("Mul", whole, graph.double(NOTHING)))
    return graph("Concat", rows, graph("Sqrt", graph("Where", counts, lost, graph.double(0))), axis=1)


def _add_inputs(graph: Graph, arrays: Arrays, columns: str) -> str:
    """Return rows (k, r) of norm 1, with the bias coordinate if there is one, from columns (k, d)."""
    rows = _add_rows(graph, arrays, columns)
    if len(arrays["last"]):
        count = graph("Slice", graph("Shape", rows), graph.put([0]), graph.put([1]))
        bias = graph("Expand", graph.double(arrays["last"][None]), graph("Concat", count, graph.put([1]), axis=0))
        rows = graph("Concat", rows, bias, axis=1)
    largest = graph("ReduceMax", graph("Abs", rows), graph.put([1]))
    rows = graph("Div", rows, largest)  # so that squares do not overflow
    return graph("Div", rows, graph("Sqrt", graph("ReduceSum", graph("Mul", rows, rows), graph.put([1]))))


def _add_angles(graph: Graph, arrays: Arrays, columns: str) -> str:
    """Return the angles and codes (k, u) of single columns.

    The angle of (x, 1) in double precision: onnxruntime has the arctangent in single precision alone, and what that
    misses is the sine of a small angle.
    """
    chosen = graph("Gather", columns, graph.put(arrays["angle_columns"]), axis=1)
    x = _add_scaled(graph, arrays, chosen, "angle_")
    near = graph.cast(graph("Atan", graph.cast(x, np.float32)), np.float64)
    near = graph("Sub", graph.double(np.pi / 2), near)
    size = graph("Sqrt", graph("Add", graph("Mul", x, x), graph.double(1)))
    sine, cosine = graph("Div", graph.double(1), size), graph("Div", x, size)
    missed = graph("Sub", graph("Mul", sine, graph.cosine(near)), graph("Mul", cosine, graph("Sin", near)))
    codes = graph("MatMul", columns, graph.double(arrays["codes"]))
    return graph("Concat", graph("Add", near, missed), codes, axis=1)


def _add_limit(graph: Graph, arrays: Arrays, columns: str) -> str:
    """Return the outputs (k, outputs) of the limit for columns (k, d), in blocks of rows."""
    inputs = _add_inputs(graph, arrays, columns) if _shares(arrays)[0] else None
    angles = _add_angles(graph, arrays, columns) if "parts" in arrays else None
    stored = None if inputs is None else graph.long(graph.put(arrays["stored"].T))
    alpha = graph.long(graph.put(arrays["alpha"]))

    def step(first: str, until: str) -> str:
        rows, seen = (one and graph("Slice", one, first, until, graph.put([0])) for one in (inputs, angles))
        kernel = graph.long(_add_kernel(graph, arrays, rows, seen, stored))
        return graph.short(graph("MatMul", kernel, alpha))

    return graph.blocks(columns, block_rows(arrays), arrays["alpha"].shape[1], step)


def _shares(arrays: Arrays) -> list[float]:
    """Return the shares of the kernel of all columns, of single ones, of pairs and of a layer of single ones."""
    return [1.0, 0.0, 0.0, 0.0] if "parts" not in arrays else arrays["parts"].tolist()


def _add_kernel(graph: Graph, arrays: Arrays, inputs: str | None, angles: str | None, stored: str | None) -> str:
    """Return the kernel (k, n) between inputs (k, r), of norm 1, with angles (k, u), and rows stored (r, n)."""
    whole, single, pairs, layer = _shares(arrays)
    terms = []
    if inputs is not None and stored is not None:
        rho = graph("Mul", graph("MatMul", inputs, stored), graph.double(arrays["shrink"]))
        size = graph("Min", graph("Abs", rho), graph.double(1))
        room = graph.short(graph("Sub", graph.double(1), size))
        rho = graph.short(rho)
        both = _add_together(graph, arrays["cubics"], room, graph("Less", rho, graph.number(0)))
        terms.append(_times(graph, graph("Mul", rho, both), whole))
    if angles is not None and (single or pairs or layer):
        count = arrays["stored_angles"].shape[1]
        lost = _add_columns_lost(graph, arrays, angles)
        sums = graph("ReduceSum", lost, graph.put([1]), keepdims=0)
        kept = graph("Sub", graph.number(count), sums)
        terms += [_times(graph, kept, single)] if single else []
        if pairs:
            squares = graph("ReduceSum", graph("Mul", lost, lost), graph.put([1]), keepdims=0)
            own = graph("Add", graph("Sub", kept, sums), squares)
            terms.append(_times(graph, graph("Sub", graph("Mul", kept, kept), own), pairs))
        if layer:
            share = graph("Div", sums, graph.number(count))
            mean = graph("Sub", graph.number(1), share)
            opposite = graph("Less", mean, graph.number(0))
            room = graph("Where", opposite, graph("Sub", graph.number(2), share), share)
            both = _add_together(graph, arrays["layer_cubics"], graph("Relu", room), opposite)
            terms.append(_times(graph, graph("Mul", mean, graph("Add", both, both)), layer))
    return terms[0] if len(terms) == 1 else graph("Sum", *terms)


def _times(graph: Graph, value: str, factor: float) -> str:
    return value if factor == 1 else graph("Mul", value, graph.number(factor))


def _add_columns_lost(graph: Graph, arrays: Arrays, angles: str) -> str:
    """Return 1 less the kernel (k, u, n) of each column at angles (k, u) and those of the stored rows."""
    others = graph.put(arrays["stored_angles"].T)
    away = graph("Abs", graph("Sub", graph("Unsqueeze", graph.short(angles), graph.put([2])), others))
    away = graph("Min", away, graph.number(np.pi))
    sine, share = graph("Sin", graph("Mul", away, graph.number(0.5))), graph("Mul", away, graph.number(1 / np.pi))
    rest = graph("Mul", graph("Mul", sine, sine), graph("Sub", graph.number(2), graph("Add", share, share)))
    return graph("Add", share, rest)


def _add_together(graph: Graph, cubics: NDArray[Any], room: str, opposite: str) -> str:
    """Return how likely a neuron fires on two rows: ``room`` is 1 - |rho|, ``opposite`` whether rho is below 0."""
    size = len(cubics) // 2
    place = graph("Mul", graph("Sqrt", graph("Sqrt", room)), graph.number(size))
    node = graph("Min", graph("Floor", place), graph.number(size - 1))
    t, side = graph("Sub", place, node), graph("Where", opposite, graph.number(size), graph.number(0))
    at = graph.cast(graph("Add", node, side), np.int32)
    first, second, third, fourth = (graph("Gather", graph.put(one), at) for one in cubics.T)
    value = graph("Add", third, graph("Mul", t, fourth))
    for one in (second, first):
        value = graph("Add", one, graph("Mul", t, value))
    return graph("Relu", value)


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
