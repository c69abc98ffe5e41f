"""Steps of a model of one's own: against least squares by definition, for every way to pass products."""

import naive
import numpy as np
import pytest
from scipy.sparse import csr_matrix
from scipy.sparse.linalg import LinearOperator, aslinearoperator

from thresher import InvalidInput, gauss_newton_step
from thresher.algebra import Cholesky, ConjugateGradient, Jacobi, ReusedFactor, Sketched, SketchQR
from thresher.algebra.products import ProductGram
from thresher.interfaces import SolveStatus

SOLVERS = ["auto", "cholesky", "cg", "pivots", Cholesky(), ConjugateGradient(tol=1e-12), ReusedFactor()]
WAYS = {
    "array": lambda J: J,
    "lists": lambda J: J.tolist(),
    "functions": lambda J: (lambda v: J @ v, lambda u: J.T @ u),
    "lists from functions": lambda J: (lambda v: (J @ v).tolist(), lambda u: (u @ J).tolist()),
    "operator": aslinearoperator,
    "operator of functions": lambda J: LinearOperator(J.shape, matvec=J.__matmul__, rmatvec=J.T.__matmul__),
}
J4 = np.random.default_rng(7).normal(size=(4, 6))
every_solver = pytest.mark.parametrize("solver", SOLVERS, ids=lambda one: one if isinstance(one, str) else None)


def model(n, p, *, rank=None, seed=0):
    """A residual (n,) and a Jacobian (n, p), of full rank unless one is given."""
    rng = np.random.default_rng(seed)
    rank = min(n, p) if rank is None else rank
    return rng.normal(size=n), rng.normal(size=(n, rank)) @ rng.normal(size=(rank, p)) / np.sqrt(rank)


