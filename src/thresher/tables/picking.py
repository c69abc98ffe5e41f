"""Tables made of the cells of another: arrays by name, a frame, or a plain matrix."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from thresher.errors import InvalidInput
from thresher.tables.frame import (
    Column,
    Frame,
    column_of,
    column_of_series,
    frame_of_series,
    is_frame,
    places_as_names,
    series_of,
)
from thresher.tables.learning import read_column

__all__ = ["CellPicker", "say_cell"]

Places = NDArray[np.int64]


class CellPicker(NamedTuple):
    """Columns (n,) by name, and how some of their cells become a table that a model takes.

    No cell is ever made up: other tables are the same cells in other places, so that any type of column will do.
    """

    columns: dict[str, Any]  # what can be indexed by places
    rebuild: Callable[[dict[str, Any]], Any]
    read: Callable[[str], Column]  # returns a column by its name, as tables know it

    @classmethod
    def of(cls, X: Any, *, encode: Callable[[dict[str, Any]], Any] | None = None) -> CellPicker:
        """Return the rows of a mapping from names to arrays, a frame, or a matrix (n, d).

        ``encode`` makes what the model takes from columns by name; by default that is the kind of X itself. Text of a
        :class:`Frame` that is numbers or dates by the whole file is read, once for all uses.
        """
        if isinstance(X, Frame):
            columns = {one.name: one.values if one.cell_format is None else read_column(one) for one in X}
            return cls(columns, encode or partial(_frame, X), X.__getitem__)
        if not isinstance(X, Mapping) and is_frame(X):
            columns = series_of(X)
            return cls(columns, encode or frame_of_series, lambda name: column_of_series(columns[name]))
        if not isinstance(X, Mapping):
            matrix = np.asarray(X)
            if matrix.ndim != 2:
                raise InvalidInput(
                    f"rows must be columns by name, a frame or (n, d) numbers; got shape {matrix.shape}."
                )
            X = dict(zip(places_as_names(matrix.shape[1]), matrix.T, strict=True))
        columns = {str(name): np.asarray(values) for name, values in X.items()}
        return cls(columns, encode or _stacked, lambda name: column_of(name, columns[name]))

    @property
    def names(self) -> list[str]:
        """What the columns are called."""
        return list(self.columns)

    def __len__(self) -> int:
        return len(next(iter(self.columns.values()), ()))

    def table(self, places: Places, changed: Mapping[str, Places] | None = None) -> Any:
        """Return the rows at some places (k,) as a model takes them; ``changed`` columns have their own places (k,)."""
        other = changed or {}
        return self.rebuild({name: column[other.get(name, places)] for name, column in self.columns.items()})

    def cells(self, name: str) -> NDArray[Any]:
        """Return a column (n,) as numbers, dates (datetime64) or text; cells that are missing are NaN, NaT or ''.

        Text that is numbers or dates, in the ways that tables know, is read as such; truth values are text.
        """
        column = self.read(name)
        if str(self.columns[name].dtype).lower().startswith("bool") and not column.is_text:
            return np.where(column.missing, "", np.where(column.values > 0, "True", "False"))
        values = read_column(column)
        return values.astype(np.str_) if values.dtype.kind == "O" else values


def say_cell(value: Any) -> str:
    """Return a cell as people write it: 3 rather than 3.0, a date without a time that says nothing."""
    if isinstance(value, float):
        return "" if value != value else f"{value:.6g}" if abs(value) < 1e15 else f"{value:.3g}"
    if isinstance(value, np.datetime64):
        return "" if np.isnat(value) else str(value.astype("datetime64[s]")).replace("T00:00:00", "").replace("T", " ")
    return str(value)


def _stacked(columns: dict[str, Any]) -> NDArray[Any]:
    return np.column_stack(list(columns.values()))


def _frame(like: Frame, columns: dict[str, Any]) -> Frame:
    return Frame([like[name]._replace(values=values) for name, values in columns.items()])
