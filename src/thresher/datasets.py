"""Problems to try things on: real data that scikit-learn ships, and random ones."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from thresher.checks import check_whole
from thresher.model.problem import Problem, to_sphere

__all__ = ["Split", "digit_pair", "random_problem"]


class Split(NamedTuple):
    """A problem to train on and one to test on, lifted to the sphere by the same map."""

    train: Problem
    test: Problem
    description: str


def digit_pair(*, first: int = 3, second: int = 8, rows: int = 64, seed: int = 0) -> Split:
    """Return handwritten digits of two kinds, targets -1 and +1, from the set that scikit-learn ships (d = 64).

    Parameters
    ----------
    first, second : the digits to tell apart
    rows : how many rows to train on; the others are for testing
    seed : of the random choice of rows
    """
    from sklearn.datasets import load_digits  # heavy, and only needed here

    pixels, labels = load_digits(return_X_y=True)
    chosen = np.random.default_rng(seed).permutation(np.flatnonzero((labels == first) | (labels == second)))
    rows = check_whole(rows, "rows", least=1, most=len(chosen) - 1)
    centred = pixels[chosen] - pixels[chosen[:rows]].mean(axis=0)  # the mean of the rows trained on
    lifted = to_sphere(centred)
    targets = np.where(labels[chosen] == second, 1.0, -1.0)
    return Split(
        Problem(lifted[:rows], targets[:rows]),
        Problem(lifted[rows:], targets[rows:]),
        f"handwritten digits {first} and {second} ({rows} images of 8 x 8 pixels)",
    )


def random_problem(*, inputs: int, dimension: int, seed: int = 0) -> Problem:
    """Return inputs uniform on the unit sphere (n, d) with N(0, 1) targets."""
    generator = np.random.default_rng(seed)
    return Problem(to_sphere(generator.normal(size=(inputs, dimension))), generator.normal(size=inputs))
