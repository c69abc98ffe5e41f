"""Problems to try things on: real data that scikit-learn ships, and random ones."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from thresher.checks import check_whole
from thresher.model.problem import Problem, to_sphere

__all__ = ["Split", "digits", "random_problem"]


class Split(NamedTuple):
    """A problem to train on and one to test on, lifted to the sphere by the same map."""

    train: Problem
    test: Problem
    description: str


def digits(*, rows: int = 1000, seed: int = 0) -> Split:
    """Return handwritten digits, odd (+1) against even (-1), from the set that scikit-learn ships: 1797 images, d = 64.

    Parameters
    ----------
    rows : how many images to train on; the others are for testing
    seed : of the random choice of rows
    """
    from sklearn.datasets import load_digits  # heavy, and only needed here

    pixels, labels = load_digits(return_X_y=True)
    order = np.random.default_rng(check_whole(seed, "seed", least=0)).permutation(len(labels))
    rows = check_whole(rows, "rows", least=1, most=len(order) - 1)
    lifted = to_sphere(pixels[order] - pixels[order[:rows]].mean(axis=0))  # the mean of the rows trained on
    targets = np.where(labels[order] % 2, 1.0, -1.0)
    return Split(
        Problem(lifted[:rows], targets[:rows]),
        Problem(lifted[rows:], targets[rows:]),
        f"{rows:,} handwritten digits of 8 x 8 pixels, odd against even",
    )


def random_problem(*, inputs: int, dimension: int, seed: int = 0) -> Problem:
    """Return inputs uniform on the unit sphere (n, d) with N(0, 1) targets."""
    inputs, dimension = check_whole(inputs, "inputs", least=1), check_whole(dimension, "dimension", least=1)
    generator = np.random.default_rng(check_whole(seed, "seed", least=0))
    return Problem(to_sphere(generator.normal(size=(inputs, dimension))), generator.normal(size=inputs))
