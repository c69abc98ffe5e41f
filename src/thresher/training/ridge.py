"""Training with a penalty: ½ Σ w_i (f_i - y_i)² + ½ mu ||W - W(0)||², by Gauss-Newton steps over dense blocks.

Each step starts again from W(0): W = W(0) + Jᵀ alpha with (G + mu/w) alpha = y - f + J (W - W(0)), G and J being those
of the point just reached. A pair that fires has the coefficient a_r alpha_j / sqrt(m), one that does not has none. At a
minimum mu/w alpha = y - f: how far that fails, the *gap*, says when to stop.

Several outputs share the start weights, the first pass over them, and the first Gram matrix, whose factor
preconditions all solves but the first, which is direct.

Predictions often prefer small shifts, where a third of all pairs fire. There certificates expire faster than they
pay, and matrix products are the cheaper search (``dense.py``): every iteration passes over all neurons.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable
from functools import cached_property, partial
from itertools import count as counter
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import LinAlgError
from scipy.sparse.linalg import LinearOperator, cg

from thresher.algebra.cholesky import Cholesky, factor
from thresher.errors import InvalidInput
from thresher.interfaces import SolveStatus
from thresher.memory import require
from thresher.model.network import Network, NetworkSettings
from thresher.model.weights import DenseWeights
from thresher.parallel import in_order
from thresher.shards.dense import PAIRS, Dense, Point, RidgeStep, start_gram
from thresher.training.history import History, Iteration, Status

__all__ = ["RidgeResult", "RidgeStart", "RidgeStep", "Smoother", "replay_ridge", "train_ridge"]

Matrix = NDArray[np.float64]
Fast = NDArray[np.float32]
_INNER_TOLERANCE, _MOST_PRODUCTS = 1e-4, 200
_HALVINGS = 4
_LARGEST = float(np.finfo(np.float32).max)  # parts of a step beyond it cannot be taken


class RidgeResult(NamedTuple):
    """A network, how it came about, and the steps that make it again."""

    network: Network
    history: History
    status: Status
    message: str
    steps: list[RidgeStep]
    gap: float  # ||mu/w alpha - (y - f)|| at the end, as a share of ||y||


class Smoother:
    """A kernel H (n, n) of the inputs with the penalty mu/w (n,): solves with H + mu/w.

    It is factored when first asked. Cost: O(n³/3) once, O(n²) a solve.
    """

    def __init__(self, kernel: Matrix, penalty: Matrix) -> None:
        self._kernel, self._penalty, self._lock = kernel, penalty, threading.Lock()
        self._factor: Cholesky | None = None

    def solve(self, rhs: Matrix) -> Matrix:
        """Return (H + mu/w)⁻¹ rhs for rhs (n,) or (n, k); the factor is made by whoever asks first."""
        with self._lock:
            if self._factor is None:
                self._factor = factor(self._kernel, added=self._penalty)
            if self._factor is None:
                raise LinAlgError("the kernel with its penalty is not positive definite")
        return self._factor.solve(rhs)


class RidgeStart:
    """What all outputs share: the inputs (n, d), rows of norm 1, and one pass over all neurons at their start.

    ``settings`` are width, shift and seed; the activation must be ``"relu"``. Results do not depend on ``threads``.
    ``memory_budget`` is in bytes; None for 90 % of what is free.

    Cost: O(mnd); a bit for each pair.
    """

    def __init__(
        self, inputs: Matrix, *, settings: NetworkSettings, threads: int = 1, memory_budget: int | None = None
    ) -> None:
        if settings.activation != "relu":
            raise InvalidInput(f"training with a penalty needs activation='relu'; got {settings.activation!r}.")
        m, (n, d) = settings.width, inputs.shape
        require(
            8 * m * d + m * n / 3 + 12 * n * n + threads * (24 * PAIRS + 4096 * n),
            budget=memory_budget,
            what=f"training {m:,} neurons on {n:,} inputs with a penalty",
            remedy="Use a smaller width or fewer rows.",
        )
        began = time.perf_counter()
        self.inputs, self.settings, self.threads, self.memory_budget = inputs, settings, threads, memory_budget
        self._dense = Dense(inputs, settings, threads)
        self.point = self._dense.start
        self.seconds = time.perf_counter() - began

    @cached_property
    def gram(self) -> Matrix:
        """The Gram matrix J Jᵀ (n, n): the kernel of the network linearised here. Cost: O(mn(n/64 + d))."""
        began = time.perf_counter()
        gram = start_gram(self.inputs, self.settings, threads=self.threads)
        self.seconds += time.perf_counter() - began
        return gram

    def output(self, *, threads: int) -> Dense:
        """Return the neurons of one output, which stand here."""
        return self._dense.fork(threads=threads)


def train_ridge(
    start: RidgeStart,
    targets: Matrix,
    *,
    penalty: Matrix,
    first: Matrix | None = None,
    tol: float = 1e-2,
    max_iterations: int = 4,
    on_iteration: Callable[[int, Iteration], object] = lambda output, record: None,
) -> list[RidgeResult]:
    """Train one network for each output, all from the same start.

    Parameters
    ----------
    targets : (n, k), one column an output
    penalty : mu/w_i (n,), above 0
    first : the first alpha (n, k), (G + mu/w)⁻¹ (y - f(0)), if it is known
    tol : stop when the gap, ||mu/w alpha - (y - f)||, is at most this share of ||y||, or no step reduces the loss
    max_iterations : steps at the most
    on_iteration : called with the output and the record of each iteration, by the thread that trains the output; True
        stops that output there

    Cost: O(n³/3) for a factor of the Gram matrix, O(mnd) an iteration and output; all but the first solve take a few
    products of O(mnd).
    """
    outputs, m, (n, d) = targets.shape[1], start.settings.width, start.inputs.shape
    beside = min(start.threads, outputs)
    require(
        (outputs + 2 * beside) * 4 * m * d + beside * m * n / 4 + 2 * 8 * n * n,
        budget=start.memory_budget,
        what=f"training {outputs} networks of {m:,} neurons",
        remedy="Use a smaller width.",
    )
    smoother = Smoother(start.gram, penalty)
    alphas = smoother.solve(targets - start.point.outputs[:, None]) if first is None else first

    def descend(output: int) -> RidgeResult:
        dense = start.output(threads=start.threads // beside)
        tell = partial(on_iteration, output)
        descent = _Descent(dense, targets[:, output], penalty, smoother, tol, max_iterations, tell)
        return descent.go(start.point, alphas[:, output], seconds=start.seconds / outputs)

    return list(in_order(descend, range(outputs), threads=beside))


def replay_ridge(start: RidgeStart, steps: list[RidgeStep]) -> DenseWeights:
    """Return the weights that training reached by these steps, without solving for any. Cost: O(mnd) a step."""
    dense = start.output(threads=start.threads)
    for step in steps:
        dense.look(step)
        dense.accept()
    return dense.weights()


class _Descent(NamedTuple):
    dense: Dense
    targets: Matrix
    penalty: Matrix
    smoother: Smoother
    tol: float
    max_iterations: int
    on_iteration: Callable[[Iteration], object]

    def go(self, start: Point, alpha: Matrix, *, seconds: float) -> RidgeResult:
        """Descend from the start; alpha (n,) is the first step, the others are solved for."""
        point = start
        history, steps = History(), list[RidgeStep]()
        if self._tell(history, point, 0.0, {"start": seconds}):
            return self._end(history, [], Status.INTERRUPTED, "A callback asked to stop.", math.inf)
        loss, gap = self._loss(point), 0.0
        while True:
            began, products, solve = time.perf_counter(), 0, SolveStatus.SOLVED
            if steps:
                alpha, products, solve = self._solve(point, alpha)
            between = time.perf_counter()
            step, reached, loss = self._descend(point, alpha, loss)
            if step is None and steps:
                message = f"No further step reduces the penalised loss; the gap was still {gap:.2g} of the targets."
                return self._end(history, steps, Status.STALLED, f"{message} Use a larger width or ridge.", gap)
            if step is None:
                return self._stay(history, start, alpha)
            point, taken = reached, {"solve": between - began, "move": time.perf_counter() - between}
            steps.append(step)
            stop = self._tell(history, point, step.fraction, taken, products=products, solve=solve)
            gap = self._gap(alpha, point)
            if stop:
                return self._end(history, steps, Status.INTERRUPTED, "A callback asked to stop.", gap)
            if gap <= self.tol:
                return self._end(history, steps, Status.CONVERGED, f"The gap is within {self.tol:g}.", gap)
            if len(steps) == self.max_iterations:
                message = f"The gap was still {gap:.2g} of the targets. Use a larger width, ridge or max_iterations."
                return self._end(history, steps, Status.OUT_OF_ITERATIONS, message, gap)

    def _stay(self, history: History, start: Point, alpha: Matrix) -> RidgeResult:
        """End where no first step reduces the loss: the start is a minimum, or the step cannot be taken."""
        gap = self._gap(alpha, start) if self.targets.any() else 0.0
        if gap <= self.tol and (start.firing or gap == 0):
            return self._end(history, [], Status.CONVERGED, "The start is a minimum of the penalised loss.", gap)
        why = "too few neurons fire. Lower the shift or raise the width."
        if gap > self.tol and start.firing:
            why = "its parts cancel beyond single precision, or too few neurons fire. Raise the ridge or the width."
        return self._end(history, [], Status.STALLED, f"No step reduces the loss: {why}", math.inf)

    def _gap(self, alpha: Matrix, point: Point) -> float:
        """Return ||mu/w alpha - (y - f)|| / ||y||: what a minimum lacks."""
        left = self.penalty * alpha - (self.targets - point.outputs)
        return float(np.linalg.norm(left) / np.linalg.norm(self.targets))

    def _end(self, history: History, steps: list[RidgeStep], status: Status, message: str, gap: float) -> RidgeResult:
        return RidgeResult(Network(self.dense.settings, self.dense.weights()), history, status, message, steps, gap)

    def _descend(self, point: Point, alpha: Matrix, loss: float) -> tuple[RidgeStep | None, Point, float]:
        """Go the whole way to W(0) + Jᵀ alpha, or half of it, a quarter, ...: until the penalised loss falls."""
        if not alpha.any() or np.abs(alpha).max() > _LARGEST:
            return None, point, loss
        for halving in range(_HALVINGS + 1):
            step = RidgeStep(alpha, 0.5**halving)
            there = self.dense.look(step)
            reached = self._loss(there)
            if reached < loss:
                self.dense.accept()
                return step, there, reached
        return None, point, loss

    def _loss(self, point: Point) -> float:
        """Return the penalised loss, divided by mu: ½ Σ (f - y)² / penalty + ½ ||W - W(0)||²."""
        return float(((point.outputs - self.targets) ** 2 / self.penalty).sum() + point.distance) / 2

    def _solve(self, point: Point, near: Matrix) -> tuple[Matrix, int, SolveStatus]:
        """Return the next alpha, by conjugate gradients from one that is near, how many products it took, its end."""
        rhs = self.targets - point.outputs + self.dense.pushed()
        n, products = len(rhs), counter()

        def times(vector: Matrix) -> Matrix:
            next(products)
            return self.dense.times(vector.ravel()) + self.penalty * vector.ravel()

        operator = LinearOperator((n, n), times, dtype=np.float64)
        inverse = LinearOperator((n, n), lambda vector: self.smoother.solve(vector.ravel()), dtype=np.float64)
        alpha, stopped = cg(operator, rhs, x0=near, rtol=_INNER_TOLERANCE, M=inverse, maxiter=_MOST_PRODUCTS)
        return alpha, next(products), SolveStatus.INEXACT if stopped else SolveStatus.SOLVED

    def _tell(
        self,
        history: History,
        point: Point,
        fraction: float,
        seconds: dict[str, float],
        *,
        products: int = 0,
        solve: str = "",
    ) -> bool:
        """Record an iteration; return whether somebody wants to stop."""
        residual = float(np.linalg.norm(point.outputs - self.targets))
        width = self.dense.settings.width
        record = Iteration(
            iteration=len(history),
            loss=residual**2 / 2,
            residual=residual,
            contraction=residual / history[-1].residual if history and history[-1].residual else math.nan,
            step=fraction,
            looks=point.looks,
            flips=point.flips if history else 0,
            moved=width if history else 0,
            firing=point.firing,
            rescans=0,
            visits=0,
            touches=0,
            inner_iterations=products,
            factored=len(history) == 1,
            damping=float(self.penalty.mean()),
            rank=len(self.targets),
            solve=solve,
            seconds=seconds,
        )
        history.append(record)
        return bool(self.on_iteration(record))
