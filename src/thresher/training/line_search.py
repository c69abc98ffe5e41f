"""The line search: the full step if it reduces the loss enough, else half of it, a quarter, and so on."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from thresher.interfaces import Effort, Engine, Moved, Objective

__all__ = ["Taken", "search_line"]

_HALVINGS = 12  # shortest step tried: 2^-12 of the full one
_ENOUGH = 1e-4  # share of the gain of a linear network that a step must bring (Armijo's rule)


class Taken(NamedTuple):
    """The step that was taken: its fraction of the full one (0 if none reduced the loss), where it led, its cost."""

    fraction: float
    outputs: NDArray[np.float64] | None
    loss: float
    effort: Effort


def search_line(
    engine: Engine,
    objective: Objective,
    value: NDArray[np.float64],
    *,
    loss: float,
    gain: float,
    reached: Moved | None = None,
) -> Taken:
    """Take the longest step along a solution (n,) that brings enough, and leave the engine there.

    ``loss`` is that of the point where the step starts; ``reached`` is where the full step leads, if that is known.
    Deviation: the paper always takes full steps.

    Cost: a move for each step tried.
    """
    effort = Effort()
    for halving in range(_HALVINGS + 1 if value.any() else 1):  # half of no step is none
        fraction = 0.5**halving
        moved = engine.move(objective.step(value, fraction)) if reached is None else reached
        reached = None
        effort = effort.plus(moved.effort)._replace(
            flips=moved.effort.flips, firing=moved.effort.firing, moved=moved.effort.moved
        )
        there = objective.loss(moved.outputs, engine)
        if math.isfinite(there) and there < loss - _ENOUGH * fraction * gain:
            return Taken(fraction, moved.outputs, there, effort)
    engine.move(objective.step(np.zeros_like(value), 0.0))  # back to where we came from
    return Taken(0.0, None, loss, effort._replace(flips=0, moved=0))
