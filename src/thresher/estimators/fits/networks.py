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
from thresher.engines import LOCAL, Where
from thresher.estimators.choosing.choose import Choice, solve_kernel
from thresher.estimators.choosing.holdout import HoldOut
from thresher.estimators.choosing.ridges import best_ridge, ridges_from
from thresher.estimators.choosing.scales import Options
from thresher.estimators.data.observations import Observations
from thresher.interfaces import Solution, SolveStatus
from thresher.model.network import NetworkSettings
from thresher.model.problem import Problem
from thresher.model.sobol import MOST_COLUMNS as SOBOL_COLUMNS
from thresher.model.weights import Step
from thresher.parallel import blas_for_size
from thresher.theory import firing_probability
from thresher.training import Callback, Result, Status
from thresher.training.checkpoint import Checkpoint
from thresher.training.loop import run_together
from thresher.training.options import Setup
from thresher.training.train import complete

__all__ = ["Networks", "Promise", "gains_of", "promise_of", "settings_of", "train_many", "train_penalised"]

Matrix = NDArray[np.float64]
_DRIFT = 0.0001  # root mean square distance that a neuron travels at most: a small part of the unit in which it fires
_NOTHING = 1e-6  # error, in units of the targets' variance, that is none
_INNER_TOLERANCE, _MOST_PRODUCTS = 1e-4, 200
_RIDGES = 5  # that are tried first, from that of the limit on: kernels of networks are noisy


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
    where: Where = LOCAL,
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
    where : networks are trained

    Cost: O(mnd) per iteration and output, and for each product of a solve.
    """
    start = settings.start
    options = {
        "width": settings.width, "shift": settings.shift, "seed": start.seed, "twins": start.twins,
        "start": start.sequence, "penalty": penalty, "max_iterations": max_iterations,
        "threads": threads, "callbacks": callbacks, **where._asdict(),
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
    last = [one.steps[-1] if one.steps else Step(np.zeros(len(targets)), 0.0) for one in results]
    if any(one.status is Status.STALLED for one in results) or not all(one.keep < 1 for one in last):
        return Promise(None, math.hypot(*left), stopped)
    alpha = np.column_stack([one.v / (1 - one.keep) for one in last])
    return Promise(targets - penalty[:, None] * alpha * gains, math.hypot(*left), stopped)


class Networks(NamedTuple):
    """Networks trained on many rows, and how much worse than the limit their kernel is."""

    inputs: Matrix  # (n, d)
    gains: Matrix  # (k,)
    results: list[Result]
    ridge: float
    penalty: Matrix  # (n,)
    loss: float


def train_many(
    inputs: Matrix,
    data: Observations,
    hold: HoldOut,
    metric: Matrix | None,
    choice: Choice,
    options: Options,
    *,
    alpha: Matrix,
    outputs: Matrix,
    callbacks: Sequence[Callback],
) -> Networks:
    """Return networks trained on many inputs (n, d), with the ridge that kernels as noisy as theirs prefer.

    ``alpha`` and ``outputs`` (n, k) are those of the limit. Cost: that of :func:`ridge_of_networks` and
    :func:`train_penalised`.
    """
    ridge, loss = ridge_of_networks(hold, metric, choice, options, whole=len(inputs))
    penalty = ridge * firing_probability(choice.shift) / data.weights
    gains = gains_of(alpha, outputs, options.width)
    results = train_penalised(
        inputs,
        data.targets / gains,
        settings=settings_of(options, dimension=inputs.shape[1], shift=choice.shift, width=int(options.width)),
        penalty=penalty,
        tol=options.tol,
        max_iterations=options.max_iterations,
        threads=options.threads,
        where=options.where if options.where.on_cluster else LOCAL,  # over pairs on the CPU of this machine
        callbacks=callbacks,
    )
    return Networks(inputs, gains, results, ridge, penalty, loss)


def settings_of(options: Options, *, dimension: int, shift: float, width: int) -> NetworkSettings:
    """Return the settings of a network of some width on lifted inputs of some dimension."""
    return NetworkSettings.checked(
        width=width,
        dimension=dimension,
        shift=shift,
        seed=options.seed,
        twins=True,
        sequence=options.sequence if dimension <= SOBOL_COLUMNS else "random",
    )


def ridge_of_networks(
    hold: HoldOut, metric: Matrix | None, choice: Choice, options: Options, *, whole: int
) -> tuple[float, float]:
    """Return the ridge for networks, and the share by which their error on rows left out exceeds that of the limit.

    On a part of ``whole`` rows the kernel is that of a network with as much fewer neurons: as noisy as the whole one.

    Cost: O(r³) for each ridge, on r rows.
    """
    limit = hold.fit(metric, bias=choice.bias, shift=choice.shift, ridge=options.ridge, guess=choice.ridge)
    kept, held, _ = hold.lifted(metric, choice.bias)
    both = np.concatenate([kept, held]).astype(np.float64)
    both /= np.linalg.norm(both, axis=1, keepdims=True)
    width = 2 * math.ceil(float(options.width) * len(both) / whole / 2)
    settings = settings_of(options, dimension=both.shape[1], shift=choice.shift, width=width)
    kernel = options.device.start_gram(both, settings)

    def judged(ridge: float) -> float:
        alpha = solve_kernel(kernel, hold.kept, shift=choice.shift, ridge=ridge)
        return math.inf if alpha is None else hold.judge(kernel.rest(alpha))

    ridges = ridges_from(choice.ridge, _RIDGES) if options.ridge is None else [options.ridge]
    found = {ridge: judged(ridge) for ridge in ridges}
    best = best_ridge(found, judged)
    error = math.inf if limit is None else max(limit.error, _NOTHING)
    return best, max(0.0, found[best] / error - 1)
