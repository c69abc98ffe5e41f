"""scikit-learn's MLPRegressor with Adam: its own start, both layers and the biases trained, no shift.

One record per pass over the inputs. It does not report the residual, which is computed while the clock is stopped. The
first record is f = 0, since its own start is made during the first pass.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from sklearn.neural_network import MLPRegressor

from benchmarks.log import Limits, Log
from benchmarks.methods._tuning import best_of
from thresher import Problem
from thresher.memory import require
from thresher.model.network import NetworkSettings

LABEL, COST, ORDER, REQUIRES = "MLPRegressor, Adam", "mnd a pass", "first", ()
CASES = ("race",)
RATES, BATCHES = (1e-2, 3e-3, 1e-3, 3e-4, 1e-4), (1, 4)
TUNING = f"learning_rate_init {', '.join(map(str, RATES))} with {BATCHES[0]} and {BATCHES[1]} batches a pass"


def run(problem: Problem, settings: NetworkSettings, log: Log, *, rate: float, batches: int) -> None:
    require_memory(problem, settings, log.limits, copies=6)
    inputs, targets = problem.inputs.astype(np.float32), problem.targets.astype(np.float32)
    model = MLPRegressor(
        hidden_layer_sizes=(settings.width,),
        solver="adam",
        alpha=0.0,
        batch_size=-(-problem.size // batches),
        learning_rate_init=rate,
        random_state=settings.start.seed,
    )
    stop = log.record(-problem.targets, looks=0)
    while not stop:
        with log.time("pass"):
            model.partial_fit(inputs, targets)
        residual = model.predict(inputs) - problem.targets
        stop = log.record(residual, looks=problem.size * settings.width)


def tune(problem: Problem, settings: NetworkSettings, log: Log) -> dict[str, Any]:
    candidates = [{"rate": rate, "batches": batches} for rate in RATES for batches in BATCHES]
    return best_of(candidates, partial(run, problem, settings), log)


def require_memory(problem: Problem, settings: NetworkSettings, limits: Limits, *, copies: int) -> None:
    """Refuse what does not fit: activations and their gradients, and copies of the weights."""
    numbers = settings.width * (3 * problem.size + copies * problem.dimension)
    what = f"MLPRegressor of width {settings.width:,}"
    require(4 * numbers, budget=limits.memory, what=what, remedy="Use a smaller width.")
