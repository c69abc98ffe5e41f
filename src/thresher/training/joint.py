"""Several outputs that have one loss together: an engine and a Gram matrix each, moved and solved for as one.

In a row such a loss has the curvature diag(h) - h hᵀ / Σh (softmax: h are the shares of the classes), which is none
where all outputs grow by the same. So diag(1/h) serves as its inverse, and of steps that differ in that alone the
one with Σ_k g_k = 0 is the shortest: (G_k + added_k) g_k = r_k - u, with one u (n,) for all outputs. With a penalty
this is what the minimum of the quadratic model asks for.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from thresher.algebra.system import norm, ratio
from thresher.errors import InvalidInput
from thresher.interfaces import (
    Audit,
    Effort,
    Engine,
    Factor,
    Gram,
    Moved,
    Sketch,
    Solution,
    Solver,
    SolveStatus,
    Started,
    Step,
)
from thresher.model.weights import DenseWeights, Weights

__all__ = ["JointEngine", "JointGram", "JointSolver"]

Vector = NDArray[np.float64]
_EXACT, _MOST = 1e-12, 60  # of the search for u, where solves are exact: share that is left, and steps at the most
_FEW = 2  # steps where solves are not exact: any u will do, a poor one takes more iterations


class JointGram(Gram):
    """The Gram matrices of several outputs (n, n) each; vectors are (n, k), a column for each output."""

    def __init__(self, parts: Sequence[Gram]) -> None:
        self.parts = tuple(parts)

    @property
    def size(self) -> int:
        """Number of inputs, n."""
        return self.parts[0].size

    def dense(self) -> NDArray[np.float64]:
        """Make the matrix of each output; return them as (k, n, n)."""
        return np.stack([one.dense() for one in self.parts])

    def times(self, vector: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the product of each matrix with its column, (n, k)."""
        return np.column_stack([one.times(column) for one, column in zip(self.parts, vector.T, strict=True)])

    def diagonal(self) -> NDArray[np.float64]:
        """Return the diagonals (n, k)."""
        return np.column_stack([one.diagonal() for one in self.parts])

    def sketch(self, sketch: Sketch) -> NDArray[np.float64]:
        """Return the sketch of each output, (k, s, n)."""
        return np.stack([one.sketch(sketch) for one in self.parts])


class JointSolver(Solver):
    """A solver for each output; ``added``, right-hand sides, starting points and solutions are (n, k)."""

    def __init__(self, solvers: Sequence[Solver]) -> None:
        self._solvers = tuple(solvers)

    def __repr__(self) -> str:
        return f"{len(self._solvers)} x {self._solvers[0]!r}"

    def prepare(self, gram: Gram, *, added: float | NDArray[np.float64] = 0.0, iteration: int = 0) -> JointFactor:
        """Prepare each output; those with equal matrices share what was prepared."""
        assert isinstance(gram, JointGram)
        columns = _columns(added, gram)
        factors: list[Factor] = []
        for k, (solver, part) in enumerate(zip(self._solvers, gram.parts, strict=True)):
            same = [j for j in range(k) if gram.parts[j] is part and np.array_equal(columns[j], columns[k])]
            make = solver.prepare
            factors.append(factors[same[0]] if same else make(part, added=columns[k], iteration=iteration))
        return JointFactor(gram, columns, factors)

    def after(self, contraction: float) -> JointSolver:
        """Return the solvers for the step after one that left this share of the slopes."""
        return JointSolver([one.after(contraction) for one in self._solvers])

    def learn(self, gram: Gram, *, added: float | NDArray[np.float64], factor: Factor | None) -> None:
        """Have each solver learn what it would have learnt."""
        assert isinstance(gram, JointGram)
        known = factor.factors if isinstance(factor, JointFactor) else [None] * len(self._solvers)
        for solver, part, column, one in zip(self._solvers, gram.parts, _columns(added, gram), known, strict=True):
            solver.learn(part, added=column, factor=one)


