"""Inputs on a circle, d = 2: products cost next to nothing, and neighbours fire on the same neurons."""

from __future__ import annotations

import numpy as np

from benchmarks.problems import Size
from thresher import Problem

LABEL = "circle"
WHY = "tiny d: a pre-activation costs two multiplications, and neighbouring inputs are nearly equal"
SIZES = {"tiny": Size(12, 2, 2**10), "quick": Size(100, 2, 2**15), "full": Size(200, 2, 2**18)}


def make(*, inputs: int, dimension: int) -> Problem:
    """Return even angles and a smooth target with a few waves."""
    angles = 2 * np.pi * np.arange(inputs) / inputs
    return Problem(np.column_stack([np.cos(angles), np.sin(angles)]), np.sin(3 * angles) + np.cos(2 * angles))
