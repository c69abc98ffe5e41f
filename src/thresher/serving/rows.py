"""Rows of JSON as the rows of a table: what cannot be one is refused with its row and its column."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import Any, NamedTuple, NoReturn

import numpy as np

from thresher.checks import guess_name
from thresher.serving.http import Refused
from thresher.tables.frame import Column, Frame, column_of
from thresher.tables.saying import name_some

__all__ = ["Asked", "frame_of", "read_body"]

_KEYS = ("rows", "coverage")
_MOST_TEXT = 100_000  # characters of a cell


class Asked(NamedTuple):
    """What a request asks for."""

    columns: dict[str, list[Any]]  # the cells of each column
    rows: int
    coverage: float | None  # share of new targets that intervals hold; None for no intervals

    @property
    def signature(self) -> tuple[Any, ...]:
        """What requests have in common whose rows can be predicted together: they mean the same as alone."""
        kinds = tuple(any(isinstance(one, str) for one in cells) for cells in self.columns.values())
        return (self.coverage, *kinds)


def read_body(body: bytes, names: Sequence[str], *, most: int, coverage: float | None) -> Asked:
    """Return the rows in the body of a request; Refused with the row and the column of what is wrong.

    The body is a list of rows, or an object with ``rows``, and ``coverage`` if it is not to be that of the server. A
    row is an object of cells by column, or a list of cells in the order of the columns. Cost: O(bytes).
    """
    try:
        told = json.loads(body, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:  # also of bytes that are no text
        raise Refused(400, f"the body is no JSON: {error}.") from None
    if isinstance(told, dict):
        if strange := [one for one in told if one not in _KEYS]:
            raise Refused(400, f"the body has {name_some(strange)}; expected 'rows', and 'coverage' if you like.")
        coverage = _coverage(told["coverage"]) if "coverage" in told else coverage
        rows = told.get("rows")
    else:
        rows = told
    if not isinstance(rows, list):
        raise Refused(400, 'the body must be like {"rows": [{"column": 1.5}]}, or a list of rows.')
    if not rows:
        raise Refused(422, "there are no rows. Send at least one.")
    if len(rows) > most:
        raise Refused(413, f"a request may have {most:,} rows; got {len(rows):,}. Send fewer at a time.")
    found: dict[str, list[Any]] = {name: [] for name in names}
    for number, row in enumerate(rows, start=1):
        for name, cell in zip(names, _cells(row, names, number), strict=True):
            found[name].append(_cell(cell, name, number))
    return Asked(found, len(rows), coverage)


def frame_of(several: Sequence[Asked]) -> Frame:
    """Return the rows of requests of one signature as a frame."""
    made: list[Column] = []
    for name in several[0].columns:
        cells = [cell for one in several for cell in one.columns[name]]
        text = any(isinstance(one, str) for one in cells)
        kind: Any = object if text else np.float64
        made.append(column_of(name, np.array([_nothing(one, text=text) for one in cells], kind)))
    return Frame(made)


def _nothing(cell: Any, *, text: bool) -> Any:
    return ("" if text else math.nan) if cell is None else cell


def _cells(row: Any, names: Sequence[str], number: int) -> list[Any]:
    """Return the cells of a row in the order of the columns."""
    if isinstance(row, list):
        if len(row) != len(names):
            raise Refused(422, f"row {number} has {len(row)} cells; expected {len(names)}: {name_some(names)}.")
        return row
    if not isinstance(row, dict):
        raise Refused(422, f"row {number} must be an object with the columns {name_some(names)}.")
    known = set(names)
    strange = [one for one in row if one not in known]
    if strange:
        near = guess_name(strange[0], names)
        raise Refused(422, f"row {number} has column {strange[0][:40]!r}, which the model does not know.{near}")
    missing = [name for name in names if name not in row]
    if missing:
        raise Refused(422, f"row {number} lacks {name_some(missing)}. Send null for a cell that is missing.")
    return [row[name] for name in names]


def _cell(cell: Any, name: str, number: int) -> Any:
    """Return a cell: None, text, or a number; truth values are 1 and 0."""
    if cell is None or (isinstance(cell, str) and len(cell) <= _MOST_TEXT):
        return cell
    where = f"row {number}, column {name[:40]!r}:"
    if isinstance(cell, str):
        raise Refused(422, f"{where} {len(cell):,} characters; expected at most {_MOST_TEXT:,}.")
    if not isinstance(cell, bool | int | float):
        what = "a list" if isinstance(cell, list) else "an object"
        raise Refused(422, f"{where} expected a number, text, true, false or null; got {what}.")
    try:
        value = float(cell)
    except OverflowError:
        value = math.inf
    if not math.isfinite(value):
        raise Refused(422, f"{where} the number is too large.")
    return value


def _coverage(given: Any) -> float | None:
    if given is None:
        return None
    if isinstance(given, bool) or not isinstance(given, int | float) or not 0 < given < 1:
        raise Refused(422, f"coverage must lie between 0 and 1, such as 0.9, or be null; got {str(given)[:20]}.")
    return float(given)


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is none of its numbers. Send null for what is missing")
