"""The first step of certified shards: by matrix products where that is cheaper, pair by pair elsewhere.

There changes come from coarse products of inputs, which may be off by no more than they say.
"""

import numpy as np
import pytest

import thresher.shards.watchlists as watchlists
from thresher import BrokenCertificate, train
from thresher.datasets import random_problem
from thresher.model import geometry
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


def test_where_few_fire_it_is_not(monkeypatch):
    asked = []
    by_products = watchlists.StartScan._first_step_change
    monkeypatch.setattr(
        watchlists.StartScan, "_first_step_change", lambda scan, Z: asked.append(by_products(scan, Z)) or asked[-1]
    )
    train(random_problem(inputs=70, dimension=30), width=20_000)
    assert {len(one) for one in asked} == {0}


def test_where_few_fire_but_move_far_it_is_a_matrix_product(monkeypatch):
    asked = []
    by_products = watchlists.StartScan._first_step_change
    monkeypatch.setattr(
        watchlists.StartScan, "_first_step_change", lambda scan, Z: asked.append(by_products(scan, Z)) or asked[-1]
    )
    train(random_problem(inputs=400, dimension=6), width=1000, max_iterations=2, audit=True)
    assert 0 not in {len(one) for one in asked}


@pytest.mark.parametrize("size", [1.0, 1e-3, 0.0])
@pytest.mark.parametrize("n", [1, 2, 70])
def test_coarse_products_are_off_by_no_more_than_they_say(n, size):
    inputs = size * random_problem(inputs=n, dimension=30).inputs
    made = Geometry.of(inputs, dtype="float32")
    steps, step, error = made.coarse_products
    off = np.abs(made.products - step * steps.astype(float)).max()
    assert (steps.dtype, steps.shape) == (np.int8, (n, n))
    assert off <= error <= step * (0.5 + 1e-9)
    assert np.abs(steps.astype(int)).max() == (127 if size else 0)


@pytest.mark.parametrize("start", ["random", "hadamard"])
def test_coarse_products_that_are_off_by_more_are_caught(start, monkeypatch):
    made = geometry._coarse
    monkeypatch.setattr(geometry, "_coarse", lambda products: made(0.5 * products)._replace(error=0.0))
    with pytest.raises(BrokenCertificate, match=r"neuron \d+ fires on input \d+"):
        train(random_problem(inputs=30, dimension=100), width=20_000, shift=2.0, start=start, audit=True)
