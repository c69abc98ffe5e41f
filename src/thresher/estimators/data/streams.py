"""Rows read in blocks, from memory or from a file (``tables/rows_on_disk.py``), and lifted as they come.

Rows that do not fit in memory are read again in each pass over them. Blocks are read one after the other; the work on
them, from scaling on, is done by all threads.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_consistent_length
from sklearn.utils.validation import validate_data

from thresher.errors import InvalidInput
from thresher.tables.rows_on_disk import BLOCK, Part, Rows

__all__ = ["Stream", "checked_part", "hash_rows", "joined", "norm_of_blocks", "some_of"]

Single = NDArray[np.float32]
Matrix = NDArray[np.float64]
Numbers = NDArray[np.int64]


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
