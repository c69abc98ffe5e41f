"""The network with its weights stored and every pre-activation computed: what the dense rivals work with.

In their best form: float32, in blocks of neurons, on all cores. Each thread calls single-threaded BLAS, which beat
BLAS's own threads in every case tried. A forward pass lists the pairs that fire while their block is in the cache, so
that moving the neurons costs only those.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy import linalg
from threadpoolctl import ThreadpoolController

from benchmarks.pairs import collect, descend, mark, move
from thresher.loops.pairs.by_neuron import add_gram_product, count_cofiring
from thresher.memory import require
from thresher.model.network import NetworkSettings, row_blocks
from thresher.model.problem import Problem
from thresher.parallel import blas_for_size, core_count, in_order

BLOCK = 1024
_BLAS = ThreadpoolController()
Vector = NDArray[np.float64]
Value = TypeVar("Value")


class Pairs(NamedTuple):
    """Which pairs fire, block by block: ``bounds`` (k + 1,) and ``inputs`` (pairs,) of each block of neurons."""

    blocks: list[tuple[NDArray[np.int64], NDArray[np.int32]]]

    @property
    def total(self) -> int:
        return sum(len(inputs) for _, inputs in self.blocks)


class DenseNetwork:
    """Weights (m, d) in float32, from the same start as any network with these settings.

    ``copies`` of the weights are held in all, for the refusal of what does not fit into ``memory`` bytes.
    """

    def __init__(
        self, problem: Problem, settings: NetworkSettings, *, memory: int | None = None, copies: int = 1
    ) -> None:
        self.problem, self.settings = problem, settings
        self.width, self.blocks = settings.width, list(row_blocks(0, settings.width, size=BLOCK))
        self.threads = min(core_count(), len(self.blocks))
        self._pool = ThreadPoolExecutor(self.threads)  # made once: small networks iterate in less time than that takes
        self.inputs = problem.inputs.astype(np.float32)
        self._moving: tuple[NDArray[np.float32], NDArray[np.float32]] | None = None
        self._make(memory=memory, copies=copies)
        self.factors = settings.start.signs(np.arange(self.width)).astype(np.float32)  # a_r / sqrt(m)
        self.factors *= np.float32(settings.scale)

    def _make(self, *, memory: int | None, copies: int) -> None:
        """Make what the network keeps: its weights."""
        require(
            self.width * self.problem.dimension * 4 * copies,
            budget=memory,
            what=f"a dense network of width {self.width:,}",
            remedy="Use a smaller width.",
        )
        self.weights = np.empty((self.width, self.problem.dimension), np.float32)
        self._each(self._start)

    def forward(self, rows: slice = slice(None)) -> tuple[Vector, Pairs]:
        """Return the outputs on the inputs in ``rows``, and which pairs fire. Cost: O(mnd)."""
        inputs = self.inputs[rows]
        columns = np.ascontiguousarray(inputs.T)
        shift = np.float32(self.settings.shift)

        total = np.zeros((self.threads, len(inputs)))
        products = np.empty((self.threads, BLOCK, len(inputs)), np.float32)
        room = np.empty((self.threads, BLOCK * len(inputs)), np.int32)

        def work(block: range, thread: int) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
            part = slice(block.start, block.stop)
            z = np.matmul(self.weights[part], columns, out=products[thread, : len(block)])
            return collect(z, shift, self.factors[part], total[thread], room[thread])

        found = self._each(work)
        return total.sum(axis=0), Pairs(found)

    def move(self, pairs: Pairs, step: Vector) -> None:
        """Put the weights at W - Jᵀ step. Cost: O(d) a pair."""
        fast = step.astype(np.float32)

        def work(block: range, thread: int) -> None:
            rows = slice(block.start, block.stop)
            move(*pairs.blocks[block.start // BLOCK], self.factors[rows], fast, self.inputs, self.weights[rows])

        self._each(work)

    def descend(self, pairs: Pairs, step: Vector, *, momentum: float, rows: slice = slice(None)) -> None:
        """Add Jᵀ step to momentum times the last change, and take that away from W. Cost: O(md)."""
        moving = self._moving = self._moving or (np.zeros_like(self.weights), np.zeros_like(self.weights))
        inputs, fast, keep = self.inputs[rows], step.astype(np.float32), np.float32(momentum)

        def work(block: range, thread: int) -> None:
            part = slice(block.start, block.stop)
            velocity, lost = (one[part] for one in moving)
            which = pairs.blocks[block.start // BLOCK]
            descend(*which, self.factors[part], fast, inputs, self.weights[part], velocity, lost, keep)

        self._each(work)

    def gram(self, pairs: Pairs) -> NDArray[np.float64]:
        """Return G = J Jᵀ (n, n), from dense co-firing counts by a symmetric product. Cost: O(mn²)."""
        n = self.problem.size
        counts = [np.zeros((n, n), np.float32, order="F") for _ in range(self.threads)]
        dense = [np.empty((BLOCK, n), np.float32) for _ in range(self.threads)]

        def work(block: range, thread: int) -> None:
            fires = dense[thread][: len(block)]
            mark(*pairs.blocks[block.start // BLOCK], fires)
            counts[thread] = linalg.blas.ssyrk(1.0, fires.T, beta=1.0, c=counts[thread], lower=1, overwrite_c=1)

        self._each(work)
        lower = np.sum(counts, axis=0, dtype=np.float64)
        return self.problem.products * (lower + np.tril(lower, -1).T) / self.width

    def gram_of_pairs(self, pairs: Pairs) -> NDArray[np.float64]:
        """Return the same, from the pairs that fire. Cost: O(firing inputs squared) a neuron."""
        n = self.problem.size
        counts = [np.zeros((n, n), np.int32) for _ in range(self.threads)]

        def work(block: range, thread: int) -> None:
            bounds, inputs = pairs.blocks[block.start // BLOCK]
            count_cofiring(bounds, inputs, np.arange(len(block)), 1, counts[thread])

        self._each(work)
        lower = np.sum(counts, axis=0, dtype=np.float64)
        return self.problem.products * (lower + np.tril(lower, -1).T) / self.width

    def gram_times(self, pairs: Pairs, vector: Vector) -> Vector:
        """Return G @ vector without the matrix. Cost: O(d) a pair."""
        total = [np.zeros((self.problem.size, 1)) for _ in range(self.threads)]
        X, column = self.problem.inputs, vector[:, None]
        self._each(
            lambda block, thread: add_gram_product(*pairs.blocks[block.start // BLOCK], X, column, total[thread])
        )
        return np.sum(total, axis=0)[:, 0] / self.width

    def largest_eigenvalue(self, pairs: Pairs) -> float:
        """Return that of G, by power iteration."""
        vector = np.ones(self.problem.size)
        for _ in range(30):
            vector = self.gram_times(pairs, vector / np.linalg.norm(vector))
        return float(np.linalg.norm(vector))

    def _start(self, block: range, thread: int) -> None:
        self.weights[block.start : block.stop] = self.settings.start.block(block.start, block.stop)

    def _each(self, work: Callable[[range, int], Value]) -> list[Value]:
        """Return ``work(block, thread)`` for every block; a thread takes every so-manieth."""

        def share(thread: int) -> list[Value]:
            return [work(block, thread) for block in self.blocks[thread :: self.threads]]

        with _BLAS.limit(limits=1, user_api="blas"):
            shares = list(self._pool.map(share, range(self.threads)))
        return [shares[place % self.threads][place // self.threads] for place in range(len(self.blocks))]


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

    began = time.perf_counter()
    list(in_order(work, range(threads), threads=threads))
    return time.perf_counter() - began


def dense_iterations(problem: Problem, settings: NetworkSettings, *, count: int) -> tuple[list[float], list[float]]:
    """Return residual norms and seconds of ``count`` dense Gauss-Newton iterations: forward, Gram, solve, move."""
    network = DenseNetwork(problem, settings)
    residuals, seconds = [], []
    for _ in range(count + 1):
        began = time.perf_counter()
        outputs, pairs = network.forward()
        residual = outputs - problem.targets
        residuals.append(float(np.linalg.norm(residual)))
        if len(residuals) > count:
            break
        gram = network.gram(pairs)
        with blas_for_size(problem.size):
            step = linalg.solve(gram, residual, assume_a="pos")
        network.move(pairs, step)
        seconds.append(time.perf_counter() - began)
    return residuals, seconds
