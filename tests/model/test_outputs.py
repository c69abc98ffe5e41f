"""Predictions from pairs near the threshold: those of the definition, and of the dense pass."""

import pickle
import tracemalloc

import naive
import numpy as np
import pytest

from thresher import Problem, train
from thresher.datasets import random_problem
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
    "scanned": {"index": "scan"},
    "most twins never moved": {"twins": True, "shift": 3.0},
    "no step": {"max_iterations": 0, "twins": True},
}


def _look_at_few(monkeypatch, *, few):
    monkeypatch.setattr(networks, "few_near", lambda *given: few)
    monkeypatch.setattr(compacts, "few_vectors_near", lambda *given, twins: few)


@pytest.mark.parametrize("way", WAYS)
def test_predictions_are_those_of_all_neurons(way, monkeypatch):
    network = train(PROBLEM, **{"width": 5000, "shift": 2.0, "twins": False} | WAYS[way]).network
    settings = network.settings
    W, signs = network.weights.vectors(range(settings.neurons)), settings.start.signs(np.arange(settings.neurons))
    padding = settings.width - settings.neurons  # neurons that were not drawn
    W, signs = np.vstack([W, np.zeros((padding, 12))]), np.append(signs, np.zeros(padding))
    expected = naive.outputs(W, signs, NEW, settings.shift, settings.activation)
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


@pytest.mark.parametrize("size", [1.0, 1e20, 1e-25])
def test_opposite_vectors_and_long_ones_are_found(size):
    """Of twins whose centre is zero, of vectors whose squares float32 cannot hold."""
    rng = np.random.default_rng(0)
    W = np.repeat(rng.standard_normal((300, 12)), 2, axis=0).astype(np.float32)
    W[541::4] *= -1
    W[540:] *= np.float32(size)
    signs = np.tile(np.float32([1.0, -1.0]), 300)
    expected = naive.outputs(W.astype(np.float64), signs, NEW, 2.0) * np.sqrt(600)
    model = compacts.CompactNetwork(W, signs, 2.0)
    assert compacts.few_vectors_near(W, 2.0, twins=True)
    found = model.predict(NEW)
    np.testing.assert_allclose(found, expected, atol=3e-6 * max(size, 1.0))
    np.testing.assert_array_equal(np.concatenate([model.predict(some) for some in PARTS]), found)


@pytest.mark.parametrize("twins", [False, True])
def test_few_rows_are_as_many_where_a_neuron_has_moved_far(twins, monkeypatch):
    """Float32 is off by more on long vectors: what fires by that much alone fires for any number of rows."""
    network = train(PROBLEM, width=20_000, shift=3.0, twins=twins).network
    weights, rng = network.weights, np.random.default_rng(0)
    coefficients, last = weights.coefficients.copy(), weights.support.bounds[-2:]
    coefficients[last[0]] = 1e5
    far = networks.Network(network.settings, weights._replace(coefficients=coefficients))
    w = far.neuron(int(weights.support.neurons[-1]))
    side, below = rng.standard_normal((200, 12)), 3.0 - rng.uniform(0, 3e-3, 200)
    side -= np.outer(side @ w, w) / (w @ w)
    cosine = below / np.linalg.norm(w)
    rows = np.outer(cosine, w / np.linalg.norm(w))
    rows += side * np.sqrt((1 - cosine**2) / np.einsum("rk,rk->r", side, side))[:, None]
    _look_at_few(monkeypatch, few=True)
    for model in (far, far.compact()):
        few = np.concatenate([model.predict(rows[first : first + 4]) for first in range(0, 200, 4)])
        np.testing.assert_array_equal(few, model.predict(rows))


def test_memory_does_not_grow_with_the_width():
    network = train([[1.0]], [1.0], width=2_000_000, shift=3.0, max_iterations=0).network
    network.predict([[1.0]], threads=1)
    tracemalloc.start()
    network.predict([[1.0]], threads=1)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert networks.few_near(network.weights, 3.0) and peak < 2_000_000


@pytest.mark.parametrize("twins", [False, True])
def test_weight_vectors_stand_row_by_row(twins):
    """Sums of inputs are ten times slower column by column."""
    weights = train(PROBLEM, width=2000, shift=1.0, twins=twins).network.weights
    for some in (range(100, 300), np.arange(100, 300)):
        assert weights.vectors(some).flags.c_contiguous
