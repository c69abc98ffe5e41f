"""Rows read in blocks: from memory, a memory-mapped file or a Parquet file, and lifted as they come.

Rows that do not fit in memory are read again in each pass over them. Blocks are read one after the other; the work on
them, from scaling on, is done by all threads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

__all__ = ["Rows", "Stream", "lift_single"]

Single = NDArray[np.float32]


class Rows(Protocol):
    """Rows that can be read in blocks, again and again."""

    def __len__(self) -> int:
        """Return how many there are."""

    def blocks(self, size: int) -> Iterator[NDArray[Any]]:
        """Yield them in order, ``size`` at a time; the last block may be shorter."""


@dataclass(frozen=True)
class Stream:
    """Rows (n, d) and what makes inputs of them, block by block.

    Parameters
    ----------
    rows : an array, in memory or memory-mapped, or what has ``blocks``
    lift : returns inputs (k, r), unit norm, float32, for a block (k, d); None if the rows are inputs
    """

    rows: NDArray[Any] | Rows
    lift: Callable[[NDArray[Any]], Single] | None = None

    def __len__(self) -> int:
        return len(self.rows)

    def blocks(self, size: int) -> Iterator[tuple[int, NDArray[Any]]]:
        """Yield the number of the first row of each block, and the block as it was read."""
        if isinstance(self.rows, np.ndarray):
            for first in range(0, len(self.rows), size):
                yield first, self.rows[first : first + size]
        else:
            yield from zip(range(0, len(self.rows), size), self.rows.blocks(size), strict=True)

    def inputs(self, block: NDArray[Any]) -> Single:
        """Return the inputs of a block that was read."""
        return np.ascontiguousarray(block if self.lift is None else self.lift(block), np.float32)

    def take(self, places: NDArray[np.int64], *, size: int = 1 << 14) -> Single:
        """Return the inputs of some rows, ascending. Cost: one pass over rows that are not an array."""
        if isinstance(self.rows, np.ndarray):
            return self.inputs(self.rows[places])
        ends = np.searchsorted(places, np.arange(0, len(self) + size, size))
        parts = [block[places[ends[k] : ends[k + 1]] - first] for k, (first, block) in enumerate(self.blocks(size))]
        return self.inputs(np.concatenate(parts))


def lift_single(rows: NDArray[Any], last: float) -> Single:
    """Return rows (k, d) with one more coordinate ``last``, divided by their norms: (k, d + 1), float32.

    For rows that are finite, and not zero where ``last`` is 0. Cost: O(kd).
    """
    longer = np.empty((len(rows), rows.shape[1] + 1), np.float32)
    longer[:, :-1], longer[:, -1] = rows, last
    longer /= np.linalg.norm(longer, axis=1, keepdims=True)
    return longer
