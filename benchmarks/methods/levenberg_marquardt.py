"""Levenberg-Marquardt in the dual form: a stored dense Jacobian (n, md), an n x n solve, adaptive damping."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import linalg

from benchmarks.dense import DenseNetwork, Pairs
from benchmarks.log import Log
from thresher import Problem
from thresher.memory import require
from thresher.model.network import NetworkSettings
from thresher.parallel import blas_for_size

LABEL, COST, ORDER, REQUIRES = "Levenberg-Marquardt, dense Jacobian", "mdn² + n³", "second", ()
CASES = ("race",)
_FIRST, _UP, _DOWN, _TRIES = 1e-3, 10.0, 10.0, 20  # damping relative to the largest diagonal entry, as is usual


def run(problem: Problem, settings: NetworkSettings, log: Log) -> None:
    require(
        4 * problem.size * settings.width * problem.dimension,
        budget=log.limits.memory,
        what=f"a stored Jacobian of {problem.size} x {settings.width * problem.dimension:,}",
        remedy="Use a smaller width.",
    )
    with log.time("start"):
        network = DenseNetwork(problem, settings, memory=log.limits.memory)
        jacobian = np.zeros((problem.size, network.weights.size), np.float32)
    with log.time("forward"):
        outputs, pairs = network.forward()
    looks, residual, damping = problem.size * network.width, outputs - problem.targets, None
    stop = log.record(residual, looks=looks, firing=pairs.total)
    while not stop:
        with log.time("jacobian"):
            _fill(jacobian, network, pairs)
        with log.time("gram"):
            gram = (jacobian @ jacobian.T).astype(np.float64)
        if damping is None:
            damping = _FIRST * float(gram.diagonal().max())
        spent = 0
        for _ in range(_TRIES):
            try:
                with log.time("solve"), blas_for_size(problem.size):
                    step = linalg.solve(gram + damping * np.eye(problem.size), residual, assume_a="pos")
            except linalg.LinAlgError:  # rounding of the Gram matrix outweighs the damping
                damping *= _UP
                continue
            with log.time("update"):
                change = (jacobian.T @ step.astype(np.float32)).reshape(network.weights.shape)
                network.weights -= change
            with log.time("forward"):
                outputs, fires = network.forward()
            spent += looks
            if np.linalg.norm(outputs - problem.targets) < np.linalg.norm(residual):
                damping /= _DOWN
                break
            network.weights += change
            damping *= _UP
        else:
            log.ended = "stalled: no damping gives a step that reduces the residual"
            return
        residual, pairs = outputs - problem.targets, fires
        stop = log.record(residual, looks=spent, firing=pairs.total)


def _fill(jacobian: NDArray[np.float32], network: DenseNetwork, pairs: Pairs) -> None:
    """Write J[i, (r, k)] = a_r [r fires on i] x_i[k] / sqrt(m)."""
    jacobian[:] = 0
    blocks = jacobian.reshape(network.problem.size, network.width, -1)
    for block, (bounds, inputs) in zip(network.blocks, pairs.blocks, strict=True):
        neurons = np.repeat(np.arange(block.start, block.stop), np.diff(bounds))
        blocks[inputs, neurons] = network.factors[neurons, None] * network.inputs[inputs]
