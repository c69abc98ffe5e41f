"""Rows read in blocks: from memory, a memory-mapped or a Parquet file, and lifted as they come.

Rows that do not fit in memory are read again in each pass over them. Blocks are read one after the other; the work on
them, from scaling on, is done by all threads.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_consistent_length
from sklearn.utils.validation import validate_data

from thresher.errors import InvalidInput

__all__ = ["Part", "Rows", "Stream", "checked_part", "hash_rows", "joined", "lift_single", "norm_of_blocks", "on_disk",
           "some_of"]  # fmt: skip

Single = NDArray[np.float32]
Matrix = NDArray[np.float64]
Numbers = NDArray[np.int64]
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

    def __init__(self, rows: NDArray[Any] | Rows, places: Numbers | None = None) -> None:
        self.names = getattr(rows, "names", None)
        self._rows: NDArray[Any] | Rows
        self._places: Numbers
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

    def __getitem__(self, numbers: Numbers) -> Matrix:
        """Return the rows with some numbers (k, d), in any order. Cost: one pass over rows that are not an array."""
        order = np.argsort(numbers, kind="stable")
        found = np.empty((len(numbers), self.shape[1]))
        if isinstance(self._rows, np.ndarray):
            found[order] = self._rows[self._places[numbers[order]]]
            return found
        wanted, first = numbers[order], 0
        for block in self.blocks(BLOCK):
            begin, end = np.searchsorted(wanted, (first, first + len(block)))
            found[order[begin:end]] = block[wanted[begin:end] - first]
            first += len(block)
        return found

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


def checked_part(estimator: Any, X: NDArray[Any] | Rows, **more: Any) -> tuple[Part, Any]:
    """Return rows on disk and targets, checked; an estimator remembers how many columns there are, and their names."""
    rows = Part(X)
    targets = validate_data(estimator, "no_validation", **more)
    check_consistent_length(rows, targets)
    rows.check()
    estimator.n_features_in_ = rows.shape[1]
    if rows.names is not None:
        estimator.feature_names_in_ = np.array(rows.names, object)
    return rows, targets


def joined(found: list[Any]) -> Any:
    """Return what was predicted for blocks as one array, or as several if there are several for each block."""
    if not found:
        raise InvalidInput("X has no rows: there is nothing to predict.")
    several = isinstance(found[0], tuple)
    return tuple(map(np.concatenate, zip(*found, strict=True))) if several else np.concatenate(found)


def some_of(rows: NDArray[Any] | Part, mask: NDArray[np.bool_]) -> NDArray[Any] | Part:
    """Return the rows of a mask (n,), where they are."""
    return Part(rows, np.flatnonzero(mask)) if isinstance(rows, Part) else rows[mask]


def hash_rows(block: Matrix) -> NDArray[np.uint64]:
    """Return a number of 64 bits for each row (k, d): the same for equal rows, at random for others. Cost: O(kd)."""
    found = np.zeros(len(block), np.uint64)
    for column in np.ascontiguousarray((block + 0.0).T).view(np.uint64):  # -0.0 becomes 0.0, which it equals
        found = (found + np.uint64(0x9E3779B97F4A7C15)) ^ column
        for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
            found = (found ^ (found >> np.uint64(shift))) * np.uint64(factor)
        found ^= found >> np.uint64(31)
    return found


@dataclass(frozen=True)
class Stream:
    """Rows (n, d) and what makes inputs of them, block by block.

    Parameters
    ----------
    rows : an array, in memory or memory-mapped, or what has ``blocks``
    lift : returns inputs (k, r), unit norm, float32, for a block (k, d); None if the rows are inputs
    """

    rows: NDArray[Any] | Rows
    lift: Callable[[NDArray[Any]], NDArray[Any]] | None = None

    def __len__(self) -> int:
        return len(self.rows)

    def blocks(self, size: int) -> Iterator[tuple[int, NDArray[Any]]]:
        """Yield the number of the first row of each block, and the block as it was read."""
        rows, first = self.rows, 0
        slices = (rows[k : k + size] for k in range(0, len(rows), size)) if isinstance(rows, np.ndarray) else None
        for block in rows.blocks(size) if slices is None else slices:  # type: ignore[union-attr]
            yield first, block
            first += len(block)

    def inputs(self, block: NDArray[Any]) -> Single:
        """Return the inputs of a block that was read."""
        return np.ascontiguousarray(block if self.lift is None else self.lift(block), np.float32)

    def take(self, places: Numbers) -> Single:
        """Return the inputs of some rows, in any order. Cost: one pass over rows that are not an array."""
        some = self.rows[places] if isinstance(self.rows, np.ndarray) else Part(self.rows)[places]
        return self.inputs(some)

    def in_memory(self) -> Stream:
        """Return the same inputs, lifted once and kept. Memory: 4 bytes for each number."""
        made = np.empty((0, 0), np.float32)
        for first, block in self.blocks(BLOCK):
            inputs = self.inputs(block)
            made = made if first else np.empty((len(self), inputs.shape[1]), np.float32)
            made[first : first + len(block)] = inputs
        return Stream(made)


def norm_of_blocks(rows: NDArray[Any] | Rows, turn: Callable[[Matrix], Matrix], weights: Matrix) -> float:
    """Return the root mean square norm of what ``turn`` makes of rows with weights (n,); refuse rows too large.

    Cost: one pass.
    """
    total = 0.0
    for first, block in Stream(rows).blocks(BLOCK):
        norms = (turn(block) ** 2).sum(axis=1)
        if not np.isfinite(norms).all():
            row = first + int(np.argmax(~np.isfinite(norms)))
            raise InvalidInput(f"row {row} of X is too large after scaling. Rescale it first.")
        total += float(weights[first : first + len(block)] @ norms)
    return math.sqrt(total / weights.sum()) or 1.0


def lift_single(rows: NDArray[Any], last: float) -> Single:
    """Return rows (k, d) with one more coordinate ``last``, divided by their norms: (k, d + 1), float32.

    For rows that are finite, and not zero where ``last`` is 0. Cost: O(kd).
    """
    longer = np.empty((len(rows), rows.shape[1] + 1), np.float32)
    longer[:, :-1], longer[:, -1] = rows, last
    longer /= np.linalg.norm(longer, axis=1, keepdims=True)
    return longer
