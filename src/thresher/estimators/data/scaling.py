"""How columns are scaled before rows are lifted to the sphere.

With ``"robust"`` and ``"quantile"`` an absurd value does not affect the rest: values far outside are pulled in by a
logarithm. They still lie outside, so that error bars grow there, but no longer set the unit of the column.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from thresher.errors import InvalidInput
from thresher.estimators.data.streams import Stream
from thresher.tables.rows_on_disk import BLOCK, Part

__all__ = ["SCALE", "SCALES", "Scaling", "far_values", "say_far", "some_rows"]

Matrix = NDArray[np.float64]
SCALES = ("standardise", "robust", "quantile", "centre", "none")
SCALE = "robust"  # of an estimator
_REACH = 6.0  # deviations from the median beyond which values are pulled in
_ABSURD = 100.0  # deviations from the median from which a value does not affect mean and unit of its column
_TINY = 1e-9  # rounding of shares
_BLOCK = 1 << 17  # numbers at a time, which stay in the cache
_KNOTS = 128  # of a quantile transform, for each column
_SORTED, _FEWEST = 1 << 22, 1 << 14  # numbers that are sorted at most, in tables of more rows than this
_NAMED, _ENOUGH = 3, 8  # columns that a warning names, and rows that define what is far
_FAR = ((0.01, 10.0), (0.1, 100.0))  # a value is far outside if so many widths of the range of all but this share


class Scaling(NamedTuple):
    """Values are pulled in outside ``low`` to ``high``, mapped by ``knots``, and become (x - mean) / unit."""

    mean: Matrix  # (d,)
    unit: Matrix  # (d,)
    low: Matrix | None = None  # (d,)
    high: Matrix | None = None  # (d,)
    soft: Matrix | None = None  # (d,): outside, x grows like soft * log(distance / soft)
    knots: Matrix | None = None  # (2, q, d): values, ascending, and what they become; straight lines between them

    @classmethod
    def of(cls, X: Matrix, *, scale: str, weights: Matrix | None = None) -> Scaling:
        """Return the scaling of weighted rows (n, d); columns that do not vary keep the unit 1. Cost: O(nd log n)."""
        if scale not in SCALES:
            raise InvalidInput(f"scale must be one of {', '.join(map(repr, SCALES))}; got {scale!r}.")
        shape: dict[str, Matrix] = {}
        if scale in ("robust", "quantile"):
            middle, spread = _middle(X, weights)
            shape = {"low": X.min(axis=0), "high": X.max(axis=0), "soft": spread}
            if scale == "robust":
                least, most = shape["low"], shape["high"]
                binary = np.all((least == X) | (most == X), axis=0)  # a column of two values has no outlier
                shape["low"] = np.where(binary, least, middle - _REACH * spread)
                shape["high"] = np.where(binary, most, middle + _REACH * spread)
            else:
                shape["knots"] = _rank_knots(X, weights, spread)
        d = X.shape[1]
        map_alone = cls(np.zeros(d), np.ones(d), **shape)
        if scale == "robust":  # absurd values count as the median
            with np.errstate(over="ignore"):
                X = np.where(np.abs(X - middle) > _ABSURD * spread, middle, X)
        mean, unit = _mean_and_unit(map_alone.apply(X) if shape else X, scale=scale, weights=weights)
        return map_alone._replace(mean=mean, unit=unit)

    def apply(self, X: Matrix) -> Matrix:
        """Return the scaled rows (k, d)."""
        scaled, size = np.empty(X.shape), max(1, _BLOCK // X.shape[1])
        for first in range(0, len(X), size):
            scaled[first : first + size] = self._apply(X[first : first + size])
        return scaled

    def _apply(self, X: Matrix) -> Matrix:
        if self.low is not None:
            assert self.soft is not None
            inside = np.clip(X, self.low, self.high)
            row, column = np.nonzero(inside != X)
            soft = self.soft[column]
            with np.errstate(over="ignore"):
                out = X[row, column] - inside[row, column]
                inside[row, column] += np.sign(out) * soft * np.log1p(np.abs(out) / soft)
            X = inside
        if self.knots is not None:
            X = _bend(X, *self.knots)
        return (X - self.mean) / self.unit


def far_values(X: Matrix | Part) -> list[tuple[int, float, float, float]]:
    """Return (column, value, low, high) for columns of X (n, d) with a value far outside the others.

    ``low`` to ``high`` is the range of the others, without some at both ends; of many rows, the range of some of them.
    One value per column: the farthest. Cost: O(nd), and O(rd log r) for the range of r rows.
    """
    if len(X) < _ENOUGH:
        return []
    ordered = _sorted(some_rows(X))
    ends = [(block.min(axis=0), block.max(axis=0)) for _, block in Stream(X).blocks(BLOCK)]
    n, least, most = len(ordered), np.min([one for one, _ in ends], axis=0), np.max([one for _, one in ends], axis=0)
    found = []
    for share, widths in _FAR:
        cut = max(1, int(share * n))
        low, high = ordered[cut], ordered[n - 1 - cut]
        with np.errstate(over="ignore"):
            reach = widths * (high - low)
            below, above = low - least, most - high
        value = np.where(below > above, least, most)
        for column in np.flatnonzero((np.maximum(below, above) > reach) & (reach > 0)):
            found.append((int(column), float(value[column]), float(low[column]), float(high[column])))
    return sorted({one[0]: one for one in reversed(found)}.values())


def some_rows(X: Matrix | Part) -> Matrix:
    """Return no more than so many rows of X (n, d), evenly spread, that sorting their columns takes a second."""
    n, d = X.shape
    step = max(1, -(-n * d // _SORTED)) if n > _FEWEST else 1
    return X[::step] if isinstance(X, np.ndarray) else X[np.arange(0, n, step)]


def say_far(found: Sequence[tuple[int, float, float, float]], names: Sequence[str]) -> str:
    """Return the findings of :func:`far_values` as a sentence, with the names of the columns."""
    said = [f"{names[k]}: {value:g}, others {low:g} to {high:g}" for k, value, low, high in found[:_NAMED]]
    more = f"; and {len(found) - _NAMED} more columns" if len(found) > _NAMED else ""
    return f"Values far outside all others ({'; '.join(said)}{more}). Check whether they are real."


def _mean_and_unit(X: Matrix, *, scale: str, weights: Matrix | None) -> tuple[Matrix, Matrix]:
    largest = np.maximum(np.abs(X).max(axis=0), np.finfo(float).tiny)
    constant = X.max(axis=0) == X.min(axis=0)
    mean = np.average(X / largest, axis=0, weights=weights) * largest  # so that sums do not overflow
    mean = np.zeros_like(mean) if scale == "none" else np.where(constant, X[0], mean)
    unit = np.ones_like(mean)
    if scale not in ("centre", "none"):
        size = np.where(constant, 1.0, np.abs(X - mean).max(axis=0))
        unit = np.where(constant, 1.0, size * np.sqrt(np.average(((X - mean) / size) ** 2, axis=0, weights=weights)))
    for column in np.flatnonzero(~np.isfinite(mean) | ~np.isfinite(unit) | (unit <= 0)):
        raise InvalidInput(f"column {column} has values too far apart to be scaled. Rescale it first.")
    return mean, unit


def _middle(X: Matrix, weights: Matrix | None) -> tuple[Matrix, Matrix]:
    """Return the median of each column, and its deviation from the quartiles, or from the tails if these are equal."""
    if weights is None or (weights == weights[0]).all():
        ordered, shares = _sorted(X), np.arange(1.0, len(X) + 1)[:, None]
    else:
        order = np.argsort(X, axis=0, kind="stable")
        ordered, shares = np.take_along_axis(X, order, axis=0), np.cumsum(weights[order], axis=0)
    levels = shares / shares[-1] + _TINY

    def quantile(level: float) -> Matrix:
        return ordered[np.minimum((levels < level).sum(axis=0), len(X) - 1), np.arange(X.shape[1])]

    middle, spread = quantile(0.5), np.zeros(X.shape[1])
    for level in (0.25, 0.1, 0.02):  # where the middle half is one value, farther out
        wide = (quantile(1 - level) - quantile(level)) / (2 * -ndtri(level))
        spread = np.where(spread > 0, spread, wide)
    with np.errstate(over="ignore"):
        whole = np.sqrt(np.average(((X - middle) / 2) ** 2, axis=0, weights=weights)) * 2
    spread = np.where(spread > 0, spread, whole)
    usable = np.isfinite(spread) & (spread > 0)
    return middle, np.where(usable, spread, 1.0)


def _sorted(X: Matrix) -> Matrix:
    """Return X (n, d) with each column sorted: as rows of the transpose, several times as fast."""
    return np.sort(np.ascontiguousarray(X.T), axis=1).T


def _rank_knots(X: Matrix, weights: Matrix | None, spread: Matrix) -> Matrix:
    """Return the knots (2, q, d) that make each column normal; equal values share their mean level.

    A knot at either end, one deviation (d,) farther out, sets the slope beyond all values.
    """
    order = np.argsort(X.T, axis=1, kind="stable")
    ordered = np.take_along_axis(X.T, order, axis=1)
    sums = np.cumsum((np.ones(len(X)) if weights is None else weights)[order], axis=1)
    last = np.ones(ordered.shape, bool)  # of equal values
    last[:, :-1] = ordered[:, 1:] != ordered[:, :-1]
    found = []
    for column, unit in enumerate(spread):
        values, upto = ordered[column, last[column]], sums[column, last[column]]
        levels = (upto + np.append(0.0, upto[:-1])) / (2 * upto[-1])
        if len(values) > _KNOTS:
            some = np.searchsorted(levels, np.linspace(levels[0], levels[-1], _KNOTS) - _TINY)
            some = np.minimum(some, len(values) - 1)
            some = some[np.append(True, some[1:] != some[:-1])]
            values, levels = values[some], levels[some]
        levels = ndtri(levels)
        low, high = (max(unit, 4 * math.ulp(end)) for end in (values[0], values[-1]))
        values = np.concatenate([[values[0] - low], values, [values[-1] + high]])
        found.append((values, np.concatenate([[levels[0] - 1.0], levels, [levels[-1] + 1.0]])))
    knots = np.empty((2, max(len(values) for values, _ in found), len(found)))
    for column, both in enumerate(found):
        for part, side in zip(both, knots, strict=True):
            side[: len(part), column], side[len(part) :, column] = part, part[-1]
    return knots


def _bend(X: Matrix, knots: Matrix, levels: Matrix) -> Matrix:
    """Return X (k, d) mapped by straight lines between knots (q, d); beyond the last knot, along the last line."""
    bent = np.column_stack([np.interp(*one) for one in zip(X.T, knots.T, levels.T, strict=True)])
    outside = (knots[0] > X) | (knots[-1] < X)
    for column in np.flatnonzero(outside.any(axis=0)):
        values, one, level = X[:, column], knots[:, column], levels[:, column]
        last = int(np.searchsorted(one, one[-1]))  # it may be repeated
        for inner, end, beyond in ((1, 0, values < one[0]), (last - 1, last, values > one[-1])):
            slope = (level[end] - level[inner]) / (one[end] - one[inner])
            bent[beyond, column] = level[end] + (values[beyond] - one[end]) * slope
    return bent
