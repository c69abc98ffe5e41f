"""A tree of exact models: ridge regression on the limit kernel in leaves of a few thousand rows.

``tree.py`` parts the rows; a leaf is a model of all rows it gets, by conjugate gradients with a preconditioner from
random pivots. It may learn a metric of its own, if held-out rows say that this helps. One leaf is the exact model. The
cost of a fit grows as n, that of a prediction as the rows of a leaf.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from functools import partial
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from thresher.errors import InvalidInput
from thresher.estimators.data.lift import lift_single, typical_norm
from thresher.estimators.data.observations import Observations
from thresher.estimators.interfaces import Backend
from thresher.estimators.judging.ridges import best_ridge
from thresher.estimators.kernels.gradients import MILD, next_metric
from thresher.estimators.kernels.kernel import SphereKernel
from thresher.estimators.models.tree import Tree, grow
from thresher.estimators.processor import Cpu, descend
from thresher.parallel import in_order
from thresher.theory import Parts, Shares

__all__ = ["Leaves", "check_leaves", "fit_leaves"]

Single = NDArray[np.float32]
Matrix = NDArray[np.float64]
_COLUMNS = 128  # most columns for which leaves learn metrics of their own
_LEARNT = 2048  # rows of a leaf that they are learnt from
_WORTH = 0.995  # rounds are taken while each leaves at most this share of the error on held-out rows
_RANK = 8  # rows of a leaf per pivot of its preconditioner
_STEPS = 60
_DONE = 1e-2  # share of the right-hand sides that is left when a leaf is done: a third of what changes predictions
_GROWING = 0.2  # share of the time that the tree takes


@dataclass(frozen=True)
class Leaves:
    """A tree, and in each leaf a model: its inputs and coefficients are rows ``starts[l]`` to ``starts[l + 1]``.

    In leaf l, rows are multiplied by ``metrics[l]``, get the coordinate ``lasts[l]`` and are divided by their norms.
    """

    tree: Tree
    metrics: Matrix  # (leaves, r, r), or (0, r, r) if rows stay as they are
    lasts: Matrix  # (leaves,)
    starts: NDArray[np.int64]  # (leaves + 1,)
    inputs: Single  # (N, r + 1): lifted rows; for a kernel of parts the angles of single columns follow
    alpha: Matrix  # (N, k)
    held_outputs: Matrix  # (held, k)
    ridges: Matrix  # those tried
    errors: Matrix  # of each: the weighted mean of squares on held-out rows of some leaves, summed over outputs
    rounds: Matrix  # the same after 0, 1, ... rounds of metrics of their own, with the ridge that was chosen
    shift: float
    ridge: float
    shares: Matrix  # (5,): of the parts of the kernel, and its sharpness

    @property
    def kernel(self) -> SphereKernel:
        """The kernel of inputs: rows are lifted here."""
        columns = self.inputs.shape[1] - 1 - self.tree.directions.shape[1]
        return SphereKernel(1.0, self.shift, parts=Parts(columns, Shares(*self.shares)) if columns else None)

    def predict(self, rows: Matrix, *, backend: Backend | None = None) -> Matrix:
        """Return the outputs (q, k) for rows (q, r), angles after them. Cost: O(r) per row for each row of a leaf."""
        backend, kernel = Cpu() if backend is None else backend, self.kernel
        total, (vectors, angles) = np.zeros((len(rows), self.alpha.shape[1])), kernel.split(rows)
        for leaf, places, weights in self.tree.spread(vectors):
            mine = slice(self.starts[leaf], self.starts[leaf + 1])
            turned = vectors[places] @ self.metrics[leaf] if len(self.metrics) else vectors[places]
            inputs = _lifted(turned, float(self.lasts[leaf]), angles[places])
            said = backend.product(kernel, inputs, self.inputs[mine], self.alpha[mine])
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


def check_leaves(leaves: Leaves) -> None:
    """Refuse parts that do not fit together, as those of a file may not."""
    tree, count, n = leaves.tree, len(leaves.lasts), len(leaves.inputs)
    nodes, r = len(tree.thresholds), tree.directions.shape[-1]
    shapes = [
        (tree.directions, (nodes, r)),
        (tree.borders, (nodes,)),
        (tree.children, (nodes, 2)),
        (leaves.metrics, (count if len(leaves.metrics) else 0, r, r)),
        (leaves.starts, (count + 1,)),
        (leaves.alpha, (n, leaves.alpha.shape[-1])),
    ]
    if any(np.shape(one) != expected for one, expected in shapes):
        raise ValueError("its leaves have parts of different sizes")
    children, starts = tree.children, leaves.starts
    below = (children >= 0) & (children <= np.arange(nodes)[:, None])
    each_once = np.concatenate([np.arange(1, nodes), ~np.arange(count)]) if nodes else np.zeros(0, np.int64)
    if children.dtype.kind != "i" or below.any() or count != nodes + 1 or sorted(children.ravel()) != sorted(each_once):
        raise ValueError("its tree is not a tree")
    if starts.dtype.kind != "i" or starts[0] != 0 or starts[-1] != n or (np.diff(starts) <= 0).any():
        raise ValueError("its leaves do not cover the rows")
    numbers = (tree.directions, tree.thresholds, tree.borders, leaves.metrics, leaves.lasts)
    if not all(np.isfinite(one).all() for one in numbers) or not (leaves.lasts > 0).all():
        raise ValueError("some numbers of its leaves are not valid")


def fit_leaves(
    rows: Matrix,
    targets: Matrix,
    weights: Matrix,
    *,
    held: int,
    kernel: SphereKernel,
    ridges: Sequence[float],
    size: int = 4096,
    rounds: int = 1,
    enough: int = 1000,
    backend: Backend | None = None,
    seed: int = 0,
    tell: Callable[[float], object] = lambda share: None,
) -> Leaves:
    """Return a tree of exact models, with the ridge that held-out rows prefer.

    Parameters
    ----------
    rows : (n, r), scaled and under the metric, before they are lifted; angles of single columns follow, if the kernel
        has such parts
    targets : (n, k)
    weights : (n,), above 0, of rows
    held : number of rows at the end that are not fitted
    kernel : of rows, without a metric
    ridges : penalties to choose from, relative to the diagonal of the kernel; while the best is at an end of several,
        the one beyond is tried too. Without held-out rows only one
    size : rows of a leaf at most
    rounds : how often a leaf may learn a metric of its own; held-out rows decide
    enough : held-out rows that choose the ridge and the rounds
    backend : None for all cores
    tell : called with the share that is done

    Cost: O(n) times the rows of a leaf, for each step of conjugate gradients. Memory: 2 size² bytes per thread.
    """
    if not held and len(ridges) != 1:
        raise InvalidInput(f"without held-out rows there must be one ridge; got {len(ridges)}. Hold some rows out.")
    backend, fitted = Cpu() if backend is None else backend, len(rows) - held
    how: dict[str, Any] = {"kernel": kernel, "ridge": _middle(ridges), "size": size, "backend": backend, "seed": seed}
    rows, angles = kernel.split(rows)
    how["kernel"] = kernel._replace(parts=None)
    tree, members = grow(rows[:fitted], targets[:fitted], weights[:fitted], **how, tell=lambda s: tell(_GROWING * s))
    work = _Work(rows, angles, targets, weights, fitted, tree, members, kernel, backend, seed)
    tried = rounds if held and rows.shape[1] <= _COLUMNS else 0
    order = np.random.default_rng(seed).permutation(len(members)).tolist()
    first = int(np.searchsorted(np.cumsum([len(work.held[leaf][0]) for leaf in order]), enough)) + 1
    some, rest = order[:first], order[first:]  # the first choose the ridge and the rounds

    def told(done: int) -> None:
        tell(min(1.0, _GROWING + (1 - _GROWING) * done / (len(some) * (1 + tried) + len(rest))))

    fits, errors, ridge = work.choose_ridge(some, ridges, tell=told)
    after, taken = [errors[ridge]], 0
    while len(after) <= tried:
        more = work.fit(some, [ridge], rounds=1, tell=lambda done: told(len(some) * len(after) + done), start=fits)
        after.append(float(work.errors(more)[0]))
        if not after[-1] < _WORTH * after[-2]:
            break
        fits, taken = more, taken + 1
    fits |= work.fit(rest, [ridge], rounds=taken, tell=lambda done: told(len(some) * (1 + tried) + done))
    tell(1.0)
    parts = [fits[leaf] for leaf in range(len(members))]
    metrics = np.concatenate([np.zeros((0, rows.shape[1], rows.shape[1])), *(one.metric for one in parts)])
    inputs, alpha = (np.concatenate([one[k] for one in parts]) for k in (2, 3))
    lasts, starts = np.array([one.last for one in parts]), np.cumsum([0, *map(len, members)])
    own = metrics, lasts, starts, inputs, alpha[:, 0], work.outputs(parts)
    judged = np.array(list(errors)), np.array(list(errors.values()))
    shares = Shares() if kernel.parts is None else kernel.parts.shares
    return Leaves(tree, *own, *judged, np.array(after), kernel.shift, ridge, np.array(shares))


class _Leaf(NamedTuple):
    metric: Matrix  # (1, r, r), or (0, r, r) for none
    last: float
    inputs: Single  # (m, r + 1)
    alpha: Matrix  # (m, ridges, k)
    said: Matrix  # (held, ridges, k)

    def only(self, ridge: int) -> _Leaf:
        """Return the model for one of the ridges."""
        one = slice(ridge, ridge + 1)
        return self._replace(alpha=self.alpha[:, one].copy(), said=self.said[:, one].copy())


class _Work:
    """Rows with their leaves."""

    def __init__(
        self,
        rows: Matrix,
        angles: Matrix,
        targets: Matrix,
        weights: Matrix,
        fitted: int,
        tree: Tree,
        members: list[NDArray[np.int64]],
        kernel: SphereKernel,
        backend: Backend,
        seed: int,
    ) -> None:
        self._rows, self._angles, self._targets, self._weights, self._fitted = rows, angles, targets, weights, fitted
        self._members, self._kernel, self._backend, self._seed = members, kernel, backend, seed
        self._norm = typical_norm(rows[:fitted], weights[:fitted])
        # Held-out rows of each leaf, and their weights there.
        self.held = [(np.zeros(0, np.int64), np.zeros(0))] * len(members)
        for leaf, places, share in tree.spread(rows[fitted:]):
            self.held[leaf] = fitted + places, share

    def fit(
        self,
        leaves: list[int],
        ridges: Sequence[float],
        *,
        rounds: int,
        tell: Callable[[int], object],
        start: dict[int, _Leaf] | None = None,
    ) -> dict[int, _Leaf]:
        """Return models of some leaves for each of the ridges, after rounds of learning from the metrics of a start."""
        kernel, backend, seed = self._kernel, self._backend.alone(), self._seed
        learn = partial(_learn, kernel=kernel._replace(parts=None), ridge=_middle(ridges), backend=backend, seed=seed)

        def one(leaf: int) -> _Leaf:
            members, others = self._members[leaf], self.held[leaf][0]
            data = self._rows[members], self._targets[members], self._weights[members]
            metric = np.zeros((0, data[0].shape[1], data[0].shape[1])) if start is None else start[leaf].metric
            for _ in range(rounds):
                metric = learn(*data, metric=metric)
            all_of_them = np.concatenate([members, others])
            turned, norm = self._rows[all_of_them], self._norm
            if len(metric):
                turned = turned @ metric[0]
                norm = typical_norm(turned[: len(members)], data[2])
            inputs = _lifted(turned, kernel.bias * norm, self._angles[all_of_them])
            found = _fit_leaf(inputs, *data[1:], kernel=kernel, ridges=ridges, backend=backend, seed=seed)
            return _Leaf(metric, kernel.bias * norm, *found)

        made = {}
        for leaf, fit in zip(leaves, in_order(one, leaves, threads=self._backend.threads), strict=True):
            made[leaf] = fit
            tell(len(made))
        return made

    def choose_ridge(
        self, leaves: list[int], ridges: Sequence[float], *, tell: Callable[[int], object]
    ) -> tuple[dict[int, _Leaf], dict[float, float], float]:
        """Return models of some leaves with the ridge of the least error, the errors of those tried, and the ridge."""
        fits = self.fit(leaves, ridges, rounds=0, tell=tell)
        errors = dict(zip(map(float, ridges), self.errors(fits).tolist(), strict=True))
        made = {ridge: {leaf: one.only(k) for leaf, one in fits.items()} for k, ridge in enumerate(errors)}

        def attempt(ridge: float) -> float:
            made[ridge] = self.fit(leaves, [ridge], rounds=0, tell=lambda done: None)
            return float(self.errors(made[ridge])[0])

        best = best_ridge(errors, attempt)
        return made[best], errors, best

    def errors(self, fits: dict[int, _Leaf]) -> Matrix:
        """Return for each ridge the weighted mean of squares on the held-out rows of some leaves."""
        total, size = np.zeros(next(iter(fits.values())).alpha.shape[1]), 0.0
        for leaf, one in fits.items():
            places, share = self.held[leaf]
            away, mine = one.said - self._targets[places, None], share * self._weights[places]
            total += np.einsum("hro,hro,h->r", away, away, mine)
            size += float(mine.sum())
        return total / size if size else np.full(len(total), np.inf)

    def outputs(self, fits: list[_Leaf]) -> Matrix:
        """Return the outputs of held-out rows (held, k)."""
        total = np.zeros((len(self._rows) - self._fitted, self._targets.shape[1]))
        for (places, share), one in zip(self.held, fits, strict=True):
            total[places - self._fitted] += share[:, None] * one.said[:, 0]
        return total


def _lifted(rows: Matrix, last: float, angles: Matrix) -> Single:
    """Return rows (k, r) with this bias coordinate and of unit norm, and angles (k, u) after them: float32."""
    inputs = lift_single(rows, last)
    return np.hstack([inputs, angles.astype(np.float32)]) if angles.shape[1] else inputs


def _learn(
    rows: Matrix,
    targets: Matrix,
    weights: Matrix,
    *,
    kernel: SphereKernel,
    ridge: float,
    backend: Backend,
    metric: Matrix,
    seed: int,
) -> Matrix:
    """Return the next metric (1, r, r) of a leaf, from some of its rows and the metric it has: (1, r, r), (0, r, r)."""
    some = np.sort(np.random.default_rng(seed).permutation(len(rows))[:_LEARNT])
    old = metric[0] if len(metric) else np.eye(rows.shape[1])
    data = Observations.of_rows(rows[some], targets[some], weights[some])
    inner = kernel._replace(metric=old).outer_products(data, ridge, backend)
    return old[None] if inner is None else next_metric(old @ inner @ old.T, metric=old, power=MILD)[None]


def _fit_leaf(
    inputs: Single,
    targets: Matrix,
    weights: Matrix,
    *,
    kernel: SphereKernel,
    ridges: Sequence[float],
    backend: Backend,
    seed: int,
) -> tuple[Single, Matrix, Matrix]:
    """Return inputs, coefficients and outputs of a leaf; inputs after the targets are held out."""
    m, k = targets.shape
    matrix = backend.operator(kernel, inputs, memory=np.inf)
    low = backend.pivots(backend.operator(kernel, inputs[:m], memory=0.0), rank=-(-m // _RANK), seed=seed)
    penalties = np.array(ridges)[:, None] * kernel.diagonal / weights  # (ridges, m)
    added = np.repeat(penalties.T, k, axis=1)
    descent = descend(
        backend,
        matrix.times,
        np.tile(targets, len(ridges)),
        added=added,
        inverse=backend.inverse(low, penalties[len(ridges) // 2]),
    )
    while descent.steps < _STEPS and float(descent.residuals.max()) > _DONE:
        descent.step()
    said = backend.get(descent.images[m:]) if descent.steps else np.zeros((len(inputs) - m, added.shape[1]))
    shape = (-1, len(ridges), k)
    return inputs[:m], backend.get(descent.values).reshape(shape), said.reshape(shape)


def _middle(ridges: Sequence[float]) -> float:
    return sorted(ridges)[len(ridges) // 2]
