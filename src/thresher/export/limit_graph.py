"""The limit of infinite width as steps of an ONNX graph: the kernel between rows and stored rows, a block at a time.

Products are made in double precision, and so is what they leave of 1, which single precision would lose near a stored
row; terms are added up in double precision. What lies between is in the precision of what is stored.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from thresher.export.arrays import Arrays, block_rows
from thresher.export.graph import Graph
from thresher.export.rows_graph import add_angles, add_inputs, add_lifted, add_rows

__all__ = ["add_limit"]


def add_limit(graph: Graph, arrays: Arrays, columns: str) -> str:
    """Return the outputs (k, outputs) of the limit for columns (k, d), in blocks of rows."""
    angles = add_angles(graph, arrays, columns) if "parts" in arrays else None
    if "starts" in arrays:
        return _add_tree(graph, arrays, add_rows(graph, arrays, columns), angles)
    inputs, seen = add_inputs(graph, arrays, columns) if _whole(arrays) else None, angles
    if "monotone" in arrays and angles is not None:
        there = np.isin(np.arange(arrays["stored_angles"].shape[1]), arrays["monotone"])
        seen = graph("Where", graph.put(there), graph.double(arrays["nowhere"]), angles)
    stored, alpha = _Stored.of(graph, arrays), graph.long(graph.put(arrays["alpha"]))
    size = graph.put([block_rows(arrays)])
    count = graph("Slice", graph("Shape", columns), graph.put([0]), graph.put([1]))
    blocks = graph("Div", graph("Add", count, graph("Sub", size, graph.put([1]))), size)

    def step(block: str, before: str) -> str:
        first = graph("Mul", graph("Unsqueeze", block, graph.put([0])), size)
        until = graph("Add", first, size)
        here, angled = (None if one is None else graph.rows(one, first, until) for one in (inputs, seen))
        said = _summed(graph, _add_kernel(graph, arrays, here, angled, stored), alpha)
        return graph("Concat", before, said, axis=0)

    nothing = graph.put(np.zeros((0, arrays["alpha"].shape[1]), graph.dtype))
    total = graph.loop(graph("Squeeze", blocks), nothing, step)
    return total if "monotone" not in arrays or angles is None else _add_monotone(graph, arrays, total, angles)


def _whole(arrays: Arrays) -> float:
    """Return the share of the kernel of all columns."""
    return 1.0 if "parts" not in arrays else float(arrays["parts"][0])


def _summed(graph: Graph, kernel: str, alpha: str) -> str:
    """Return the kernel (k, n) times coefficients (n, outputs), both in double: large terms cancel."""
    return graph.short(graph("MatMul", graph.long(kernel), alpha))


class _Stored(NamedTuple):
    """The names of stored rows in double precision (r, n), what their lengths miss (n,), and angles (u, n)."""

    rows: str | None
    shrink: str | None
    angles: str | None

    @classmethod
    def of(cls, graph: Graph, arrays: Arrays) -> _Stored:
        """Return all of them."""
        angles = graph.put(arrays["stored_angles"].T) if "parts" in arrays else None
        if not _whole(arrays):
            return cls(None, None, angles)
        return cls(graph.long(graph.put(arrays["stored"].T)), graph.double(arrays["shrink"]), angles)

    def some(self, graph: Graph, first: str, until: str) -> _Stored:
        """Return those of one leaf."""

        def part(value: str | None, axis: int) -> str | None:
            return None if value is None else graph("Slice", value, first, until, graph.put([axis]))

        return _Stored(part(self.rows, 1), part(self.shrink, 0), part(self.angles, 1))


def _add_kernel(graph: Graph, arrays: Arrays, inputs: str | None, angles: str | None, stored: _Stored) -> str:
    """Return the kernel (k, n) between inputs (k, r), of norm 1, with angles (k, u), and stored rows."""
    whole, single, pairs, layer = arrays["parts"].tolist() if "parts" in arrays else (1.0, 0.0, 0.0, 0.0)
    terms = []
    if inputs is not None and stored.rows is not None and stored.shrink is not None:
        rho = graph("Mul", graph("MatMul", inputs, stored.rows), stored.shrink)
        size = graph("Min", graph("Abs", rho), graph.double(1))
        room = graph.short(graph("Sub", graph.double(1), size))
        rho = graph.short(rho)
        both = _add_together(graph, arrays["cubics"], room, graph("Less", rho, graph.number(0)))
        terms.append(_times(graph, graph("Mul", rho, both), whole))
    if angles is not None and stored.angles is not None and (single or pairs or layer):
        count = arrays["stored_angles"].shape[1]
        lost = _add_columns_lost(graph, arrays, angles, stored.angles)
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


def _add_columns_lost(graph: Graph, arrays: Arrays, angles: str, others: str) -> str:
    """Return 1 less the kernel (k, u, n) of each column at angles (k, u) and others (u, n)."""
    away = graph("Abs", graph("Sub", graph("Unsqueeze", graph.short(angles), graph.put([2])), others))
    if arrays["sharpness"] != 1:
        away = graph("Mul", away, graph.number(float(arrays["sharpness"])))
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


def _add_monotone(graph: Graph, arrays: Arrays, total: str, angles: str) -> str:
    """Return outputs (k, outputs) with the functions of monotone columns, of which the kernel saw nothing."""
    at = graph("Sub", graph("Gather", angles, graph.put(arrays["knot_units"]), axis=1), graph.double(arrays["knots"]))
    steps = graph("Min", graph("Relu", at), graph.double(arrays["knot_gaps"]))
    added = graph("MatMul", graph.short(steps), graph.put(arrays["knot_slopes"]))
    return graph("Sum", total, added, graph.put(arrays["first_values"]))


def _add_tree(graph: Graph, arrays: Arrays, rows: str, angles: str | None) -> str:
    """Return the outputs (k, outputs) of a tree of models: row by row, and leaf by leaf that it reaches."""
    stored, alpha = _Stored.of(graph, arrays), graph.long(graph.put(arrays["alpha"]))
    starts, ends = graph.put(arrays["starts"][:-1]), graph.put(arrays["starts"][1:])
    count = graph("Squeeze", graph("Slice", graph("Shape", rows), graph.put([0]), graph.put([1])))
    nothing = graph.put(np.zeros((0, arrays["alpha"].shape[1]), graph.dtype))
    zeros = graph.put(np.zeros((1, arrays["alpha"].shape[1]), graph.dtype))

    def one_row(number: str, before: str) -> str:
        place = graph("Unsqueeze", number, graph.put([0]))
        row = graph("Gather", rows, place)
        seen = None if angles is None else graph("Gather", angles, place)
        weights = _add_weights(graph, arrays, row)
        reached = graph("NonZero", graph("Greater", weights, graph.double(0)))
        reached = graph("Squeeze", reached, graph.put([0]))
        many = graph("Squeeze", graph("Shape", reached))

        def one_leaf(turn: str, total: str) -> str:
            leaf = graph("Gather", reached, graph("Unsqueeze", turn, graph.put([0])))
            first, until = graph("Gather", starts, leaf), graph("Gather", ends, leaf)
            turned = None
            if _whole(arrays):
                metrics, lasts = graph.put(arrays["metrics"]), graph.double(arrays["lasts"].reshape(-1, 1))
                metric = graph.long(graph("Squeeze", graph("Gather", metrics, leaf), graph.put([0])))
                turned = add_lifted(graph, graph("MatMul", row, metric), graph("Gather", lasts, leaf))
            kernel = _add_kernel(graph, arrays, turned, seen, stored.some(graph, first, until))
            said = _summed(graph, kernel, graph("Slice", alpha, first, until, graph.put([0])))
            return graph("Add", total, graph("Mul", said, graph.short(graph("Gather", weights, leaf))))

        return graph("Concat", before, graph.loop(many, zeros, one_leaf), axis=0)

    return graph.loop(count, nothing, one_row)


def _add_weights(graph: Graph, arrays: Arrays, row: str) -> str:
    """Return the weights (leaves,) of the leaves for a row (1, r)."""
    if not len(arrays["thresholds"]):
        return graph.double([1.0])
    one, border = graph.double(1), np.asarray(arrays["borders"], np.float64)
    along = graph("MatMul", row, graph.double(arrays["directions"].T))
    away = graph("Sub", along, graph.double(arrays["thresholds"]))
    wide = np.where(border > 0, 2 * border, 1.0)
    place = graph("Div", graph("Add", away, graph.double(border)), graph.double(wide))
    place = graph("Min", graph("Max", place, graph.double(0)), one)
    cubic = graph("Sub", graph.double(3), graph("Add", place, place))
    soft = graph("Mul", graph("Mul", place, place), cubic)
    hard = graph.cast(graph("GreaterOrEqual", away, graph.double(0)), np.float64)
    share = graph("Where", graph.put(border > 0), soft, hard)
    share = graph("Squeeze", graph("Concat", share, graph.double([[1.0]]), axis=1), graph.put([0]))
    own = graph("Gather", share, graph.put(arrays["paths"]))
    sides = graph("Where", graph.put(arrays["upper"]), own, graph("Sub", one, own))
    # A product in double precision by logarithms: older runtimes have no other; that of 0 is 0.
    return graph("Exp", graph("ReduceSum", graph("Log", sides), graph.put([1]), keepdims=0))
