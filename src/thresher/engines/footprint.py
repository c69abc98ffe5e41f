"""How much memory training will take, known before it is taken."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from thresher.memory import require
from thresher.model.network import NetworkSettings
from thresher.model.problem import Problem
from thresher.shards import SHARDS
from thresher.theory import firing_probability

__all__ = ["Facts", "estimate_memory", "require_memory"]

_FIXED = 230 << 20  # interpreter, libraries and compiled code
_PER_STORED_PAIR = 12  # of the weights: input and coefficient


class Facts(NamedTuple):
    """What the memory of a network depends on, for inputs that are spread over the sphere."""

    width: int
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

    @classmethod
    def of(cls, targets: NDArray[np.float64], settings: NetworkSettings, *, dtype: str, first_step: str) -> Facts:
        """Return the facts of a network that is trained on targets (n,). Cost: O(n)."""
        n, width = len(targets), settings.width
        firing = firing_probability(settings.shift)
        awake = width * -math.expm1(n * math.log1p(-min(firing, 1 - 1e-12)))
        drift = float(np.sqrt(np.mean(targets**2))) / (max(firing, 1 / width) * math.sqrt(width))
        item, d = np.dtype(dtype).itemsize, settings.start.dimension
        return cls(width, n, d, settings.shift, item, first_step, width * n * firing, awake, drift)


def estimate_memory(
    problems: Problem | Sequence[Problem],
    settings: NetworkSettings,
    *,
    index: str,
    dtype: str = "float32",
    threads: int = 1,
    first_step: str = "limit",
) -> int:
    """Return about how many bytes training takes at its peak, for inputs that are spread over the sphere.

    Several problems have the same inputs and are trained together. Cost: O(n) per problem.
    """
    kind = SHARDS[index]
    problems = [problems] if isinstance(problems, Problem) else problems
    total = 0.0
    for problem in problems:
        facts = Facts.of(problem.targets, settings, dtype=dtype, first_step=first_step)
        total += kind.memory(facts)
    n, item = facts.inputs, facts.item
    square = n * n * (8 * 4 + item + 4 * (threads + 2))  # products, Gram, factor; counts for each thread
    return int(_FIXED + total + square + threads * kind.block_memory(facts))


def require_memory(
    problems: Sequence[Problem],
    settings: NetworkSettings,
    *,
    index: str,
    dtype: str,
    threads: int,
    first_step: str,
    budget: int | None,
) -> None:
    """Refuse with MemoryRefused, before anything is allocated, if these networks would take more than the budget."""
    require(
        estimate_memory(problems, settings, index=index, dtype=dtype, threads=threads, first_step=first_step),
        budget=budget,
        what=f"training {settings.width:,} neurons on {problems[0].size:,} inputs with index={index!r}",
        remedy=SHARDS[index].REMEDY,
    )
