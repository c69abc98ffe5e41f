"""Which rows a model has seen: 8 bytes for each row, enough to say later that a row was trained on."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["count_seen", "hash_rows_of"]

_BLOCK = 4096  # rows that are read at a time


def hash_rows_of(model: Any, X: Any) -> NDArray[np.uint64]:
    """Return a number of 64 bits for each row of a table or a file: the same for rows that a model cannot tell apart.

    ``model`` is the fitted estimator, which makes numbers of the rows. Cost: O(nd).
    """
    from thresher.estimators.rows import new_rows
    from thresher.estimators.streams import Part, hash_rows, on_disk

    blocks = Part(X).blocks(_BLOCK) if on_disk(X) else [new_rows(model, X)]
    return np.concatenate([hash_rows(block) for block in blocks])


def count_seen(hashes: NDArray[np.uint64], seen: NDArray[np.uint64]) -> int:
    """Return how many of the rows with these hashes (k,) are among those ``seen`` (n,). Cost: O((k + n) log n)."""
    return int(np.isin(hashes, seen).sum())
