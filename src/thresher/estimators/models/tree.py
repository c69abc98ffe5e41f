"""A tree that parts rows along the directions a predictor uses most, with soft borders.

A node fits some of its rows, and takes the direction along which that fit changes most over the extent of the node:
with G the averaged gradient outer product of the fit and S the covariance of the rows, S^(-1/2) times the top
eigenvector of S^(1/2) G S^(1/2). It parts its rows at the median. Rows near the border go to both sides, so that a
model of one side sees beyond it; predictions there are a mean of both sides, whose weights change smoothly.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from thresher.estimators.data.observations import Observations
from thresher.estimators.interfaces import Backend, Kernel
from thresher.parallel import in_order

__all__ = ["Tree", "grow"]

Matrix = NDArray[np.float64]
Numbers = NDArray[np.int64]
_SAMPLE = 1024  # rows of a node that are fitted to find its direction
_BORDER = 0.05  # share of a node's rows on either side of its border that both sides get
_LEAST = 0.25  # share of its rows that is on neither side alone, at least
_TINY = 1e-9  # variance of a direction, relative to the largest, that counts as none


class Tree(NamedTuple):
    """Nodes count from 0, the root; a child c below 0 is leaf ``~c``. A tree without nodes is one leaf."""

    directions: Matrix  # (nodes, r)
    thresholds: Matrix  # (nodes,): of rows times direction
    borders: Matrix  # (nodes,): half the width of the border
    children: Numbers  # (nodes, 2): below the threshold, above it

    def spread(self, rows: Matrix) -> Iterator[tuple[int, Numbers, Matrix]]:
        """Yield the leaves, which of the rows (q, r) count there, and with which weights above 0; they sum to 1.

        Cost: O(r) per row and node on its way.
        """
        waiting = [(0 if len(self.thresholds) else -1, np.arange(len(rows)), np.ones(len(rows)))]
        while waiting:
            node, places, weights = waiting.pop()
            if not len(places):
                continue
            if node < 0:
                yield ~node, places, weights
                continue
            away = rows[places] @ self.directions[node] - self.thresholds[node]
            share = _step(away, float(self.borders[node]))
            for child, part in zip(self.children[node], (1 - share, share), strict=True):
                waiting.append((int(child), places[part > 0], (weights * part)[part > 0]))


def _step(away: Matrix, border: float) -> Matrix:
    """Return the share of the upper side for rows that far above the threshold: from 0 to 1 within the border."""
    if not border > 0:
        return (away >= 0).astype(np.float64)
    place = np.clip((away + border) / (2 * border), 0.0, 1.0)
    return place**2 * (3 - 2 * place)


class _Split(NamedTuple):
    direction: Matrix
    threshold: float
    border: float
    sides: tuple[NDArray[np.bool_], NDArray[np.bool_]]


def grow(
    rows: Matrix,
    targets: Matrix,
    weights: Matrix,
    *,
    kernel: Kernel,
    ridge: float,
    size: int,
    backend: Backend,
    seed: int,
    tell: Callable[[float], object],
) -> tuple[Tree, list[Numbers]]:
    """Return the tree, and which of the rows (n, r) belong to each leaf: at most ``size``, unless they are equal.

    Fits to the rows of a node are made with this kernel and ridge.

    Cost: O(nr) per level, and O(1000³) per node, those of a level on all threads.
    """
    splits, children, leaves = list[_Split](), list[list[int]](), list[Numbers]()
    expected = 2 ** max(0, math.ceil(math.log(len(rows) / size) / -math.log(0.5 + _BORDER)))
    level: list[tuple[tuple[int, int], Numbers]] = [((-1, 0), np.arange(len(rows)))]

    def part(item: tuple[tuple[int, int], Numbers]) -> _Split | None:
        place, some = item
        if len(some) <= size:
            return None
        rng = np.random.default_rng([seed, place[0] + 1, place[1]])
        drawn = np.sort(rng.choice(some, min(_SAMPLE, len(some)), replace=False))
        data = Observations.of_rows(rows[drawn], targets[drawn], weights[drawn])
        directions = _directions(data, kernel, ridge, backend.alone())
        directions.append(np.asarray(rng.normal(size=rows.shape[1])))  # parts any rows that differ
        found = (_split(rows[some], direction) for direction in directions)
        return next((one for one in found if one is not None), None)

    while level:
        below = []
        for ((parent, side), some), made in zip(level, in_order(part, level, threads=backend.threads), strict=True):
            number = ~len(leaves) if made is None else len(splits)
            if parent >= 0:
                children[parent][side] = number
            if made is None:
                leaves.append(some)
                continue
            splits.append(made)
            children.append([0, 0])
            below += [((number, side), some[mine]) for side, mine in enumerate(made.sides)]
            tell(min(1.0, len(splits) / expected))
        level = below
    directions = np.array([one.direction for one in splits]).reshape(-1, rows.shape[1])
    thresholds, borders = (np.array([one[k] for one in splits], np.float64) for k in (1, 2))
    return Tree(directions, thresholds, borders, np.array(children, np.int64).reshape(-1, 2)), leaves


def _split(rows: Matrix, direction: Matrix) -> _Split | None:
    """Return the split of rows (n, r) at their median along a direction; None if one side would get nearly all."""
    along = rows @ direction
    threshold = float(np.median(along))
    away = along - threshold
    for border in (float(np.quantile(np.abs(away), 2 * _BORDER)), 0.0):
        sides = (away < border, away > -border) if border > 0 else (away < 0, away >= 0)
        if max(int(one.sum()) for one in sides) <= (1 - _LEAST) * len(rows):
            return _Split(direction, threshold, border, sides)
    return None


def _directions(data: Observations, kernel: Kernel, ridge: float, backend: Backend) -> list[Matrix]:
    """Return directions (r,) along which a fit to rows (n, r) changes, from the one where it changes most."""
    spread = np.cov(data.X, rowvar=False, aweights=data.weights).reshape(data.X.shape[1], -1)
    values, vectors = np.linalg.eigh(spread)
    there = values > _TINY * max(values[-1], np.finfo(float).tiny)
    root, back = (vectors[:, there] * values[there] ** power for power in (0.5, -0.5))
    outer = kernel.outer_products(data, ridge, backend)
    if outer is None or not there.any():
        return []
    _, turned = np.linalg.eigh(root.T @ outer @ root)
    directions = (back @ turned[:, ::-1]).T
    return list(directions / np.linalg.norm(directions, axis=1, keepdims=True))
