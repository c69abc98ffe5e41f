"""Random inputs on the sphere with random targets: the problem of the paper, and of the race."""

from __future__ import annotations

from benchmarks.problems import Size
from thresher import Problem
from thresher.datasets import random_problem

LABEL = "random sphere"
WHY = "the setting of the paper: separate inputs, random targets"
SIZES = {"tiny": Size(20, 10, 2**10), "quick": Size(200, 50, 2**16), "full": Size(500, 50, 2**18)}


def make(*, inputs: int, dimension: int) -> Problem:
    return random_problem(inputs=inputs, dimension=dimension)
