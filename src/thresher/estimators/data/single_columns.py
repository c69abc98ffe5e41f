"""Columns seen one by one: an angle for a number, a code for a category; and whole numbers as indicators.

A kernel of parts (``theory/parts.py``) has neurons that see one column. A number becomes the angle of (x, 1), with x
its normal quantile among the training rows. A category is a group of indicators, columns of which at most one is 1, as
an encoder makes them, or :class:`Indicators` of whole numbers that are names.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from thresher.estimators.data.scaling import Scaling
from thresher.theory.parts import APART

__all__ = ["Angles", "Groups", "Indicators", "few_levels"]

Matrix = NDArray[np.float64]
Numbers = NDArray[np.int64]
Groups = tuple[tuple[int, ...], ...]  # columns that are the indicators of one category, for each category
_LEVELS = 20  # values of a column of whole numbers up to which it may be a category; two are the same either way
_LARGEST = 1 << 20  # code of a category at most: exact in single precision


_NOTHING = Scaling(np.zeros(0), np.ones(0))


@dataclass(frozen=True)
class Angles:
    """Which columns of rows (n, d) are numbers and which are groups of indicators, and the quantiles of the numbers."""

    scaling: Scaling  # of the numbers alone
    numbers: Numbers  # (m,): their columns
    groups: Groups

    @classmethod
    def of(cls, X: Matrix, groups: Groups, *, weights: Matrix | None = None) -> Angles | None:
        """Learn quantiles from rows (n, d); None if no column varies. Cost: O(nd log n)."""
        grouped = {column for group in groups for column in group}
        varies = X.min(axis=0) < X.max(axis=0)
        numbers = np.array([k for k in np.flatnonzero(varies) if k not in grouped], np.int64)
        kept = tuple(group for group in groups if varies[list(group)].any())
        if not len(numbers) and not kept:
            return None
        scaling = Scaling.of(X[:, numbers], scale="quantile", weights=weights) if len(numbers) else _NOTHING
        return cls(scaling, numbers, kept)

    def __len__(self) -> int:
        """Return the number of columns that are seen one by one."""
        return len(self.numbers) + len(self.groups)

    def apply(self, X: Matrix) -> Matrix:
        """Return angles and codes (n, columns) of rows (n, d). Cost: O(nd)."""
        made = np.empty((len(X), len(self)))
        if len(self.numbers):
            made[:, : len(self.numbers)] = np.arctan2(1.0, self.scaling.apply(X[:, self.numbers]))
        for place, group in enumerate(self.groups, start=len(self.numbers)):
            made[:, place] = APART * (X[:, group] @ np.arange(1.0, len(group) + 1))
        return made

    @property
    def sources(self) -> list[int]:
        """The first column (columns,) of rows that each comes from."""
        return [*self.numbers.tolist(), *(group[0] for group in self.groups)]


class Indicators(NamedTuple):
    """Columns of whole numbers that get an indicator for each value, and stay as numbers or not."""

    kept: Numbers  # columns of raw rows that stay, in their order
    columns: Numbers  # (m,): of raw rows, for each indicator
    values: Matrix  # (m,): the value that it indicates

    @classmethod
    def of(cls, X: Matrix, columns: Sequence[int], *, instead: bool) -> Indicators:
        """Return the indicators of some columns of rows (n, d), beside these columns or instead of them."""
        levels = [np.unique(X[:, column]) for column in columns]
        kept = [k for k in range(X.shape[1]) if not (instead and k in set(columns))]
        places = np.repeat(np.array(columns, np.int64), [len(one) for one in levels])
        return cls(np.array(kept, np.int64), places, np.concatenate(levels))

    def apply(self, X: Matrix) -> Matrix:
        """Return rows (n, kept + m) of raw rows (n, d); a value that was not there has no indicator. Cost: O(nm)."""
        return np.hstack([X[:, self.kept], X[:, self.columns] == self.values])

    @property
    def sources(self) -> Numbers:
        """The column of raw rows (kept + m,) that each column comes from."""
        return np.concatenate([self.kept, self.columns])

    @property
    def told(self) -> dict[int, str]:
        """What columns of raw rows that have indicators are now: those alone, or numbers too."""
        kept = set(self.kept.tolist())
        return {k: "number and category" if k in kept else "category" for k in dict.fromkeys(self.columns.tolist())}

    def undo(self, rows: Matrix) -> Matrix:
        """Return the raw rows (n, d) that rows of training values were made of."""
        raw = np.zeros((len(rows), len(np.union1d(self.kept, self.columns))))
        np.add.at(raw.T, self.columns, (rows[:, len(self.kept) :] * self.values).T)
        raw[:, self.kept] = rows[:, : len(self.kept)]
        return raw

    def by_column(self, shares: Matrix) -> Matrix:
        """Return shares (d,) of raw columns from those (kept + m,) of the columns that were made of them."""
        return np.bincount(self.sources, shares).astype(np.float64)

    def groups(self, given: Groups) -> Groups:
        """Return the groups of indicators of the rows that are made, those ``given`` for raw rows included."""
        place = {int(column): number for number, column in enumerate(self.kept)}
        before = tuple(tuple(place[column] for column in group) for group in given)
        own = [
            len(self.kept) + np.flatnonzero(self.columns == column) for column in dict.fromkeys(self.columns.tolist())
        ]
        return (*before, *(tuple(one.tolist()) for one in own))


def few_levels(X: Matrix, groups: Groups) -> list[int]:
    """Return the columns of rows (n, d), not of groups, that are whole numbers of few values. Cost: O(nd log n)."""
    grouped = {column for group in groups for column in group}
    found = []
    for column in (k for k in range(X.shape[1]) if k not in grouped):
        whole = X[:, column]
        if (whole == np.rint(whole)).all() and np.abs(whole).max() < _LARGEST and 2 < len(np.unique(whole)) <= _LEVELS:
            found.append(column)
    return found
