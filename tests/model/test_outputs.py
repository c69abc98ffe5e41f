"""Predictions from pairs near the threshold: those of the definition, and of the dense pass."""

import naive
import numpy as np
import pytest

from thresher import Problem, to_sphere, train
from thresher.datasets import random_problem
from thresher.loops import screen
from thresher.loops.whole import PLAIN, Way
from thresher.model import network as networks

PROBLEM = random_problem(inputs=30, dimension=12)
NEW = np.vstack([random_problem(inputs=150, dimension=12, seed=1).inputs, PROBLEM.inputs])
WAYS = {
    "plain": {},
    "twins": {"twins": True},
    "float64": {"dtype": "float64"},
    "max": {"activation": "max"},
    "poisson": {"twins": True, "start": "poisson"},
    "sobol": {"sequence": "sobol", "index": "scan"},
    "most twins never moved": {"twins": True, "shift": 3.0},
    "no step": {"max_iterations": 0, "twins": True},
}


@pytest.mark.parametrize("bits", [0, 8, 16])
@pytest.mark.parametrize("way", WAYS)
def test_predictions_are_those_of_all_neurons(way, bits, monkeypatch):
    network = train(PROBLEM, **{"width": 5000, "shift": 2.0, "twins": False} | WAYS[way]).network
    settings = network.settings
    W, signs = network.weights.vectors(range(settings.neurons)), settings.start.signs(np.arange(settings.neurons))
    padding = settings.width - settings.neurons  # neurons that were not drawn
    W, signs = np.vstack([W, np.zeros((padding, 12))]), np.append(signs, np.zeros(padding))
    expected = naive.outputs(W, signs, NEW, settings.shift, settings.activation)
    monkeypatch.setattr(screen, "WAYS", (Way(bits, PLAIN),) if bits else ())
    monkeypatch.setattr(networks, "few_near", lambda *given: True)
    found = network.predict(NEW)
    np.testing.assert_allclose(found, expected, atol=1e-10 if way == "float64" else 3e-6)
    np.testing.assert_array_equal(found, network.predict(NEW, threads=2))
    monkeypatch.setattr(networks, "few_near", lambda *given: False)
    np.testing.assert_allclose(network.predict(NEW), found, atol=1e-10 if way == "float64" else 3e-6)


@pytest.mark.parametrize(("shift", "size", "near"), [(2.5, 0.1, True), (0.5, 0.1, False), (2.5, 30.0, False)])
def test_pairs_are_looked_at_one_by_one_where_few_are_near(shift, size, near):
    """Many are where many fire, and where neurons have moved far."""
    problem = Problem(PROBLEM.inputs, size * PROBLEM.targets)
    network = train(problem, width=5000, shift=shift, max_iterations=1, index="certified").network
    assert networks.few_near(network.weights, shift) == near


def test_a_single_row(monkeypatch):
    monkeypatch.setattr(networks, "few_near", lambda *given: True)
    network = train(PROBLEM, width=5000, shift=2.0).network
    np.testing.assert_allclose(network.predict(NEW[:1]), network.predict(NEW)[:1], atol=1e-6)
    assert network.predict(to_sphere(np.ones((1, 12)))).shape == (1,)