@pytest.mark.parametrize("way", WAYS)
@every_solver
def test_step_is_that_of_the_definition(way, solver):
    residual, J = model(12, 40)
    step, solution = gauss_newton_step(residual, WAYS[way](J), solver=solver, tol=1e-12)
    np.testing.assert_allclose(step, naive.gauss_newton_step(residual, J, 0.0), rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(residual + J @ step, 0, atol=1e-8)  # n < p: nothing is left
    assert solution.status == SolveStatus.SOLVED
    np.testing.assert_allclose(step, -J.T @ solution.value, rtol=1e-12)


@pytest.mark.parametrize("n, p", [(30, 8), (8, 30), (1, 5), (5, 1), (1, 1)])
@every_solver
def test_damped_steps_are_those_of_the_definition(n, p, solver):
    residual, J = model(n, p)
    step, solution = gauss_newton_step(residual, J, damping=0.3, solver=solver, tol=1e-12)
    added = 0.3 * (J**2).sum() / n
    np.testing.assert_allclose(step, naive.gauss_newton_step(residual, J, added), rtol=1e-6, atol=1e-9)
    assert solution.damping == pytest.approx(added)


def test_damping_by_row_is_the_step_of_another_loss():
    """Half the sum of h (r + J s)² + lambda |s|² / 2, with curvatures h."""
    residual, J = model(20, 6)
    curvatures = np.random.default_rng(1).uniform(0.1, 2, 20)
    mean = (J**2).sum() / 20
    step, _ = gauss_newton_step(residual, J, damping=0.5 / curvatures, solver="cholesky")
    wanted = np.linalg.solve(J.T * curvatures @ J + 0.5 * mean * np.eye(6), -J.T @ (curvatures * residual))
    np.testing.assert_allclose(step, wanted, rtol=1e-8)


@pytest.mark.parametrize("n, p, rank", [(30, 8, 8), (30, 20, 3), (8, 30, 4), (6, 6, 1)])
def test_singular_matrices_give_the_shortest_step(n, p, rank):
    residual, J = model(n, p, rank=rank)
    step, solution = gauss_newton_step(residual, J, solver="cholesky")
    np.testing.assert_allclose(step, naive.gauss_newton_step(residual, J, 0.0), rtol=1e-5, atol=1e-8)
    assert (solution.status, solution.rank) == (SolveStatus.TRUNCATED, rank)


@pytest.mark.parametrize("solver", ["cg", "pivots", ConjugateGradient()])
@pytest.mark.parametrize("n, p, rank", [(30, 8, 8), (30, 20, 3), (8, 30, 4), (6, 6, 1)])
def test_conjugate_gradients_give_the_shortest_step_too(n, p, rank, solver):
    residual, J = model(n, p, rank=rank)
    step, solution = gauss_newton_step(residual, J, solver=solver)
    np.testing.assert_allclose(step, naive.gauss_newton_step(residual, J, 0.0), rtol=1e-5, atol=1e-8)
    np.testing.assert_allclose(step, -J.T @ solution.value, rtol=1e-10)
    assert solution.status == SolveStatus.TRUNCATED
    left = np.linalg.norm(residual + J @ step) / np.linalg.norm(residual)
    assert solution.relative_residual == pytest.approx(left, rel=1e-6)


def test_many_rows_of_few_parameters_are_fitted():
    residual, J = model(1600, 6)
    residual += J @ np.ones(6) * 10
    products, calls = counted(J)
    step, solution = gauss_newton_step(residual, products)
    np.testing.assert_allclose(step, np.linalg.lstsq(J, -residual)[0], rtol=1e-8)
    assert solution.status == SolveStatus.TRUNCATED and calls["jvp"] < 20


@every_solver
@pytest.mark.parametrize("scale", [0.0, 1e-160, 1e-100, 1e100, 1e160])
def test_whatever_the_matrix_no_number_is_nan(solver, scale):
    residual, J = model(30, 8, rank=2)
    step, solution = gauss_newton_step(residual, scale * J, solver=solver)
    assert np.isfinite(step).all() and np.isfinite(solution.value).all()
    assert np.linalg.norm(residual + scale * J @ step) <= np.linalg.norm(residual) * (1 + 1e-9)
    if not scale:
        assert not step.any()


def counted(J):
    """Products with J and Jᵀ, and how many there have been."""
    calls = {"jvp": 0, "vjp": 0}

    def jvp(vector):
        calls["jvp"] += 1
        return J @ vector

    def vjp(vector):
        calls["vjp"] += 1
        return J.T @ vector

    return (jvp, vjp), calls


def test_products_are_as_many_as_promised():
    residual, J = model(40, 60)
    products, calls = counted(J)
    gauss_newton_step(residual, products, solver="cholesky")
    assert calls == {"jvp": 1, "vjp": 40 + 4}  # the matrix; how many parameters, units, whether transposed, the step
    products, calls = counted(J)
    _, solution = gauss_newton_step(residual, products, solver="cg", preconditioner=lambda vector: vector)
    assert calls["jvp"] <= solution.inner_iterations + 3
    assert calls["vjp"] <= solution.inner_iterations + 5


def test_many_rows_are_solved_by_products_with_an_estimated_diagonal():
    residual, J = model(2000, 300)
    J *= np.geomspace(1, 10, 2000)[:, None]
    gram = ProductGram(J.__matmul__, J.T.__matmul__, 2000, 300)
    np.testing.assert_allclose(gram.diagonal(), (J**2).sum(axis=1), rtol=0.75)
    products, calls = counted(J)
    step, solution = gauss_newton_step(residual, products, damping=0.1, tol=1e-9)
    assert calls["vjp"] < 1000  # the matrix would take 2,000
    added = solution.damping
    np.testing.assert_allclose(step, naive.gauss_newton_step(residual, J, added), rtol=1e-4, atol=1e-7)


def test_pivots_take_fewer_inner_iterations():
    rng = np.random.default_rng(2)
    J = rng.normal(size=(200, 250)) * np.where(np.arange(250) < 30, np.geomspace(3, 1, 250), 0.01)
    residual = rng.normal(size=200)
    plain, pivots = (gauss_newton_step(residual, J, damping=1e-4, solver=name)[1] for name in ("cg", "pivots"))
    assert pivots.inner_iterations < plain.inner_iterations / 2


def test_a_preconditioner_of_ones_own():
    residual, J = model(30, 50)
    inverse = np.linalg.inv(J @ J.T)
    for given in (inverse.__matmul__, Cholesky().prepare(ProductGram(J.__matmul__, J.T.__matmul__, 30, 50))):
        step, solution = gauss_newton_step(residual, J, preconditioner=given, tol=1e-12)
        assert solution.inner_iterations <= 3
        np.testing.assert_allclose(step, naive.gauss_newton_step(residual, J, 0.0), rtol=1e-6, atol=1e-9)
    assert gauss_newton_step(residual, J, solver="cg", preconditioner=Jacobi())[1].inner_iterations > 3


def test_several_vectors_and_large_matrices(monkeypatch):
    _, J = model(9, 14)
    gram = ProductGram(J.__matmul__, J.T.__matmul__, 9, 14)
    vectors = np.random.default_rng(3).normal(size=(9, 2))
    np.testing.assert_allclose(gram.times(vectors), J @ J.T @ vectors)
    whole = gram.dense()
    monkeypatch.setattr("thresher.algebra.products._KEPT", 10)
    np.testing.assert_allclose(gram.dense(), whole)
    np.testing.assert_allclose(whole, J @ J.T)


@pytest.mark.parametrize(
    "change, words",
    [
        ({"residual": [np.nan] * 4}, "must be finite"),
        ({"residual": [[1.0]]}, "shape"),
        ({"jacobian_products": np.ones((3, 2))}, "a row for each of 4"),
        ({"jacobian_products": lambda v: v}, "two functions"),
        ({"jacobian_products": "J"}, "two functions"),
        ({"jacobian_products": (np.ones(4), np.ones(4))}, "two functions"),
        ({"jacobian_products": (lambda v: np.ones(3), lambda u: np.ones(2))}, "vector of 4 numbers"),
        ({"jacobian_products": (lambda v: np.ones(4), lambda u: np.ones((2, 2)))}, "shape"),
        ({"jacobian_products": (lambda v: np.full(4, np.nan), lambda u: np.ones(2))}, "finite numbers"),
        ({"jacobian_products": (lambda v: -J4 @ v, lambda u: J4.T @ u)}, "not the product with the transpose"),
        ({"jacobian_products": (lambda v: J4 @ v, lambda u: 2 * J4.T @ u)}, "not the product with the transpose"),
        ({"damping": -1.0}, "at least 0"),
        ({"damping": [1.0, 2.0]}, "one for each of 4 rows"),
        ({"solver": "newton"}, "'cholesky', 'cg'"),
        ({"solver": Cholesky}, "prepare method"),
        ({"solver": Sketched()}, "more products"),
        ({"solver": SketchQR()}, "more products"),
        ({"jacobian_products": csr_matrix(J4)}, "aslinearoperator"),
        ({"solver": "cholesky", "preconditioner": Jacobi()}, "goes with solver='cg'"),
        ({"preconditioner": 3}, "a function of a vector"),
        ({"tol": 0.0}, "above 0"),
    ],
    ids=lambda one: one if isinstance(one, str) else "",
)
def test_what_is_refused(change, words):
    with pytest.raises(InvalidInput, match=words):
        gauss_newton_step(**{"residual": np.ones(4), "jacobian_products": J4, **change})
