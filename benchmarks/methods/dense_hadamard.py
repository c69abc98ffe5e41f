"""The same passes with Hadamard start rows: their products take additions, and what neurons moved by few coefficients.

The Gram matrix is that of the firing pairs. A pass makes the products of all start rows anew, in the fastest cache, and
adds to each row of them the rows of X Xᵀ on whose inputs its neuron ever fired; where a product with stored weights takes
fewer operations it makes one. With the same start rows as ours, this comparison too shows what the search alone is worth.
"""

from __future__ import annotations

from typing import Any

from benchmarks.log import Log
from benchmarks.methods._newton import gauss_newton, solve_gram_of_pairs
from benchmarks.rotated import HadamardNetwork
from thresher import Problem
from thresher.model.network import NetworkSettings

LABEL, COST, ORDER, REQUIRES = "dense passes, Hadamard rows", "mn(log d + moved inputs) + n³", "second", ()
CASES = ("race", "width", "problems")


def run(problem: Problem, settings: NetworkSettings, log: Log, **options: Any) -> None:
    rows = settings._replace(start=settings.start._replace(sequence="hadamard"))
    gauss_newton(problem, rows, log, solve=solve_gram_of_pairs, kind=HadamardNetwork, **options)
