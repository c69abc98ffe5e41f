"""A tree of exact models: ridge regression on the limit kernel in leaves of a few thousand rows.

``tree.py`` parts the rows; a leaf is a model of all rows it gets, by conjugate gradients with a preconditioner from
random pivots. One leaf is the exact model. The cost of a fit grows as n, that of a prediction as the rows of a leaf.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from thresher.algebra.descent import Descent
from thresher.algebra.pivots import random_pivots
from thresher.errors import InvalidInput
from thresher.estimators.lift import typical_norm
from thresher.estimators.streams import lift_single
from thresher.estimators.tree import Kernel, Tree, grow
from thresher.parallel import core_count, in_order
from thresher.theory.limit_matrix import LimitMatrix, limit_product

__all__ = ["Leaves", "fit_leaves"]

Single = NDArray[np.float32]
Matrix = NDArray[np.float64]
_RANK = 8  # rows of a leaf per pivot of its preconditioner
_STEPS = 60
_DONE = 3e-3  # share of the right-hand sides that is left when a leaf is done
_GROWING = 0.2  # share of the time that the tree takes


@dataclass(frozen=True)
class Leaves:
    """A tree, and in each leaf a model: its inputs and coefficients are rows ``starts[l]`` to ``starts[l + 1]``."""

    tree: Tree
    lasts: Matrix  # (leaves,): the last coordinate of lifted rows
    starts: NDArray[np.int64]  # (leaves + 1,)
    inputs: Single  # (N, r + 1): lifted rows
    alpha: Matrix  # (N, k)
    held_outputs: Matrix  # (held, k)
    ridges: Matrix  # those tried
    errors: Matrix  # of each ridge: the weighted mean of squares on held-out rows, summed over outputs
    shift: float
    ridge: float

    def predict(self, rows: Matrix, *, threads: int | None = None) -> Matrix:
        """Return the outputs (q, k) for rows (q, r). Cost: O(r) per row for each row of a leaf."""
        total = np.zeros((len(rows), self.alpha.shape[1]))
        for leaf, places, weights in self.tree.spread(rows):
            mine = slice(self.starts[leaf], self.starts[leaf + 1])
            inputs = lift_single(rows[places], self.lasts[leaf])
            said = limit_product(inputs, self.inputs[mine], self.alpha[mine], self.shift, threads=threads)
            total[places] += weights[:, None] * said
        return total

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """Return all there is as arrays, to be stored."""
        own = {one.name: np.asarray(getattr(self, one.name)) for one in fields(self) if one.name != "tree"}
        return {**self.tree._asdict(), **own}

    @classmethod
    def from_arrays(cls, arrays: dict[str, NDArray[Any]]) -> Self:
        """Return what :meth:`to_arrays` was made of."""
        own: dict[str, Any] = {name: value for name, value in arrays.items() if name not in Tree._fields}
        own |= {name: float(own[name]) for name in ("shift", "ridge")}
        return cls(Tree(*(arrays[name] for name in Tree._fields)), **own)


def fit_leaves(
    rows: Matrix,
    targets: Matrix,
    weights: Matrix,
    *,
    held: int,
    bias: float,
    shift: float,
    ridges: Sequence[float],
    size: int = 8192,
    threads: int | None = None,
    seed: int = 0,
    tell: Callable[[float], object] = lambda share: None,
) -> Leaves:
    """Return a tree of exact models, with the ridge that held-out rows prefer.

    Parameters
    ----------
    rows : (n, r), scaled and under the metric, before they are lifted
    targets : (n, k)
    weights : (n,), above 0, of rows
    held : number of rows at the end that are not fitted
    bias : the last coordinate of a lifted row, as a multiple of the typical norm
    shift : threshold above which a neuron fires
    ridges : penalties to choose from, relative to the diagonal of the kernel; without held-out rows only one
    size : rows of a leaf at most
    threads : None for all cores; results do not depend on it
    tell : called with the share that is done

    Cost: O(n) times the rows of a leaf, for each step of conjugate gradients. Memory: 2 size² bytes per thread.
    """
    if not held and len(ridges) != 1:
        raise InvalidInput(f"without held-out rows there must be one ridge; got {len(ridges)}. Hold some rows out.")
    threads = core_count() if threads is None else threads
    kernel, fitted = Kernel(bias, shift, np.array(ridges, np.float64)), len(rows) - held
    mine = rows[:fitted], targets[:fitted], weights[:fitted]
    tree, members = grow(*mine, kernel=kernel, size=size, threads=threads, seed=seed, tell=lambda s: tell(_GROWING * s))
    last = bias * typical_norm(mine[0], mine[2])
    asked = {leaf: (places, share) for leaf, places, share in tree.spread(rows[fitted:])}
    nobody = np.zeros(0, np.int64), np.zeros(0)
    outputs = np.zeros((held, len(kernel.ridges) * targets.shape[1]))
    inputs, alphas = [], []

    def fit(leaf: int) -> _Leaf:
        some, others = members[leaf], fitted + asked.get(leaf, nobody)[0]
        lifted = lift_single(rows[np.concatenate([some, others])], last)
        return _fit_leaf(lifted, targets[some], weights[some], kernel=kernel, seed=seed)

    done = 0
    for leaf, one in enumerate(in_order(fit, range(len(members)), threads=threads)):
        places, share = asked.get(leaf, nobody)
        outputs[places] += share[:, None] * one.said
        inputs.append(one.inputs)
        alphas.append(one.alpha)
        done += len(one.alpha)
        tell(_GROWING + (1 - _GROWING) * done / sum(map(len, members)))
    outputs = outputs.reshape(held, len(kernel.ridges), -1)
    errors = _errors(outputs, targets[fitted:], weights[fitted:])
    best, alpha = int(errors.argmin()), np.concatenate(alphas)
    alpha = alpha.reshape(len(alpha), len(kernel.ridges), -1)[:, best].copy()
    starts = np.cumsum([0, *map(len, members)])
    lasts = np.full(len(members), last)
    found = lasts, starts, np.concatenate(inputs), alpha, outputs[:, best].copy()
    return Leaves(tree, *found, kernel.ridges, errors, shift, float(kernel.ridges[best]))


def _errors(outputs: Matrix, truth: Matrix, weights: Matrix) -> Matrix:
    """Return for each ridge the weighted mean of squares of outputs (held, ridges, k)."""
    if not len(truth):
        return np.full(outputs.shape[1], np.nan)
    away = outputs - truth[:, None]
    return np.einsum("hro,hro,h->r", away, away, weights / weights.sum())


class _Leaf(NamedTuple):
    inputs: Single  # (m, r + 1)
    alpha: Matrix  # (m, c): ridge by ridge
    said: Matrix  # (held, c)


def _fit_leaf(inputs: Single, targets: Matrix, weights: Matrix, *, kernel: Kernel, seed: int) -> _Leaf:
    """Return the model of a leaf, from inputs of which those after the targets are held out. On the calling thread."""
    m = len(targets)
    matrix = LimitMatrix(inputs, kernel.shift, memory=np.inf, threads=1)
    own = LimitMatrix(inputs[:m], kernel.shift, memory=0.0, threads=1)
    low = random_pivots(np.full(m, kernel.diagonal), own.columns, rank=-(-m // _RANK), seed=seed)
    penalties = kernel.ridges[:, None] * kernel.diagonal / weights  # (ridges, m)
    inverses, k = [low.inverse(one) for one in penalties], targets.shape[1]

    def inverse(columns: Matrix) -> Matrix:
        return np.concatenate([one(columns[:, j * k : (j + 1) * k]) for j, one in enumerate(inverses)], axis=1)

    added = np.repeat(penalties.T, k, axis=1)
    descent = Descent(matrix.times, np.tile(targets, len(inverses)), added=added, inverse=inverse)
    while descent.steps < _STEPS and descent.residuals.max() > _DONE:
        descent.step()
    said = descent.images[m:] if descent.steps else np.zeros((len(inputs) - m, added.shape[1]))
    return _Leaf(inputs[:m], descent.values, said)
