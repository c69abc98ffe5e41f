"""Dense Gauss-Newton with Hadamard start rows in the strongest form we know: all activations, by few multiplications.

The Gram matrix comes from the firing pairs. A pass makes the products of the start rows anew, by additions, some inputs
at a time, in the fastest cache. To each row it adds products of the inputs on which its neuron ever fired, times
coefficients. Where a product with stored weights takes less, it makes one. This comparison shows what the search alone
is worth with such rows.
"""

from __future__ import annotations

from typing import Any

from benchmarks.log import Limits, Log
from benchmarks.methods._newton import gauss_newton, solve_gram_of_pairs
from benchmarks.rotated import HadamardNetwork
from thresher import Problem
from thresher.datasets import random_problem
from thresher.model.network import NetworkSettings

LABEL, COST, ORDER, REQUIRES = "dense passes, Hadamard rows", "mn(log d + moved inputs) + n³", "second", ()
CASES = ("race", "width", "problems")


def warm_up() -> None:
    """Compile both kinds of passes: with few columns weights are stored, with more they are not."""
    for dimension in (4, 40):
        problem = random_problem(inputs=20, dimension=dimension)
        settings = NetworkSettings.checked(width=2000, dimension=dimension)
        run(problem, settings, Log(goal=1e-6, limits=Limits(seconds=60.0, iterations=5)))


def run(problem: Problem, settings: NetworkSettings, log: Log, **options: Any) -> None:
    rows = settings._replace(start=settings.start._replace(sequence="hadamard"))
    gauss_newton(problem, rows, log, solve=solve_gram_of_pairs, kind=HadamardNetwork, **options)
