"""A model with a kernel of parts as a sum: an intercept, a main effect of each column, effects of pairs, and the rest.

The kernel of a unit (a number, a category) is its mean over the training rows plus what is left, which is *centred*. So
a product of two such kernels falls into a constant, two functions of one unit, and one of both whose mean over either
is 0. Units that come from one column of the table belong together. All is exact: the sum is what the model predicts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from thresher.loops.effects import centre_columns
from thresher.parallel import in_order
from thresher.theory import Limit
from thresher.theory.column_means import column_means
from thresher.theory.limit_matrix import limit_cross, limit_product
from thresher.theory.parts import column_kernel

__all__ = ["Decomposition", "Pairs", "Terms", "Variances", "draw_rows", "variances_of_terms"]

Matrix = NDArray[np.float64]
Numbers = NDArray[np.int64]
Pairs = Sequence[tuple[int, int]]  # of places of columns that are seen
Known = Callable[[Matrix], Matrix]  # how much of variances (k,) is known, from covariances (k, points)
_BLOCK = 1 << 20  # numbers at a time
_STRIP = 256  # rows of the kernel of all columns at a time
_ROWS, _FEWEST = 1000, 64  # training rows that are looked at, and at least for pairs
_WORK = 4e10  # products for the effects of all pairs, at most


class Terms(NamedTuple):
    """What some rows (k,) have in each term, for outputs (o,); or its variances, without outputs."""

    mains: Matrix  # (k, c, o): of the columns that are seen
    pairs: Matrix  # (k, p, o): of the pairs that were asked for
    others: Matrix  # (k, o): of all other pairs together
    rest: Matrix  # (k, o)

    @classmethod
    def joined(cls, parts: Sequence[Terms]) -> Terms:
        """Return the terms of all rows from those of some."""
        return cls(*(np.concatenate(one) for one in zip(*parts, strict=True)))


class _Points(NamedTuple):
    """Inputs (n, d), and for each the means over training rows of what is centred."""

    inputs: NDArray[Any]
    angles: Matrix  # (u, n), by column
    means: Matrix  # (u, n): of the kernel of each unit
    inside: Matrix  # (c, n): of what pairs of units of one column add to its main effect
    rest: Matrix  # (n,): of the kernel of the rest


class Decomposition:
    """The terms of a model with coefficients ``alpha`` (n, o) at ``inputs`` (n, d).

    Parameters
    ----------
    kernel : of the inputs
    weights : (n,), of inputs in means
    columns : (u,), for each unit of the kernel the column of the table it comes from
    double : whether the rest is computed in double precision
    threads : that compute

    Cost: O(n log n) per unit, O(n²) if a column has several units, O(n²d) if there is a rest.
    """

    def __init__(
        self,
        kernel: Limit,
        inputs: NDArray[Any],
        alpha: Matrix,
        *,
        weights: Matrix,
        columns: Numbers,
        double: bool = True,
        threads: int = 1,
    ) -> None:
        self.alpha, self._kernel, self._inputs, self._double, self._threads = alpha, kernel, inputs, double, threads
        self._weights, parts = weights / weights.sum(), kernel.parts
        self.columns, place = np.unique(columns, return_inverse=True)  # those that are seen, and of which each unit is
        self._order = np.argsort(place, kind="stable")
        self._first = np.searchsorted(place[self._order], np.arange(len(self.columns) + 1))
        factors = np.array([1.0, 0.0, 0.0, 0.0]) if parts is None else parts.factors(kernel.diagonal)
        self.single, self.pair = float(factors[1]), 2 * float(factors[2])
        self.has_rest = bool(factors[0] or factors[3])
        self._rest_parts = (
            None if parts is None else parts._replace(shares=parts.shares._replace(single=0.0, pairs=0.0))
        )
        self._rest_diagonal = float(factors[0] * kernel.diagonal + factors[3])
        self._several = np.flatnonzero(np.diff(self._first) > 1)

    @cached_property
    def rows(self) -> _Points:
        """The inputs that coefficients belong to."""
        return self.points(self._inputs)

    @cached_property
    def mean_of_means(self) -> Matrix:
        """The mean (u,) of the kernel of each unit over all pairs of training rows."""
        return self.rows.means @ self._weights

    @cached_property
    def intercept(self) -> Matrix:
        """The mean (o,) of what the terms leave."""
        rows = self.rows
        sums, squares = rows.means.sum(axis=0), (rows.means**2).sum(axis=0)
        constant = self.single * sums + self.pair / 2 * (sums**2 - squares) + rows.inside.sum(axis=0) + rows.rest
        return constant @ self.alpha

    def points(self, inputs: NDArray[Any]) -> _Points:
        """Return inputs (m, d) with the means over training rows. Cost: as of the class, with m points."""
        angles = self._angles(inputs)
        means = column_means(angles, self._angles(self._inputs), self._weights).T.copy()
        across, rest = np.ascontiguousarray(angles.T), np.zeros(len(inputs))
        if self.has_rest:
            rest = self._product(inputs, self._inputs, self._weights[:, None])[:, 0]
        inside = np.zeros((len(self.columns), len(inputs)))
        found = _Points(inputs, across, means, inside, rest)
        if self.pair:
            for column in self._several.tolist():
                inside[column] = self._mean_main(found, column)
        return found

    def at(self, inputs: NDArray[Any], pairs: Pairs, *, others: bool = True) -> Terms:
        """Return the terms of inputs (k, d); ``others`` says whether those of pairs not asked for are summed up too.

        Cost: O(nu) per row, O(n) per row and pair, and that of a prediction if there is a rest.
        """
        rows, count = self.rows, self.alpha.shape[1]
        left, right = np.array(pairs, np.int64).reshape(-1, 2).T

        def part(block: slice) -> tuple[Matrix, ...]:
            totals, mains = self._centred(inputs[block], rows)
            mains -= rows.inside
            chosen = self.pair * (totals[:, left] * totals[:, right]) @ self.alpha
            rest = np.zeros((len(totals), count))
            if others and self.pair:
                rest = self._between(totals) @ self.alpha - chosen.sum(axis=1)
            return mains @ self.alpha, chosen, rest

        shape = len(self.columns), len(left)
        made = list(in_order(part, self._blocks(len(inputs), len(rows.inputs)), threads=self._threads))
        empty = np.zeros((0, shape[0], count)), np.zeros((0, shape[1], count)), np.zeros((0, count))
        mains, chosen, remaining = (np.concatenate(one) for one in zip(empty, *made, strict=True))
        return Terms(mains, chosen, remaining, self._rest_at(inputs))

    def of_all_pairs(self, inputs: NDArray[Any]) -> Iterator[Matrix]:
        """Yield for blocks of inputs the effects (k, o, c, c) of all pairs of columns. Cost: O(nc²) per row."""

        def part(block: slice) -> Matrix:
            totals, _ = self._centred(inputs[block], self.rows)
            weighed = totals[:, None] * self.alpha.T[:, None]  # (k, o, c, n)
            return self.pair * np.matmul(weighed, totals.swapaxes(1, 2)[:, None])

        yield from in_order(part, self._blocks(len(inputs), len(self._inputs)), threads=self._threads)

    def shuffled(self, inputs: NDArray[Any], random: np.random.Generator) -> NDArray[Any]:
        """Return inputs (k, d) with the angles of each column in an order of their own."""
        found, last = inputs.copy(), inputs.shape[1] - len(self._order)
        for column in range(len(self.columns)):
            units = last + self._order[self._first[column] : self._first[column + 1]]
            found[:, units] = inputs[random.permutation(len(inputs))][:, units]
        return found

    def halves(self, inputs: NDArray[Any]) -> tuple[Matrix, Matrix]:
        """Return main effects with half of the effects of all pairs of each column (k, c, o), and the rest (k, o)."""
        rows = self.rows

        def part(block: slice) -> Matrix:
            totals, mains = self._centred(inputs[block], rows)
            mains -= rows.inside
            if self.pair:
                mains += self.pair / 2 * totals * (totals.sum(axis=1, keepdims=True) - totals)
            return mains @ self.alpha

        blocks = self._blocks(len(inputs), len(rows.inputs))
        made = list(in_order(part, blocks, threads=self._threads))
        nothing = np.zeros((0, len(self.columns), self.alpha.shape[1]))
        return np.concatenate([nothing, *made]), self._rest_at(inputs)

    def variances(self, inputs: NDArray[Any], pairs: Pairs, *, against: _Points, known: Known) -> Terms:
        """Return the variances of the terms of inputs (k, d) given all targets, in units of the kernel.

        ``known`` says what covariances (k, m) with the model at the inputs ``against`` tell.

        Cost: O(m²) per row and term.
        """
        left, right = np.array(pairs, np.int64).reshape(-1, 2).T
        own, found = self._own_means(inputs), []
        for block in self._blocks(len(inputs), len(against.inputs)):
            some = inputs[block]
            totals, mains = self._centred(some, against)
            mains -= against.inside
            chosen, between = self.pair * (totals[:, left] * totals[:, right]), self._between(totals)
            others = between - chosen.sum(axis=1)
            prior, rest = self._prior(some, own[block], left, right)
            # All terms at once: a factor is read once for a block, which may be of few rows.
            covariances = np.concatenate([mains, chosen, others[:, None], rest(against)[:, None]], axis=1)
            taken = known(covariances.reshape(-1, covariances.shape[2])).reshape(covariances.shape[:2])
            before = np.column_stack([prior.mains, prior.pairs, prior.others, prior.rest])
            left_over, c = np.maximum(before - taken, 0.0), mains.shape[1]
            found.append(Terms(left_over[:, :c], left_over[:, c:-2], left_over[:, -2], left_over[:, -1]))
        return Terms.joined(found)

    def main_variance(self, inputs: NDArray[Any], column: int, *, against: _Points, known: Known) -> Matrix:
        """Return the variances (k,) of the main effect of one column that is seen; see :meth:`variances`."""
        own, nothing, prior, mains = self._own_means(inputs), np.zeros(0, np.int64), [], []
        for block in self._blocks(len(inputs), len(against.inputs)):
            some = inputs[block]
            mains.append(self._centred(some, against)[1][:, column] - against.inside[column])
            prior.append(self._prior(some, own[block], nothing, nothing, rest=False)[0].mains[:, column])
        return np.maximum(np.concatenate(prior) - known(np.concatenate(mains)), 0.0)

    def _own_means(self, inputs: NDArray[Any]) -> Matrix:
        """Return the means (k, u) of the kernels of units between inputs (k, d) and the training rows, which are sorted
        once for all inputs.
        """
        return column_means(self._angles(inputs), self._angles(self._inputs), self._weights)

    def _prior(
        self, some: NDArray[Any], own: Matrix, left: Numbers, right: Numbers, *, rest: bool = True
    ) -> tuple[Terms, Callable[[_Points], Matrix]]:
        """Return the variances of the terms of inputs (k, d) before any target is known, and what makes covariances.

        ``own`` (k, u) are their means.
        """
        means = self.mean_of_means
        by_unit = 1 - 2 * own + means  # (k, u)
        sums = self._by_column(by_unit)
        outside = means.sum() - np.repeat(self._by_column(means[None])[0], np.diff(self._first))  # of other columns
        mains = self._by_column(by_unit * (self.single + self.pair * outside))
        if self.pair:
            for column in self._several.tolist():
                mains[:, column] += self._prior_inside(some, column)
        chosen = self.pair * sums[:, left] * sums[:, right]
        others = self.pair / 2 * (sums.sum(axis=1) ** 2 - (sums**2).sum(axis=1)) - chosen.sum(axis=1)
        remaining = np.zeros(len(some))
        if self.has_rest and rest:
            between = self._product(some, self._inputs, self._weights[:, None])[:, 0]
            remaining = self._rest_diagonal - 2 * between + self.rows.rest @ self._weights

        def covariances(against: _Points) -> Matrix:
            if not self.has_rest:
                return np.zeros((len(some), len(against.inputs)))
            left, right = (np.asarray(one, np.float64) for one in (some, against.inputs))
            return limit_cross(left, right, self._kernel.shift, parts=self._rest_parts) - against.rest

        return Terms(mains, chosen, others, remaining), covariances

    def _prior_inside(self, some: NDArray[Any], column: int) -> Matrix:
        """Return what pairs of units of one column add to the variance (k,) of its main effect before targets."""
        count = self._first[column + 1] - self._first[column]
        everywhere = float(self._weights @ self._mean_products(self._inputs, column))
        return self.pair * (count * (count - 1) / 2 - 2 * self._mean_products(some, column) + everywhere)

    def _mean_products(self, some: NDArray[Any], column: int) -> Matrix:
        """Return the mean (k,) over training rows of the sum over pairs of units of a column of their two kernels."""
        units, found = slice(self._first[column], self._first[column + 1]), np.empty(len(some))
        angles, rows = self._angles(some)[:, units], self._angles(self._inputs)[:, units]
        for first in range(0, len(some), _STRIP):
            block = slice(first, first + _STRIP)
            kernels = [column_kernel(one, other) for one, other in zip(angles[block].T, rows.T, strict=True)]
            found[block] = (sum(kernels) ** 2 - sum(one**2 for one in kernels)) / 2 @ self._weights
        return found

    def _mean_main(self, points: _Points, column: int) -> Matrix:
        """Return the mean (m,) over training rows of what a column of several units adds. Cost: O(nm) per unit."""
        units = slice(self._first[column], self._first[column + 1])
        alone = points._replace(angles=points.angles[units], means=points.means[units])
        rows, ends = self._angles(self._inputs)[:, units], np.array([0, units.stop - units.start])

        def part(block: slice) -> Matrix:
            return self._weights[block] @ self._fill(rows[block], alone, ends)[1][:, 0]

        blocks = self._blocks(len(rows), len(points.inputs), columns=1)
        return np.sum(list(in_order(part, blocks, threads=self._threads)), axis=0)

    def _centred(self, some: NDArray[Any], points: _Points) -> tuple[Matrix, Matrix]:
        """Return what ``centre_columns`` fills (k, c, m) for inputs (k, d) against points (m,)."""
        return self._fill(self._angles(some), points, self._first)

    def _fill(self, angles: Matrix, points: _Points, first: Numbers) -> tuple[Matrix, Matrix]:
        count = points.angles.shape[1]
        totals, mains = np.empty((2, len(angles), len(first) - 1, count))
        factors = np.array([self.single, self.pair])
        sums = points.means.sum(axis=0)
        angles = np.ascontiguousarray(angles)
        centre_columns(angles, points.angles, points.means, sums, first, factors, totals, mains, np.empty(count))
        return totals, mains

    def _between(self, totals: Matrix) -> Matrix:
        """Return the covariances (k, m) of all pairs of columns together from sums (k, c, m) of each."""
        return self.pair / 2 * (totals.sum(axis=1) ** 2 - (totals**2).sum(axis=1))

    def _by_column(self, units: Matrix) -> Matrix:
        """Return sums (k, c) by column of numbers (k, u) of units."""
        return np.add.reduceat(units, self._first[:-1], axis=1) if units.shape[1] else units

    def _angles(self, inputs: NDArray[Any]) -> Matrix:
        """Return the angles (k, u) of inputs, in the order of columns."""
        parts = self._kernel.parts
        if parts is None:
            return np.zeros((len(inputs), 0))
        angles = np.asarray(inputs[:, -parts.columns :], np.float64)
        return np.ascontiguousarray(angles[:, self._order])

    def _rest_at(self, inputs: NDArray[Any]) -> Matrix:
        if not self.has_rest:
            return np.zeros((len(inputs), self.alpha.shape[1]))
        return self._product(inputs, self._inputs, self.alpha) - self.rows.rest @ self.alpha

    def _product(self, others: NDArray[Any], inputs: NDArray[Any], vectors: Matrix) -> Matrix:
        more: Any = {"double": self._double, "parts": self._rest_parts, "threads": self._threads}
        return limit_product(others, inputs, vectors, self._kernel.shift, **more)

    def _blocks(self, rows: int, points: int, *, columns: int | None = None) -> list[slice]:
        columns = len(self.columns) if columns is None else columns
        size = max(1, _BLOCK // max(1, points * columns))
        return [slice(first, min(first + size, rows)) for first in range(0, rows, size)]


class Variances(NamedTuple):
    """The variance of each term over training rows, summed over outputs."""

    mains: Matrix  # (c,): of the columns that are seen
    pairs: Matrix  # (c, c), symmetric
    rest: float


def variances_of_terms(made: Decomposition, inputs: NDArray[Any], weights: Matrix) -> Variances:
    """Return the variances of terms over at most 1000 of the inputs (n, d), drawn by their weights (n,).

    The columns of a pair are taken from different rows, so that only what belongs to both of them counts.

    Cost: O(nc²) for each row of c columns if there are pairs, else O(nu).
    """
    random, count = np.random.default_rng(0), len(made.columns)
    rows = draw_rows(weights, _ROWS, random)
    every = len(inputs) <= _ROWS  # then their weights are exact
    terms = made.at(inputs if every else inputs[rows], [], others=False)
    mains, rest = (_variance(one, weights if every else np.ones(len(rows))) for one in (terms.mains, terms.rest))
    pairs = np.zeros((count, count))
    if made.pair and count > 1:
        most = int(_WORK / (len(inputs) * count**2 * made.alpha.shape[1]))
        some = made.shuffled(inputs[rows[: max(most, _FEWEST)]], random)
        for effects in made.of_all_pairs(some):
            pairs += (effects**2).sum(axis=(0, 1)) / len(some)
        np.fill_diagonal(pairs, 0.0)
    return Variances(mains, pairs, float(rest))


def _variance(values: Matrix, weights: Matrix) -> Matrix:
    """Return the weighted variance over rows of values (k, ..., o), summed over outputs."""
    mean = np.average(values, axis=0, weights=weights)
    return np.asarray(np.average((values - mean) ** 2, axis=0, weights=weights).sum(axis=-1))


def draw_rows(weights: Matrix, most: int, random: np.random.Generator) -> Numbers:
    """Return places (m,) of rows, ``most`` at most, each as often as its weight (n,) says: once if all are equal."""
    order = random.permutation(len(weights))
    upto, m = np.cumsum(weights[order] / weights.sum()), min(most, len(weights))
    return order[np.minimum(np.searchsorted(upto, (np.arange(m) + 0.5) / m), len(weights) - 1)]
