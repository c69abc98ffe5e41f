"""One story over every backend: the same matrices, products, gradients and factors, to the precision it promises."""

import importlib.util
import os

import naive
import numpy as np
import pytest
from parted import SHARES, Parted

from thresher import to_sphere
from thresher.algebra import ridge
from thresher.estimators.data.observations import Observations
from thresher.estimators.kernel import SphereKernel
from thresher.estimators.processor import Cpu, descend

SINGLE, DOUBLE = 2e-5, 3e-8  # an input and itself: the square root of the rounding of their product
TORCH = importlib.util.find_spec("torch") and importlib.util.find_spec("triton")
INTERPRETED = TORCH and os.environ.get("TRITON_INTERPRET") == "1"
KERNELS = [SphereKernel(0.7, shift) for shift in (0.0, 0.5, 1.5)]


def gpu():
    import torch

    from thresher.gpu.limit import Gpu

    return Gpu(torch.device("cpu"))


BACKENDS = {
    "processor": lambda: Cpu(2),
    "one thread": lambda: Cpu(1),
    "gpu": gpu,
}


@pytest.fixture(params=BACKENDS)
def backend(request):
    if request.param == "gpu" and not INTERPRETED:
        pytest.skip("needs torch and Triton's interpreter: make test-gpu-kernels")
    return BACKENDS[request.param]()


def inputs_of(n, seed=0):
    return to_sphere(np.random.default_rng(seed).normal(size=(n, 4)))


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: f"shift {kernel.shift:g}")
def test_every_form_of_a_kernel_is_the_definition(backend, kernel):
    inputs, others = inputs_of(30), inputs_of(7, seed=1)
    K, C = naive.limit_kernel(inputs, inputs, kernel.shift), naive.limit_kernel(others, inputs, kernel.shift)
    single = inputs.astype(np.float32), others.astype(np.float32)
    vectors = np.random.default_rng(2).normal(size=(30, 3))
    size = np.abs(vectors).sum(axis=0).max() * kernel.diagonal
    with backend.session():
        dense = backend.dense(kernel, inputs)
        assert dense.dense() == pytest.approx(K, abs=DOUBLE)
        assert dense.last(11).dense() == pytest.approx(K[-11:, -11:], abs=DOUBLE)
        operator = backend.operator(kernel, single[0], memory=np.inf)
        assert operator.diagonal == pytest.approx(K[0, 0], rel=1e-12) and len(operator) == 30
        times = backend.get(operator.times(backend.put(vectors)))
        assert times == pytest.approx(K @ vectors, abs=size * SINGLE)
        part = backend.get(operator.times(backend.put(vectors[:12])))
        assert part == pytest.approx(K[:, :12] @ vectors[:12], abs=size * SINGLE)
        assert backend.get(operator.columns(np.array([4, 2]))) == pytest.approx(K[[4, 2]], abs=SINGLE)
        block = backend.get(backend.block(kernel, backend.put(single[1]), backend.put(single[0])))
        assert block == pytest.approx(C, abs=SINGLE)
        product = backend.product(kernel, others, inputs, vectors, double=True)
        assert product == pytest.approx(C @ vectors, abs=size * DOUBLE)
        assert backend.product(kernel, others, inputs, vectors) == pytest.approx(C @ vectors, abs=size * SINGLE)
        renewed = operator.renewed(KERNELS[1], inputs_of(30, seed=5))
        there = naive.limit_kernel(inputs_of(30, seed=5), inputs_of(30, seed=5), KERNELS[1].shift)
        assert backend.get(renewed.times(backend.put(vectors))) == pytest.approx(
            there @ vectors, abs=size * SINGLE + 1e-4
        )


