"""thresher with squares instead: towards outputs at which the cross-entropy of each row is a little below the goal.

Two separable classes have no best outputs, but the goal says which are good enough: log odds of ± log(1/goal). Steps to
fixed outputs shrink, as those of cross-entropy do not, and so do looks. It ends once the mean cross-entropy is reached.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from benchmarks.log import Log
from thresher import Callback, Iteration, Problem, train
from thresher.model.network import NetworkSettings
from thresher.theory import Statement
from thresher.training import State

LABEL, COST, ORDER, REQUIRES = (
    "thresher, squares to the margins",
    "n√m · residual + n³, after one mnd",
    "second",
    (),
)
CASES = ("cross_entropy",)
_BELOW = 0.8  # of the goal, at the outputs that are aimed at


def margins(targets: NDArray[np.float64], goal: float) -> NDArray[np.float64]:
    """Return the outputs (n,) for targets 0 and 1 at which the cross-entropy of every row is that share of the goal."""
    return np.where(targets > 0.5, -1.0, 1.0) * np.log(np.expm1(_BELOW * goal))


def run(problem: Problem, settings: NetworkSettings, log: Log) -> None:
    began, log.inputs = time.perf_counter(), problem.size
    wanted = Problem(problem.inputs, margins(problem.targets, log.goal))
    result = train(
        wanted,
        width=settings.width,
        shift=settings.shift,
        seed=settings.start.seed,
        start="random",
        max_iterations=log.limits.iterations,
        memory_budget=log.limits.memory,
        callbacks=[_Listener(problem, wanted.targets, log, began)],
    )
    log.catch_up("other", began)  # until the return of `train`
    log.ended = log.ended or f"{result.status.value}: {result.message}"
    log.checked = float(log.loss.value(result.network.predict(problem.inputs), problem.targets).mean())


class _Listener(Callback):
    """Turns records of squares into those of cross-entropy."""

    def __init__(self, problem: Problem, wanted: NDArray[np.float64], log: Log, began: float) -> None:
        self.problem, self.wanted, self.log, self.began = problem, wanted, log, began
        self.outputs = np.zeros(problem.size)

    def certify(self, record: Iteration, state: State) -> Sequence[Statement]:
        self.outputs = state.residual + self.wanted
        return ()

    def on_iteration(self, record: Iteration) -> bool:
        loss, targets = self.log.loss, self.problem.targets
        total = float(loss.value(self.outputs, targets).sum())
        size = float(np.linalg.norm(loss.slope(self.outputs, targets)))
        return self.log.follow(replace(record, loss=total, residual=size), self.began)
