"""Natural gradient (`zmg19`): W <- W - rate F⁺ ∇L with the exact Fisher matrix F of the outputs and its pseudo-inverse.

For the squared loss F = Jᵀ J, and where J has full row rank F⁺ Jᵀ = Jᵀ (J Jᵀ)⁻¹: the step is that of Gram Gauss-Newton
times the rate. Its theorem needs a rate below 1, smaller the more J may move from its start. So the rate is
tuned, 1 included; where 1 wins, this row and that of `cgh+19` are the same method and differ only by noise.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from benchmarks.log import Log
from benchmarks.methods._newton import gauss_newton, solve_gram
from benchmarks.methods._tuning import best_of
from thresher import Problem
from thresher.model.network import NetworkSettings

LABEL, COST, ORDER, REQUIRES = "natural gradient (zmg19)", "mn² + mnd + n³", "second", ()
CASES = ("race",)
RATES = (1.0, 0.9, 0.7, 0.5)
TUNING = f"rate {', '.join(map(str, RATES))}"


def run(problem: Problem, settings: NetworkSettings, log: Log, *, rate: float) -> None:
    gauss_newton(problem, settings, log, solve=solve_gram, rate=rate)


def tune(problem: Problem, settings: NetworkSettings, log: Log) -> dict[str, Any]:
    return best_of([{"rate": rate} for rate in RATES], partial(run, problem, settings), log)
