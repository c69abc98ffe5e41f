"""A frame: named columns of numbers, times or text; from a file, from a frame of another library, or from an array."""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from thresher.checks import refuse_twice
from thresher.errors import InvalidInput, not_installed
from thresher.tables.cells import coded

__all__ = ["TRUTHS", "CellFormat", "Column", "Frame", "Reading", "column_of", "column_of_series", "frame_of_series",
           "in_memory", "is_frame", "is_numeric", "places_as_names", "say_label", "series_of"]  # fmt: skip

TRUTHS = {"true": "True", "false": "False"}
_WHOLE = re.compile(r"(-?\d+)\.0*")
_EXACT = 1 << 53  # whole numbers beyond which float64 cannot tell them apart
_TIMES = (datetime.datetime, datetime.date, datetime.time)


class Reading(NamedTuple):
    """Whether the first line has names, what parts cells, the decimal sign, the encoding; None: the file tells it."""

    header: bool | None = None
    delimiter: str | None = None
    decimal: str | None = None
    encoding: str | None = None


class CellFormat(NamedTuple):
    """What a column looks like: "number", "date" or "text"; its decimal sign or order of dates; if it has percents.

    Numbers may have a ``unit`` of some ``quantity`` ("" where only the unit is known). ``doubt`` says why cells with
    numbers and units are text.
    """

    kind: str
    how: str = ""
    percent: bool = False
    unit: str = ""
    quantity: str = ""
    doubt: str = ""


class Column(NamedTuple):
    """A column: its name, and its values (n,): float64, datetime64[us] or text (objects).

    What is missing is NaN, NaT or "". ``category`` says that values are names, whatever they look like; ``decimal`` is
    the sign that all cells of the file tell, and ``cell_format`` what they look like; None where that is not known.
    Rows that are taken from a file are read as the file is.
    """

    name: str
    values: NDArray[Any]
    category: bool = False
    decimal: str | None = None
    cell_format: CellFormat | None = None

    @property
    def is_text(self) -> bool:
        """Whether the values are text."""
        return self.values.dtype.kind == "O"

    @property
    def unit(self) -> str:
        """What its numbers are in, "" if that is not known."""
        return "" if self.cell_format is None else self.cell_format.unit

    @property
    def missing(self) -> NDArray[np.bool_]:
        """Which values (n,) are missing."""
        return self.values == "" if self.is_text else np.isnan(self.values)

    def as_text(self) -> NDArray[np.object_]:
        """Return the values (n,) as text, "" where they are missing; ``1.0`` is 1, ``TRUE`` is True. Cost: O(n)."""
        if self.is_text:
            cells, codes = coded(self.values)
            return np.array([_label(one) for one in cells], object)[codes]
        if self.values.dtype.kind == "M":
            return np.array(["" if one == "NaT" else one for one in np.datetime_as_string(self.values)], object)
        different, codes = np.unique(self.values, return_inverse=True)
        told = ["" if one != one else say_label(one) for one in different.tolist()]
        return np.array(told, object)[codes]


