"""The part of an ONNX graph that makes numbers of a table: an input (k, 1) for each column, by its name.

Numbers come as numbers, NaN where they are missing; categories, dates and text as strings, "" where they are missing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from thresher.errors import InvalidInput
from thresher.export.dates_graph import PARTS, add_date
from thresher.export.graph import Graph
from thresher.export.made_graph import add_made, why_not_made

__all__ = ["ColumnInput", "Table", "add_table", "check_table"]

About = dict[str, Any]  # what was learnt of a column, as a model file holds it
Table = Sequence[Any]  # the name of each column, and that; then columns made of others
_TRUTHS = (
    ("True", "true", "TRUE", "1", "1.0"),
    ("False", "false", "FALSE", "0", "0.0"),
)  # one value, written otherwise
_STRINGS = 20  # version of ONNX that has the steps for strings
_WORD = r"[\pL\pN_]"


class ColumnInput(NamedTuple):
    """An input of the graph: its name, whether it takes strings, and what to give it."""

    name: str
    text: bool
    words: str


def add_table(graph: Graph, table: Table) -> tuple[list[ColumnInput], str]:
    """Return the inputs, and the columns of numbers (k, outputs) that become of them. See :func:`check_table`."""
    inputs, made = [], list[str]()
    for name, about in _columns(table).items():
        words, add = _KINDS[about["kind"]]
        if about["kind"] == "left out":
            continue
        if about["kind"] == "number" and about.get("unit"):
            words = f"{words}, in {about['unit']}"
        text = about["kind"] != "number"
        inputs.append(ColumnInput(name, text, words))
        if text:
            graph.domains[""] = _STRINGS
        value = name if text else graph.long(name)
        if not text:
            graph.cells[name] = value, graph("Not", graph("IsNaN", value))
        made += add(graph, value, about)
    for what, of, about in _made(table):
        made += add_made(graph, what, of, about)
    return inputs, made[0] if len(made) == 1 else graph("Concat", *made, axis=1)


def check_table(table: Table) -> None:
    """Refuse a table with columns that a graph cannot read, and say which and why."""
    wrong = []
    for name, about in _columns(table).items():
        if not name and about["kind"] != "left out":
            wrong.append("a column has no name")
        elif about["kind"] not in _KINDS:
            wrong.append(f"{name[:40]!r} is {about['kind']}, of which a graph makes no numbers")
        elif about["kind"] == "date" and (strange := [one for one in about["parts"] if one not in PARTS]):
            wrong.append(f"{name[:40]!r} is a date of which a graph cannot make {', '.join(strange)}")
    for what, of, about in _made(table):
        if why := why_not_made(what, of, about, _columns(table)):
            wrong.append(why)
    if wrong:
        raise InvalidInput(
            f"ONNX cannot take this table: {'; '.join(wrong)}. Fit without, or export with encoded=True and give the "
            "export what encoder_.transform returns."
        )


def _columns(table: Table) -> dict[str, About]:
    """Return what was learnt of each column of a table."""
    return {one[0]: one[1] for one in table if len(one) == 2}


def _made(table: Table) -> list[Any]:
    """Return how columns are made of others: by what, of which, and what was learnt of them."""
    return [one for one in table if len(one) != 2]


def _add_number(graph: Graph, value: str, about: About) -> list[str]:
    missing = graph("IsNaN", value)
    filled = graph("Where", missing, graph.double(about["fill"]), value)
    return [filled, graph.cast(missing, np.float64)] if about["indicator"] else [filled]


def _add_category(graph: Graph, cells: str, about: About) -> list[str]:
    count = len(about["values"])
    return _add_rows_of(graph, cells, about["values"], np.eye(count + 1, count))


def _add_levels(graph: Graph, cells: str, about: About) -> list[str]:
    return _add_rows_of(graph, cells, about["values"], np.array([*about["levels"], about["otherwise"]], np.float64))


def _add_rows_of(graph: Graph, cells: str, values: Sequence[str], rows: NDArray[np.float64]) -> list[str]:
    """Return the row of numbers of each cell (k, 1) among the values; the last row for all other cells."""
    graph.domains["ai.onnx.ml"] = 3
    places = dict(_written(values))
    place = graph(
        "LabelEncoder",
        cells,
        domain="ai.onnx.ml",
        keys_strings=list(places),
        values_int64s=list(places.values()),
        default_int64=len(values),
    )
    return [graph("Gather", graph.double(rows), graph("Squeeze", place, graph.put([1])))]


def _written(values: Sequence[str]) -> dict[str, int]:
    """Return the place of each value in all forms in which it may be written: True is TRUE and 1, and 3 is 3.0."""
    found: dict[str, int] = {}
    for place, value in enumerate(values):
        whole = value.lstrip("-").isdigit()
        same = [one for group in _TRUTHS if value in group for one in group]
        for form in (*same, *([f"{value}.0"] if whole else [])):
            found.setdefault(form, place)
    return found | {value: place for place, value in enumerate(values)}


def _add_words(graph: Graph, cells: str, about: About) -> list[str]:
    """Return the logarithm of one more than the number of words, and whether each of the commonest is there.

    Words are counted by a step that onnxruntime has beside those of the standard.
    """
    graph.domains["com.microsoft"] = 1
    more: About = {"domain": "com.microsoft", "mark": 0, "pad_value": "", "mincharnum": 1}
    flat = graph("Squeeze", cells, graph.put([1]))
    tokens = graph("Tokenizer", flat, tokenexp=f"{_WORD}+", **more)
    there = graph.cast(graph("Not", graph("Equal", tokens, graph.put([""]))), np.float64)
    count = graph("ReduceSum", there, graph.put([1]))
    made = [graph("Log", graph("Add", count, graph.double(1)))]
    for word in about["words"]:
        pattern = rf"(?is)(?:.*[^\pL\pN_])?{_quoted(word)}(?:[^\pL\pN_].*)?"
        made.append(graph.cast(graph("RegexFullMatch", cells, pattern=pattern), np.float64))
    return made


def _quoted(word: str) -> str:
    return "".join(one if one.isalnum() or one == "_" else f"\\x{{{ord(one):x}}}" for one in word)


def _add_nothing(graph: Graph, cells: str, about: About) -> list[str]:
    return []


_KINDS: dict[str, tuple[str, Callable[[Graph, str, About], list[str]]]] = {
    "number": ("numbers, NaN where missing", _add_number),
    "date": ("dates as text, '' where missing", add_date),
    "category": ("names as text, '' where missing", _add_category),
    "levels": ("names as text, '' where missing", _add_levels),
    "text": ("text", _add_words),
    "left out": ("", _add_nothing),
}
