"""Weights of columns: the likelihood against that of all single observations, its gradient, what it switches off."""

import naive
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from thresher.estimators.data.observations import Observations
from thresher.estimators.kernels.kernel import SphereKernel
from thresher.estimators.pipeline.columns import learn_columns, likelihood
from thresher.estimators.processor import Cpu
from thresher.theory import firing_probability, limit_kernel

CPU, KERNEL = Cpu(1), SphereKernel(1.0, 0.5)


def by_hand(values, data, shift):
    """The likelihood of observations one by one, from their lifted and weighed rows."""
    times = np.round(data.count).astype(int)
    rows, targets, units = (np.repeat(part, times, axis=0) for part in (data.X[data.row], data.target, data.unit))
    lifted = np.column_stack([rows * np.exp(values[:-2]), np.full(len(rows), np.exp(values[-2]))])
    inputs = lifted / np.linalg.norm(lifted, axis=1, keepdims=True)
    noise = np.exp(values[-1]) * firing_probability(shift)
    return naive.negative_log_likelihood(limit_kernel(inputs @ inputs.T, shift), targets, noise / units)


@st.composite
def observations(draw):
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    count, outputs = draw(st.integers(4, 30)), draw(st.integers(1, 2))
    X = rng.normal(size=(draw(st.integers(3, 8)), 3))[rng.integers(3, size=count)] if draw(st.booleans()) else None
    X = rng.normal(size=(count, 3)) if X is None else X
    weights = rng.choice(draw(st.sampled_from([[1.0], [1.0, 2.0, 3.0], [0.3, 1.0]])), count)
    return Observations.merged(X, rng.normal(size=(count, outputs)), weights=weights)


places = st.lists(st.floats(-1.5, 1.5), min_size=3, max_size=3)
ridges = st.floats(-6.0, 2.0)


@given(observations(), st.tuples(places, places), st.tuples(ridges, ridges), st.sampled_from([0.0, 0.5, 1.5]))
def test_it_is_that_of_single_observations(data, weights, ridges, shift):
    one, other = (np.array([*part, 0.3 * part[0], ridge]) for part, ridge in zip(weights, ridges, strict=True))
    kernel = KERNEL._replace(shift=shift)
    found = likelihood(one, data, kernel, CPU)[0] - likelihood(other, data, kernel, CPU)[0]
    expected = by_hand(one, data, shift) - by_hand(other, data, shift)
    assert found == pytest.approx(expected, rel=1e-6, abs=1e-6)


@given(observations(), places, ridges, st.sampled_from([0.0, 0.5, 1.5]))
def test_the_gradient_is_that_of_the_value(data, weights, ridge, shift):
    values, kernel = np.array([*weights, 0.2, ridge]), KERNEL._replace(shift=shift)
    step = 1e-3  # far above the rounding of a diagonal, where the kernel is sharp
    gradient = likelihood(values, data, kernel, CPU)[1]
    for k in range(5):
        ahead, behind = (likelihood(values + sign * step * np.eye(5)[k], data, kernel, CPU)[0] for sign in (1, -1))
        assert gradient[k] == pytest.approx((ahead - behind) / (2 * step), rel=1e-3, abs=1e-4)


def test_columns_of_noise_are_switched_off():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(150, 8))
    y = np.sin(2 * X[:, 0]) + X[:, 3] + 0.05 * rng.normal(size=150)
    data = Observations.merged(X, ((y - y.mean()) / y.std())[:, None])
    found = learn_columns(data, KERNEL, ridge=1e-2, backend=CPU)
    noise = np.delete(found.weights, [0, 3])
    assert found.weights[[0, 3]].min() > 5 * noise.max()
    assert np.mean(found.weights**2) == pytest.approx(1)
    assert 0.1 <= found.bias <= 10
    assert 1e-5 <= found.ridge <= 1


def test_they_are_likelier_than_equal_ones():
    rng = np.random.default_rng(1)
    X = rng.normal(size=(60, 4))
    data = Observations.merged(X, np.abs(X[:, :1]) - 0.8)
    found = learn_columns(data, KERNEL, ridge=1e-2, backend=CPU)
    length = [np.sqrt(np.mean(((X * weights) ** 2).sum(axis=1))) for weights in (1.0, found.weights)]
    start = np.append(np.zeros(4), np.log([length[0], 1e-2]))
    end = np.concatenate([np.log(found.weights), np.log([found.bias * length[1], found.ridge])])
    assert likelihood(end, data, KERNEL, CPU)[0] < likelihood(start, data, KERNEL, CPU)[0] - 0.3


def test_targets_that_say_nothing_teach_nothing():
    X = np.random.default_rng(0).normal(size=(20, 3))
    found = learn_columns(Observations.merged(X, np.zeros((20, 1))), KERNEL, ridge=1e-2, backend=CPU)
    assert np.isfinite(found.weights).all()
    assert np.isfinite([found.bias, found.ridge]).all()