class Frame:
    """Named columns of the same length.

    Parameters
    ----------
    columns : the columns, in order; no two have the same name
    notes : what is to be said of how a file was read
    reading : how a file of text was read; None for other tables
    """

    def __init__(self, columns: Sequence[Column], *, notes: Sequence[str] = (), reading: Reading | None = None) -> None:
        self._columns = {one.name: one for one in columns}
        self.notes, self.reading = list(notes), reading
        refuse_twice([one.name for one in columns])

    @classmethod
    def of(cls, table: Any) -> Frame:
        """Return the frame of a table: one of another library, see :func:`in_memory`, or an array (n, d).

        Columns of an array are called ``x0``, ``x1``, ... Cost: O(nd).
        """
        if isinstance(table, Frame):
            return table
        if is_frame(table):
            return cls([column_of_series(one) for one in series_of(table).values()])
        values = np.asarray(table)
        if values.dtype.kind == "U":
            values = values.astype(object)
        return cls([column_of(f"x{place}", column) for place, column in enumerate(values.T)])

    @property
    def columns(self) -> list[str]:
        """The names of the columns."""
        return list(self._columns)

    @property
    def shape(self) -> tuple[int, int]:
        """How many rows and columns there are."""
        return len(self), len(self._columns)

    def __len__(self) -> int:
        return len(next(iter(self._columns.values())).values) if self._columns else 0

    def __iter__(self) -> Any:
        return iter(self._columns.values())

    def __contains__(self, name: str) -> bool:
        return name in self._columns

    def __getitem__(self, name: str) -> Column:
        return self._columns[name]

    @property
    def has_names(self) -> bool:
        """Whether its columns have names: those of arrays and of files without a header are called by their places."""
        return self.columns != places_as_names(len(self._columns))

    def take(self, places: NDArray[Any]) -> Frame:
        """Return some rows: their numbers, or a mask (n,). Cost: O(d) per row."""
        return self._with(one._replace(values=one.values[places]) for one in self)

    def without(self, names: Iterable[str]) -> Frame:
        """Return the frame without some columns."""
        left_out = set(names)
        return self._with(one for one in self if one.name not in left_out)

    def only(self, names: Sequence[str]) -> Frame:
        """Return the frame with some columns alone, in this order."""
        return self._with(self[name] for name in names)

    def renamed(self, names: Sequence[str]) -> Frame:
        """Return the frame with other names of its columns."""
        return self._with(one._replace(name=name) for name, one in zip(names, self, strict=True))

    def _with(self, columns: Iterable[Column]) -> Frame:
        return Frame(list(columns), notes=self.notes, reading=self.reading)


def places_as_names(count: int) -> list[str]:
    """Return what columns without names are called: column 1, column 2, ..."""
    return [f"column {place}" for place in range(1, count + 1)]


def is_frame(table: Any) -> bool:
    """Return whether a table has named columns, as frames of this file and of other libraries have."""
    kind = type(table)  # since lazy frames warn where they are asked
    return hasattr(kind, "columns") and hasattr(kind, "__getitem__") and not isinstance(table, np.ndarray)


def in_memory(table: Any) -> Any:
    """Return a table as it is, but the rows of a lazy frame, or of a relation of a data base, in memory.

    Frames are those that narwhals knows: pandas, polars, tables of pyarrow, relations of DuckDB and some more. Others,
    and those with several columns of one name, are refused. Cost: O(1), or that of the query.
    """
    if not is_frame(table) or isinstance(table, Frame):
        return table
    import narwhals.stable.v2 as nw  # with the first frame
    from narwhals.exceptions import DuplicateError

    try:
        found = nw.from_native(table)
    except DuplicateError:
        refuse_twice(list(map(str, getattr(table, "column_names", table.columns))))
        raise
    except TypeError:
        kind = type(table)
        raise InvalidInput(
            f"X is a {kind.__module__.split('.')[0]} {kind.__name__}, which cannot be read. Give a frame of pandas or "
            "polars, a table of pyarrow, a relation of DuckDB, or an array (n, d)."
        ) from None
    if isinstance(found, nw.DataFrame):
        return found.to_native()
    refuse_twice(list(map(str, found.columns)))
    try:
        return found.collect().to_native()
    except ModuleNotFoundError as error:
        raise not_installed(f"a {type(table).__name__} becomes rows by pyarrow, which", extra="parquet") from error


def series_of(table: Any) -> dict[str, Any]:
    """Return the columns of a frame of another library by name, as series of narwhals in memory."""
    import narwhals.stable.v2 as nw

    found = nw.from_native(in_memory(table), eager_only=True)
    refuse_twice(list(map(str, found.columns)))
    return {str(one.name): one for one in found.iter_columns()}


def frame_of_series(columns: Mapping[str, Any]) -> Any:
    """Return the frame of series of narwhals, in the library that they are of."""
    first, *others = columns.values()
    return first.to_frame().with_columns(*others).to_native()


