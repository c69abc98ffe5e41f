"""Near-linear Gauss-Newton (`bpsw21`): dense activations, but no m n²: a sketch of Jᵀ preconditions the regression.

In its best form: the sketch and the products J(Jᵀ v) run only over the firing pairs that the forward pass found, and
conjugate gradient replaces its gradient iteration.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from benchmarks.dense import BLOCK, DenseNetwork, Pairs
from benchmarks.log import Log
from benchmarks.methods._newton import Vector, gauss_newton
from thresher import Problem
from thresher.algebra import ConjugateGradient, SketchQR
from thresher.interfaces import JacobianSlice, Sketch
from thresher.model.firing import Pattern
from thresher.model.network import NetworkSettings
from thresher.parallel import in_order

LABEL, COST, ORDER, REQUIRES = "sketched Gauss-Newton (bpsw21)", "mnd + n³", "second", ()
CASES = ("race", "width", "problems")
_SOLVER = ConjugateGradient(tol=1e-6, preconditioner=SketchQR(sketch="tensor", oversampling=4.0))


def run(problem: Problem, settings: NetworkSettings, log: Log) -> None:
    gauss_newton(problem, settings, log, solve=_solve)


def _solve(network: DenseNetwork, pairs: Pairs, residual: Vector, log: Log) -> tuple[Vector, int]:
    with log.time("solve"):
        solution = _SOLVER.prepare(_Operator(network, pairs), iteration=len(log.history)).solve(residual)
    return solution.value, solution.inner_iterations


class _Operator(NamedTuple):
    """The Gram matrix as an operator over the firing pairs."""

    network: DenseNetwork
    pairs: Pairs

    @property
    def size(self) -> int:
        return self.network.problem.size

    def dense(self) -> NDArray[np.float64]:
        return self.network.gram(self.pairs)

    def times(self, vector: Vector) -> Vector:
        return self.network.gram_times(self.pairs, vector)

    def diagonal(self) -> Vector:
        total = sum(np.bincount(inputs, minlength=self.size) for _, inputs in self.pairs.blocks)
        return self.network.problem.products.diagonal() * total / self.network.width

    def sketch(self, sketch: Sketch) -> NDArray[np.float64]:
        network = self.network
        parts = np.array_split(np.arange(len(network.blocks)), network.threads)
        slices = [self._slice(part) for part in parts if part.size]
        shares = in_order(sketch.gather, slices, threads=network.threads)
        return sketch.finish(np.sum(list(shares), axis=0), slices[0])

    def _slice(self, blocks: NDArray[np.int64]) -> JacobianSlice:
        """Return consecutive blocks as the rows of Jᵀ that belong to them."""
        network, settings = self.network, self.network.settings
        counts = np.concatenate([np.diff(self.pairs.blocks[block][0]) for block in blocks])
        inputs = np.concatenate([self.pairs.blocks[block][1] for block in blocks])
        fires = np.flatnonzero(counts)
        neurons = fires + BLOCK * blocks[0]
        pattern = Pattern(neurons, np.concatenate([[0], np.cumsum(counts[fires])]), inputs)
        return JacobianSlice(
            pattern, settings.start.signs(neurons), network.problem.inputs, settings.scale, network.width
        )
