"""Read: a file as columns of numbers or of text, with every cell there. The one file that imports pyarrow."""

from __future__ import annotations

import csv
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from thresher.errors import InvalidInput, NotAvailable
from thresher.memory import require
from thresher.tables.arrays import name_some, read_arrays

__all__ = ["Column", "ParquetRows", "read_columns"]

KINDS = "a CSV, Parquet, .npz or .npy file"
_MISSING = {"", "na", "n/a", "nan", "null", "none", "?"}
_BYTES_A_BYTE = 12  # of a file of text, in memory at the same time: cells are Python's strings
_BYTES_A_CELL = 100  # of a Parquet file, in memory at the same time: cells are Python's numbers and strings
_NUMBERS = ("int", "uint", "float", "double", "halffloat", "bool")  # how the types of columns of numbers begin
_FILL_IN = "Remove such rows or fill them in."


class Column(NamedTuple):
    """A column: its name, and its values (n,), float64 or str; none is missing, and numbers are finite."""

    name: str
    values: NDArray[Any]

    @property
    def is_text(self) -> bool:
        """Whether the values are text."""
        return self.values.dtype.kind != "f"


def read_columns(path: Path, *, header: bool | None = None, only: str | None = None) -> list[Column]:
    """Return the columns of a file, in order. In an .npz file ``y`` is the last one.

    Parameters
    ----------
    path : CSV (with commas, semicolons or tabs), .parquet, .npz with arrays X and y, or .npy with an array (n, d)
    header : whether the first line of a CSV file has the names; None to guess: it has text that does not come again
    only : the one column of a Parquet file to read; None for all

    Raises
    ------
    InvalidInput
        With the row and column at fault. Rows count from 1 and leave out the header.

    Cost: O(nd).
    """
    kind = path.suffix.lower()
    try:
        status = path.stat()
        if not (stat.S_ISREG(status.st_mode) or stat.S_ISFIFO(status.st_mode)):
            raise InvalidInput(f"cannot read {path}: it is not a file. Give {KINDS}.")
        require(_BYTES_A_BYTE * status.st_size, budget=None, what=f"reading {path}", remedy="Give a smaller file.")
        if kind in (".parquet", ".pq"):
            columns = _read_parquet(path, only)
        elif kind in (".npz", ".npy"):
            columns = _read_arrays(path)
        else:
            columns = _read_csv(path, header)
    except OSError as error:
        raise InvalidInput(f"cannot read {path}: {error.strerror or error}. Give {KINDS}.") from None
    if not columns or not len(columns[0].values):
        raise InvalidInput(f"{path} has no rows. Give {KINDS} with at least 2 rows.")
    return columns


def _read_csv(path: Path, header: bool | None) -> list[Column]:
    try:
        with path.open(encoding="utf-8-sig", newline="") as stream:
            first = next((line for line in stream if line.strip()), "")
            if "\0" in first:
                raise UnicodeDecodeError("utf-8", b"", 0, 1, "not text")
            stream.seek(0)
            reader = csv.reader(stream, delimiter=max(",;\t", key=first.count), strict=True)
            rows = [
                [cell.strip() for cell in row] for row in reader if any(cell.strip() for cell in row) or len(row) > 1
            ]
    except UnicodeDecodeError:
        raise InvalidInput(f"{path} is not a text file. Give {KINDS}.") from None
    except csv.Error as error:
        raise InvalidInput(f"{path} is no CSV file: {error}. Are its quotation marks in pairs?") from None
    if not rows:
        raise InvalidInput(f"{path} is empty. Give {KINDS} with at least 2 rows.")
    names = _take_names(rows, header)
    _refuse_twice(path, names)
    if not rows:
        raise InvalidInput(f"{path} has no rows below its header. Give {KINDS} with at least 2 rows.")
    for place, row in enumerate(rows, start=1):
        if len(row) != len(names):
            raise InvalidInput(
                f"{path}: row {place} has {len(row)} cells; expected {len(names)}, as in the first line."
            )
    return [_parse(path, name, cells) for name, cells in zip(names, zip(*rows, strict=True), strict=True)]


def _refuse_twice(path: Path, names: list[str]) -> None:
    """Refuse columns of one name."""
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise InvalidInput(f"{path} has two columns with the name {twice[:40]!r}. Rename one of them.")


def _take_names(rows: list[list[str]], header: bool | None) -> list[str]:
    """Return the names of the columns, and take the line they stand in from the rows."""
    if header is None:
        texts = [place for place, cell in enumerate(rows[0]) if _number(cell) is None and cell.lower() not in _MISSING]
        again = any(len(row) > place and row[place] == rows[0][place] for row in rows[1:] for place in texts)
        header = bool(texts) and not again
    names = rows.pop(0) if header else [""] * len(rows[0])
    return [name or f"column {place}" for place, name in enumerate(names, start=1)]


def _parse(path: Path, name: str, cells: Sequence[str]) -> Column:
    missing = [place for place, cell in enumerate(cells, start=1) if cell.lower() in _MISSING]
    _refuse_missing(path, name, missing, len(cells))
    numbers = [_number(cell) for cell in cells]
    text = next((place for place, number in enumerate(numbers) if number is None), None)
    if text is None:
        return _finite(path, name, np.array(numbers, dtype=np.float64))
    if any(number is not None for number in numbers):
        raise InvalidInput(
            f"{path}: row {text + 1}, column {name[:40]!r} is {cells[text][:40]!r}, not a number as others there. "
            "Correct it, or remove such rows."
        )
    return Column(name, np.array(cells, dtype=np.str_))


def _read_arrays(path: Path) -> list[Column]:
    arrays = read_arrays(path)
    columns = [_from_array(path, f"column {place}", values) for place, values in enumerate(arrays["X"].T, start=1)]
    return [*columns, _from_array(path, "y", arrays["y"])] if "y" in arrays else columns


