"""Predictions from pairs near the threshold: those of the definition, and of the dense pass."""

import pickle

import naive
import numpy as np
import pytest

from thresher import Problem, train
from thresher.datasets import random_problem
from thresher.loops import screen
from thresher.loops.whole import PLAIN, Way
from thresher.model import compact as compacts
from thresher.model import network as networks

PROBLEM = random_problem(inputs=30, dimension=12)
NEW = np.vstack([random_problem(inputs=150, dimension=12, seed=1).inputs, PROBLEM.inputs])
PARTS = np.split(NEW, [1, 3, 11, 75])  # of few rows and of many
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


def _look_at_few(monkeypatch, *, few):
    monkeypatch.setattr(networks, "few_near", lambda *given: few)
    monkeypatch.setattr(compacts, "few_vectors_near", lambda *given, twins: few)


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
    compact, close = network.compact(), 1e-10 if way == "float64" else 3e-6
    for model in (network, compact):
        _look_at_few(monkeypatch, few=True)
        found = model.predict(NEW)
        np.testing.assert_allclose(found, expected, atol=close)
        np.testing.assert_array_equal(model.predict(NEW, threads=2), found)
        np.testing.assert_array_equal(np.concatenate([model.predict(some) for some in PARTS]), found)
        _look_at_few(monkeypatch, few=False)
        np.testing.assert_allclose(model.predict(NEW), found, atol=close)


@pytest.mark.parametrize(("shift", "size", "near"), [(2.5, 0.1, True), (0.5, 0.1, False), (2.5, 30.0, False)])
def test_pairs_are_looked_at_one_by_one_where_few_are_near(shift, size, near):
    """Many are where many fire, and where neurons have moved far."""
    problem = Problem(PROBLEM.inputs, size * PROBLEM.targets)
    network = train(problem, width=5000, shift=shift, max_iterations=1, index="certified").network
    assert networks.few_near(network.weights, shift) == near


@pytest.mark.parametrize("way", ["plain", "twins"])
def test_rounded_rows_find_the_same_pairs(way, monkeypatch):
    """What a pair adds does not depend on how it was found, to the bit."""
    network = train(PROBLEM, width=5000, shift=2.0, **{"twins": False} | WAYS[way]).network
    for model in (network, network.compact()):
        found = []
        for ways in (screen.WAYS, (), (Way(8, PLAIN),), (Way(16, PLAIN),)):
            with monkeypatch.context() as patch:
                patch.setattr(screen, "WAYS", ways)
                found.append(model.predict(NEW))
        np.testing.assert_array_equal(found, found[:1] * len(found))


def test_vectors_of_any_kind():
    """A compact network may be made by hand: opposite coefficients do not make two vectors alike."""
    rng = np.random.default_rng(0)
    vectors, signs = rng.standard_normal((700, 12)), np.tile([1.0, -1.0], 350)
    for W in (vectors, np.asfortranarray(vectors), 0.3 * vectors):
        for a in (signs, rng.permutation(signs)):
            expected = naive.outputs(W, a, NEW, 1.0) * np.sqrt(700)
            for count in (700, 0):
                model = compacts.CompactNetwork(W[:count], a[:count], 1.0, 0.5)
                np.testing.assert_allclose(model.predict(NEW) - 0.5, expected if count else 0, atol=1e-10)


def test_one_row_at_the_threshold_is_as_it_is_among_others(monkeypatch):
    """Of one row products are made in another order: what rounding may part is still looked at in the same way."""
    rng, others = np.random.default_rng(0), random_problem(inputs=40, dimension=12, seed=2).inputs
    vectors = rng.standard_normal((4000, 12))
    vectors += (2.0 - vectors @ NEW[0])[:, None] * NEW[0]  # their products with the first input are the shift
    _look_at_few(monkeypatch, few=True)
    for a in (rng.standard_normal(4000), np.tile([1.0, -1.0], 2000)):
        model = compacts.CompactNetwork(vectors.astype(np.float32), a.astype(np.float32), 2.0)
        assert model.predict(NEW[:1]) == model.predict(np.vstack([others, NEW[:1]]))[-1]


def test_a_changed_copy_of_a_compact_network_knows_its_own_vectors():
    model = compacts.CompactNetwork(np.full((3, 12), 0.1), np.ones(3), 0.5)
    assert not model.predict(NEW[:1]).any()
    longer = model._replace(vectors=1e9 * NEW[:3])
    for copy in (longer, pickle.loads(pickle.dumps(longer))):
        np.testing.assert_array_equal(copy.predict(NEW[:1]), copy.predict(NEW)[:1])
        np.testing.assert_allclose(copy.predict(NEW[:1]), np.maximum(1e9 * NEW[:3] @ NEW[0] - 0.5, 0).sum())