class JointFactor(NamedTuple):
    """What was prepared of each output, and what was added to its diagonal."""

    gram: JointGram
    added: list[float | Vector]
    factors: list[Factor]

    def solve(self, rhs: Vector, *, x0: Vector | None = None) -> Solution:
        """Return the solution for right-hand sides (n, k), each less the same (n,), such that its rows add up to 0.

        Cost: one solve of each output, and one more, with a product, for each step of the search for what is the same.
        """
        starts = [None] * len(self.factors) if x0 is None else list(x0.T)
        found = [one.solve(r, x0=x) for one, r, x in zip(self.factors, rhs.T, starts, strict=True)]
        common = self._common(found)
        if common.any():
            parts = zip(self.factors, rhs.T, found, strict=True)
            found = [one.solve(r - common, x0=before.value) for one, r, before in parts]
        return _joined(found)

    def _common(self, found: list[Solution]) -> Vector:
        """Return u (n,) with Σ_k (G_k + added_k)⁻¹ u = Σ_k of the solutions: by preconditioned conjugate gradients."""
        values = [one.value for one in found]
        most = _MOST if all(one.factored for one in found) else _FEW
        left = np.sum(values, axis=0)
        goal = _EXACT * sum(map(norm, values))
        common, direction, energy = np.zeros_like(left), np.zeros_like(left), 0.0
        for _ in range(most):
            if norm(left) <= goal:
                break
            steepest = self._near(left)
            previous, energy = energy, float(left @ steepest)
            direction = steepest + ratio(energy, previous) * direction
            change = np.sum([one.solve(direction).value for one in self.factors], axis=0)
            length = ratio(energy, float(direction @ change))
            if not length:
                break
            common, left = common + length * direction, left - length * change
        return common

    def _near(self, vector: Vector) -> Vector:
        """Return about (Σ_k (G_k + added_k)⁻¹)⁻¹ times a vector: exact where all are equal, or without any G."""
        count = len(self.factors)
        mean = np.sum([one.times(vector) for one in self.gram.parts], axis=0) / count**2
        if not all(np.all(one) for one in self.added):
            return mean + np.mean([one * np.ones_like(vector) for one in self.added], axis=0) * vector / count
        return mean + vector / np.sum([1.0 / (one * np.ones_like(vector)) for one in self.added], axis=0)


def _columns(added: float | Vector, gram: JointGram) -> list[float | Vector]:
    """Return what is added to the diagonal of each output."""
    return [added for _ in gram.parts] if isinstance(added, float) else list(added.T)


def _joined(found: list[Solution]) -> Solution:
    """Return the solutions of all outputs as one (n, k): the worst of what can be said of them."""
    order = [SolveStatus.SOLVED, SolveStatus.DAMPED, SolveStatus.TRUNCATED, SolveStatus.INEXACT]
    return Solution(
        value=np.column_stack([one.value for one in found]),
        status=max((one.status for one in found), key=order.index),
        inner_iterations=sum(one.inner_iterations for one in found),
        relative_residual=max(one.relative_residual for one in found),
        damping=float(np.mean([one.damping for one in found])),
        rank=min(one.rank for one in found),
        sketch_rows=max(one.sketch_rows for one in found),
        factored=any(one.factored for one in found),
    )


class JointEngine:
    """The engines of k outputs with the methods of ``Engine``: outputs and steps are (n, k)."""

    def __init__(self, parts: Sequence[Engine]) -> None:
        self.parts = tuple(parts)

    @staticmethod
    def started(parts: Sequence[Started]) -> Started:
        """Return the starts of all outputs as one."""
        after = [one.after for one in parts if one.after is not None]
        return Started(_moved([one.before for one in parts]), _moved(after) if after else None)

    def linearise(self) -> JointGram:
        """Make the current weights of every output the point that steps start from."""
        return JointGram([one.linearise() for one in self.parts])

    def gram(self) -> JointGram:
        """Return the Gram operators at the last ``linearise`` or the start."""
        return JointGram([one.gram() for one in self.parts])

    def move(self, step: Step) -> Moved:
        """Put the neurons of each output where its column of the step leads."""
        columns = zip(self.parts, np.ascontiguousarray(step.v.T), strict=True)
        return _moved([one.move(Step(v, step.keep)) for one, v in columns])

    def jacobian_times_displacement(self) -> NDArray[np.float64]:
        """Return J (W - W(0)) of each output, (n, k)."""
        return np.column_stack([one.jacobian_times_displacement() for one in self.parts])

    def squared_distance(self) -> float:
        """Return ||W - W(0)||², of all outputs together."""
        return sum(one.squared_distance() for one in self.parts)

    def weights(self) -> Weights | DenseWeights:
        """Refuse: each output has its own."""
        raise InvalidInput("outputs that have one loss together have weights each: ask State.engine.parts.")

    def drifts(self) -> tuple[NDArray[np.float64], NDArray[np.float64]] | None:
        """Return drift and band (k,) of the neurons with certificates, of all outputs in order."""
        parts = [one.drifts() for one in self.parts]
        known = [one for one in parts if one is not None]
        if len(known) < len(parts):
            return None
        drifts, bands = zip(*known, strict=True)
        return np.concatenate(drifts), np.concatenate(bands)

    def audit(self) -> Audit:
        """Scan every pair of every output."""
        total = Audit()
        for one in self.parts:
            total = total.plus(one.audit())
        return total

    def traffic(self) -> dict[str, float]:
        """Return bytes and seconds of what has travelled since the last time: one executor serves all outputs."""
        return self.parts[0].traffic()

    def finish(self) -> Weights | DenseWeights:
        """Refuse: each output has its own."""
        raise InvalidInput("outputs that have one loss together have weights each: finish the parts of the engine.")


def _moved(parts: Sequence[Moved]) -> Moved:
    effort = Effort()
    for one in parts:
        effort = effort.plus(one.effort)
    return Moved(np.column_stack([one.outputs for one in parts]), effort)
