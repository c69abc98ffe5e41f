"""Cholesky with random pivots, and conjugate gradients for many right-hand sides that it preconditions."""

import numpy as np
import pytest

from thresher.algebra.descent import Descent
from thresher.algebra.pivots import random_pivots


def rough(n, seed=0):
    """A kernel whose trace is spread over all directions, as those of wide networks are."""
    x = np.random.default_rng(seed).normal(size=(n, 3))
    return np.exp(-np.linalg.norm(x[:, None] - x[None], axis=2)).astype(np.float32)


def columns_of(K):
    return lambda rows: K[rows].copy()


@pytest.mark.parametrize("n, rank", [(1, 1), (30, 30), (300, 50), (500, 410)])
def test_a_factor_stays_below_its_matrix(n, rank):
    K = rough(n)
    low = random_pivots(K.diagonal(), columns_of(K), rank=rank)
    assert len(low.pivots) == len(set(low.pivots)) <= rank
    rest = K.astype(float) - low.factor.T.astype(float) @ low.factor
    assert np.linalg.eigvalsh(rest)[0] > -1e-4
    assert low.left == pytest.approx(max(np.trace(rest), 0) / n, abs=1e-4)
    if rank == n:
        assert low.left < 1e-3


def test_more_pivots_leave_less_and_the_seed_decides():
    K = rough(400)
    left = [random_pivots(K.diagonal(), columns_of(K), rank=rank).left for rank in (10, 100, 300)]
    assert left[0] > left[1] > left[2]
    first, same, other = (random_pivots(K.diagonal(), columns_of(K), rank=20, seed=seed).pivots for seed in (1, 1, 2))
    np.testing.assert_array_equal(first, same)
    assert set(first) != set(other)


def test_a_matrix_of_low_rank_needs_few_pivots():
    x = np.random.default_rng(0).normal(size=(200, 3)).astype(np.float32)
    low = random_pivots((x**2).sum(axis=1), lambda rows: x[rows] @ x.T, rank=200)
    np.testing.assert_allclose(low.factor.T @ low.factor, x @ x.T, atol=1e-2)
    zero = random_pivots(np.zeros(5), lambda rows: np.zeros((len(rows), 5), np.float32), rank=3)
    assert len(zero.pivots) == 0
    assert zero.left == 0


@pytest.mark.parametrize("added", [0.3, np.linspace(0.1, 2.0, 250)])
def test_the_inverse_is_that_of_factor_and_diagonal(added):
    K = rough(250)
    low = random_pivots(K.diagonal(), columns_of(K), rank=60)
    near = low.factor.T.astype(float) @ low.factor + np.diag(np.broadcast_to(added, 250) + low.left)
    vectors = np.random.default_rng(1).normal(size=(250, 3))
    np.testing.assert_allclose(low.inverse(added)(vectors), np.linalg.solve(near, vectors), atol=1e-4)
    np.testing.assert_allclose(low.inverse(added)(vectors[:, 0]), np.linalg.solve(near, vectors[:, 0]), atol=1e-4)


def descent(K, rhs, added, *, rank=60, start=None):
    low = random_pivots(K.diagonal(), columns_of(K), rank=rank)
    low = low._replace(factor=low.factor[:, : len(rhs)])
    times = lambda vectors: K[:, : len(rhs)] @ vectors  # noqa: E731
    middle = added[:, added.shape[1] // 2]
    return Descent(times, rhs, added=added, inverse=low.inverse(middle), start=start)


def test_many_penalties_and_rows_left_out_at_once():
    K, kept = rough(300).astype(float), 240
    rng = np.random.default_rng(2)
    rhs, added = rng.normal(size=(kept, 3)), np.outer(rng.uniform(0.5, 2, size=kept), [1e-3, 1e-2, 1e-1])
    found = descent(K.astype(np.float32), rhs, added)
    for _ in range(40):
        found.step()
    exact = np.stack([np.linalg.solve(K[:kept, :kept] + np.diag(a), r) for a, r in zip(added.T, rhs.T, strict=True)], 1)
    np.testing.assert_allclose(found.values, exact, atol=1e-3 * np.abs(exact).max())
    np.testing.assert_allclose(found.images, K[:, :kept] @ exact, atol=1e-3 * np.abs(exact).max())
    assert found.residuals.max() < 1e-3
    assert found.steps == 40


def test_a_start_that_is_the_solution_stays_there_and_columns_can_be_left():
    K = rough(120).astype(float)
    rhs, added = np.random.default_rng(3).normal(size=(120, 2)), np.full((120, 2), 0.1)
    exact = np.linalg.solve(K + 0.1 * np.eye(120), rhs)
    found = descent(K, rhs, added, start=exact)
    assert found.residuals.max() < 1e-10
    fresh = descent(K, rhs, added)
    fresh.step()
    fresh.keep(np.array([False, True]))
    for _ in range(30):
        fresh.step()
    np.testing.assert_allclose(fresh.values, exact[:, 1:], atol=1e-5)


def test_what_is_left_of_the_diagonal_is_worth_most_of_the_steps():
    K = rough(800).astype(float)
    rhs, added = np.random.default_rng(4).normal(size=(800, 1)), np.full((800, 1), 1e-4)
    low = random_pivots(K.diagonal(), columns_of(K.astype(np.float32)), rank=100)
    steps = []
    for one in (low, low._replace(left=0.0)):
        found = Descent(lambda vectors: K @ vectors, rhs, added=added, inverse=one.inverse(added[:, 0]))
        while found.residuals.max() > 1e-2 and found.steps < 400:
            found.step()
        steps.append(found.steps)
    assert steps[0] < steps[1] / 2
