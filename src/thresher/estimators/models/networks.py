"""The networks of an estimator that are trained with a penalty, from a known first step."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from thresher.algebra import ConjugateGradient
from thresher.algebra.system import Preconditioner
from thresher.estimators.data.observations import Observations
from thresher.estimators.judging.holdout import HoldOut
from thresher.estimators.kernels.kernel import SphereKernel
from thresher.estimators.models.fitted import LimitFit, Networks
from thresher.estimators.options import Options
from thresher.interfaces import Solution, SolveStatus
from thresher.model.network import NetworkSettings
from thresher.model.problem import Problem
from thresher.parallel import blas_for_size
from thresher.training import Callback, Result, Status
from thresher.training.checkpoint import Checkpoint
from thresher.training.loop import run_together
from thresher.training.options import Setup
from thresher.training.train import complete

__all__ = ["NO_ERROR", "Promise", "gains_of", "promise_of", "train_few", "train_many", "train_penalised"]

Matrix = NDArray[np.float64]
_DRIFT = 0.0001  # root mean square distance that a neuron travels at most: a small part of the unit in which it fires
NO_ERROR = 1e-6  # error, in units of the targets' variance, that is none
_INNER_TOLERANCE, _MOST_PRODUCTS = 1e-4, 200


def train_penalised(
    inputs: Matrix,
    targets: Matrix,
    *,
    settings: NetworkSettings,
    penalty: Matrix,
    first: Matrix | None = None,
    near: Preconditioner | None = None,
    tol: float,
    max_iterations: int | None,
    threads: int,
    device: str = "cpu",
    callbacks: Sequence[Callback] = (),
) -> list[Result]:
    """Train one network for each column of the targets, all from one start.

    Parameters
    ----------
    inputs, targets : (n, d) and (n, k)
    penalty : (n,), above 0
    first : the first solutions (n, k), (G + penalty)⁻¹ y with the Gram matrix of the start; without it no n x n matrix
        is made, and the first step is that of the limit
    near : that matrix with the penalty, as what preconditions all later solves; None for what the engine solves with
    device : that trains them

    Cost: O(mnd) per iteration and output, and for each product of a solve.
    """
    start = settings.start
    options = {
        "width": settings.width, "shift": settings.shift, "seed": start.seed, "twins": start.twins,
        "start": start.sequence, "penalty": penalty, "max_iterations": max_iterations,
        "threads": threads, "callbacks": callbacks, "device": device,
    }  # fmt: skip
    problems = [Problem(inputs, column) for column in np.ascontiguousarray(targets.T)]
    if first is None:
        setup = replace(Setup.of(problems, complete({**options, "solver": "pivots"})), tol=tol)
        setup.require_memory()
        return run_together(setup, Checkpoint(None, None, setup.problems, {}))
    setup = Setup.of(problems, complete(options))
    setup.require_memory()
    setup = replace(setup.with_first_step("given"), tol=tol)
    if near is not None:
        solver = ConjugateGradient(tol=_INNER_TOLERANCE, preconditioner=near, max_iterations=_MOST_PRODUCTS)
        setup = replace(setup, solvers=[solver for _ in problems])
    damping = float(penalty.mean())
    known = [
        Solution(alpha, SolveStatus.SOLVED, 0, 0.0, damping, len(alpha), factored=True)
        for alpha in np.ascontiguousarray(first.T)
    ]
    with blas_for_size(len(inputs)):
        return run_together(setup, Checkpoint(None, None, setup.problems, {}), first=known)


def gains_of(alpha: Matrix, outputs: Matrix, width: int | float) -> Matrix:
    """Return the factors (k,) that outputs of networks are multiplied by to become targets.

    The first step moves the weights by sqrt(alphaᵀ G alpha) in all, whatever the width; ``outputs`` (n, k) are G alpha.
    A network that is not wide enough for its neurons to travel _DRIFT at most learns smaller targets: it behaves like a
    wider one, and its linearisation stays true.
    """
    travelled = np.einsum("nk,nk->k", alpha, outputs)
    return np.maximum(np.sqrt(np.maximum(travelled, 0.0) / width) / _DRIFT, 1.0)


class Promise(NamedTuple):
    """What networks should answer at their inputs, as their training has it."""

    outputs: Matrix | None  # (n, k), None where training stalled
    left: float  # norm of the distance from these, over all inputs and outputs
    interrupted: bool  # training was stopped on request: nothing is promised


def promise_of(results: Sequence[Result], targets: Matrix, penalty: Matrix, gains: Matrix) -> Promise:
    """Return what trained networks promise for targets (n, k): with the alpha of the last step, f = y - p alpha.

    How far that fails is the remainder of a training.
    """
    left = [one.remainder * float(np.linalg.norm(column)) for one, column in zip(results, targets.T, strict=True)]
    stopped = any(one.status is Status.INTERRUPTED for one in results)
    last = [one.steps[-1] if one.steps else (np.zeros(len(targets))) for one in results]
    if any(one.status is Status.STALLED for one in results) or not all(one.keep < 1 for one in last):
        return Promise(None, math.hypot(*left), stopped)
    alpha = np.column_stack([one.v / (1 - one.keep) for one in last])
    return Promise(targets - penalty[:, None] * alpha * gains, math.hypot(*left), stopped)


def train_few(
    fit: LimitFit,
    outputs: Matrix,
    data: Observations,
    kernel: SphereKernel,
    options: Options,
    *,
    near: Preconditioner | None,
    loss: float,
    callbacks: Sequence[Callback],
) -> Networks:
    """Return networks trained on few inputs, from the solution of the kernel of their start.

    ``fit`` has that solution and ``outputs`` (n, k) what it says of the inputs; ``near`` preconditions later solves.
    """
    gains = gains_of(fit.alpha, outputs, options.width)
    results = train_penalised(
        fit.inputs,
        data.targets / gains,
        settings=kernel.settings(fit.inputs),
        penalty=fit.penalty,
        first=fit.alpha / gains,
        near=near,
        tol=options.tol,
        max_iterations=options.max_iterations,
        threads=options.threads,
        device=options.device,
        callbacks=callbacks,
    )
    return Networks(gains, results, fit.ridge, fit.penalty, loss)


def train_many(
    inputs: Matrix,
    fit: LimitFit,
    data: Observations,
    hold: HoldOut,
    kernel: SphereKernel,
    options: Options,
    *,
    callbacks: Sequence[Callback],
) -> Networks:
    """Return networks trained on many inputs (n, d), with the ridge that kernels as noisy as theirs prefer.

    ``fit`` is that of the limit, and ``kernel`` that of the network at its start.

    Cost: that of :func:`ridge_of_networks` and :func:`train_penalised`.
    """
    ridge, loss = ridge_of_networks(hold, kernel, ridge=options.ridge, guess=fit.ridge)
    penalty = kernel.penalty(ridge, data.weights)
    gains = gains_of(fit.alpha, data.targets - fit.penalty[:, None] * fit.alpha, options.width)
    results = train_penalised(
        inputs,
        data.targets / gains,
        settings=kernel.settings(inputs),
        penalty=penalty,
        tol=options.tol,
        max_iterations=options.max_iterations,
        threads=options.threads,
        callbacks=callbacks,
    )
    return Networks(gains, results, ridge, penalty, loss)


def ridge_of_networks(hold: HoldOut, kernel: SphereKernel, *, ridge: float | None, guess: float) -> tuple[float, float]:
    """Return the ridge for networks, and the share by which their error on rows left out exceeds that of the limit.

    ``kernel`` is that of a network at its start, ``guess`` the ridge of the limit. Cost: O(r³) for each ridge, r rows.
    """
    limit = hold.evaluate(kernel._replace(start=None), ridge=ridge, guess=guess)
    network = hold.evaluate_start(kernel, ridge=ridge, guess=guess)
    error = math.inf if limit is None else max(limit.error, NO_ERROR)
    return network.ridge, max(0.0, network.error / error - 1)
