"""A tree that cuts many rows into leaves, with ridge regression on the limit kernel of all rows in each.

A node fits some of its rows, and is cut at the median along the direction in which that fit changes most over its
extent: with G the averaged gradient outer product of the fit and S the covariance of the rows, S^(-1/2) times the top
eigenvector of S^(1/2) G S^(1/2). Rows near a border go to both sides, so that a model of one side sees beyond it;
predictions there are a mean of both sides, whose weights change smoothly. Leaves may learn metrics of their own, if
rows held out say that this helps. The cost of a fit grows as n, that of a prediction as the rows of a leaf.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from thresher.errors import InvalidInput
from thresher.estimators.conjugate_gradients import refine
from thresher.estimators.data.lift import typical_norm
from thresher.estimators.data.observations import Observations
from thresher.estimators.gradients import next_metric
from thresher.estimators.interfaces import Backend
from thresher.estimators.kernel import SphereKernel
from thresher.estimators.metric import POWER
from thresher.estimators.processor import Cpu
from thresher.estimators.ridges import best_ridge
from thresher.parallel import in_order

__all__ = ["Leaves", "LeavesFit", "check_leaves", "fit_leaves"]

Single = NDArray[np.float32]
Matrix = NDArray[np.float64]
Numbers = NDArray[np.int64]
_SAMPLE = 1024  # rows of a node that are fitted to find its direction
_BORDER = 0.05  # share of a node's rows on either side of its border that both sides get
_LEAST = 0.25  # share of its rows that is on neither side alone, at least
_TINY = 1e-9  # variance of a direction, relative to the largest, that counts as none
_COLUMNS = 128  # most columns for which leaves learn metrics of their own
_LEARNT = 2048  # rows of a leaf that they are learnt from
_WORTH = 0.995  # metrics are taken if they leave at most this share of the error on held-out rows
_RANK = 8  # rows of a leaf per pivot of its preconditioner
_STEPS, _DONE = 60, 1e-2  # of a leaf at most, and the residual when it is done: a third of what changes predictions


class _Leaf(NamedTuple):
    metric: Matrix | None  # (r, r) that multiplies rows
    last: float  # the coordinate that they get before they are divided by their norms
    inputs: Single  # (m, r + 1), angles of single columns after them
    alpha: Matrix  # (m, k)

    def outputs(self, rows: Matrix, angles: Matrix, kernel: SphereKernel, backend: Backend) -> Matrix:
        return backend.product(kernel, _lifted(rows, self.metric, self.last, angles), self.inputs, self.alpha)


class Leaves(NamedTuple):
    """A tree, and what rows go through in each leaf, whose inputs and coefficients are ``starts[l]:starts[l + 1]``.

    Nodes count from 0, the root; a child c below 0 is leaf ``~c``. A tree without nodes is one leaf.
    """

    directions: Matrix  # (nodes, r)
    thresholds: Matrix  # (nodes,): of rows times direction
    borders: Matrix  # (nodes,): half the width of the border
    children: Numbers  # (nodes, 2): below the threshold, above it
    metrics: Matrix  # (leaves, r, r), or (0, r, r) if rows stay as they are
    lasts: Matrix  # (leaves,)
    starts: Numbers  # (leaves + 1,)

    def spread(self, rows: Matrix) -> Iterator[tuple[int, Numbers, Matrix]]:
        """Yield the leaves, which of the rows (q, r) count there, and with which weights above 0; they sum to 1."""
        waiting = [(0 if len(self.thresholds) else -1, np.arange(len(rows)), np.ones(len(rows)))]
        while waiting:
            node, indices, weights = waiting.pop()
            if node < 0 and len(indices):
                yield ~node, indices, weights
            elif len(indices):
                away, border = rows[indices] @ self.directions[node] - self.thresholds[node], self.borders[node]
                upper = np.clip((away + border) / (2 * border), 0.0, 1.0) if border > 0 else (away >= 0) * 1.0
                upper = upper**2 * (3 - 2 * upper)
                for child, part in zip(self.children[node], (1 - upper, upper), strict=True):
                    waiting.append((int(child), indices[part > 0], (weights * part)[part > 0]))

    def predict(self, rows: Matrix, inputs: Single, alpha: Matrix, kernel: SphereKernel, *, backend: Backend) -> Matrix:
        """Return the outputs (q, k) for rows (q, r) before they are lifted, angles of single columns after them.

        ``inputs`` (N, r + 1) and ``alpha`` (N, k) are those of all leaves. Cost: O(r) per row for each row of a leaf.
        """
        total, (vectors, angles) = np.zeros((len(rows), alpha.shape[1])), kernel.split(rows)
        for leaf, indices, weights in self.spread(vectors):
            mine, metric = slice(*self.starts[leaf : leaf + 2]), self.metrics[leaf] if len(self.metrics) else None
            model = _Leaf(metric, float(self.lasts[leaf]), inputs[mine], alpha[mine])
            total[indices] += weights[:, None] * model.outputs(vectors[indices], angles[indices], kernel, backend)
        return total


def check_leaves(leaves: Leaves, n: int) -> None:
    """Refuse parts that do not fit together, or not to n inputs, as those of a file may not."""
    count, (nodes, r), children, starts = len(leaves.lasts), leaves.directions.shape, leaves.children, leaves.starts
    metrics = count if len(leaves.metrics) else 0
    shapes = ((nodes, r), (nodes,), (nodes,), (nodes, 2), (metrics, r, r), (count,), (count + 1,))
    if tuple(map(np.shape, leaves)) != shapes:
        raise ValueError("its leaves have parts of different sizes")
    below = (children >= 0) & (children <= np.arange(nodes)[:, None])
    each_once = [*range(-count, 0), *range(1, nodes)] if nodes else []
    if children.dtype.kind != "i" or below.any() or count != nodes + 1 or sorted(children.ravel()) != each_once:
        raise ValueError("its tree is not a tree")
    if starts.dtype.kind != "i" or starts[0] != 0 or starts[-1] != n or (np.diff(starts) <= 0).any():
        raise ValueError("its leaves do not cover the rows")
    if not all(np.isfinite(one).all() for one in leaves) or not (leaves.lasts > 0).all():
        raise ValueError("some numbers of its leaves are not valid")


class LeavesFit(NamedTuple):
    """Leaves with their inputs and coefficients, and what they say of the rows that were held out."""

    leaves: Leaves
    inputs: Single  # (N, r + 1): lifted rows, angles of single columns after them
    alpha: Matrix  # (N, k)
    ridge: float
    held_outputs: Matrix  # (held, k)
    errors: dict[float, float]  # of each ridge: weighted mean of squares on held-out rows of some leaves


def fit_leaves(
    rows: Matrix,
    targets: Matrix,
    weights: Matrix,
    *,
    held: int,
    kernel: SphereKernel,
    ridges: Sequence[float],
    size: int = 4096,
    enough: int = 1000,
    rival: Matrix | None = None,
    backend: Backend | None = None,
    seed: int = 0,
    tell: Callable[[float], object] = lambda share: None,
) -> LeavesFit | None:
    """Return a tree of exact models, with the ridge that held-out rows prefer; None if it loses to a rival.

    Parameters
    ----------
    rows : (n, r), scaled and under the metric, before they are lifted; angles of single columns follow, if the kernel
        has such parts
    targets, weights : (n, k), and (n,), above 0
    held : number of rows at the end that are not fitted
    kernel : of rows, without a metric
    ridges : penalties to choose from, relative to the diagonal of the kernel; while the best is at an end of several,
        the one beyond is tried too. Without held-out rows only one
    size : rows of a leaf at most
    enough : held-out rows that choose the ridge, and whether leaves learn metrics
    rival : (held, k), what another model says of held-out rows: leaves that are no better there are not all fitted
    backend : None for all cores
    tell : called with the share that is done

    Cost: O(n) times the rows of a leaf, for each step of conjugate gradients. Memory: 2 size² bytes per thread.
    """
    if not held and len(ridges) != 1:
        raise InvalidInput(f"without held-out rows there must be one ridge; got {len(ridges)}. Hold some rows out.")
    backend, fitted, ridge = Cpu() if backend is None else backend, len(rows) - held, sorted(ridges)[len(ridges) // 2]
    threads, alone = backend.threads, Cpu(1) if isinstance(backend, Cpu) else backend
    (vectors, angles), plain = kernel.split(rows), kernel._replace(parts=None)

    def data_at(some: Numbers) -> Observations:
        return Observations.of_rows(vectors[some], targets[some], weights[some])

    tree, members = _grow(vectors[:fitted], data_at, plain, ridge, size=size, backend=alone, threads=threads, seed=seed)
    norm, r, known = typical_norm(vectors[:fitted], weights[:fitted]), vectors.shape[1], dict[int, Any]()
    for leaf, indices, share in tree.spread(vectors[fitted:]):
        known[leaf] = fitted + indices, share
    order = np.random.default_rng(seed).permutation(len(members)).tolist()
    first = int(np.searchsorted(np.cumsum([len(known.get(leaf, ((),))[0]) for leaf in order]), enough)) + 1
    some, rest, done = order[:first], order[first:], 0  # the first choose the ridge and the metrics

    def fit_one(leaf: int, ridge: float, learns: bool) -> _Leaf:
        mine, last, metric = data_at(members[leaf]), kernel.bias * norm, None
        if learns:
            drawn = np.sort(np.random.default_rng(seed).permutation(len(mine))[:_LEARNT])
            metric = _learn(data_at(members[leaf][drawn]), plain, ridge, alone)
            last = kernel.bias * typical_norm(mine.X @ metric, mine.weights)
        inputs = _lifted(mine.X, metric, last, angles[members[leaf]])
        matrix = alone.operator(kernel, inputs, memory=np.inf)
        low = alone.pivots(matrix, rank=-(-len(mine) // _RANK), seed=seed)
        how: dict[str, Any] = {"backend": alone, "ridge": ridge, "residual": _DONE, "steps": _STEPS}
        return _Leaf(metric, last, inputs, refine(matrix, low, mine, **how, start=np.zeros_like(mine.targets))[0])

    def fit(leaves: list[int], ridge: float, learns: bool = False) -> dict[int, _Leaf]:
        nonlocal done
        made = dict[int, _Leaf]()
        models = in_order(lambda leaf: fit_one(leaf, ridge, learns), leaves, threads=threads)
        for leaf, found in zip(leaves, models, strict=True):
            made[leaf], done = found, done + 1
            tell(min(1.0, 0.2 + 0.8 * done / (len(some) * (len(ridges) + 1) + len(rest))))
        return made

    def error(outputs: Callable[[int, Numbers], Matrix]) -> float:
        """Return the weighted mean of squares on held-out rows of some leaves."""
        parts = [(leaf, *known[leaf]) for leaf in some if leaf in known]
        sums = [(share * weights[i]) @ ((outputs(leaf, i) - targets[i]) ** 2).sum(axis=1) for leaf, i, share in parts]
        return float(sum(sums) / sum(share @ weights[i] for _, i, share in parts)) if parts else np.inf

    def says(fits: dict[int, _Leaf]) -> Callable[[int, Numbers], Matrix]:
        return lambda leaf, i: fits[leaf].outputs(vectors[i], angles[i], kernel, alone)

    tell(0.2)
    fits = {one: fit(some, one) for one in map(float, ridges)}
    errors = {one: error(says(found)) for one, found in fits.items()}

    def attempt(ridge: float) -> float:
        fits[ridge] = fit(some, ridge)
        return error(says(fits[ridge]))

    ridge, learns = best_ridge(errors, attempt), False
    made, least = fits[ridge], errors[ridge]
    if held and r <= _COLUMNS:
        more = fit(some, ridge, learns=True)
        learns = error(says(more)) < _WORTH * least
        made, least = (more, error(says(more))) if learns else (made, least)
    if rival is not None and least >= error(lambda leaf, i: rival[i - fitted]):
        return None
    made |= fit(rest, ridge, learns)
    parts = [made[leaf] for leaf in range(len(members))]
    metrics = [one.metric for one in parts] if learns else np.zeros((0, r, r))
    starts, lasts = np.cumsum([0, *map(len, members)]), np.array([one.last for one in parts])
    leaves = tree._replace(metrics=np.array(metrics), lasts=lasts, starts=starts)
    inputs, alpha = np.concatenate([one.inputs for one in parts]), np.concatenate([one.alpha for one in parts])
    said = leaves.predict(rows[fitted:], inputs, alpha, kernel, backend=backend)
    tell(1.0)
    return LeavesFit(leaves, inputs, alpha, ridge, said, errors)


def _lifted(rows: Matrix, metric: Matrix | None, last: float, angles: Matrix) -> Single:
    """Return rows (k, r) under a metric, with this bias coordinate and of unit norm, and angles after them: float32."""
    turned = rows if metric is None else rows @ metric
    inputs = np.column_stack([turned, np.full(len(rows), last)]).astype(np.float32)
    return np.hstack([inputs / np.linalg.norm(inputs, axis=1, keepdims=True), angles.astype(np.float32)])


def _learn(some: Observations, kernel: SphereKernel, ridge: float, backend: Backend) -> Matrix:
    """Return the metric (r, r) that a fit to some rows of a leaf says."""
    plain = np.eye(some.X.shape[1])
    outer = kernel._replace(metric=plain).outer_products(some, ridge, backend)
    return plain if outer is None else next_metric(outer, metric=plain, power=POWER)


class _Split(NamedTuple):
    direction: Matrix
    threshold: float
    border: float
    sides: tuple[NDArray[np.bool_], NDArray[np.bool_]]


def _grow(
    rows: Matrix,
    data_at: Callable[[Numbers], Observations],
    kernel: SphereKernel,
    ridge: float,
    *,
    size: int,
    backend: Backend,
    threads: int,
    seed: int,
) -> tuple[Leaves, list[Numbers]]:
    """Return the tree, and which of the rows (n, r) belong to each leaf: at most ``size``, unless they are equal.

    Cost: O(nr) per level, and O(1000³) per node, those of a level on all threads.
    """
    splits, children, members = list[_Split](), list[list[int]](), list[Numbers]()
    level: list[tuple[tuple[int, int], Numbers]] = [((-1, 0), np.arange(len(rows)))]

    def split(item: tuple[tuple[int, int], Numbers]) -> _Split | None:
        (parent, side), some = item
        if len(some) <= size:
            return None
        rng = np.random.default_rng([seed, parent + 1, side])
        drawn = data_at(np.sort(rng.choice(some, min(_SAMPLE, len(some)), replace=False)))
        directions = _directions(drawn, kernel.outer_products(drawn, ridge, backend))
        directions.append(np.asarray(rng.normal(size=rows.shape[1])))  # parts any rows that differ
        return next((one for one in (_cut(rows[some], direction) for direction in directions) if one), None)

    while level:
        below = []
        for ((parent, side), some), made in zip(level, in_order(split, level, threads=threads), strict=True):
            if parent >= 0:
                children[parent][side] = ~len(members) if made is None else len(splits)
            if made is None:
                members.append(some)
            else:
                below += [((len(splits), which), some[mine]) for which, mine in enumerate(made.sides)]
                splits.append(made)
                children.append([0, 0])
        level = below
    directions = np.array([one.direction for one in splits]).reshape(-1, rows.shape[1])
    thresholds, borders = (np.array([one[k] for one in splits], np.float64) for k in (1, 2))
    nothing, pairs = np.zeros(0), np.array(children, np.int64).reshape(-1, 2)
    tree = Leaves(directions, thresholds, borders, pairs, nothing, nothing, np.zeros(0, np.int64))
    return tree, members


def _cut(rows: Matrix, direction: Matrix) -> _Split | None:
    """Return the split of rows (n, r) at their median along a direction; None if one side would get nearly all."""
    along = rows @ direction
    threshold = float(np.median(along))
    away = along - threshold
    for border in (float(np.quantile(np.abs(away), 2 * _BORDER)), 0.0):
        sides = (away < border, away > -border) if border > 0 else (away < 0, away >= 0)
        if max(int(one.sum()) for one in sides) <= (1 - _LEAST) * len(rows):
            return _Split(direction, threshold, border, sides)
    return None


def _directions(data: Observations, outer: Matrix | None) -> list[Matrix]:
    """Return directions (r,) along which a fit to rows changes, from the one where it changes most."""
    covariance = np.cov(data.X, rowvar=False, aweights=data.weights).reshape(data.X.shape[1], -1)
    values, vectors = np.linalg.eigh(covariance)
    there = values > _TINY * max(values[-1], np.finfo(float).tiny)
    if outer is None or not there.any():
        return []
    root, back = (vectors[:, there] * values[there] ** power for power in (0.5, -0.5))
    directions = (back @ np.linalg.eigh(root.T @ outer @ root)[1][:, ::-1]).T
    return list(directions / np.linalg.norm(directions, axis=1, keepdims=True))
