"""Dense Gauss-Newton in the strongest form we know: all activations, but the Gram matrix from the firing pairs.

Only the forward pass of the dense method is left, so this comparison shows what the search alone is worth. Of
cross-entropy it takes the steps of generalised Gauss-Newton, or those of squares towards the margins, as ours do.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from benchmarks.log import Log
from benchmarks.methods._newton import gauss_newton, solve_gram_of_pairs
from benchmarks.methods._tuning import best_of
from thresher import Problem
from thresher.losses import Squared
from thresher.model.network import NetworkSettings

LABEL, COST, ORDER, REQUIRES = "dense passes, Gram from firing pairs", "mnd + n³", "second", ()
CASES = ("race", "cross_entropy", "width", "problems")
TUNING = "of cross-entropy, whether steps go towards the margins"
run = partial(gauss_newton, solve=solve_gram_of_pairs)


def tune(problem: Problem, settings: NetworkSettings, log: Log) -> dict[str, Any]:
    if isinstance(log.loss, Squared):
        return {}
    return best_of([{"margins": True}, {"margins": False}], partial(run, problem, settings), log)
