"""First-order descent on dense activations, with momentum, over all inputs or over batches of them."""

from __future__ import annotations

from contextlib import nullcontext
from functools import partial
from itertools import product
from typing import Any

import numpy as np

from benchmarks.dense import DenseNetwork
from benchmarks.log import Log
from benchmarks.methods._tuning import best_of
from thresher import Problem
from thresher.losses import Squared
from thresher.model.network import NetworkSettings

RATES, MOMENTA = (0.5, 1.0, 1.5, 1.9, 2.5, 3.3), (0.0, 0.3, 0.6, 0.9)
FLAT_RATES = (4, 16, 64, 256, 1024)
TUNING = (
    f"rate {', '.join(map(str, RATES))} times 1/(largest eigenvalue of the first Gram matrix), with momentum "
    f"{', '.join(map(str, MOMENTA))}; of cross-entropy, which is flatter, rate {', '.join(map(str, FLAT_RATES))}"
)


def descend(
    problem: Problem, settings: NetworkSettings, log: Log, *, rate: float, momentum: float, batches: int = 1
) -> None:
    """Move along -Jᵀ l', of squares -Jᵀ(f - y); one record for each pass over the inputs, in ``batches`` parts."""
    with log.time("start"):
        network = DenseNetwork(problem, settings, memory=log.limits.memory, copies=3)
    parts = [slice(part[0], part[-1] + 1) for part in np.array_split(np.arange(problem.size), batches)]
    # With batches the residual on all inputs is the reader's wish, not the method's, and not charged.
    charged = partial(log.time, "forward") if batches == 1 else nullcontext
    with charged():
        outputs, pairs = network.forward()
    looks = problem.size * network.width
    stop = log.record(outputs, problem.targets, looks=looks, firing=pairs.total)
    while not stop:
        for part in parts:
            if batches > 1:
                with log.time("forward"):
                    outputs, pairs = network.forward(part)
            with log.time("update"):
                network.descend(
                    pairs, rate * log.loss.slope(outputs, problem.targets[part]), momentum=momentum, rows=part
                )
        with charged():
            outputs, pairs = network.forward()
        stop = log.record(outputs, problem.targets, looks=looks, firing=pairs.total)


def tune(problem: Problem, settings: NetworkSettings, log: Log, **fixed: Any) -> dict[str, Any]:
    network = DenseNetwork(problem, settings, memory=log.limits.memory)
    largest = network.largest_eigenvalue(network.forward()[1])
    del network
    squares = isinstance(log.loss, Squared)
    pairs = product(RATES if squares else FLAT_RATES, MOMENTA)
    candidates = [{"rate": rate / largest, "momentum": momentum} for rate, momentum in pairs]
    if squares:
        candidates = [one for one in candidates if one["momentum"] or one["rate"] * largest < 2]  # else it diverges
    return best_of(candidates, partial(descend, problem, settings, **fixed), log)
