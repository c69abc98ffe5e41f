"""The limit kernel in single precision, whole, in half, in part and not at all kept, against the one in double."""

import tracemalloc

import numpy as np
import pytest
from scipy.spatial.distance import cdist

from thresher import to_sphere
from thresher.estimators.kernel import SphereKernel
from thresher.loops.limit import multiply_both
from thresher.theory import cofiring_probability, firing_probability, limit_kernel, limit_matrix, limit_slopes
from thresher.theory.limit_matrix import (
    LimitMatrix,
    half_bytes,
    limit_block,
    limit_gradients_at,
    limit_product,
    polynomials,
)

SHIFTS = [0.0, 0.1, 0.5, 1.5, 4.0]  # the second is too sharp for polynomials


def sphere(n, d, seed=0):
    return to_sphere(np.random.default_rng(seed).normal(size=(n, d))).astype(np.float32)


def whole_of(inputs):
    whole = limit_block(inputs, inputs, 0.5)
    np.fill_diagonal(whole, firing_probability(0.5))
    return whole.astype(float)


@pytest.mark.parametrize("shift", SHIFTS)
@pytest.mark.parametrize("shape", [(1, 1, 3), (5, 1025, 2), (300, 70, 12)])
def test_blocks(shift, shape):
    k, n, d = shape
    left, right = sphere(k, d), sphere(n, d, seed=1)
    products = 1 - cdist(left.astype(float), right.astype(float), "sqeuclidean") / 2  # norms are not quite 1
    found, exact = limit_block(left, right, shift), limit_kernel(products, shift, symmetric=False)
    np.testing.assert_allclose(found, exact, atol=2e-4 * firing_probability(shift))
    apart = np.abs(products) < 0.99 if polynomials(shift) is None else products > -0.99  # elsewhere rounding counts
    np.testing.assert_allclose(found[apart], exact[apart], atol=1e-5 * firing_probability(shift))


