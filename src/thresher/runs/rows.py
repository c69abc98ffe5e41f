"""Rows by their original columns, whatever holds them: arrays by name, a pandas or polars frame, or a plain matrix."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from thresher.errors import InvalidInput
from thresher.tables.cells import find_date_order, find_decimal, read_dates, read_numbers

__all__ = ["Rows", "say_cell"]

Places = NDArray[np.int64]


class Rows(NamedTuple):
    """Columns (n,) by name, and how some of their cells become a table that a model takes.

    No cell is ever made up: other tables are the same cells in other places, so that any type of column will do.
    """

    columns: dict[str, Any]  # what can be indexed by places
    rebuild: Callable[[dict[str, Any]], Any]

    @classmethod
    def of(cls, X: Any, *, encode: Callable[[dict[str, Any]], Any] | None = None) -> Rows:
        """Return the rows of a mapping from names to arrays, a frame, or a matrix (n, d).

        ``encode`` makes what the model takes from columns by name; by default that is the kind of X itself.
        """
        if isinstance(X, Mapping):
            columns = {str(name): np.asarray(values) for name, values in X.items()}
            return cls(columns, encode or _stacked)
        if hasattr(X, "columns") and hasattr(X, "iloc"):  # pandas; its arrays keep their types
            columns = {name: X[name].array for name in X.columns}
            return cls(columns, encode or type(X))
        if hasattr(X, "columns") and hasattr(X, "get_column"):  # polars
            return cls({name: X.get_column(name) for name in X.columns}, encode or type(X))
        matrix = np.asarray(X)
        if matrix.ndim != 2:
            raise InvalidInput(f"rows must be columns by name, a frame or a matrix (n, d); got shape {matrix.shape}.")
        columns = {f"column {place}": column for place, column in enumerate(matrix.T, start=1)}
        return cls(columns, encode or _stacked)

    @property
    def names(self) -> list[str]:
        """What the columns are called."""
        return [str(name) for name in self.columns]

    def __len__(self) -> int:
        return len(next(iter(self.columns.values()), ()))

    def table(self, places: Places, changed: Mapping[str, Places] | None = None) -> Any:
        """Return the rows at some places (k,) as a model takes them; ``changed`` columns have their own places (k,)."""
        other = changed or {}
        return self.rebuild({name: column[other.get(str(name), places)] for name, column in self.columns.items()})

    def cells(self, name: str) -> NDArray[Any]:
        """Return a column (n,) as numbers, dates (datetime64) or text; cells that are missing are NaN, NaT or ''.

        Text that is all numbers or all dates, in the ways that tables know, is read as such.
        """
        column = next(column for key, column in self.columns.items() if str(key) == name)
        values = column.to_numpy() if hasattr(column, "to_numpy") else np.asarray(column)
        if values.dtype.kind in "iuf":
            return values.astype(np.float64)
        if values.dtype.kind == "M":
            return values.astype("datetime64[s]")
        if values.dtype.kind == "O" and (numbers := _numbers(values)) is not None:
            return numbers
        text = np.array(["" if _missing(one) else str(one) for one in values.tolist()], dtype=np.object_)
        found = None if hasattr(column, "categories") else _read(text)
        return text.astype(np.str_) if found is None else found


def say_cell(value: Any) -> str:
    """Return a cell as people write it: 3 rather than 3.0, a date without a time that says nothing."""
    if isinstance(value, float):
        return "" if value != value else f"{value:.6g}" if abs(value) < 1e15 else f"{value:.3g}"
    if isinstance(value, np.datetime64):
        return "" if np.isnat(value) else str(value.astype("datetime64[s]")).replace("T00:00:00", "").replace("T", " ")
    return str(value)


def _stacked(columns: dict[str, Any]) -> NDArray[Any]:
    return np.column_stack(list(columns.values()))


def _read(text: NDArray[Any]) -> NDArray[Any] | None:
    """Return cells of text (n,) as numbers or dates; None if they are words, or all missing."""
    values, strange = read_numbers(text)
    if strange.any() and (order := find_date_order(text)) is not None:
        values, strange = read_dates(text, order=order)
        values = values.astype("datetime64[s]")
    elif strange.any():
        values, strange = read_numbers(text, decimal=find_decimal(text) or ".")
    there = ~np.isnat(values) if values.dtype.kind == "M" else ~np.isnan(values)
    return values if there.any() and not strange.any() else None


def _missing(value: Any) -> bool:
    return value is None or value != value or str(value) in ("<NA>", "NaT")


def _numbers(values: NDArray[Any]) -> NDArray[np.float64] | None:
    """Return objects that are all numbers or missing; None if there are others."""
    found = [np.nan if _missing(one) else one for one in values.tolist()]
    if all(isinstance(one, int | float) and not isinstance(one, bool) for one in found):
        return np.array(found, np.float64)
    return None
