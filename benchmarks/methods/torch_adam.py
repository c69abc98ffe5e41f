"""Adam in torch on all inputs; the rate is halved whenever the loss has not fallen for ten iterations."""

from __future__ import annotations

from functools import partial
from typing import Any

from benchmarks.log import Log
from benchmarks.methods._tuning import best_of
from thresher import Problem
from thresher.model.network import NetworkSettings

LABEL, COST, ORDER, REQUIRES = "Adam, torch", "mnd", "first", ("torch",)
CASES = ("race", "cross_entropy")
RATES = (1e-1, 3e-2, 1e-2, 3e-3, 1e-3, 3e-4)
BETAS = ((0.9, 0.999), (0.5, 0.9))
TUNING = f"rate {', '.join(map(str, RATES))} with betas {BETAS[0]} and {BETAS[1]}"


def run(problem: Problem, settings: NetworkSettings, log: Log, *, rate: float, betas: tuple[float, float]) -> None:
    import torch

    from benchmarks.methods._torch import TorchNetwork

    with log.time("start"):
        network = TorchNetwork(problem, settings, log.limits, copies=6)
        optimiser = torch.optim.Adam(network.parameters(), lr=rate, betas=betas)
        schedule = torch.optim.lr_scheduler.ReduceLROnPlateau(optimiser, factor=0.5, threshold=0.0)
    looks = problem.size * settings.width
    with log.time("forward"):
        outputs = network()
    stop = log.record(outputs.detach().numpy(), problem.targets, looks=looks)
    while not stop:
        with log.time("backward"):
            optimiser.zero_grad()
            loss = network.total(outputs, log.loss)
            loss.backward()
        with log.time("update"):
            optimiser.step()
            schedule.step(loss.detach())
        with log.time("forward"):
            outputs = network()
        stop = log.record(outputs.detach().numpy(), problem.targets, looks=looks)


def tune(problem: Problem, settings: NetworkSettings, log: Log) -> dict[str, Any]:
    candidates = [{"rate": rate, "betas": betas} for rate in RATES for betas in BETAS]
    return best_of(candidates, partial(run, problem, settings), log)
