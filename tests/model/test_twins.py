"""Networks of twins asked together say what each says by its definition."""

import tracemalloc

import naive
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from properties import examples

from thresher import InvalidInput, train
from thresher.datasets import random_problem
from thresher.model import twins
from thresher.model.network import Network, NetworkSettings
from thresher.model.twins import predict_twins
from thresher.model.weights import DenseWeights


def family(*, width, dimension, shift, drifts, seed=0, pairs=True):
    """Networks of one start, whose neurons have been moved by so much, in directions of their own."""
    rng = np.random.default_rng(seed)
    common = NetworkSettings.checked(width=width, dimension=dimension, shift=shift, seed=seed, twins=pairs)
    moved = [(drift * rng.normal(size=(width, dimension))).astype(np.float32) for drift in drifts]
    return [Network(common, DenseWeights(common.start, one)) for one in moved]


def rows_of(count, dimension, seed=1):
    X = np.random.default_rng(seed).normal(size=(count, dimension))
    return X / np.linalg.norm(X, axis=1, keepdims=True)


def by_definition(networks, X):
    m = networks[0].width
    signs = networks[0].settings.start.signs(np.arange(m))
    return np.stack([naive.outputs(one.weights.vectors(range(m)), signs, X, one.shift) for one in networks], axis=1)


@settings(max_examples=examples(25), deadline=None)
@given(
    width=st.integers(1, 300).map(lambda half: 2 * half),
    dimension=st.integers(1, 12),
    shift=st.sampled_from([0.0, 0.5, 2.0]),
    drifts=st.lists(st.sampled_from([0.0, 1e-6, 1e-4, 0.03, 1.0, 10.0]), min_size=1, max_size=3),
    rows=st.integers(1, 40),
)
def test_they_say_what_the_definition_says(width, dimension, shift, drifts, rows):
    networks, X = family(width=width, dimension=dimension, shift=shift, drifts=drifts), rows_of(rows, dimension)
    expected = by_definition(networks, X)
    np.testing.assert_allclose(predict_twins(networks, X), expected, atol=1e-12 * (1 + np.abs(expected).max()))


def test_neither_threads_nor_blocks_matter(monkeypatch):
    networks, X = family(width=5000, dimension=7, shift=0.3, drifts=[1e-4, 1e-2]), rows_of(700, 7)
    expected = predict_twins(networks, X)
    np.testing.assert_array_equal(predict_twins(networks, X, threads=3), expected)
    for name, value in (("_INPUTS", 100), ("_TOGETHER", 33), ("_NUMBERS", 1000), ("_RARE", 10**9)):
        monkeypatch.setattr(twins, name, value)
    np.testing.assert_allclose(predict_twins(networks, X), expected, atol=1e-13)


def test_what_single_precision_cannot_tell_is_looked_at():
    networks, X = family(width=200, dimension=200, shift=0.5, drifts=[1e-9]), rows_of(100, 200)
    W = networks[0].settings.start.block(0, 200)[::2].astype(float)
    along = W / np.linalg.norm(W, axis=1, keepdims=True)
    X -= (X * along).sum(axis=1, keepdims=True) * along
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    height = (0.5 + 1e-7 * np.resize([1, -1], 100)) / np.linalg.norm(W, axis=1)  # of row k above pair k
    X = height[:, None] * along + np.sqrt(1 - height**2)[:, None] * X
    expected = by_definition(networks, X)
    np.testing.assert_allclose(predict_twins(networks, X), expected, atol=1e-6 * np.abs(expected).max())


@pytest.mark.parametrize(("drifts", "dimension"), [([1.0], 60), ([1e-6] * 40, 200)])  # many pairs, many networks
def test_memory_is_bounded(drifts, dimension, monkeypatch):
    monkeypatch.setattr(twins, "_NUMBERS", 1 << 15)
    networks = family(width=64, dimension=dimension, shift=0.5, drifts=drifts)
    X = rows_of(600, dimension)
    expected = by_definition(networks, X)
    tracemalloc.start()
    try:
        found = predict_twins(networks, X)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    np.testing.assert_allclose(found, expected, atol=1e-12 * (1 + np.abs(expected).max()))
    numbers = max(twins._NUMBERS, 64 * len(drifts) * dimension)  # a block has 64 neurons at least
    assert peak < 8 * 4 * numbers + 1_000_000


def test_no_rows_get_no_outputs():
    networks = family(width=8, dimension=3, shift=0.5, drifts=[0.1, 0.2])
    assert predict_twins(networks, np.empty((0, 3))).shape == (0, 2)


def test_others_are_refused():
    some, others = (family(width=8, dimension=3, shift=0.5, drifts=[0.1], seed=seed) for seed in (0, 1))
    lonely = family(width=8, dimension=3, shift=0.5, drifts=[0.1], pairs=False)
    sparse = [train(random_problem(inputs=4, dimension=3), width=512, twins=True).network]
    for networks in (some + others, lonely, sparse):
        with pytest.raises(InvalidInput, match="predict together"):
            predict_twins(networks, rows_of(2, 3))
