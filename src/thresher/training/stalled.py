"""Why training stalled, and what to change."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from thresher.interfaces import Gram, Solution
from thresher.model.network import NetworkSettings
from thresher.model.problem import Problem
from thresher.theory import largest_shift

__all__ = ["why_stalled"]

_ROWS = 256  # whose products are made at a time
_NEARLY_EQUAL = 1 - 1e-6  # inner product of two inputs that few neurons tell apart


def why_stalled(gram: Gram, solution: Solution, settings: NetworkSettings, problem: Problem) -> str:
    """Return, in a sentence or two, why no step along the last direction reduces the loss. Cost: O(n²d)."""
    silent = np.flatnonzero(gram.diagonal() == 0)
    if len(silent):
        which = f"No neuron fires on {len(silent)} of {gram.size} inputs (the first is {silent[0]})."
        return f"{which} {_how_to_fire(settings, gram.size)}"
    if solution.rank < gram.size or solution.status != "solved":
        how = f"solve: {solution.status.value}, rank {solution.rank} of {gram.size}"
        return f"The Gram matrix is singular ({how}). {_how_to_separate(settings, problem)}"
    return (
        "No step along the last direction reduces the loss: rounding is reached (try dtype='float64' or a larger tol), "
        f"or the network is too narrow (its width is {settings.width})."
    )


def _how_to_fire(settings: NetworkSettings, inputs: int) -> str:
    enough, width = largest_shift(settings.width, inputs), f"the width (now {settings.width})"
    if settings.shift <= enough:
        return f"Training moved their neurons away: raise {width}, or lower the shift (now {settings.shift:.3g})."
    if enough == 0:
        least = math.ceil(8 * math.log(100 * inputs))
        return f"So narrow a network is silent on some at any shift: raise {width} to {least} or more."
    return f"Lower the shift from {settings.shift:.3g} to {math.floor(100 * enough) / 100:g} or less, or raise {width}."


def _how_to_separate(settings: NetworkSettings, problem: Problem) -> str:
    product, other, one = _nearest(problem.inputs)
    if product > _NEARLY_EQUAL:
        return (
            f"Inputs {other} and {one} are equal or nearly so, and where targets of such inputs disagree nothing fits "
            "both. Merge them, or pass damping."
        )
    return f"The width (now {settings.width}) is too small for {problem.size} inputs. Widen, or pass damping."


def _nearest(inputs: NDArray[np.float64]) -> tuple[float, int, int]:
    """Return the largest inner product of two inputs (n, d), and which two, the earlier first: from blocks of rows."""
    best = (-np.inf, 0, 0)
    for first in range(0, len(inputs), _ROWS):
        products = inputs[first : first + _ROWS] @ inputs[: first + _ROWS].T
        below = np.where(np.tri(len(products), products.shape[1], first - 1) > 0, products, -np.inf)
        one, other = np.unravel_index(int(below.argmax()), below.shape)
        best = max(best, (float(below[one, other]), int(other), first + int(one)), key=lambda found: found[0])
    return best