def test_solves_and_inverses_are_those_of_the_matrix(backend):
    kernel, inputs = KERNELS[1], inputs_of(30)
    K = naive.limit_kernel(inputs, inputs, kernel.shift)
    rng = np.random.default_rng(3)
    targets, penalty = rng.normal(size=(30, 2)), rng.uniform(0.01, 0.1, size=30)
    inverse = np.linalg.inv(K + np.diag(penalty))
    with backend.session():
        matrix = backend.dense(kernel, inputs)
        assert matrix.solve(penalty, targets) == pytest.approx(inverse @ targets, rel=1e-5, abs=1e-6)
        whole, part = (matrix.invert(penalty, targets, last=5, whole=one) for one in (True, False))
        assert whole.diagonal == pytest.approx(inverse.diagonal(), rel=1e-4)
        assert part.diagonal == pytest.approx(inverse.diagonal()[-5:], rel=1e-4)
        assert part.alpha == pytest.approx(inverse @ targets, rel=1e-5, abs=1e-6)
        assert matrix.solve(penalty - 10.0, targets) is None  # not positive
        known = matrix.explained(penalty)(inputs_of(4, seed=1))
        cross = naive.limit_kernel(inputs_of(4, seed=1), inputs, kernel.shift)
        assert known == pytest.approx(np.einsum("ij,jk,ik->i", cross, inverse, cross), rel=1e-5)
        lower = np.linalg.cholesky(K + np.eye(30))
        divided = backend.get(backend.divide(lower, backend.put(targets)))
        assert divided == pytest.approx(np.linalg.solve(lower, targets), rel=1e-9)
        solved = backend.get(backend.factor(backend.put(K), 0.5).solve(backend.put(targets)))
        assert solved == pytest.approx(np.linalg.solve(K + 0.5 * np.eye(30), targets), rel=1e-8)


@pytest.mark.parametrize("penalty", [0.1, -9.0])
def test_a_kernel_that_is_lent_to_its_factor_is_given_back(monkeypatch, penalty):
    matrix, targets = Cpu(1).dense(KERNELS[1], inputs_of(150)), np.arange(150.0)[:, None]
    before, added = matrix.dense().copy(), np.full(150, penalty)
    plain = matrix.invert(added, targets, last=40, whole=False)
    monkeypatch.setattr(ridge, "_LARGE", 100)
    monkeypatch.setattr(ridge, "_STRIP", 30)
    lent = matrix.invert(added, targets, last=40, whole=False)
    np.testing.assert_array_equal(matrix.dense(), before)
    assert (plain is None) == (lent is None) == (penalty < 0)
    if lent is not None:
        np.testing.assert_array_equal(lent.alpha, plain.alpha)
        np.testing.assert_array_equal(lent.diagonal, plain.diagonal)


def test_conjugate_gradients_reach_the_solution(backend):
    kernel, inputs = KERNELS[1], inputs_of(60)
    K = naive.limit_kernel(inputs, inputs, kernel.shift)
    targets, penalty = np.random.default_rng(4).normal(size=(60, 2)), np.full(60, 0.05)
    with backend.session():
        operator = backend.operator(kernel, inputs, memory=0.0)
        low = backend.pivots(operator, rank=20)
        assert len(set(low.pivots.tolist())) == 20
        added = np.outer(penalty, np.ones(2))
        descent = descend(backend, operator.times, targets, added=added, inverse=backend.inverse(low, penalty))
        for _ in range(30):
            descent.step()
        expected = np.linalg.solve(K + np.diag(penalty), targets)
        assert backend.get(descent.values) == pytest.approx(expected, rel=2e-3, abs=2e-3)


def test_gradients_are_differences(backend):
    """Of the fit at its own rows, where a pair of an input with itself counts nothing."""
    kernel, rng = KERNELS[1], np.random.default_rng(6)
    data = Observations.of_rows(rng.normal(size=(25, 3)), rng.normal(size=(25, 2)), np.ones(25))
    with backend.session():
        found = kernel.outer_products(data, 0.3, backend)
    inputs, _, last = kernel.lift(data.X, data.weights)
    K = naive.limit_kernel(inputs, inputs, kernel.shift)
    alpha = np.linalg.solve(K + 0.3 * kernel.diagonal * np.eye(25), data.targets)
    expected, step = np.zeros((3, 3)), 1e-4
    for i, row in enumerate(data.X):
        others = np.delete(np.arange(25), i)
        gradient = np.zeros((3, 2))
        for k in range(3):
            ends = [naive.lifted(row[None] + sign * step * np.eye(3)[k], last) for sign in (1, -1)]
            values = [naive.limit_kernel(end, inputs[others], kernel.shift) @ alpha[others] for end in ends]
            gradient[k] = (values[0] - values[1])[0] / (2 * step)
        expected += gradient @ gradient.T
    assert found == pytest.approx(expected, rel=2e-3, abs=2e-3 * np.abs(expected).max())


