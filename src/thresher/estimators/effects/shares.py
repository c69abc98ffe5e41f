"""How much of what varies in a model belongs to each term: Sobol shares."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from thresher.estimators.effects.decomposition import Decomposition

__all__ = ["Variances", "draw_rows", "variances_of_terms"]

Matrix = NDArray[np.float64]
Numbers = NDArray[np.int64]
_ROWS, _FEWEST = 1000, 64  # training rows that are looked at, and at least for pairs
_WORK = 4e10  # products for the effects of all pairs, at most


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
