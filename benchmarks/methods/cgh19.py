"""Gram Gauss-Newton, dense (`cgh+19`): all activations, the Gram matrix of the Jacobian, a Cholesky solve.

In its best form: the Jacobian is not stored, since its Gram matrix is the Hadamard product of X Xᵀ and the co-firing
counts, which one symmetric BLAS product computes; and only firing neurons are moved.
"""

from __future__ import annotations

from benchmarks.log import Log
from benchmarks.methods._newton import gauss_newton, solve_gram
from thresher import Problem
from thresher.model.network import NetworkSettings

LABEL, COST, ORDER, REQUIRES = "Gram Gauss-Newton (cgh+19)", "mn² + mnd + n³", "second", ()
CASES = ("race", "width", "problems")


def run(problem: Problem, settings: NetworkSettings, log: Log) -> None:
    gauss_newton(problem, settings, log, solve=solve_gram)