def is_numeric(table: Any) -> bool:
    """Return whether all columns of a frame of another library are numbers or truth values."""
    import narwhals.stable.v2 as nw

    kinds = nw.from_native(table, eager_only=True).schema.values()
    large = (nw.Int128, nw.UInt128)  # which are refused
    return all((kind.is_integer() and kind not in large) or kind.is_float() or kind == nw.Boolean for kind in kinds)


def say_label(label: Any) -> str:
    """Return a class as people write it: 3 rather than 3.0."""
    return str(int(label)) if isinstance(label, float) and label.is_integer() else str(label)


def _label(cell: str) -> str:
    """Return the one way in which a cell of text is written as a category."""
    whole = _WHOLE.fullmatch(cell)
    return whole[1] if whole is not None else TRUTHS.get(cell.lower(), cell)


def column_of_series(series: Any) -> Column:
    """Return a column of narwhals; times are those on the clock of their zone."""
    import narwhals.stable.v2 as nw

    name, kind = str(series.name), series.dtype
    if kind.is_nested() or kind in (nw.Int128, nw.UInt128):
        raise _no_column(name, str(kind)[:40])
    category = isinstance(kind, nw.Categorical | nw.Enum)
    if isinstance(kind, nw.Datetime) and kind.time_zone is not None:
        series = series.dt.replace_time_zone(None)
    elif (category and series.implementation.is_pyarrow()) or (kind.is_integer() and _needs_digits(series)):
        series = series.cast(nw.String)
    try:
        column = column_of(name, np.asarray(series.to_numpy()))
    except NotImplementedError:  # as pyarrow says of unions
        raise _no_column(name, "values that have no array") from None
    return column._replace(values=column.as_text(), category=True) if category else column


def _needs_digits(series: Any) -> bool:
    """Return whether some of these whole numbers are missing, and others too large for those that can be."""
    if not series.null_count() or series.null_count() == len(series):
        return False
    return bool(max(series.max(), -series.min()) > _EXACT)


def column_of(name: str, values: NDArray[Any]) -> Column:
    """Return a column of the values (n,) of an array of any type that can be a column."""
    kind = values.dtype.kind
    if kind in "iu" and len(values) and max(int(values.max()), -int(values.min())) > _EXACT:
        return Column(name, np.array(list(map(str, values.tolist())), object))  # its digits tell names apart
    if kind in "fiub":
        return Column(name, values.astype(np.float64))
    if kind == "M":
        return Column(name, values.astype("datetime64[us]"))
    if kind == "m":
        seconds = np.where(np.isnat(values), np.nan, values / np.timedelta64(1, "s"))
        return Column(name, seconds, cell_format=CellFormat("number", ".", unit="s", quantity="time"))
    if kind in "US":
        return Column(name, np.array([str(one).strip() for one in values.astype(np.str_)], object))
    if kind == "O":
        cells = [cell.strip() if isinstance(cell, str) else _say(name, cell) for cell in values]
        written = any(isinstance(cell, str) for cell in values)  # numbers of Python have a point, as programs do
        return Column(name, np.array(cells, object), decimal=None if written else ".")
    raise _no_column(name, f"values of type {values.dtype}")


def _say(name: str, cell: Any) -> str:
    """Return an object that is no text as it would stand in a file; "" for those that mean that there is none."""
    if cell is None or type(cell).__name__ in ("NAType", "NaTType"):
        return ""
    if isinstance(cell, _TIMES):
        return cell.isoformat()
    if isinstance(cell, Decimal):
        return "" if cell.is_nan() else str(cell)
    if isinstance(cell, bool | int | float | np.generic):
        return "" if cell != cell else str(cell.item() if isinstance(cell, np.generic) else cell)
    raise _no_column(name, f"a {type(cell).__name__}")


def _no_column(name: str, what: str) -> InvalidInput:
    return InvalidInput(
        f"column {name[:40]!r} holds {what}; expected numbers, text or times. Convert the column, or leave it out."
    )
