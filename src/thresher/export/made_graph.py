"""Columns made of others, as steps of an ONNX graph: differences, shares, and numbers as names."""

from __future__ import annotations

from typing import Any

import numpy as np

from thresher.export.graph import Graph

__all__ = ["add_made", "why_not_made"]

_NAMES, _DIFFERENCE, _TEXT = "names", "difference", "text"
_LARGEST = 1 << 53  # whole number that a double holds exactly


def why_not_made(what: str, of: list[str], about: dict[str, Any], columns: dict[str, dict[str, Any]]) -> str:
    """Return why a graph cannot make a column; "" if it can."""
    if what == _TEXT:
        return f"the components of {of[0][:40]!r}, free text, cannot be made by a graph"
    if what != _NAMES:
        units = {columns[name].get("unit", "") for name in of}
        return (
            "" if len(units) == 1 else f"{' and '.join(of)[:60]} are in different units, which a graph does not convert"
        )
    told = [value for value in about["values"] if value]
    whole = [int(value) for value in told if value.isdigit()]
    if len(whole) < len(told) or len(set(whole)) < len(whole) or max(whole, default=0) > _LARGEST:
        return f"{of[0][:40]!r} has names that are not different whole numbers"
    return ""


def add_made(graph: Graph, what: str, of: list[str], about: dict[str, Any]) -> list[str]:
    """Return a column (k, outputs) that is made of others, whose numbers (k, 1) are known to the graph."""
    if what == _NAMES:
        return [_names(graph, *graph.cells[of[0]], about)]
    (first, one), (second, other) = (graph.cells[name] for name in of)
    there, value = graph("And", one, other), graph("Sub", first, second)
    if what != _DIFFERENCE:
        whole = graph("Add", graph("Abs", first), graph("Abs", second))
        there = graph("And", there, graph("Greater", whole, graph.double(0)))
        value = graph("Div", first, graph("Where", there, whole, graph.double(1)))
    return [graph("Where", there, value, graph.double(about["fill"]))]


def _names(graph: Graph, value: str, there: str, about: dict[str, Any]) -> str:
    """Return the numbers of each value (k, 1) as a name; the last row for those that are no names."""
    values, count = list(about["values"]), len(about["values"])
    rows = np.eye(count + 1, count) if about["kind"] == "category" else np.array([*about["levels"], about["otherwise"]])
    graph.domains["ai.onnx.ml"] = 3
    known = {int(one): place for place, one in enumerate(values) if one}
    nothing = -1 if "" not in values else -2
    known |= {} if "" not in values else {-2: values.index("")}
    whole = graph("And", there, graph("Equal", value, graph("Floor", value)))
    plain = graph("Where", whole, value, graph("Where", there, graph.double(-1), graph.double(nothing)))
    place = graph(
        "LabelEncoder",
        graph.cast(plain, np.int64),
        domain="ai.onnx.ml",
        keys_int64s=list(known),
        values_int64s=list(known.values()),
        default_int64=count,
    )
    return graph("Gather", graph.double(np.asarray(rows, np.float64)), graph("Squeeze", place, graph.put([1])))