@pytest.mark.parametrize("share", [0.0, 0.4, 1.0, np.inf])
@pytest.mark.parametrize("n", [1, 255, 257, 1300])
def test_products_with_what_is_kept_and_what_is_not(n, share):
    inputs = sphere(n, 6)
    matrix = LimitMatrix(inputs, 0.5, memory=share * half_bytes(n))
    whole = whole_of(inputs)
    rng = np.random.default_rng(2)
    for until in {n, max(1, n // 2), max(1, n - 1)}:
        vectors = rng.normal(size=(until, 3))
        for _ in range(2):  # made, then kept
            np.testing.assert_allclose(matrix.times(vectors), whole[:, :until] @ vectors, atol=2e-4)
    assert matrix.kept <= 1
    assert (matrix.kept == 1) == (share >= 1) or n < 256
    some = rng.permutation(n)[:7]
    np.testing.assert_allclose(matrix.columns(some), whole[some], atol=1e-6)
    np.testing.assert_array_equal(np.diag(whole), np.float32(firing_probability(0.5)))


@pytest.mark.parametrize("shape", [(4, 1, 1), (1, 7, 2), (256, 1030, 3), (7, 0, 3), (11, 300, 20)])
def test_both_products_of_a_panel(shape):
    rows, until, vectors = shape
    rng = np.random.default_rng(0)
    panel = rng.normal(size=(rows, until + 5)).astype(np.float32)
    there, here = (rng.normal(size=(vectors, size)).astype(np.float32) for size in (until + 9, rows))
    own, total = rng.normal(size=(vectors, rows)), rng.normal(size=(vectors, until)).astype(np.float32)
    first = panel[:, :until].astype(float)
    wanted = own + there[:, :until] @ first.T, total + here @ first
    multiply_both(panel, until, 128, there, here, own, total)
    np.testing.assert_allclose(own, wanted[0], atol=1e-3)
    np.testing.assert_allclose(total, wanted[1], atol=1e-3)


def test_columns_that_are_asked_for_later_are_made_then():
    inputs = sphere(900, 5)
    matrix, whole = LimitMatrix(inputs, 0.5, memory=np.inf), whole_of(inputs)
    rng = np.random.default_rng(0)
    for until in (300, 257, 900, 10):
        vectors = rng.normal(size=(until, 2))
        np.testing.assert_allclose(matrix.times(vectors), whole[:, :until] @ vectors, atol=2e-4)


def test_the_memory_of_another_matrix_can_be_used_again():
    first, second = sphere(600, 4), sphere(600, 4, seed=3)
    matrix, vectors = LimitMatrix(first, 0.5, memory=1e9), np.ones((600, 1))
    before = matrix.times(vectors)
    after = matrix.renewed(SphereKernel(1.0, 1.0), second).times(vectors)
    np.testing.assert_allclose(after, LimitMatrix(second, 1.0, memory=0).times(vectors), rtol=1e-6)
    assert np.abs(after - before).max() > 1


def test_results_do_not_depend_on_threads():
    inputs, vectors = sphere(900, 5), np.random.default_rng(0).normal(size=(900, 2))
    one, two = (LimitMatrix(inputs, 0.5, memory=1e9, threads=threads).times(vectors) for threads in (1, 2))
    np.testing.assert_array_equal(one, two)


def test_predictions_need_no_matrix():
    inputs, others, alpha = sphere(4000, 5), sphere(3000, 5, seed=1), np.ones((4000, 2))
    limit_product(others[:300], inputs, alpha, 0.5, threads=1)
    tracemalloc.start()
    found = limit_product(others, inputs, alpha, 0.5, threads=1)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    np.testing.assert_allclose(found, limit_block(others, inputs, 0.5).astype(float) @ alpha, rtol=1e-4)
    assert peak < 4 * 3000 * 4000 / 2


@pytest.mark.parametrize("shift", SHIFTS)
@pytest.mark.parametrize("outputs", [1, 3, 20])
@pytest.mark.parametrize("double", [True, False])
def test_products(shift, outputs, double):
    rng = np.random.default_rng(2)
    inputs = to_sphere(rng.normal(size=(1100, 4)))
    near = to_sphere(inputs[:200] + rng.choice([0.0, 1e-7, 1e-4, 1e-2], size=(200, 1)) * rng.normal(size=(200, 4)))
    others, vectors = (
        np.concatenate([near, to_sphere(rng.normal(size=(7, 4)))]),
        rng.normal(size=(1100, outputs)),
    )
    rho = np.clip(others @ inputs.T, -1.0, 1.0)
    exact = rho * cofiring_probability(rho, shift) @ vectors
    found = limit_product(others, inputs, vectors, shift, threads=2, double=double)
    np.testing.assert_array_equal(found, limit_product(others, inputs, vectors, shift, threads=1, double=double))
    entry = 1e-8 if double else 2e-6 if polynomials(shift) is not None else 2e-4  # error of one, of the diagonal
    np.testing.assert_allclose(found, exact, atol=entry * firing_probability(shift) * np.linalg.norm(vectors))
    assert limit_product(others[:0], inputs, vectors, shift, double=double).shape == (0, outputs)


@pytest.mark.parametrize("shift", [0.0, 0.5, 1.5, 4.0])
def test_single_precision_tells_pairs_apart_that_are_all_but_equal(shift, monkeypatch):
    inputs = to_sphere(np.random.default_rng(3).normal(size=(500, 12)))

    def error():
        found = [limit_product(inputs, inputs, np.eye(500), shift, double=double) for double in (False, True)]
        return np.abs(found[0] - found[1]).max() / firing_probability(shift)

    assert error() < 2e-6
    monkeypatch.setattr(limit_matrix, "_EDGE", 2.0)  # none is computed again
    assert error() > 1e-5


@pytest.mark.parametrize("shift", SHIFTS)
def test_gradients(shift):
    inputs, others = sphere(1100, 4), sphere(40, 4, seed=1)
    alpha = np.random.default_rng(1).normal(size=(1100, 2))
    rho = others.astype(float) @ inputs.T.astype(float)
    slopes = limit_slopes(rho, shift, symmetric=False)[1]
    exact = np.stack([(slopes * one) @ inputs for one in alpha.T])
    found = limit_gradients_at(others, inputs, alpha, shift)
    assert found.shape == (2, 40, 4)
    np.testing.assert_allclose(found, exact, atol=5e-3 * np.abs(exact).max())


def test_a_row_does_not_push_itself():
    inputs = sphere(50, 3)
    found = limit_gradients_at(inputs, inputs, np.ones((50, 1)), 0.5)[0]
    rho = inputs.astype(float) @ inputs.T.astype(float)
    slopes = limit_slopes(rho, 0.5)[1]
    np.fill_diagonal(slopes, 0.0)
    np.testing.assert_allclose(found, slopes @ inputs, atol=5e-3 * np.abs(found).max())
