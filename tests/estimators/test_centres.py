"""Coefficients on centres, against the normal equations; rows that are never all there at once."""

import tracemalloc

import naive
import numpy as np
import pytest
from few import lift_single
from hypothesis import given, settings
from hypothesis import strategies as st
from properties import examples

from thresher import InvalidInput
from thresher.estimators.centres import fit_centres
from thresher.estimators.data.streams import Stream
from thresher.estimators.kernel import SphereKernel
from thresher.estimators.processor import Cpu
from thresher.theory import firing_probability, limit_kernel

SHIFT = 0.5
KERNEL = SphereKernel(1.0, SHIFT)


def rows_and_targets(n, d=3, outputs=1, seed=0):
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(n, d))
    targets = np.column_stack([np.sin(2 * rows[:, 0] + k) + rows[:, 1] ** 2 for k in range(outputs)])
    return rows, targets + 0.1 * rng.normal(size=targets.shape), rng.uniform(0.5, 2.0, size=n)


def split(n, held=0):
    order = np.random.default_rng(0).permutation(n - held)
    return {"kept": order, "held": np.arange(n - held, n)}


def kernel(left, right):
    return limit_kernel(left.astype(np.float64) @ right.astype(np.float64).T, SHIFT, symmetric=False)


@settings(max_examples=examples(12))
@given(
    seed=st.integers(0, 1000),
    outputs=st.integers(1, 3),
    ridge=st.sampled_from([1e-2, 1e-1, 1.0]),
    even=st.booleans(),
)
def test_with_all_rows_as_centres_it_is_the_exact_ridge_regression(seed, outputs, ridge, even):
    rows, targets, weights = rows_and_targets(120, outputs=outputs, seed=seed)
    weights = np.ones(120) if even else weights
    inputs = lift_single(rows, 1.0)
    fit = fit_centres(
        inputs, targets, weights, **split(len(rows)), kernel=KERNEL, ridges=[ridge], centres=120, seed=seed
    )
    others = lift_single(rows_and_targets(50, seed=seed + 1)[0], 1.0)
    K = kernel(inputs, inputs)
    alpha = naive.kernel_ridge(K, targets, weights, ridge * firing_probability(SHIFT))
    said = kernel(others, fit.inputs) @ fit.alpha
    np.testing.assert_allclose(said, kernel(others, inputs) @ alpha, atol=3e-3 * np.abs(targets).max())


@settings(max_examples=examples(10))
@given(seed=st.integers(0, 1000), number=st.integers(5, 60), ridge=st.sampled_from([1e-2, 1.0]))
def test_few_centres_solve_the_normal_equations(seed, number, ridge):
    rows, targets, weights = rows_and_targets(700, outputs=2, seed=seed)
    inputs = lift_single(rows, 1.0)
    fit = fit_centres(
        inputs, targets, weights, **split(len(rows)), kernel=KERNEL, ridges=[ridge], centres=number, seed=seed
    )
    assert len(fit.inputs) == number
    among, square = kernel(inputs, fit.inputs), kernel(fit.inputs, fit.inputs)
    alpha = naive.ridge_on_centres(among, square, targets, weights, ridge * firing_probability(SHIFT))
    np.testing.assert_allclose(among @ fit.alpha, among @ alpha, atol=2e-3 * np.abs(targets).max())


@settings(max_examples=examples(10))
@given(seed=st.integers(0, 1000))
def test_held_out_rows_choose_the_ridge(seed):
    rows, targets, weights = rows_and_targets(700, outputs=2, seed=seed)
    inputs, ridges = lift_single(rows, 1.0), [1e-2, 1.0, 100.0]
    fit = fit_centres(inputs, targets, weights, **split(700, 100), kernel=KERNEL, ridges=ridges, centres=60, seed=seed)
    among, square = kernel(inputs, fit.inputs), kernel(fit.inputs, fit.inputs)
    for ridge in ridges:
        penalty = ridge * firing_probability(SHIFT)
        alpha = naive.ridge_on_centres(among[:600], square, targets[:600], weights[:600], penalty)
        assert fit.errors[ridge] < 1.05 * error(among[600:] @ alpha, targets[600:], weights[600:])
    assert fit.errors[fit.ridge] == min(fit.errors.values())
    assert error(fit.held_outputs, targets[600:], weights[600:]) == pytest.approx(fit.errors[fit.ridge])
    np.testing.assert_allclose(among[600:] @ fit.alpha, fit.held_outputs, atol=1e-3 * np.abs(targets).max())


