"""The first step of certified shards: by matrix products where that is cheaper, pair by pair elsewhere."""

import numpy as np
import pytest

import thresher.shards.watchlists as watchlists
from thresher import BrokenCertificate, train
from thresher.datasets import random_problem
from thresher.model.geometry import Geometry


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("twins", [False, True])
def test_where_many_fire_the_first_step_is_a_matrix_product(monkeypatch, dtype, twins):
    problem = random_problem(inputs=70, dimension=6)
    options = {"width": 3000, "shift": 0.4, "dtype": dtype, "twins": twins, "audit": True, "tol": 1e-6}
    asked = []
    by_products = watchlists.StartScan._first_step_change

    def told(scan, Z):
        asked.append(len(by_products(scan, Z)) == len(Z))
        return by_products(scan, Z)

    monkeypatch.setattr(watchlists.StartScan, "_first_step_change", told)
    together = train(problem, **options)
    assert all(asked)
    monkeypatch.setattr(watchlists.StartScan, "_first_step_change", lambda scan, Z: Z[:0])
    one_by_one = train(problem, **options)
    assert [record.firing for record in together.history] == [record.firing for record in one_by_one.history]
    close = 1e-5 if dtype == "float32" else 1e-10
    for a, b in zip(together.history, one_by_one.history, strict=True):
        assert a.residual == pytest.approx(b.residual, rel=1e-3, abs=close)


@pytest.mark.parametrize("start", ["random", "hadamard"])
def test_where_few_fire_it_is_not(start, monkeypatch):
    asked = []
    by_products = watchlists.StartScan._first_step_change
    monkeypatch.setattr(
        watchlists.StartScan, "_first_step_change", lambda scan, Z: asked.append(by_products(scan, Z)) or asked[-1]
    )
    train(random_problem(inputs=70, dimension=30), width=20_000, start=start)
    assert {len(one) for one in asked} == {0}


def test_where_few_fire_but_move_far_it_is_a_matrix_product(monkeypatch):
    asked = []
    by_products = watchlists.StartScan._first_step_change
    monkeypatch.setattr(
        watchlists.StartScan, "_first_step_change", lambda scan, Z: asked.append(by_products(scan, Z)) or asked[-1]
    )
    train(random_problem(inputs=400, dimension=6), width=1000, max_iterations=2, audit=True)
    assert 0 not in {len(one) for one in asked}


@pytest.mark.parametrize("start", ["random", "hadamard"])
def test_products_of_inputs_that_are_wrong_are_caught(start, monkeypatch):
    """Where a neuron fires on few of many columns, they say what the first step adds to other inputs."""
    of = Geometry.of

    def careless(*given, **named):
        made = of(*given, **named)
        return made._replace(fast_products=np.float32(0.5) * made.fast_products)

    monkeypatch.setattr(Geometry, "of", careless)
    with pytest.raises(BrokenCertificate, match=r"neuron \d+ (fires|does not fire) on input \d+"):
        train(random_problem(inputs=30, dimension=100), width=20_000, shift=2.0, start=start, audit=True)


@pytest.mark.parametrize("start", ["random", "hadamard"])
def test_steps_whose_squares_float32_cannot_hold(start):
    """Their norm comes from the sizes of coefficients instead; an infinite one would drop pairs."""
    problem = random_problem(inputs=127, dimension=16)
    targets = 2.5e19 * problem.targets
    train(problem.inputs, targets, width=1025, shift=1.5, start=start, audit=True, max_iterations=2)
