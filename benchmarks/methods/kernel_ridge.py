"""Kernel regression with the closed-form limit of infinite width: one n x n solve, no network at all.

Its predictions are those of an infinitely wide network trained to zero loss. The result is n coefficients of a kernel,
which each prediction evaluates against all inputs: not a network of any width.
"""

from __future__ import annotations

import numpy as np
from scipy import linalg

from benchmarks.log import Log
from thresher import Problem
from thresher.model.network import NetworkSettings
from thresher.parallel import blas_for_size
from thresher.theory import limit_kernel

LABEL, COST, ORDER, REQUIRES = "kernel ridge, infinite width", "n² + n³, once", "none", ()
CASES = ("race", "problems")
_RIDGE = 1e-10  # times the mean diagonal: enough to factor


def run(problem: Problem, settings: NetworkSettings, log: Log) -> None:
    log.record(-problem.targets, looks=0)
    with log.time("gram"):
        kernel = limit_kernel(problem.inputs @ problem.inputs.T, settings.shift)
    with log.time("solve"), blas_for_size(problem.size):
        damped = kernel + _RIDGE * kernel.diagonal().mean() * np.eye(problem.size)
        value = linalg.solve(damped, problem.targets, assume_a="pos")
        outputs = kernel @ value
    if not log.record(outputs - problem.targets, looks=0):
        log.ended = "one solve is all it has: the kernel is singular to rounding"
