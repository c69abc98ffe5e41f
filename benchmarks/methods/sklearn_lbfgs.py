"""scikit-learn's MLPRegressor with L-BFGS: its own start, both layers and the biases trained, no shift.

It reports nothing before it ends, so each of its own evaluations of the loss is recorded, and the residual is computed
from the loss. It stops by itself when SciPy's L-BFGS-B finds no more progress.
"""

from __future__ import annotations

import math
import time
import warnings
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.neural_network import MLPRegressor

from benchmarks.log import Enough, Log
from benchmarks.methods.sklearn_adam import require_memory
from thresher import Problem
from thresher.model.network import NetworkSettings

LABEL, COST, ORDER, REQUIRES = "MLPRegressor, L-BFGS", "mnd an evaluation", "first", ()
CASES = ("race",)


def run(problem: Problem, settings: NetworkSettings, log: Log) -> None:
    require_memory(problem, settings, log.limits, copies=60)  # ten pairs of vectors, in float64
    log.record(-problem.targets, looks=0)
    model = _Listened(
        hidden_layer_sizes=(settings.width,),
        solver="lbfgs",
        alpha=0.0,
        tol=1e-12,
        max_iter=10**6,
        max_fun=10**6,
        random_state=settings.start.seed,
    )
    model.log, model.began = log, time.perf_counter()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            model.fit(problem.inputs, problem.targets)
    except Enough:
        return
    # The weights it ends with, whatever it told on the way.
    log.record(model.predict(problem.inputs) - problem.targets, looks=0)
    log.ended = log.ended or "stopped by itself: L-BFGS-B sees no more progress"


class _Listened(MLPRegressor):
    log: Log
    began: float

    def _loss_grad_lbfgs(self, *args: Any, **options: Any) -> Any:
        loss, gradient = super()._loss_grad_lbfgs(*args, **options)
        size = args[1].shape[0]
        residual = np.full(size, math.sqrt(2 * loss))  # loss = ||f - y||² / 2n
        looks = size * self.hidden_layer_sizes[0]
        stop = self.log.record(residual, looks=looks)
        self.log.catch_up("evaluation", self.began)
        if stop:
            raise Enough
        return loss, gradient
