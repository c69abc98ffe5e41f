"""Which rows are trained on and which are tested on; each class has its share in both."""

from __future__ import annotations

import warnings
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
    from sklearn.model_selection import train_test_split

    n = len(targets)
    count = max(round(share * n), 1) if share > 0 else 0
    if n - count < 2:
        raise InvalidInput(f"test_size={share:g} leaves {n - count} of {n} rows to train on. Use a smaller value.")
    order = np.random.default_rng(seed).permutation(n)
    firsts = order[np.unique(targets[order], return_index=True)[1]] if classes else order[:0]
    others = np.setdiff1d(order, firsts)
    count = min(count, len(others))
    if not 0 < count < len(others):
        test = others[:count]
    else:
        counts = np.unique(targets[others], return_counts=True)[1]
        even = classes and counts.min() > 1 and len(counts) <= min(count, len(others) - count)
        labels = targets[others] if even else None
        test = train_test_split(others, test_size=count, random_state=seed, stratify=labels)[1]
    mask = np.zeros(n, np.bool_)
    mask[test] = True
    return TrainTest(np.flatnonzero(~mask), np.flatnonzero(mask))


def fold(targets: NDArray[Any], folds: int, *, seed: int, classes: bool) -> list[TrainTest]:
    """Return the splits of a cross-validation: each row is tested once, classes are spread evenly. Cost: O(n log n)."""
    from sklearn.model_selection import KFold, StratifiedKFold

    n = len(targets)
    if folds > n // 2:
        raise InvalidInput(f"cv={folds} needs at least {2 * folds} rows, two for each fold; there are {n}.")
    even = classes and np.unique(targets, return_counts=True)[1].max() >= folds
    kind = StratifiedKFold if even else KFold
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of classes with fewer rows than there are folds
        parts = [TrainTest(*one) for one in kind(folds, shuffle=True, random_state=seed).split(targets, targets)]
    for one in parts if classes else []:
        known = np.unique(targets[one.train])
        if len(known) < 2:
            raise InvalidInput(
                f"cv={folds} leaves a fold with one class to train on, {str(known[0])[:40]!r}: the other has too "
                "few rows. Use no cross-validation, or add rows of it."
            )
    return parts
