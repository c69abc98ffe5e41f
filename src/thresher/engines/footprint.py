"""How much memory training will take, known before it is taken."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from thresher.algebra import RandomPivots
from thresher.memory import allowed_bytes, require
from thresher.model.network import NetworkSettings
from thresher.model.problem import Problem
from thresher.shards import SHARDS, Kind
from thresher.theory import firing_probability

__all__ = ["Facts", "Shares", "estimate_memory", "estimate_shares", "matrix_bytes", "require_memory"]

_FIXED = 230 << 20  # interpreter, libraries and compiled code
_PER_STORED_PAIR = 12  # of the weights: input and coefficient


class Facts(NamedTuple):
    """What the memory of a network depends on, for inputs that are spread over the sphere."""

    width: int
    neurons: float  # that exist: the width, or how many are expected to be drawn
    inputs: int
    dimension: int
    shift: float
    item: int  # bytes of a number in working precision
    first_step: str
    pairs: float  # that fire: exact in expectation, however the inputs lie
    awake: float  # neurons that fire on any input
    drift: float  # of the first step, per square root of the inputs that a neuron fires on

    @property
    def weights(self) -> float:
        """Bytes of the coefficients of a network."""
        return 1.2 * (self.pairs * _PER_STORED_PAIR + self.awake * 16)

    def part_of(self, workers: int) -> Facts:
        """Return the facts of the neurons that one of several workers holds."""
        return self._replace(**{name: getattr(self, name) / workers for name in ("neurons", "pairs", "awake")})

    @classmethod
    def of(cls, targets: NDArray[np.float64], settings: NetworkSettings, *, dtype: str, first_step: str) -> Facts:
        """Return the facts of a network that is trained on targets (n,). Cost: O(n)."""
        n, width = len(targets), settings.width
        firing = firing_probability(settings.shift)
        awake = width * -math.expm1(n * math.log1p(-min(firing, 1 - 1e-12)))
        drift = float(np.sqrt(np.mean(targets**2))) / (max(firing, 1 / width) * math.sqrt(width))
        item, d = np.dtype(dtype).itemsize, settings.start.dimension
        neurons = width * n * firing if settings.start.kind == "poisson" else width
        return cls(width, neurons, n, d, settings.shift, item, first_step, width * n * firing, awake, drift)


def estimate_memory(
    problems: Problem | Sequence[Problem],
    settings: NetworkSettings,
    *,
    index: str | Kind,
    dtype: str = "float32",
    threads: int = 1,
    first_step: str = "limit",
    matrix: bool = True,
) -> int:
    """Return about how many bytes training takes at its peak, for inputs that are spread over the sphere.

    Several problems have the same inputs and are trained together; ``index`` is the name of a search, or a kind of
    shard; ``matrix`` is whether n x n matrices are made. Cost: O(n) per problem.
    """
    problems = [problems] if isinstance(problems, Problem) else problems
    targets = [problem.targets for problem in problems]
    kind = SHARDS[index] if isinstance(index, str) else index
    return _estimate(targets, settings, kind, dtype=dtype, threads=threads, first_step=first_step, matrix=matrix)


def _estimate(
    targets: Sequence[NDArray[np.float64]],
    settings: NetworkSettings,
    kind: Kind,
    *,
    dtype: str,
    threads: int,
    first_step: str,
    matrix: bool,
) -> int:
    total = 0.0
    for one in targets:
        facts = Facts.of(one, settings, dtype=dtype, first_step=first_step)
        total += kind.memory(facts)
    each = matrix_bytes(facts, threads=threads) if matrix else _pivots_bytes(facts)
    return int(_FIXED + total + each + threads * kind.block_memory(facts))


class Shares(NamedTuple):
    """Bytes of the process that trains, and of each worker which holds a part of the neurons."""

    driver: int
    worker: int


def estimate_shares(
    problems: Sequence[Problem],
    settings: NetworkSettings,
    *,
    kind: Kind,
    dtype: str,
    first_step: str,
    matrix: bool,
    workers: int,
    threads: int,
) -> Shares:
    """Return about how many bytes training takes where ``workers`` of some ``threads`` hold the neurons.

    At the end the driver receives the weights and joins them. Cost: O(n) per problem.
    """
    each = [Facts.of(one.targets, settings, dtype=dtype, first_step=first_step) for one in problems]
    facts, n = each[0], problems[0].size
    weights = sum(one.neurons * one.item * one.dimension if kind.DENSE else one.weights for one in each)
    shared = matrix_bytes(facts, threads=1) if matrix else _pivots_bytes(facts)
    products = n * n * (8 + facts.item + 4 * (threads + 1)) if matrix else 3 * 8 * n * facts.dimension
    held = sum(kind.memory(one) for one in each) / workers
    return Shares(
        int(_FIXED + 3 * weights + shared), int(_FIXED + held + products + threads * kind.block_memory(facts))
    )


def matrix_bytes(facts: Facts, *, threads: int) -> float:
    """Return about how many bytes the n x n matrices of a training take: products, Gram, factor, counts per thread."""
    return float(facts.inputs**2 * (8 * 4 + facts.item + 4 * (threads + 2)))


def _pivots_bytes(facts: Facts) -> float:
    """Return about how many bytes a training without n x n matrices takes instead: two low-rank factors, vectors."""
    return facts.inputs * (2.5 * 4 * RandomPivots.default_rank(facts.inputs) + 3 * 8 * facts.dimension + 40 * 8)


def require_memory(
    problems: Sequence[Problem],
    settings: NetworkSettings,
    *,
    kind: Kind,
    index: str,
    dtype: str,
    threads: int,
    first_step: str,
    matrix: bool,
    budget: int | None,
) -> None:
    """Refuse with MemoryRefused, before anything is allocated, if these networks would take more than the budget."""

    def estimate(inputs: int) -> int:
        some = [problem.targets[:inputs] for problem in problems]
        return _estimate(some, settings, kind, dtype=dtype, threads=threads, first_step=first_step, matrix=matrix)

    n, allowed = problems[0].size, allowed_bytes(budget)
    if estimate(n) > allowed:
        fit = bisect_right(range(1, n), allowed, key=estimate)
        require(
            estimate(n),
            budget=budget,
            what=f"training {settings.width:,} neurons on {n:,} inputs with index={index!r}",
            remedy=f"{kind.REMEDY} About {fit:,} inputs would fit.",
            rows=fit,
        )
