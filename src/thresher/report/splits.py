"""Which rows are trained on and which are tested on; each class has its share in both."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from thresher.errors import InvalidInput

__all__ = ["Places", "TrainTest", "fold", "split"]

Places = NDArray[np.int64]


class TrainTest(NamedTuple):
    """Rows to train on and rows to test on."""

    train: Places
    test: Places


def split(targets: NDArray[Any], share: float, *, seed: int, classes: bool) -> TrainTest:
    """Return a split in which about a ``share`` of the rows, and of each class, is for testing.

    At least one row is tested on, unless the share is 0 or each class has one row; one row of each class is always
    trained on. Cost: O(n log n).
    """
    n = len(targets)
    count = max(round(share * n), 1) if share > 0 else 0
    if n - count < 2:
        raise InvalidInput(f"test_size={share:g} leaves {n - count} of {n} rows to train on. Use a smaller value.")
    order = _spread(targets, np.random.default_rng(seed), classes=classes)
    if classes:
        _, firsts = np.unique(targets[order], return_index=True)
        order = np.concatenate([order[firsts], np.delete(order, firsts)])
        count = min(count, n - len(firsts))
        test = order[len(firsts) + _evenly(n - len(firsts), count)]
    else:
        test = order[:count]
    mask = np.zeros(n, np.bool_)
    mask[test] = True
    return TrainTest(np.flatnonzero(~mask), np.flatnonzero(mask))


def fold(targets: NDArray[Any], folds: int, *, seed: int, classes: bool) -> list[TrainTest]:
    """Return the splits of a cross-validation: each row is tested once, classes are spread evenly. Cost: O(n log n)."""
    n = len(targets)
    if folds > n // 2:
        raise InvalidInput(f"cv={folds} needs at least {2 * folds} rows, two for each fold; there are {n}.")
    order = _spread(targets, np.random.default_rng(seed), classes=classes)
    turn = np.empty(n, np.int64)
    turn[order] = np.arange(n) % folds
    parts = [TrainTest(np.flatnonzero(turn != k), np.flatnonzero(turn == k)) for k in range(folds)]
    if classes:
        for one in parts:
            known = np.unique(targets[one.train])
            if len(known) < 2:
                raise InvalidInput(
                    f"cv={folds} leaves a fold with one class to train on, {str(known[0])[:40]!r}: the other has too "
                    "few rows. Use no cross-validation, or add rows of it."
                )
    return parts


def _spread(targets: NDArray[Any], generator: np.random.Generator, *, classes: bool) -> Places:
    """Return all places in random order; with classes, one class after the other."""
    order = generator.permutation(len(targets))
    return order[np.argsort(targets[order], kind="stable")] if classes else order


def _evenly(n: int, count: int) -> Places:
    """Return ``count`` different places of n, as far apart as possible."""
    return np.arange(count) * n // max(count, 1)
