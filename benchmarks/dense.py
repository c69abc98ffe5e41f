"""The rivals of the certified search, in their best form: one dense evaluation, and dense Gauss-Newton.

Both stream the network in blocks on all cores: each thread makes numbers and calls single-threaded BLAS, which beat
BLAS's own threads in every case tried.
"""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from numpy.typing import NDArray
from scipy import linalg
from threadpoolctl import threadpool_limits

from thresher.model.network import NetworkSettings, row_blocks
from thresher.model.problem import Problem
from thresher.parallel import core_count

BLOCK = 1024


def dense_evaluation(problem: Problem, settings: NetworkSettings, *, generator: str) -> float:
    """Return the seconds to make W(0) and compute W Xᵀ once, nothing else.

    ``generator`` is "numpy" (float32 ``standard_normal``, a generator a thread) or "thresher".
    """
    inputs = problem.inputs.astype(np.float32).T.copy()
    blocks = list(row_blocks(0, settings.width, size=BLOCK))
    threads = core_count()

    def work(thread: int) -> None:
        numpy_generator = np.random.Generator(np.random.SFC64(thread))
        rows = np.empty((BLOCK, problem.dimension), np.float32)
        out = np.empty((BLOCK, problem.size), np.float32)
        for block in blocks[thread::threads]:
            size = len(block)
            if generator == "numpy":
                numpy_generator.standard_normal(out=rows[:size], dtype=np.float32)
                np.matmul(rows[:size], inputs, out=out[:size])
            else:
                made = settings.start.base_block(block.start, block.stop)
                np.matmul(made.T, inputs, out=out[:size])

    with threadpool_limits(1, "blas"), ThreadPoolExecutor(threads) as pool:
        began = time.perf_counter()
        list(pool.map(work, range(threads)))
        return time.perf_counter() - began


def dense_iterations(problem: Problem, settings: NetworkSettings, *, count: int) -> tuple[list[float], list[float]]:
    """Return residual norms and seconds of ``count`` dense Gauss-Newton iterations in float32, W stored.

    An iteration: pre-activations and outputs, co-firing counts by a symmetric product (half the work of a plain one),
    an n x n Cholesky solve, and the update of all weights.
    """
    weights = np.concatenate([settings.start.block(b.start, b.stop) for b in row_blocks(0, settings.width, size=BLOCK)])
    signs = settings.start.signs(np.arange(settings.width)).astype(np.float32)
    inputs = problem.inputs.astype(np.float32)
    fires = np.empty((settings.width, problem.size), np.bool_)  # kept from the forward pass to the update
    residuals, seconds = [], []
    for _ in range(count + 1):
        began = time.perf_counter()
        counts, outputs = _count(weights, signs, inputs, settings, fires)
        residual = outputs * settings.scale - problem.targets
        residuals.append(float(np.linalg.norm(residual)))
        if len(residuals) > count:
            break
        gram = problem.products * counts / settings.width
        step = linalg.solve(gram, residual, assume_a="pos")
        _update(weights, signs, inputs, settings, fires, step.astype(np.float32))
        seconds.append(time.perf_counter() - began)
    return residuals, seconds


def _count(
    weights: NDArray[np.float32],
    signs: NDArray[np.float32],
    inputs: NDArray[np.float32],
    settings: NetworkSettings,
    fires: NDArray[np.bool_],
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    threads, n = core_count(), len(inputs)
    blocks = list(row_blocks(0, len(weights), size=BLOCK))

    def work(thread: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        counts = np.zeros((n, n), np.float32, order="F")
        outputs = np.zeros(n)
        for block in blocks[thread::threads]:
            rows = slice(block.start, block.stop)
            z = weights[rows] @ inputs.T
            z -= np.float32(settings.shift)
            np.greater_equal(z, 0, out=fires[rows])
            outputs += signs[rows] @ np.maximum(z, 0, out=z)
            counts = linalg.blas.ssyrk(
                1.0, fires[rows].astype(np.float32).T, beta=1.0, c=counts, lower=1, overwrite_c=1
            )
        return counts.astype(np.float64), outputs

    with threadpool_limits(1, "blas"), ThreadPoolExecutor(threads) as pool:
        parts = list(pool.map(work, range(threads)))
    lower = sum(part[0] for part in parts)
    return lower + np.tril(lower, -1).T, sum(part[1] for part in parts)


def _update(
    weights: NDArray[np.float32],
    signs: NDArray[np.float32],
    inputs: NDArray[np.float32],
    settings: NetworkSettings,
    fires: NDArray[np.bool_],
    step: NDArray[np.float32],
) -> None:
    threads = core_count()
    blocks = list(row_blocks(0, len(weights), size=BLOCK))
    weighted = step[:, None] * inputs * np.float32(settings.scale)

    def work(thread: int) -> None:
        for block in blocks[thread::threads]:
            rows = slice(block.start, block.stop)
            weights[rows] -= signs[rows, None] * (fires[rows].astype(np.float32) @ weighted)

    with threadpool_limits(1, "blas"), ThreadPoolExecutor(threads) as pool:
        list(pool.map(work, range(threads)))
