"""Handwritten digits, centred: real data as the README advises to use it."""

from __future__ import annotations

import numpy as np

from benchmarks.problems import Size
from thresher import Problem, to_sphere

LABEL = "digits, centred"
WHY = "real data, prepared as advised"
SIZES = {"tiny": Size(30, 64, 2**10), "quick": Size(300, 64, 2**15), "full": Size(1200, 64, 2**18)}


def make(*, inputs: int, dimension: int, centre: bool = True) -> Problem:
    """Return the first images, the label as target, between -1 and 1."""
    from sklearn.datasets import load_digits

    pixels, labels = load_digits(return_X_y=True)
    return Problem(to_sphere(pixels[:inputs], centre=centre), np.asarray(labels[:inputs] / 4.5 - 1))
