"""The networks of an estimator that are trained with a penalty, from a known first step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from thresher.algebra import ConjugateGradient, DirectFactor, MatrixGram
from thresher.interfaces import Solution, SolveStatus
from thresher.model.network import NetworkSettings
from thresher.model.problem import Problem
from thresher.parallel import blas_for_size
from thresher.training import Callback, Result
from thresher.training.checkpoint import Checkpoint
from thresher.training.loop import run_together
from thresher.training.options import Setup
from thresher.training.train import complete

__all__ = ["gains_of", "train_penalised"]

Matrix = NDArray[np.float64]
_DRIFT = 0.0001  # root mean square distance that a neuron travels at most: a small part of the unit in which it fires
_INNER_TOLERANCE, _MOST_PRODUCTS = 1e-4, 200


def train_penalised(
    inputs: Matrix,
    targets: Matrix,
    *,
    settings: NetworkSettings,
    penalty: Matrix,
    first: Matrix,
    gram: Matrix,
    tol: float,
    max_iterations: int | None,
    threads: int,
    callbacks: Sequence[Callback] = (),
) -> list[Result]:
    """Train one network for each column of the targets, all from one start.

    Parameters
    ----------
    inputs, targets : (n, d) and (n, k)
    penalty : (n,), above 0
    first : the first solutions (n, k), (G + penalty)⁻¹ y with the Gram matrix of the start
    gram : that matrix (n, n); it preconditions all later solves, factored when the first of them needs it

    Cost: O(mnd) per iteration and output, and for each product of a solve.
    """
    start = settings.start
    options = {
        "width": settings.width, "shift": settings.shift, "seed": start.seed, "twins": start.twins,
        "sequence": start.sequence, "penalty": penalty, "max_iterations": max_iterations,
        "threads": threads, "callbacks": callbacks,
    }  # fmt: skip
    problems = [Problem(inputs, column) for column in np.ascontiguousarray(targets.T)]
    setup = Setup.of(problems, complete(options))
    setup.require_memory()
    near = DirectFactor(MatrixGram(gram), penalty)
    solver = ConjugateGradient(tol=_INNER_TOLERANCE, preconditioner=near, max_iterations=_MOST_PRODUCTS)
    setup = replace(setup, first_step="given", tol=tol, solvers=[solver for _ in problems])
    damping = float(penalty.mean())
    known = [
        Solution(alpha, SolveStatus.SOLVED, 0, 0.0, damping, len(alpha), factored=True)
        for alpha in np.ascontiguousarray(first.T)
    ]
    with blas_for_size(len(inputs)):
        return run_together(setup, Checkpoint(None, None, setup.problems, {}), first=known)


def gains_of(alpha: Matrix, kernel: Matrix, width: int | float) -> Matrix:
    """Return the factors (outputs,) that outputs of networks are multiplied by to become targets.

    The first step moves the weights by sqrt(alphaᵀ G alpha) in all, whatever the width. A network that is not wide
    enough for its neurons to travel _DRIFT at most learns smaller targets: it behaves like a wider one, and
    its linearisation stays true.
    """
    travelled = np.einsum("nk,nm,mk->k", alpha, kernel, alpha, optimize=True)
    return np.maximum(np.sqrt(np.maximum(travelled, 0.0) / width) / _DRIFT, 1.0)
