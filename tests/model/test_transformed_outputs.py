"""Predictions of networks with Hadamard start rows: those of the definition, though no start row is ever made."""

import naive
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from properties import examples

from thresher import train
from thresher.datasets import random_problem
from thresher.model import network as networks
from thresher.model import outputs
from thresher.model.firing import Pattern
from thresher.model.network import Network, NetworkSettings
from thresher.model.start import Start
from thresher.model.weights import Weights

COUNTS = [1, 31, 32, 33, 1000]


def made(*, dimension, width, twins, shift, share, size, seed=0, n=12):
    """A network of which a share of the neurons have moved, by up to that size."""
    random = np.random.default_rng(seed)
    settings = NetworkSettings.checked(
        width=width, dimension=dimension, shift=shift, twins=twins, seed=seed, sequence="hadamard"
    )
    inputs = random_problem(inputs=n, dimension=dimension, seed=seed).inputs
    neurons = np.flatnonzero(random.random(width) < share)
    places = [np.sort(random.choice(n, random.integers(1, n), replace=False)) for _ in neurons]
    bounds = np.cumsum([0, *map(len, places)])
    support = Pattern(neurons, bounds, np.concatenate([np.empty(0, int), *places]).astype(np.int32))
    coefficients = size * random.normal(size=bounds[-1])
    return Network(settings, Weights(settings.start, inputs, support, coefficients, np.dtype(np.float32)))