def error(said, targets, weights):
    return float(weights @ ((said - targets) ** 2).sum(axis=1) / weights.sum())


def test_weights_count_as_rows():
    rows, targets, _ = rows_and_targets(300)
    inputs, twice = lift_single(rows, 1.0), np.repeat(np.arange(300), np.arange(300) % 3 + 1)
    options = {"kernel": KERNEL, "ridges": [0.1], "centres": 600}
    weighed = fit_centres(inputs, targets, np.arange(300) % 3 + 1.0, **split(300), **options)
    repeated = fit_centres(inputs[twice], targets[twice], np.ones(len(twice)), **split(len(twice)), **options)
    said = [kernel(inputs, one.inputs) @ one.alpha for one in (weighed, repeated)]
    np.testing.assert_allclose(*said, atol=1e-3 * np.abs(targets).max())


@pytest.fixture
def table():
    rows, targets, weights = rows_and_targets(3000, d=4)
    return lift_single(rows, 1.0), targets, weights


OPTIONS = {**split(3000, 500), "kernel": KERNEL, "ridges": [1e-2, 1e-1], "centres": 64}


def same(one, other):
    assert one.ridge == other.ridge
    assert one.errors == other.errors
    for name in ("inputs", "alpha", "held_outputs"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name))


def test_results_do_not_depend_on_threads(table):
    same(*(fit_centres(*table, backend=Cpu(threads), **OPTIONS) for threads in (1, 3)))


class Blocks:
    """Rows that can only be read in order."""

    def __init__(self, rows):
        self.rows, self.shape, self.passes = rows, rows.shape, 0

    def __len__(self):
        return len(self.rows)

    def blocks(self, size):
        self.passes += 1
        for first in range(0, len(self.rows), size):
            yield self.rows[first : first + size].copy()


def test_mapped_and_streamed_rows_give_the_same_model(table, tmp_path):
    inputs, *rest = table
    np.save(tmp_path / "inputs.npy", inputs)
    expected = fit_centres(inputs, *rest, **OPTIONS)
    same(expected, fit_centres(np.load(tmp_path / "inputs.npy", mmap_mode="r"), *rest, **OPTIONS))
    blocks = Blocks(inputs)
    same(expected, fit_centres(blocks, *rest, **OPTIONS))
    assert blocks.passes >= 3
    rows = rows_and_targets(3000, d=4)[0]
    same(expected, fit_centres(Stream(Blocks(rows), lambda block: lift_single(block, 1.0)), *rest, **OPTIONS))


def test_the_kernel_of_rows_and_centres_is_never_whole():
    n, number = 60_000, 200
    inputs = lift_single(np.random.default_rng(0).normal(size=(n, 3)), 1.0)
    fit = {"kernel": KERNEL, "ridges": [0.1], "centres": number, "backend": Cpu(1), "sample": 2000}
    few = split(3000, 1000)
    fit_centres(inputs[:3000], np.ones((3000, 1)), np.ones(3000), **few, **fit)  # compiled before memory is counted
    tracemalloc.start()
    fit_centres(inputs, inputs[:, :1].astype(np.float64), np.ones(n), **split(n, 1000), **fit)
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert most < 4 * n * number / 2


@pytest.mark.parametrize("least", [0.0, 0.01, 0.05])
def test_an_interrupt_comes_through(table, least):
    def tell(share):
        if share > least:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fit_centres(*table, tell=tell, **OPTIONS)


def test_progress_only_grows(table):
    shares = []
    fit_centres(*table, tell=shares.append, **OPTIONS)
    assert shares == sorted(shares)
    assert shares[-1] == 1.0


def test_a_choice_needs_held_out_rows(table):
    with pytest.raises(InvalidInput, match="Hold some rows out"):
        fit_centres(*table, **{**OPTIONS, **split(3000)})
