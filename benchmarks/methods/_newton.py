"""Gauss-Newton on dense activations; the rivals differ in how they solve for the step."""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from scipy import linalg

from benchmarks.dense import DenseNetwork, Pairs
from benchmarks.log import Log
from thresher import Problem
from thresher.model.network import NetworkSettings
from thresher.parallel import blas_for_size

HALVINGS = 12
_AIMED = 0.8  # of the goal is the loss of each row at the outputs that steps go towards, as ours has it
Vector = NDArray[np.float64]


class Solve(Protocol):
    """Which step? Returns g with J Jᵀ g close to the residual, and the inner iterations it took; times itself."""

    def __call__(self, network: DenseNetwork, pairs: Pairs, residual: Vector, log: Log) -> tuple[Vector, int]: ...


def gauss_newton(
    problem: Problem,
    settings: NetworkSettings,
    log: Log,
    *,
    solve: Solve,
    rate: float = 1.0,
    kind: type[DenseNetwork] = DenseNetwork,
) -> None:
    """Take steps ``rate`` times W <- W - Jᵀ g, halved while they do not reduce the loss.

    J Jᵀ g is the residual; of another loss than squares the way to the outputs at which the goal is reached.
    """
    with log.time("start"):
        network = kind(problem, settings, memory=log.limits.memory)
    with log.time("forward"):
        outputs, pairs = network.forward()
    looks, aims = problem.size * network.width, log.loss.targets(problem.targets, _AIMED * log.goal)
    stop = log.record(outputs, problem.targets, looks=looks, firing=pairs.total)
    while not stop:
        with blas_for_size(problem.size):
            step, inner = solve(network, pairs, outputs - aims, log)
        before = log.history[-1].loss
        for halving in range(HALVINGS + 1):
            fraction = rate * 0.5**halving
            with log.time("update"):
                network.move(pairs, fraction * step)
            with log.time("forward"):
                outputs, fires = network.forward()
            if log.loss.value(outputs, problem.targets).sum() < before:
                break
            with log.time("update"):  # back
                network.move(pairs, -fraction * step)
        else:
            log.ended = "stalled: no step along the last direction reduces the residual"
            return
        pairs = fires
        stop = log.record(
            outputs,
            problem.targets,
            looks=(halving + 1) * looks,
            firing=pairs.total,
            inner_iterations=inner,
            step=fraction,
        )


def solve_gram(network: DenseNetwork, pairs: Pairs, residual: Vector, log: Log) -> tuple[Vector, int]:
    """Form the Gram matrix by a dense product and factor it."""
    with log.time("gram"):
        gram = network.gram(pairs)
    return _factor(gram, residual, log)


def solve_gram_of_pairs(network: DenseNetwork, pairs: Pairs, residual: Vector, log: Log) -> tuple[Vector, int]:
    """Form the Gram matrix from the pairs that fire and factor it."""
    with log.time("gram"):
        gram = network.gram_of_pairs(pairs)
    return _factor(gram, residual, log)


def _factor(gram: NDArray[np.float64], residual: Vector, log: Log) -> tuple[Vector, int]:
    """Solve by Cholesky's factor; a singular matrix for the step of least norm."""
    with log.time("solve"):
        try:
            return linalg.cho_solve(linalg.cho_factor(gram, lower=True), residual), 0
        except linalg.LinAlgError:
            return linalg.lstsq(gram, residual, cond=1e-12)[0], 0
