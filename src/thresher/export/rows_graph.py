"""The part of an ONNX graph that makes rows of norm 1, and angles, of columns: the steps of ``arrays.py``."""

from __future__ import annotations

import numpy as np

from thresher.export.arrays import NOTHING, SEGMENTS, Arrays
from thresher.export.graph import Graph

__all__ = ["add_angles", "add_columns", "add_inputs", "add_lifted", "add_rows"]


def add_columns(graph: Graph, arrays: Arrays, X: str) -> str:
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


def add_rows(graph: Graph, arrays: Arrays, columns: str) -> str:
    """Return the coordinates of rows before they are lifted, from columns (k, d)."""
    weighed = graph("Mul", _add_scaled(graph, arrays, columns), graph.double(arrays["weights"]))
    rows = graph("MatMul", weighed, graph.long(graph.put(arrays["metric"])))
    if not arrays["rest"]:
        return rows
    outside = graph("Sub", weighed, graph("MatMul", rows, graph.long(graph.put(arrays["metric"].T))))
    whole, lost = (graph("ReduceSum", graph("Mul", one, one), graph.put([-1])) for one in (weighed, outside))
    counts = graph("Greater", lost, graph("Mul", whole, graph.double(NOTHING)))
    return graph("Concat", rows, graph("Sqrt", graph("Where", counts, lost, graph.double(0))), axis=1)


def add_inputs(graph: Graph, arrays: Arrays, columns: str) -> str:
    """Return rows of norm 1 (k, r), from columns (k, d)."""
    last = graph.double(arrays["last"].reshape(1, 1)) if len(arrays["last"]) else None
    return add_lifted(graph, add_rows(graph, arrays, columns), last)


def add_lifted(graph: Graph, rows: str, last: str | None) -> str:
    """Return rows (k, r) with the bias coordinate ``last`` (1, 1), or None, divided by their norms."""
    if last is not None:
        count = graph("Slice", graph("Shape", rows), graph.put([0]), graph.put([1]))
        bias = graph("Expand", last, graph("Concat", count, graph.put([1]), axis=0))
        rows = graph("Concat", rows, bias, axis=1)
    largest = graph("ReduceMax", graph("Abs", rows), graph.put([1]))
    rows = graph("Div", rows, largest)  # so that squares do not overflow
    return graph("Div", rows, graph("Sqrt", graph("ReduceSum", graph("Mul", rows, rows), graph.put([1]))))


def add_angles(graph: Graph, arrays: Arrays, columns: str) -> str:
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
