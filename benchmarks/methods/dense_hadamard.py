"""Dense Gauss-Newton with Hadamard start rows in the strongest form we know: all activations, by few multiplications.

The Gram matrix comes from the firing pairs. A pass makes the products of the start rows anew, by additions, some inputs
at a time, in the fastest cache. To each row it adds products of the inputs on which its neuron ever fired, times
coefficients. Where a product with stored weights takes less, it makes one. This comparison shows what the search alone
is worth with such rows.
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
