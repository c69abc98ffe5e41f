"""Parquet files: all of one as columns, its rows block by block, or left where they are. Imports pyarrow."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thresher.checks import guess_name, name_some, refuse_twice, split_names
from thresher.errors import InvalidInput, not_installed
from thresher.memory import require
from thresher.tables.frame import Column, Frame, column_of, column_of_series, series_of
from thresher.tables.rows_on_disk import pick
from thresher.tables.text_files import SMALLER

__all__ = ["KINDS", "PARQUET", "ParquetRows", "parquet_blocks", "read_parquet"]

KINDS = "a CSV or Parquet file"
PARQUET = (".parquet", ".pq")
_BLOCK = 1 << 16  # rows of a Parquet file that are read at a time
_BYTES_A_CELL = 100  # of a Parquet file, in memory at the same time: cells may be Python's strings
_NUMBERS = ("int", "uint", "float", "double", "halffloat", "bool")  # how the types of columns of numbers begin
_INDEX = re.compile(r"__index_level_\d+__")  # what pandas calls rows in a Parquet file, if they have no other name
_FILL_IN = (
    "Remove such rows or fill them in; or read some rows into memory, where they are filled in: thresher train --rows "
    "100000."
)


class ParquetRows:
    """Columns of numbers in a Parquet file as rows (n, d), read in blocks; they need not fit in memory.

    Parameters
    ----------
    path : the file
    names : the columns, in order; None for all but an index of pandas
    """

    def __init__(self, path: Path, names: Sequence[str] | None = None) -> None:
        with _opened(path) as file:
            refuse_twice(file.schema_arrow.names, source=f"{path}: ")
            kinds = {field.name: str(field.type) for field in file.schema_arrow}
            self._path, self._rows = path, int(file.metadata.num_rows)
            self.all_names = [name for name in kinds if not _INDEX.fullmatch(name)]
        self.names = list(self.all_names if names is None else names)
        for name in self.names:
            if name not in kinds:
                near = guess_name(name, kinds)
                raise InvalidInput(f"{path} has no column {name[:40]!r}; it has {name_some(list(kinds))}.{near}")
            if not kinds[name].startswith(_NUMBERS):
                raise InvalidInput(
                    f"{path}: column {name[:40]!r} holds {kinds[name][:40]}; expected numbers. "
                    "Convert the column, or leave it out."
                )

    @property
    def shape(self) -> tuple[int, int]:
        """How many rows and columns there are."""
        return self._rows, len(self.names)

    @property
    def columns(self) -> list[str]:
        """The names of the columns."""
        return self.names

    def __len__(self) -> int:
        return self._rows

    def blocks(self, size: int) -> Iterator[NDArray[np.float64]]:
        """Yield the rows in order, ``size`` at a time; the last block may be shorter. Cost: O(d) per row.

        The first that has a missing number is refused.
        """
        waiting, first = np.zeros((0, len(self.names))), 0
        for block in self._batches(size):
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

    def take(self, places: NDArray[np.int64]) -> Frame:
        """Return some rows in memory, by their numbers (k,); values may be missing. Cost: O(d) per row of all."""
        rows = pick(self._batches(_BLOCK), places, len(self.names))
        return Frame([column_of(name, values) for name, values in zip(self.names, rows.T, strict=True)])

    def _batches(self, size: int) -> Iterator[NDArray[np.float64]]:
        with _opened(self._path) as file:
            for batch in file.iter_batches(batch_size=size, columns=self.names):
                columns = [batch.column(name).to_numpy(zero_copy_only=False) for name in self.names]
                yield np.column_stack(columns).astype(np.float64)


@contextmanager
def _opened(path: Path) -> Iterator[Any]:
    """Open a Parquet file; what goes wrong with it is InvalidInput."""
    try:
        from pyarrow import ArrowException, parquet
    except ModuleNotFoundError as error:
        raise not_installed("Parquet files need pyarrow", extra="parquet") from error
    try:
        with parquet.ParquetFile(path) as file:
            yield file
    except (ArrowException, OSError, ValueError) as error:
        if isinstance(error, InvalidInput):
            raise
        said = next(iter(str(error).splitlines()), "it cannot be read.")[:200]
        raise InvalidInput(f"{path} is no Parquet file: {said} Give {KINDS}.") from None


def parquet_blocks(path: Path, *, size: int) -> Iterator[Frame]:
    """Yield the rows of a file, ``size`` at a time. Cost: O(nd); memory for one block."""
    with _opened(path) as file:
        from pyarrow import Table

        refuse_twice(file.schema_arrow.names, source=f"{path}: ")
        for batch in file.iter_batches(batch_size=size):
            yield Frame.of(Table.from_batches([batch]))


def read_parquet(
    path: Path, *, only: str | None, drop: Sequence[str], wrong: list[str], notes: list[str]
) -> list[Column]:
    """Return the columns of a file, or ``only`` one; what is wrong with them, and what is to be said, is added."""
    with _opened(path) as file:
        about = file.metadata
        refuse_twice(file.schema_arrow.names, source=f"{path}: ")
        groups = [about.row_group(place).num_rows for place in range(about.num_row_groups)]
        columns = about.num_columns if only is None else 1
        cells = max(about.num_rows, sum(groups)) * columns  # few bytes may stand for many equal ones
        require(_BYTES_A_CELL * cells, budget=None, what=f"reading {path}", remedy=SMALLER)
        table = file.read(columns=None if only is None else [only])
        left_out = split_names(drop, table.column_names)
        found = []
        for name, series in series_of(table).items():
            if _INDEX.fullmatch(name) and only is None:
                notes.append(f"Left out {name!r}, in which pandas keeps what rows are called.")
                continue
            try:
                found.append(Column(name, np.zeros(len(series))) if name in left_out else column_of_series(series))
            except InvalidInput as error:
                wrong.append(f"{str(error).removesuffix('.')} with --drop.")
                found.append(Column(name, np.zeros(len(series))))
        return found
