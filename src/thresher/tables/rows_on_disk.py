"""Rows that are read in blocks: those of an array, of a memory-mapped or a Parquet file, or of what has ``blocks``."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from thresher.errors import InvalidInput
from thresher.tables.frame import Frame, column_of, places_as_names

__all__ = ["BLOCK", "Part", "Rows", "on_disk", "pick"]

Matrix = NDArray[np.float64]
Places = NDArray[np.int64]
BLOCK = 4096  # rows that are read at a time where nothing else is said


class Rows(Protocol):
    """Rows that can be read in blocks, again and again."""

    @property
    def shape(self) -> tuple[int, int]:
        """How many there are, and of how many columns."""

    def __len__(self) -> int:
        """Return how many there are."""

    def blocks(self, size: int) -> Iterator[NDArray[Any]]:
        """Yield them in order, ``size`` at a time; the last block may be shorter."""


def pick(blocks: Iterable[NDArray[Any]], numbers: Places, columns: int) -> Matrix:
    """Return the rows with some numbers (k, columns), in any order, out of the blocks that hold all rows."""
    order = np.argsort(numbers, kind="stable")
    wanted, found, first = numbers[order], np.empty((len(numbers), columns)), 0
    for block in blocks:
        begin, end = np.searchsorted(wanted, (first, first + len(block)))
        found[order[begin:end]] = block[wanted[begin:end] - first]
        first += len(block)
    return found


def on_disk(X: Any) -> bool:
    """Return whether rows are read in blocks: a memory-mapped array, or what has a method ``blocks``."""
    return isinstance(X, np.memmap) or callable(getattr(X, "blocks", None))


class Part:
    """Some rows (n, d) of an array or of what has ``blocks``, as float64; they are read when they are asked for.

    Parameters
    ----------
    rows : all rows
    places : which of them, ascending; None for all
    """

    def __init__(self, rows: NDArray[Any] | Rows, places: Places | None = None) -> None:
        self.names = getattr(rows, "names", None)
        self._rows: NDArray[Any] | Rows
        self._places: Places
        if isinstance(rows, Part):  # a part of a part
            self._rows, self._places = rows._rows, rows._places if places is None else rows._places[places]
        else:
            self._rows, self._places = rows, np.arange(len(rows)) if places is None else places
        rows = self._rows
        self.on_disk = on_disk(rows)
        self.kind = rows.dtype.kind if isinstance(rows, np.ndarray) else "f"  # of the numbers, as in numpy

    @property
    def shape(self) -> tuple[int, int]:
        """How many rows and columns there are."""
        return (len(self._places), *self._rows.shape[1:])

    def __len__(self) -> int:
        return len(self._places)

    def blocks(self, size: int) -> Iterator[Matrix]:
        """Yield the rows in order, at most ``size`` at a time. Cost: O(d) per row of all that there are."""
        if isinstance(self._rows, np.ndarray):
            for first in range(0, len(self), size):
                yield np.asarray(self._rows[self._places[first : first + size]], np.float64)
            return
        first = 0
        for block in self._rows.blocks(size):
            begin, end = np.searchsorted(self._places, (first, first + len(block)))
            if begin < end:
                yield np.asarray(block[self._places[begin:end] - first], np.float64)
            first += len(block)

    def __getitem__(self, numbers: Places) -> Matrix:
        """Return the rows with some numbers (k, d), in any order. Cost: one pass over rows that are not an array."""
        if not isinstance(self._rows, np.ndarray):
            return pick(self.blocks(BLOCK), numbers, self.shape[1])
        order = np.argsort(numbers, kind="stable")  # a file that is mapped into memory is read from its beginning
        found = np.empty((len(numbers), self.shape[1]))
        found[order] = self._rows[self._places[numbers[order]]]
        return found

    def take(self, places: Places) -> Frame:
        """Return some rows in memory, by their numbers (k,). Cost: one pass over rows that are not an array."""
        names = self.names or places_as_names(self.shape[1])
        return Frame([column_of(name, column) for name, column in zip(names, self[places].T, strict=True)])

    def check(self) -> None:
        """Refuse what is not a table of finite numbers. Cost: one pass."""
        for _ in self.read(self.shape[1]):
            pass

    def read(self, columns: int, names: Any = None) -> Iterator[Matrix]:
        """Yield the rows in blocks; refuse the first that is not finite, and all if columns or names are others."""
        if len(self.shape) != 2 or not self.shape[1] or self.kind not in "fiub":
            raise InvalidInput(f"rows on disk must be numbers (n, d); got shape {self.shape}, kind {self.kind!r}.")
        if self.shape[1:] != (columns,) or (names is not None and self.names is not None and list(names) != self.names):
            raise InvalidInput(f"X must have the {columns} columns of the fit; got {self.names or self.shape[1:]}.")
        first = 0
        for block in self.blocks(BLOCK):
            for row, column in np.argwhere(~np.isfinite(block))[:1]:
                name = column if self.names is None else repr(self.names[column])
                raise InvalidInput(
                    f"row {self._places[first + row]} of X, column {name}, is {block[row, column]}; numbers must be "
                    "finite. Remove such rows or fill them in."
                )
            first += len(block)
            yield block
