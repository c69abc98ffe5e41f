"""How much memory training will take, known before it is taken."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from thresher.memory import require
from thresher.model.network import NetworkSettings
from thresher.model.problem import Problem
from thresher.shards.certified import BAND_AFTER_FIRST_STEP, BAND_BEFORE
from thresher.theory import firing_probability

__all__ = ["estimate_memory", "require_memory"]

_FIXED = 230 << 20  # interpreter, libraries and compiled code
_PER_NEURON = 45  # of a watchlist, its place in the tree included
_PER_STORED_PAIR = 12  # of the weights: input and coefficient


def estimate_memory(
    problem: Problem,
    settings: NetworkSettings,
    *,
    index: str,
    dtype: str = "float32",
    threads: int = 1,
    first_step: str = "limit",
) -> int:
    """Return about how many bytes training takes at its peak, for inputs that are spread over the sphere.

    Cost: O(n).
    """
    n, width, item = problem.size, settings.width, np.dtype(dtype).itemsize
    firing = firing_probability(settings.shift)
    pairs = width * n * firing  # exact in expectation, however the inputs lie
    awake = width * -math.expm1(n * math.log1p(-min(firing, 1 - 1e-12)))  # neurons that fire on any input
    weights = 1.2 * (pairs * _PER_STORED_PAIR + awake * 16)
    square = n * n * (8 * 4 + item + 4 * (threads + 2))  # products, Gram, factor; counts for each thread
    block = threads * 1024 * n * item
    if index == "certified":
        drift = float(np.sqrt(np.mean(problem.targets**2))) / (max(firing, 1 / width) * math.sqrt(width))
        share = BAND_BEFORE if first_step == "gram" else BAND_AFTER_FIRST_STEP
        band = min(share * drift * (math.sqrt(pairs / max(awake, 1.0)) + 2), settings.shift + 6)
        watched = 1.25 * pairs + awake * n * (firing_probability(settings.shift - band) - firing)
        state = watched * (11 + 2 * item) + awake * _PER_NEURON
    elif index == "tournament":
        state = 2 * width * n * item + 3 * pairs * _PER_STORED_PAIR
    else:
        state = 3 * pairs * _PER_STORED_PAIR
    return int(_FIXED + state + weights + square + block)


def require_memory(
    problem: Problem, settings: NetworkSettings, *, networks: int, budget: int | None, **options: Any
) -> None:
    """Refuse with MemoryRefused, before anything is allocated, if so many networks would take more than the budget.

    ``options`` are those of :func:`estimate_memory`.
    """
    index = options["index"]
    remedies = {
        "tournament": "Use index='certified', a smaller width or fewer inputs.",
        "certified": "Use a larger shift (fewer neurons fire), a smaller width or fewer inputs.",
        "scan": "Use a larger shift (fewer neurons fire), a smaller width or fewer inputs.",
    }
    require(
        networks * estimate_memory(problem, settings, **options),
        budget=budget,
        what=f"training {settings.width:,} neurons on {problem.size:,} inputs with index={index!r}",
        remedy=remedies[index],
    )
