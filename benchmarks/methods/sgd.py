"""Stochastic gradient descent: four batches of inputs per pass, with momentum if that is better.

An iteration is a pass over the inputs. With equal batches in a fixed order, constant rates reach zero loss: the network
interpolates, so the gradient noise vanishes with the residual.
"""

from __future__ import annotations

from typing import Any

from benchmarks.log import Log
from benchmarks.methods import _descent
from thresher import Problem
from thresher.model.network import NetworkSettings

LABEL, COST, ORDER, REQUIRES = "SGD, four batches", "mnd a pass", "first", ()
CASES = ("race",)
TUNING = _descent.TUNING
_BATCHES = 4


def run(problem: Problem, settings: NetworkSettings, log: Log, **options: Any) -> None:
    _descent.descend(problem, settings, log, batches=_BATCHES, **options)


def tune(problem: Problem, settings: NetworkSettings, log: Log) -> dict[str, Any]:
    return _descent.tune(problem, settings, log, batches=_BATCHES)