def sums(network, inputs, *, threads=1, few=True):
    """What the network predicts if pairs near the threshold are looked at one by one."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(networks, "few_near", lambda *given: few)
        return network.predict(inputs, threads=threads)


def defined(network, inputs):
    settings = network.settings
    W, signs = network.weights.vectors(range(settings.width)), settings.start.signs(np.arange(settings.width))
    return naive.outputs(W, signs, inputs, settings.shift, settings.activation)


@settings(max_examples=examples(60), deadline=None)
@given(
    dimension=st.sampled_from([2, 3, 50, 300]), twins=st.booleans(), shift=st.sampled_from([0.0, 1.0, 2.5, 6.0]),
    share=st.sampled_from([0.0, 0.05, 0.3, 1.0]), size=st.sampled_from([0.01, 0.3, 3.0]),
    count=st.sampled_from(COUNTS), width=st.sampled_from([2, 30, 510, 900, 1026]), seed=st.integers(0, 2**16),
)  # fmt: skip
def test_predictions_are_those_of_all_neurons(dimension, twins, shift, share, size, count, width, seed):
    network = made(
        dimension=dimension, width=width, twins=twins, shift=shift, share=share, size=size, seed=seed
    )  # fmt: skip
    inputs = random_problem(inputs=count, dimension=dimension, seed=seed + 1).inputs
    inputs[: min(count, 6)] = network.weights.inputs[: min(count, 6)]  # some that neurons have moved towards
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(outputs, "_COUNTED", 0.0)
        found = sums(network, inputs)
    np.testing.assert_allclose(found, defined(network, inputs), atol=3e-6 * (1 + size) * np.sqrt(dimension))


@pytest.mark.parametrize("twins", [False, True])
@pytest.mark.parametrize("dimension", [3, 300])
def test_an_output_depends_on_its_input_alone(dimension, twins, monkeypatch):
    """To the bit: neither on other inputs, nor on its place among them, nor on threads."""
    network = made(dimension=dimension, width=20_000, twins=twins, shift=2.0, share=0.5, size=0.3)
    inputs = random_problem(inputs=100, dimension=dimension, seed=1).inputs
    found = sums(network, inputs)
    np.testing.assert_array_equal(sums(network, inputs, threads=2), found)
    order = np.random.default_rng(0).permutation(100)
    np.testing.assert_array_equal(sums(network, inputs[order])[np.argsort(order)], found)
    for few in (1, 2, 31, 33):
        parts = [inputs[first : first + few] for first in range(0, 100, few)]
        np.testing.assert_array_equal(np.concatenate([sums(network, part) for part in parts]), found)
    monkeypatch.setattr(outputs, "_LOT", 1)  # how many displaced rows are kept at a time
    np.testing.assert_array_equal(sums(network, inputs), found)


@pytest.mark.parametrize("twins", [False, True])
def test_no_start_row_is_made(twins, monkeypatch):
    network = made(dimension=50, width=3000, twins=twins, shift=2.0, share=0.5, size=0.3)
    inputs = random_problem(inputs=40, dimension=50, seed=1).inputs
    expected = defined(network, inputs)

    def refuse(*given):
        raise AssertionError("a row was made")

    monkeypatch.setattr(Start, "rows", refuse)
    monkeypatch.setattr(Start, "base_block", refuse)
    np.testing.assert_allclose(sums(network, inputs), expected, atol=1e-5)
    with pytest.raises(AssertionError, match="a row was made"):
        sums(network, inputs, few=False)


def test_only_pairs_that_may_fire_are_looked_at(monkeypatch):
    """Their number is that of pairs above the shift less the distance of their neuron, and one for each of twins."""
    for twins in (False, True):
        network = made(dimension=50, width=1024, twins=twins, shift=2.0, share=0.6, size=0.2)
        weights, copies = network.weights, 2 if twins else 1
        inputs = random_problem(inputs=64, dimension=50, seed=1).inputs
        rooms = []
        original = outputs._transform_room

        def kept(*given, original=original, rooms=rooms, **options):
            rooms.append(original(*given, **options))
            rooms[-1].levels[:] = np.nan
            return rooms[-1]

        with monkeypatch.context() as patch:
            patch.setattr(outputs, "_transform_room", kept)
            sums(network, inputs)
        distances = np.zeros(1024)
        distances[weights.support.neurons] = weights.distances()
        distances = distances.reshape(-1, copies).max(axis=1)
        levels = rooms[0].levels[: len(distances)]
        expected = np.where((distances == 0) & twins, np.inf, 2.0 - distances)
        assert len(rooms) == 1
        np.testing.assert_allclose(levels, expected, atol=2e-4)
        assert (levels < expected).sum() == np.isfinite(expected).sum()


def test_twins_that_never_moved_cancel_exactly():
    network = made(dimension=50, width=2000, twins=True, shift=1.0, share=0.0, size=1.0)
    inputs = random_problem(inputs=40, dimension=50).inputs
    assert not sums(network, inputs).any()


@pytest.mark.parametrize(("share", "transformed"), [(0.0, False), (0.02, False), (0.5, True)])
def test_rows_are_made_where_few_twins_moved(share, transformed, monkeypatch):
    called, original = [], outputs._sum_transformed
    monkeypatch.setattr(
        outputs, "_sum_transformed", lambda *given, **options: called.append(1) or original(*given, **options)
    )
    for twins in (False, True):
        called.clear()
        sums(made(dimension=20, width=2000, twins=twins, shift=2.0, share=share, size=0.2), np.eye(20))
        assert bool(called) == (transformed or not twins)


def test_rows_are_made_where_blocks_of_them_are_large(monkeypatch):
    monkeypatch.setattr(outputs, "_sum_transformed", None)
    network = made(dimension=2049, width=64, twins=False, shift=2.0, share=0.5, size=0.2)
    inputs = random_problem(inputs=20, dimension=2049).inputs
    np.testing.assert_allclose(sums(network, inputs), defined(network, inputs), atol=1e-4)


@pytest.mark.parametrize("size", [1e18, 1e-25])
@pytest.mark.parametrize("twins", [False, True])
def test_neurons_that_moved_far_or_hardly_at_all(size, twins):
    """Squares of such distances are beyond float32."""
    network = made(dimension=20, width=600, twins=twins, shift=2.0, share=1.0, size=size)
    inputs = random_problem(inputs=50, dimension=20, seed=1).inputs
    expected = defined(network, inputs)
    np.testing.assert_allclose(sums(network, inputs), expected, rtol=1e-5, atol=1e-5 * max(1.0, size))


@pytest.mark.parametrize("options", [{}, {"twins": True}, {"activation": "max"}, {"dtype": "float64"}])
def test_trained_networks(options):
    problem = random_problem(inputs=30, dimension=12)
    network = train(problem, width=5000, shift=2.0, start="hadamard", **{"twins": False} | options).network
    inputs = np.vstack([problem.inputs, random_problem(inputs=90, dimension=12, seed=1).inputs])
    close = 1e-10 if "dtype" in options else 3e-6
    np.testing.assert_allclose(sums(network, inputs), defined(network, inputs), atol=close)


@pytest.mark.parametrize("twins", [False, True])
def test_sums_of_large_terms_that_cancel_lose_no_more_than_rows_do(twins):
    """Nearly equal inputs: coefficients of 10^4 add up to small vectors, of which float32 would keep three digits."""
    random = np.random.default_rng(0)
    inputs = 1.0 + 1e-3 * random.normal(size=(32, 17))
    inputs /= np.linalg.norm(inputs, axis=1, keepdims=True)
    settings = NetworkSettings.checked(width=600, dimension=17, shift=1.5, twins=twins, seed=0, sequence="hadamard")
    bounds = 32 * np.arange(601)
    support = Pattern(np.arange(600), bounds, np.tile(np.arange(32, dtype=np.int32), 600))
    coefficients = random.normal(size=(600, 32)) * 1e4
    coefficients -= coefficients.mean(axis=1, keepdims=True)
    weights = Weights(settings.start, inputs, support, coefficients.ravel(), np.dtype(np.float32))
    network, new = Network(settings, weights), random_problem(inputs=40, dimension=17, seed=1).inputs
    expected = defined(network, new)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(outputs, "_transforms", lambda *given: False)
        by_rows = np.abs(sums(network, new) - expected).max()
    assert np.abs(sums(network, new) - expected).max() <= 3 * by_rows
