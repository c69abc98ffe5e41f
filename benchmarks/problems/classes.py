"""Random inputs on the sphere with random classes, 0 and 1: the problem of the race to a small cross-entropy."""

from __future__ import annotations

from benchmarks.problems import sphere
from thresher import Problem

LABEL = "random classes"
WHY = "two classes that nothing but the inputs' own directions tells apart, to a small mean cross-entropy"
LOSS = "log_loss"
SIZES = sphere.SIZES


def make(*, inputs: int, dimension: int) -> Problem:
    """Return the inputs of the sphere; its targets' signs are the classes."""
    made = sphere.make(inputs=inputs, dimension=dimension)
    return Problem(made.inputs, (made.targets > 0).astype(float))
