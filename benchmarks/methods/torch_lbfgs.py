"""L-BFGS in torch on all inputs, with its strong Wolfe line search; one record per evaluation of the loss."""

from __future__ import annotations

import time
from functools import partial
from typing import Any

from benchmarks.log import Enough, Log
from benchmarks.methods._tuning import best_of
from thresher import Problem
from thresher.model.network import NetworkSettings

LABEL, COST, ORDER, REQUIRES = "L-BFGS, torch", "mnd an evaluation", "first", ("torch",)
CASES = ("race", "cross_entropy", "problems")
FIRST = (1.0, 1e3, 1e4, 1e5, 1e6)
TUNING = (
    f"length of the first step, {', '.join(f'{one:g}' for one in FIRST)} times torch's, which is far too short here"
)
_HISTORY = 10


def run(problem: Problem, settings: NetworkSettings, log: Log, *, first: float) -> None:
    import torch

    from benchmarks.methods._torch import TorchNetwork

    began = time.perf_counter()
    network = TorchNetwork(problem, settings, log.limits, copies=2 * _HISTORY + 6)
    never = {"tolerance_grad": 0.0, "tolerance_change": 0.0}
    optimiser = torch.optim.LBFGS(network.parameters(), history_size=_HISTORY, line_search_fn="strong_wolfe", **never)

    def evaluate() -> torch.Tensor:
        optimiser.zero_grad()
        outputs = network()
        loss = network.total(outputs, log.loss)
        loss.backward()
        stop = log.record(outputs.detach().numpy(), problem.targets, looks=problem.size * settings.width)
        log.catch_up("evaluation", began)  # and the direction that led to it
        if stop:
            raise Enough
        return loss

    try:
        for length, steps in ((first, 1), (1.0, 10**6)):
            optimiser.param_groups[0].update(lr=length, max_iter=steps, max_eval=10**6)
            optimiser.step(evaluate)
        log.ended = "stopped by itself: no direction of descent is left"
    except Enough:
        pass


def tune(problem: Problem, settings: NetworkSettings, log: Log) -> dict[str, Any]:
    return best_of([{"first": one} for one in FIRST], partial(run, problem, settings), log)
