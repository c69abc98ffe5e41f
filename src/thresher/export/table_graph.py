"""The part of an ONNX graph that makes numbers of a table: an input (k, 1) for each column, by its name.

Numbers come as numbers, dates as days since 1970, NaN where they are missing; categories as strings, "" where they are
missing. The steps are those of ``thresher/tables/kinds.py``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from thresher.errors import InvalidInput
from thresher.export.graph import Graph

__all__ = ["ColumnInput", "LearntColumns", "add_table", "check_table"]

About = dict[str, Any]  # what was learnt of a column, as a model file holds it
LearntColumns = Sequence[Any]  # each column's name, and that; then columns made of others: by what, of which, and that
_NUMBER, _DATE, _CATEGORY, _LEVELS, _NOTHING = "number", "date", "category", "levels", "left out"
_NAMES, _DIFFERENCE = "names", "difference"  # numbers that are names; days between dates
_TAKES = {
    _NUMBER: "numbers, NaN where missing",
    _DATE: "days since 1970-01-01, the time of day as their fraction, NaN where missing",
    _CATEGORY: "names as text, '' where missing",
    _LEVELS: "names as text, '' where missing",
}
_TRUTHS = (
    ("True", "true", "TRUE", "1", "1.0"),
    ("False", "false", "FALSE", "0", "0.0"),
)  # one value, written otherwise
_LARGEST = 1 << 53  # whole number that a double holds exactly
_NO_NAME, _MISSING = -(1 << 60), -(1 << 61)  # stand for numbers that are no names, and for those that are missing
_MONDAY = 4.0  # days from the beginning of 1970 to the first Monday


class ColumnInput(NamedTuple):
    """An input of the graph: its name, the type of its cells, object for strings, and what to give it."""

    name: str
    dtype: Any
    words: str


def check_table(table: LearntColumns) -> None:
    """Refuse a table with columns that a graph cannot read, and say which and what to use instead."""
    columns, made = _parted(table)
    wrong = [name for name, about in columns.items() if about["kind"] not in (*_TAKES, _NOTHING)]
    for what, of, about in made:
        days = what == _DIFFERENCE and all(columns[name]["kind"] == _DATE for name in of)
        if not days and not (what == _NAMES and _are_whole(about["values"])) and of[0] not in wrong:
            wrong.append(f"{' and '.join(of)}, of which another column is made")
    wrong += ["a column without a name"] * ("" in columns and columns[""]["kind"] != _NOTHING)
    if wrong:
        raise InvalidInput(
            f"ONNX models take numbers, categories and dates; not {', '.join(map(repr, wrong))[:200]}. Use "
            "to_onnx(encoded=True) or to_numpy(encoded=True) on what encoder_.transform returns, or predict in Python."
        )


def add_table(graph: Graph, table: LearntColumns) -> tuple[list[ColumnInput], str]:
    """Return the inputs, and the columns of numbers (k, outputs) that become of them. See :func:`check_table`."""
    inputs, made, numbers = list[ColumnInput](), list[str](), dict[str, str]()
    columns, others = _parted(table)
    for name, about in columns.items():
        kind = about["kind"]
        if kind == _NOTHING:
            continue
        unit = f", in {about['unit']}" if about.get("unit") else ""
        dtype = {_NUMBER: graph.dtype, _DATE: np.float64}.get(kind, np.object_)
        inputs.append(ColumnInput(name, dtype, _TAKES[kind] + unit))
        if kind in (_CATEGORY, _LEVELS):
            made.append(_add_rows_of(graph, name, _written(about["values"]), about))
            continue
        value = numbers[name] = name if kind == _DATE else graph.long(name)
        parts = [value] if kind == _NUMBER else _add_parts(graph, value, about["parts"])
        missing, fill = graph("IsNaN", value), np.atleast_1d(about["fill"])
        made += [graph("Where", missing, graph.double(one), part) for one, part in zip(fill, parts, strict=True)]
        made += [graph.cast(missing, np.float64)] if about["indicator"] else []
    for what, of, about in others:
        if what == _NAMES:
            made.append(_add_names(graph, numbers[of[0]], about))
        else:
            days = graph("Sub", *(numbers[name] for name in of))
            made.append(graph("Where", graph("IsNaN", days), graph.double(about["fill"]), days))
    return inputs, made[0] if len(made) == 1 else graph("Concat", *made, axis=1)


def _parted(table: LearntColumns) -> tuple[dict[str, About], list[Any]]:
    """Return what was learnt of each column of a table, and how columns are made of others."""
    return {one[0]: one[1] for one in table if len(one) == 2}, [one for one in table if len(one) != 2]


def _are_whole(values: Sequence[str]) -> bool:
    """Return whether names are different whole numbers, of which one may be missing."""
    told = [value for value in values if value]
    whole = {int(value) for value in told if value.isdigit()}
    return len(whole) == len(told) and max(whole, default=0) <= _LARGEST


def _written(values: Sequence[str]) -> dict[str, int]:
    """Return the place of each value in all forms in which it may be written: True is TRUE and 1, and 3 is 3.0."""
    found: dict[str, int] = {}
    for place, value in enumerate(values):
        whole = value.lstrip("-").isdigit()
        same = [one for group in _TRUTHS if value in group for one in group]
        for form in (*same, *([f"{value}.0"] if whole else [])):
            found.setdefault(form, place)
    return found | {value: place for place, value in enumerate(values)}


def _add_rows_of(graph: Graph, cells: str, places: dict[Any, int], about: About) -> str:
    """Return the numbers (k, outputs) of cells (k, 1) among the values of a column; other cells have those of none."""
    graph.domains["ai.onnx.ml"] = 3
    count = len(about["values"])
    one_hot = about["kind"] == _CATEGORY
    rows = np.eye(count + 1, count) if one_hot else np.array([*about["levels"], about["otherwise"]], np.float64)
    keys: Any = {"keys_strings" if isinstance(next(iter(places)), str) else "keys_int64s": list(places)}
    place = graph("LabelEncoder", cells, domain="ai.onnx.ml", **keys,
                  values_int64s=list(places.values()), default_int64=count)  # fmt: skip
    return graph("Gather", graph.double(rows), graph("Squeeze", place, graph.put([1])))


def _add_names(graph: Graph, value: str, about: About) -> str:
    """Return the numbers (k, outputs) of each whole number (k, 1) that is a name."""
    whole = graph("Where", graph("Equal", value, graph("Floor", value)), value, graph.double(_NO_NAME))
    whole = graph("Where", graph("IsNaN", value), graph.double(_MISSING), whole)
    places = {int(one) if one else _MISSING: place for place, one in enumerate(about["values"])}
    return _add_rows_of(graph, graph.cast(whole, np.int64), places, about)


def _add_parts(graph: Graph, time: str, wanted: Sequence[str]) -> list[str]:
    """Return parts (k, 1) of times, days since 1970: themselves, the year, and angles of year, week and day."""
    day = graph("Floor", time)
    near = graph("Floor", graph("Add", graph("Div", day, graph.double(365.2425)), graph.double(1970)))
    early = graph("Less", day, _first_day(graph, near))
    late = graph("GreaterOrEqual", day, _first_day(graph, graph("Add", near, graph.double(1))))
    year = graph("Add", near, graph("Sub", graph.cast(late, np.float64), graph.cast(early, np.float64)))
    weeks = graph("Div", graph("Sub", day, graph.double(_MONDAY)), graph.double(7))
    shares = {
        "year": graph("Div", graph("Sub", day, _first_day(graph, year)), graph.double(365.25)),
        "week": graph("Sub", weeks, graph("Floor", weeks)),
        "day": graph("Sub", time, day),
    }
    found = {"day": time, "year": year}
    for name, share in shares.items():
        angle = graph("Mul", share, graph.double(2 * np.pi))
        for way, turned in (("sine", graph("Sin", angle)), ("cosine", graph.cosine(angle))):
            scaled = graph("Round", graph("Mul", turned, graph.double(1e9)))  # nine decimals
            found[f"{way} of {name}"] = graph("Div", scaled, graph.double(1e9))
    return [found[part] for part in wanted]


def _first_day(graph: Graph, year: str) -> str:
    """Return the days from the beginning of 1970 to the first of January of a year."""
    before = graph("Sub", year, graph.double(1))
    quarters, centuries, cycles = (graph("Floor", graph("Div", before, graph.double(one))) for one in (4, 100, 400))
    leaps = graph("Add", graph("Sub", quarters, centuries), cycles)
    return graph("Sub", graph("Add", graph("Mul", before, graph.double(365)), leaps), graph.double(719_162))
