"""thresher: certified search, first step from the limit kernel, exact Gauss-Newton, independent Gaussian start rows."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from benchmarks.log import Log
from thresher import Problem, train
from thresher.losses import Squared
from thresher.model.network import NetworkSettings

LABEL, COST, ORDER, REQUIRES = "thresher (ours)", "n√m · residual + n³, after one mnd", "second", ()
CASES = ("race", "cross_entropy", "width", "problems")


def run(problem: Problem, settings: NetworkSettings, log: Log, *, start: str = "random", **options: Any) -> None:
    began, log.inputs = time.perf_counter(), problem.size
    result = train(
        problem,
        width=settings.width,
        shift=settings.shift,
        seed=settings.start.seed,
        start=start,
        twins=settings.start.twins,
        loss=log.loss,
        tol=log.goal,
        max_iterations=log.limits.iterations,
        memory_budget=log.limits.memory,
        callbacks=[lambda record: log.follow(record, began)],
        **options,
    )
    log.catch_up("other", began)  # until the return of `train`
    log.ended = log.ended or f"{result.status.value}: {result.message}"
    outputs = result.network.predict(problem.inputs)
    if isinstance(log.loss, Squared):
        log.checked = float(np.linalg.norm(outputs - problem.targets)) / log.history[0].residual
    else:
        log.checked = float(log.loss.value(outputs, problem.targets).mean())