class ParquetRows:
    """Columns of numbers in a Parquet file as rows (n, d), read in blocks; they need not fit in memory.

    Parameters
    ----------
    path : the file
    names : the columns, in order; None for all
    """

    def __init__(self, path: Path, names: Sequence[str] | None = None) -> None:
        with _opened(path) as file:
            _refuse_twice(path, file.schema_arrow.names)
            kinds = {field.name: str(field.type) for field in file.schema_arrow}
            self._path, self._rows, self.all_names = path, int(file.metadata.num_rows), list(kinds)
        self.names = list(kinds) if names is None else list(names)
        for name in self.names:
            if name not in kinds:
                raise InvalidInput(f"{path} has no column {name[:40]!r}; it has {name_some(list(kinds))}.")
            if not kinds[name].startswith(_NUMBERS):
                raise InvalidInput(
                    f"{path}: column {name[:40]!r} holds {kinds[name][:40]}; expected numbers. "
                    "Convert the column, or leave it out."
                )

    @property
    def shape(self) -> tuple[int, int]:
        """How many rows and columns there are."""
        return self._rows, len(self.names)

    def __len__(self) -> int:
        return self._rows

    def blocks(self, size: int) -> Iterator[NDArray[np.float64]]:
        """Yield the rows in order, ``size`` at a time; the last block may be shorter. Cost: O(d) per row."""
        waiting, first = np.zeros((0, len(self.names))), 0
        with _opened(self._path) as file:
            for batch in file.iter_batches(batch_size=size, columns=self.names):
                columns = [batch.column(name).to_numpy(zero_copy_only=False) for name in self.names]
                block = np.column_stack(columns).astype(np.float64)
                for row, column in np.argwhere(~np.isfinite(block))[:1]:
                    raise InvalidInput(
                        f"{self._path}: row {first + row + 1}, column {self.names[column][:40]!r} is missing or not "
                        f"finite. {_FILL_IN}"
                    )
                first += len(block)
                waiting = np.concatenate([waiting, block])
                while len(waiting) >= size:
                    yield waiting[:size]
                    waiting = waiting[size:]
        if len(waiting):
            yield waiting


@contextmanager
def _opened(path: Path) -> Iterator[Any]:
    """Open a Parquet file; what goes wrong with it is InvalidInput."""
    try:
        from pyarrow import ArrowException, parquet
    except ModuleNotFoundError as error:
        raise NotAvailable("Parquet files need pyarrow: pip install -e '.[parquet]'") from error
    try:
        with parquet.ParquetFile(path) as file:
            yield file
    except (ArrowException, OSError, ValueError) as error:
        if isinstance(error, InvalidInput):
            raise
        said = next(iter(str(error).splitlines()), "it cannot be read.")[:200]
        raise InvalidInput(f"{path} is no Parquet file: {said} Give {KINDS}.") from None


def _read_parquet(path: Path, only: str | None) -> list[Column]:
    with _opened(path) as file:
        from pyarrow.types import is_nested

        about = file.metadata
        _refuse_twice(path, file.schema_arrow.names)
        groups = [about.row_group(place).num_rows for place in range(about.num_row_groups)]
        columns = about.num_columns if only is None else 1
        cells = max(about.num_rows, sum(groups)) * columns  # few bytes may stand for many equal ones
        require(_BYTES_A_CELL * cells, budget=None, what=f"reading {path}", remedy="Give a smaller file.")
        table = file.read(columns=None if only is None else [only])
        return [
            _from_arrow(path, name, column, nested=is_nested(column.type))
            for name, column in zip(table.column_names, table.columns, strict=True)
        ]


def _from_arrow(path: Path, name: str, column: Any, *, nested: bool) -> Column:
    missing = np.flatnonzero(column.is_null().to_numpy()) + 1
    _refuse_missing(path, name, missing.tolist(), len(column))
    if nested:
        raise InvalidInput(
            f"{path}: column {name[:40]!r} holds {str(column.type)[:40]}; expected numbers or text. "
            "Convert the column, or leave it out with --drop."
        )
    return _from_array(path, name, np.asarray(column.to_pylist()))


def _from_array(path: Path, name: str, values: NDArray[Any]) -> Column:
    if values.dtype.kind in "US":
        cells = values.astype(np.str_)
        _refuse_missing(path, name, [k for k, cell in enumerate(cells, start=1) if not cell.strip()], len(cells))
        return Column(name, cells)
    if values.dtype.kind not in "fiub":
        raise InvalidInput(
            f"{path}: column {name[:40]!r} holds values of type {values.dtype}; expected numbers or text. "
            "Convert the column, or leave it out with --drop."
        )
    return _finite(path, name, values.astype(np.float64))


def _finite(path: Path, name: str, values: NDArray[np.float64]) -> Column:
    _refuse_missing(path, name, (np.flatnonzero(np.isnan(values)) + 1).tolist(), len(values))
    infinite = np.flatnonzero(np.isinf(values))
    if len(infinite):
        place = infinite[0]
        raise InvalidInput(f"{path}: row {place + 1}, column {name[:40]!r} is {values[place]}; numbers must be finite.")
    return Column(name, values)


def _refuse_missing(path: Path, name: str, missing: Sequence[int], rows: int) -> None:
    if missing:
        more = f", and in {len(missing) - 1} more of {rows} rows" if len(missing) > 1 else ""
        raise InvalidInput(f"{path}: row {missing[0]}, column {name[:40]!r} is missing{more}. {_FILL_IN}")


def _number(cell: str) -> float | None:
    try:
        return float(cell)
    except ValueError:
        return None
