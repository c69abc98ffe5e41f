"""The training table: distinct rows of inputs, and the observations at each.

An observation is one target with its inputs. If all sample weights are whole numbers, a weight of 2 is two
observations, as in scikit-learn, and so is a row that occurs twice. Otherwise, as with inverse variances, each row is
one observation with its own weight; the same holds for class weights. Leave-one-out, folds of a cross-validation and
the likelihood all refer to single observations, however often their inputs occur. Copies are the exception: see
:func:`_are_copies`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from thresher.estimators.data.streams import hash_rows
from thresher.tables.rows_on_disk import BLOCK, Part

__all__ = ["Observations", "Pools", "distinct_rows"]

Matrix = NDArray[np.float64]
Numbers = NDArray[np.int64]
_LARGE = 1 << 20  # numbers in a table from which on rows are sorted by their bytes
_SOME = 4096  # rows of a file whose values say whether there are copies
_FEW, _COPIED, _TORN, _ROOM = 8, 0.2, 0.05, 100.0  # of copies: rows, share of them, of rows that differ, times the rows


class Pools(NamedTuple):
    """Observations of equal inputs and equal unit, pooled: all that is needed for their squared errors."""

    row: Numbers  # (p,)
    unit: Matrix  # (p,)
    number: Matrix  # (p,): of observations
    mean: Matrix  # (p, k)
    spread: Matrix  # (p, k): sums of squared distances from the mean


class Observations:
    """Distinct inputs ``X`` (n, d); at row ``row[c]``, ``count[c]`` equal observations of weight ``unit[c]`` each.

    These are a *cell*. ``row``, ``target`` (c, k), ``unit``, ``count`` and ``weight`` are those of c cells, ``targets``
    (n, k) and ``weights`` (n,) those of n rows. Rows are sorted, so their order in the table does not matter. ``own``
    (c, k') are the targets as they were given, where a loss has made others of them.
    """

    def __init__(
        self,
        X: Any,
        *,
        row: Numbers,
        target: Matrix,
        unit: Matrix,
        count: Matrix,
        order: Numbers | None = None,
        own: Matrix | None = None,
    ) -> None:
        self.X, self.row, self.target, self.unit, self.count = X, row, target, unit, count
        self.own = target if own is None else own
        self._order = order

    @classmethod
    def merged(
        cls,
        X: Matrix,
        targets: Matrix,
        *,
        weights: Matrix | None = None,
        importance: Matrix | None = None,
        own: Matrix | None = None,
    ) -> Observations:
        """Return the observations in rows X (n, d) with targets (n, k), and their ``own`` (n, k') if those are others.

        ``weights`` (n,) are numbers of observations if all are whole, else weights of single observations;
        ``importance`` (n,) multiplies the weight of each observation but not their number. Only ratios of these
        weights matter: their mean is made 1. Copies of an observation are one, with their weight. Cost: O(nd log n).
        """
        number, unit = _counted(len(X), weights, importance)
        kept, outputs = unit > 0, targets.shape[1]
        both = targets if own is None else np.hstack([targets, own])
        if not kept.all():
            X, both, number, unit = X[kept], both[kept], number[kept], unit[kept]
        distinct, row = distinct_rows(X)
        if _are_copies(row, both if own is None else both[:, outputs:], number, len(distinct), lambda: distinct):
            row, both, number, unit = _joined(row, both, number * unit)
        cells, cell = distinct_rows(np.column_stack([row, unit, both]))
        count = np.bincount(cell, number).astype(np.float64)
        unit, found = cells[:, 1] / np.average(cells[:, 1], weights=count), cells[:, 2:]
        given = None if own is None else found[:, outputs:]
        row = cells[:, 0].astype(np.int64)
        return cls(distinct, row=row, target=found[:, :outputs], unit=unit, count=count, own=given)

    @classmethod
    def of_rows(cls, X: Matrix, targets: Matrix, weights: Matrix) -> Observations:
        """Return one observation at each of the rows X (n, d), with targets (n, k) and weights (n,)."""
        return cls(X, row=np.arange(len(X)), target=targets, unit=weights, count=np.ones(len(X)))

    @classmethod
    def streamed(
        cls,
        rows: Part,
        targets: Matrix,
        *,
        weights: Matrix | None = None,
        importance: Matrix | None = None,
        own: Matrix | None = None,
    ) -> Observations:
        """Return the observations in rows that stay where they are, each with a weight above 0; see :meth:`merged`.

        ``X`` is a :class:`Part` of them, in their order: the first of those that are equal, as numbers of 64 bits say.
        Cost: one pass, O(n log n). Memory: O(n), whatever the number of columns.
        """
        number, unit = _counted(len(rows), weights, importance)
        marks = np.concatenate([hash_rows(block) for block in rows.blocks(BLOCK)])
        _, first, row = np.unique(marks, return_index=True, return_inverse=True)
        order = np.argsort(first)  # numbers of marks, as their rows come
        place = np.empty_like(order)
        place[order] = np.arange(len(order))
        row, outputs = row.ravel(), targets.shape[1]
        distinct = Part(rows, None if len(first) == len(rows) else first[order])
        both = targets if own is None else np.hstack([targets, own])
        if _are_copies(row, both if own is None else own, number, len(first), lambda: distinct[np.sort(place[:_SOME])]):
            row, both, number, unit = _joined(row, both, number * unit)
        else:  # in the order of marks, which is the same whatever that of the table
            cells = np.argsort(row, kind="stable")
            row, both, number, unit = row[cells], both[cells], number[cells], unit[cells]
        unit = unit / np.average(unit, weights=number)
        given = None if own is None else both[:, outputs:]
        return cls(distinct, row=place[row], target=both[:, :outputs], unit=unit, count=number, order=place, own=given)

    def __len__(self) -> int:
        return len(self.X)

    @property
    def on_disk(self) -> bool:
        """Whether the rows stay in a file."""
        return isinstance(self.X, Part) and self.X.on_disk

    @property
    def weight(self) -> Matrix:
        """Weight of all observations of each cell (c,)."""
        return self.unit * self.count

    @cached_property
    def weights(self) -> Matrix:
        """Weight of all observations at each row (n,)."""
        return np.bincount(self.row, self.weight, minlength=len(self.X)).astype(np.float64)

    @cached_property
    def targets(self) -> Matrix:
        """Weighted mean of the targets at each row (n, k): all that a least-squares fit needs."""
        return _sums(self.row, self.weight[:, None] * self.target, len(self.X)) / self.weights[:, None]

    @cached_property
    def pools(self) -> Pools:
        """The observations pooled by row and unit."""
        pairs, pool = distinct_rows(np.column_stack([self.row, self.unit]))
        count = np.bincount(pool, self.count).astype(np.float64)
        mean = _sums(pool, self.count[:, None] * self.target, len(pairs)) / count[:, None]
        away = self.target - mean[pool]
        spread = _sums(pool, self.count[:, None] * away**2, len(pairs))
        return Pools(pairs[:, 0].astype(np.int64), pairs[:, 1], count, mean, spread)

    def random_order(self) -> Numbers:
        """Return the numbers of all rows in an order that is random, and does not depend on that of the table."""
        return np.random.default_rng(0).permutation(len(self.X)) if self._order is None else self._order

    def held_out(self, most: int) -> tuple[Numbers, Numbers]:
        """Return the numbers of rows that are held out where rows are many, a fifth or ``most``, and of all others."""
        held, kept = np.split(self.random_order(), [min(most, len(self) // 5)])
        return held, kept

    def some(self, most: int) -> Observations:
        """Return the observations at no more than ``most`` of the rows, always the same rows."""
        n = len(self.X)
        return self if n <= most else self.at(np.sort(np.random.default_rng(0).permutation(n)[:most]))

    def last(self, most: int) -> Observations:
        """Return the observations at no more than ``most`` of the rows, the last ones."""
        return self if len(self.X) <= most else self.at(np.arange(len(self.X) - most, len(self.X)))

    def shuffled(self, most: int) -> Observations:
        """Return the observations with their rows in another order if there are more than ``most`` of them.

        The last ones are then those of :meth:`some`.
        """
        n = len(self.X)
        return self if n <= most else self.at(np.random.default_rng(0).permutation(n)[::-1])

    def at(self, rows: Numbers) -> Observations:
        """Return the observations at some rows, in this order."""
        place = np.full(len(self.X), -1)
        place[rows] = np.arange(len(rows))
        return self._with(place[self.row], self.count, self.X[rows])

    def with_rows(self, X: Matrix) -> Observations:
        """Return the same observations with other columns: X (n, d')."""
        same: dict[str, Any] = {
            "row": self.row,
            "target": self.target,
            "unit": self.unit,
            "count": self.count,
            "own": self.own,
        }
        return Observations(X, order=self._order, **same)

    def with_targets(self, target: Matrix) -> Observations:
        """Return the same observations of other targets (c, k)."""
        same: dict[str, Any] = {"row": self.row, "unit": self.unit, "count": self.count, "own": self.own}
        return Observations(self.X, target=target, order=self._order, **same)

    def mixed(self, most: int) -> Observations:
        """Return the same observations of no more than ``most`` targets: random sums of all of them, always the same.

        A linear fit mixes its outputs in the same way. A squared error remains the same on average over such sums.
        Cost: O(k) per observation and sum, of k targets.
        """
        outputs = self.target.shape[1]
        if outputs <= most:
            return self
        sums, _ = np.linalg.qr(np.random.default_rng(0).normal(size=(outputs, most)))
        return self.with_targets(self.target @ (sums * np.sqrt(outputs / most)))

    def folds(self, number: int) -> list[tuple[Observations, Observations]]:
        """Return pairs (kept, held out): every observation is held out once, equal ones spread over the folds.

        The held-out part keeps all rows of the table, some without observations.
        """
        rng = np.random.default_rng(0)
        whole = np.floor(self.count / number)
        left = self.count - number * whole
        order = rng.permutation(len(self.count))
        first = np.empty(len(self.count), np.int64)
        first[order] = np.arange(len(order)) % number  # the fold that gets the first of those left over
        pairs = []
        for fold in range(number):
            place = (fold - first) % number
            held = whole + np.clip(left - place, 0.0, 1.0)
            kept = np.flatnonzero(np.bincount(self.row, self.count - held, minlength=len(self.X)) > 1e-9)
            place = np.full(len(self.X), -1)
            place[kept] = np.arange(len(kept))
            pairs.append(
                (
                    self._with(place[self.row], self.count - held, self.X[kept]),
                    self._with(self.row, held, self.X),
                )
            )
        return pairs

    def _with(self, row: Numbers, count: Matrix, X: Matrix) -> Observations:
        kept = (row >= 0) & (count > 1e-9)
        same: dict[str, Any] = {
            "row": row[kept],
            "target": self.target[kept],
            "unit": self.unit[kept],
            "own": self.own[kept],
        }
        return Observations(X, count=count[kept], **same)


def _counted(rows: int, weights: Matrix | None, importance: Matrix | None) -> tuple[Matrix, Matrix]:
    """Return for each row how many observations it stands for, and what one of them weighs (n,)."""
    given = np.ones(rows) if weights is None else weights
    number = given if (given == np.rint(given)).all() else np.ones(rows)
    unit = np.where(given > 0, given, 0.0) / np.maximum(number, 1.0) * (1.0 if importance is None else importance)
    return number, unit


def _are_copies(row: Numbers, targets: Matrix, number: Matrix, n: int, some: Callable[[], Matrix]) -> bool:
    """Return whether observations of equal inputs and targets are copies of one, and not several that agree.

    Many agree and hardly any differ, though their columns have room for far more rows than there are: as after
    sampling with replacement, or with whole weights that say how much a row counts. An observation left out would then
    be known from its copies, and any noise learnt by heart. In tables of few different rows, such as categories,
    new observations are expected to agree with old ones. ``some`` returns some of the n distinct rows, or all.

    Cost: O(nd log n).
    """
    total = float(number.sum())
    if n < _FEW or total - n <= _COPIED * total:
        return False
    different = np.bincount(distinct_rows(np.column_stack([row, targets]))[0][:, 0].astype(np.int64), minlength=n) > 1
    again = np.bincount(row, number, minlength=n) > 1
    return bool(different.sum() <= _TORN * again.sum()) and _room(some(), n) > _ROOM * n


def _room(distinct: Matrix, n: int) -> float:
    """Return how many rows the values of the columns of distinct rows allow, without columns of two values.

    A column of fractions that differ in most rows allows any number, and so do far more than n.
    """
    room = 1.0
    for column in distinct.T:
        values = np.unique(column)
        if len(values) > len(distinct) / 2 and (values != np.rint(values)).any():
            return np.inf
        room *= len(values) if len(values) > 2 else 1
        if room > _ROOM * n:
            break
    return room


def _joined(row: Numbers, targets: Matrix, weight: Matrix) -> tuple[Numbers, Matrix, Matrix, Matrix]:
    """Return rows, targets, numbers and weights of observations with all copies of one joined: it counts once."""
    cells, cell = distinct_rows(np.column_stack([row, targets]))
    joined = np.bincount(cell, weight).astype(np.float64)
    return cells[:, 0].astype(np.int64), cells[:, 1:], np.ones(len(cells)), joined


def distinct_rows(rows: Matrix) -> tuple[Matrix, Numbers]:
    """Return the distinct rows, sorted, and which of them each row is; large tables are sorted by their bytes.

    Cost: O(nd log n) for small tables; for large ones O(nd), and O(n log n) comparisons that end where rows differ.
    """
    if rows.size <= _LARGE:
        order = np.lexsort(rows.T[::-1])
    else:
        rows = np.ascontiguousarray(rows + 0.0)  # -0.0 becomes 0.0, which it equals
        order = np.argsort(rows.view(f"V{rows.shape[1] * rows.itemsize}").ravel(), kind="stable")
    ordered = rows[order]
    new = np.append(True, (ordered[1:] != ordered[:-1]).any(axis=1))[: len(rows)]
    place = np.empty(len(rows), np.int64)
    place[order] = np.cumsum(new) - 1
    return ordered if new.all() else ordered[new], place


def _sums(place: Numbers, values: Matrix, size: int) -> Matrix:
    return np.stack([np.bincount(place, one, minlength=size) for one in values.T], axis=1)
