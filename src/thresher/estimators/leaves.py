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
_DONE = 1e-2  # share of the right-hand sides that is left when a leaf is done: a third of what changes predictions
_ENOUGH = 1000  # held-out rows that choose the ridge
_GROWING = 0.2  # share of the time that the tree takes


@dataclass(frozen=True)
class Leaves:
    """A tree, and in each leaf a model: its inputs and coefficients are rows ``starts[l]`` to ``starts[l + 1]``."""

    tree: Tree
    last: float  # the last coordinate of rows before they are divided by their norms
    starts: NDArray[np.int64]  # (leaves + 1,)
    inputs: Single  # (N, r + 1): lifted rows
    alpha: Matrix  # (N, k)
    held_outputs: Matrix  # (held, k)
    ridges: Matrix  # those tried
    errors: Matrix  # of each: the weighted mean of squares on held-out rows of some leaves, summed over outputs
    shift: float
    ridge: float

    def predict(self, rows: Matrix, *, threads: int | None = None) -> Matrix:
        """Return the outputs (q, k) for rows (q, r). Cost: O(r) per row for each row of a leaf."""
        total = np.zeros((len(rows), self.alpha.shape[1]))
        for leaf, places, weights in self.tree.spread(rows):
            mine = slice(self.starts[leaf], self.starts[leaf + 1])
            inputs = lift_single(rows[places], self.last)
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
        own |= {name: float(own[name]) for name in ("last", "shift", "ridge")}
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
    threads, fitted = core_count() if threads is None else threads, len(rows) - held
    mine, kernel = (rows[:fitted], targets[:fitted], weights[:fitted]), Kernel(bias, shift, tuple(ridges))
    tree, members = grow(*mine, kernel=kernel, size=size, threads=threads, seed=seed, tell=lambda s: tell(_GROWING * s))
    last = bias * typical_norm(mine[0], mine[2])
    asked = [(np.zeros(0, np.int64), np.zeros(0))] * len(members)  # held-out rows of each leaf, and their weights there
    for leaf, places, share in tree.spread(rows[fitted:]):
        asked[leaf] = fitted + places, share

    def fit(leaf: int) -> _Leaf:
        lifted = lift_single(rows[np.concatenate([members[leaf], asked[leaf][0]])], last)
        return _fit_leaf(lifted, targets[members[leaf]], weights[members[leaf]], kernel=kernel, seed=seed)

    order = np.random.default_rng(seed).permutation(len(members)).tolist()
    seen = np.cumsum([len(asked[leaf][0]) for leaf in order])
    first, fits = int(np.searchsorted(seen, _ENOUGH)) + 1, dict[int, _Leaf]()
    errors, best = np.zeros(len(ridges)), 0
    for some, choosing in ((order[:first], True), (order[first:], False)):
        for leaf, one in zip(some, in_order(fit, some, threads=threads), strict=True):
            fits[leaf] = one
            tell(_GROWING + (1 - _GROWING) * len(fits) / len(members))
        if choosing:
            errors = _errors([(fits[leaf].said, *asked[leaf]) for leaf in some], targets, weights)
            best = int(errors.argmin())
            kernel = kernel._replace(ridges=(ridges[best],))
            fits = {leaf: one.only(best) for leaf, one in fits.items()}
    outputs = np.zeros((held, targets.shape[1]))
    for leaf, (places, share) in enumerate(asked):
        outputs[places - fitted] += share[:, None] * fits[leaf].said[:, 0]
    inputs, alpha = (np.concatenate([fits[leaf][k] for leaf in range(len(members))]) for k in (0, 1))
    starts, tried = np.cumsum([0, *map(len, members)]), np.array(ridges, np.float64)
    return Leaves(tree, last, starts, inputs, alpha[:, 0], outputs, tried, errors, shift, float(ridges[best]))


def _errors(said: list[tuple[Matrix, NDArray[np.int64], Matrix]], targets: Matrix, weights: Matrix) -> Matrix:
    """Return for each ridge the weighted mean of squares of outputs (h, ridges, k) at places (h,), by their shares."""
    total, sizes = np.zeros(said[0][0].shape[1]), 0.0
    for outputs, places, share in said:
        away, mine = outputs - targets[places, None], share * weights[places]
        total += np.einsum("hro,hro,h->r", away, away, mine)
        sizes += float(mine.sum())
    return total / sizes if sizes else np.full(len(total), np.inf)


class _Leaf(NamedTuple):
    inputs: Single  # (m, r + 1)
    alpha: Matrix  # (m, ridges, k)
    said: Matrix  # (held, ridges, k)

    def only(self, ridge: int) -> _Leaf:
        """Return the model for one of the ridges."""
        return _Leaf(self.inputs, self.alpha[:, ridge : ridge + 1].copy(), self.said[:, ridge : ridge + 1].copy())


def _fit_leaf(inputs: Single, targets: Matrix, weights: Matrix, *, kernel: Kernel, seed: int) -> _Leaf:
    """Return the model of a leaf, from inputs of which those after the targets are held out. On the calling thread."""
    (m, k), ridges = targets.shape, kernel.ridges
    matrix = LimitMatrix(inputs, kernel.shift, memory=np.inf, threads=1)
    own = LimitMatrix(inputs[:m], kernel.shift, memory=0.0, threads=1)
    low = random_pivots(np.full(m, kernel.diagonal), own.columns, rank=-(-m // _RANK), seed=seed)
    penalties = np.array(ridges)[:, None] * kernel.diagonal / weights  # (ridges, m)
    added = np.repeat(penalties.T, k, axis=1)
    descent = Descent(
        matrix.times, np.tile(targets, len(ridges)), added=added, inverse=low.inverse(penalties[len(ridges) // 2])
    )
    while descent.steps < _STEPS and descent.residuals.max() > _DONE:
        descent.step()
    said = descent.images[m:] if descent.steps else np.zeros((len(inputs) - m, added.shape[1]))
    shape = (-1, len(ridges), k)
    return _Leaf(inputs[:m], descent.values.reshape(shape), said.reshape(shape))