def test_gradients_of_many_rows_lead_to_the_same_metric(backend):
    """In single precision, where few rows are in double."""
    kernel = KERNELS[1]
    rng = np.random.default_rng(8)
    X = rng.normal(size=(700, 3))
    data = Observations.of_rows(X, np.sin(X[:, :1]) + 0.1 * rng.normal(size=(700, 1)), np.ones(700))
    inputs, norms, _ = kernel.lift(data.X, data.weights)
    with backend.session():
        matrix = backend.dense(kernel, inputs, gradients=True)
        alpha = matrix.solve(kernel.penalty(0.1, data.weights), data.targets)
        exact = matrix.outer_products(alpha, scale=data.weights / norms**2, columns=3)
        found = kernel.outer_products(data, 0.1, backend)
    assert found == pytest.approx(exact, rel=1e-3, abs=1e-3 * exact.max())


@pytest.mark.parametrize("shares", SHARES, ids=lambda one: " ".join(f"{share:g}" for share in one))
def test_every_form_of_a_kernel_of_parts_is_the_definition(backend, shares):
    columns, near = (False, False, False, True, True), 5 * SINGLE
    one, other = Parted.drawn(30, categories=columns), Parted.drawn(7, 1, categories=columns)
    kernel, inputs, others = one.kernel(shares), one.inputs, other.inputs
    K, C = one.defined(one, shares), other.defined(one, shares)
    single = inputs.astype(np.float32), others.astype(np.float32)
    rng = np.random.default_rng(2)
    vectors, penalty = rng.normal(size=(30, 3)), rng.uniform(0.01, 0.1, size=30)
    size = np.abs(vectors).sum(axis=0).max() * kernel.diagonal
    with backend.session():
        dense = backend.dense(kernel, inputs)
        assert dense.dense() == pytest.approx(K, abs=DOUBLE)
        known = np.einsum("ij,jk,ik->i", C, np.linalg.inv(K + np.diag(penalty)), C)
        assert dense.explained(penalty)(others) == pytest.approx(known, rel=1e-5)
        operator = backend.operator(kernel, single[0], memory=np.inf)
        assert operator.diagonal == pytest.approx(K[0, 0], rel=1e-7)
        for memory in (np.inf, 0.0):
            operator = backend.operator(kernel, single[0], memory=memory)
            times = backend.get(operator.times(backend.put(vectors)))
            assert times == pytest.approx(K @ vectors, abs=size * near)
        assert backend.get(operator.columns(np.array([4, 2]))) == pytest.approx(K[[4, 2]], abs=near)
        block = backend.get(backend.block(kernel, backend.put(single[1]), backend.put(single[0])))
        assert block == pytest.approx(C, abs=near)
        product = backend.product(kernel, others, inputs, vectors, double=True)
        assert product == pytest.approx(C @ vectors, abs=size * DOUBLE)
        assert backend.product(kernel, others, inputs, vectors) == pytest.approx(C @ vectors, abs=size * near)
        plain = operator.renewed(KERNELS[1], inputs_of(30))  # and back: a matrix serves kernels of both kinds
        there = naive.limit_kernel(inputs_of(30), inputs_of(30), KERNELS[1].shift)
        assert backend.get(plain.times(backend.put(vectors))) == pytest.approx(there @ vectors, abs=size * SINGLE)
        again = plain.renewed(kernel, inputs)
        assert backend.get(again.times(backend.put(vectors))) == pytest.approx(K @ vectors, abs=size * near)
