"""Solvers: one contract over all of them, on good, bad and singular systems of every scale."""

import math

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from properties import examples
from scipy.linalg import norm  # scaled: does not overflow where NumPy's does

from thresher.algebra import (
    SOLVERS,
    Cholesky,
    ConjugateGradient,
    Jacobi,
    Sketched,
    SketchQR,
    relative_damping,
)
from thresher.interfaces import SolveStatus

TOL = 1e-10
SOLVING = {
    "cholesky": Cholesky(),
    "cg-jacobi": ConjugateGradient(tol=TOL, preconditioner=Jacobi()),
    "cg-sketch": ConjugateGradient(tol=TOL, preconditioner=SketchQR()),
    "sketched": Sketched(tol=TOL),
}
ITERATING = [name for name in SOLVING if name != "cholesky"]
every_solver = pytest.mark.parametrize("name", SOLVING)
every_iteration = pytest.mark.parametrize("name", ITERATING)


class ExplicitGram:
    """G = J Jᵀ of an explicit Jᵀ (length, n); its sketches are Gaussian, whatever the recipe."""

    def __init__(self, transposed):
        self._transposed = transposed
        self.matrix = transposed.T @ transposed
        self.products = 0
        self.sketches = []

    @property
    def size(self):
        return len(self.matrix)

    def dense(self):
        return self.matrix.copy()

    def times(self, vector):
        self.products += 1
        return self.matrix @ vector

    def diagonal(self):
        return np.diagonal(self.matrix).copy()

    def sketch(self, sketch):
        self.sketches.append(sketch)
        S = np.random.default_rng(sketch.seed).normal(size=(sketch.rows, len(self._transposed)))
        return S @ self._transposed / math.sqrt(sketch.rows)


def gram_of(eigenvalues, seed=0):
    rng = np.random.default_rng(seed)
    n = len(eigenvalues)
    left, right = np.linalg.qr(rng.normal(size=(2 * n + 2, n)))[0], np.linalg.qr(rng.normal(size=(n, n)))[0]
    return ExplicitGram(left * np.sqrt(eigenvalues) @ right.T)


def random_vector(n, seed=0):
    return np.random.default_rng(seed + 1000).normal(size=n)


def assert_honest(solution, gram, rhs):
    """What the solution says about itself is true."""
    assert np.isfinite(solution.value).all()
    assert solution.value.shape == rhs.shape
    residual = norm(gram.matrix @ solution.value + solution.damping * solution.value - rhs)
    size = norm(rhs)
    rounding = 1e-13 * np.linalg.norm(gram.matrix, 2) * norm(solution.value)
    assert abs(solution.relative_residual * size - residual) <= 1e-6 * residual + rounding + 1e-15 * size
    assert solution.damping >= 0
    assert solution.rank == gram.size or solution.status == SolveStatus.TRUNCATED


# Regular systems

systems = {
    "n": st.integers(1, 12),
    "digits": st.floats(0, 6),  # of the condition number
    "seed": st.integers(0, 10**6),
}


@every_solver
@settings(deadline=None, max_examples=examples(40))
@given(**systems)
def test_solution_is_that_of_a_dense_solve(name, n, digits, seed):
    gram, rhs = gram_of(np.geomspace(1, 10**-digits, n), seed), random_vector(n, seed)
    solution = SOLVING[name].prepare(gram).solve(rhs)
    exact = np.linalg.solve(gram.matrix, rhs)
    assert_honest(solution, gram, rhs)
    assert solution.status == SolveStatus.SOLVED
    assert solution.rank == n
    assert solution.damping == 0
    assert norm(solution.value - exact) <= 10**digits * 2e-10 * norm(exact)


@every_iteration
@settings(deadline=None, max_examples=examples(40))
@given(**systems, tol=st.floats(1e-9, 0.5))
def test_relative_stop(name, n, digits, seed, tol):
    gram, rhs = gram_of(np.geomspace(1, 10**-digits, n), seed), random_vector(n, seed)
    kind = type(SOLVING[name])
    solution = kind(tol=tol, preconditioner=SOLVING[name].preconditioner).prepare(gram).solve(rhs)
    assert solution.status == SolveStatus.SOLVED
    assert norm(gram.matrix @ solution.value - rhs) <= tol * norm(rhs) * (1 + 1e-9)


@every_iteration
@settings(deadline=None, max_examples=examples(40))
@given(n=st.integers(2, 12), digits=st.floats(5, 11), seed=st.integers(0, 10**6))
def test_solved_is_said_of_the_true_residual_only(name, n, digits, seed):
    gram, rhs = gram_of(np.geomspace(1, 10**-digits, n), seed), random_vector(n, seed)
    solution = SOLVING[name].prepare(gram).solve(rhs)
    within = norm(gram.matrix @ solution.value - rhs) <= TOL * norm(rhs) * (1 + 1e-9)
    assert within or solution.status == SolveStatus.INEXACT


@every_solver
@settings(deadline=None, max_examples=examples(25))
@given(**systems, damping=st.floats(1e-6, 10), scale=st.sampled_from([1e-8, 1.0, 1e8]))
def test_damping_is_relative_to_the_mean_diagonal(name, n, digits, seed, damping, scale):
    gram, rhs = gram_of(scale * np.geomspace(1, 10**-digits, n), seed), random_vector(n, seed)
    solution = SOLVING[name].prepare(gram, added=relative_damping(gram, damping)).solve(rhs)
    added = damping * np.diagonal(gram.matrix).mean()
    exact = np.linalg.solve(gram.matrix + added * np.eye(n), rhs)
    assert_honest(solution, gram, rhs)
    assert solution.damping == pytest.approx(added)
    assert solution.status == SolveStatus.SOLVED
    assert norm(solution.value - exact) <= 1e-3 * norm(exact)


@every_solver
@pytest.mark.parametrize("eigenvalues", [[1.0], [1.0, 1e-3], [1e5] * 7])
def test_zero_right_hand_side(name, eigenvalues):
    solution = SOLVING[name].prepare(gram_of(eigenvalues)).solve(np.zeros(len(eigenvalues)))
    np.testing.assert_array_equal(solution.value, 0)
    assert solution.status == SolveStatus.SOLVED
    assert solution.relative_residual == 0


@every_solver
@pytest.mark.parametrize("value", [1e-150, 3.0, 1e150])
def test_one_input(name, value):
    solution = SOLVING[name].prepare(gram_of([value])).solve(np.array([2.0]))
    assert solution.status == SolveStatus.SOLVED
    assert solution.value[0] == pytest.approx(2 / value)


@every_solver
def test_nothing_passed_in_is_changed(name):
    gram, rhs = gram_of([1.0, 0.5, 0.2]), random_vector(3)
    matrix, before = gram.matrix.copy(), rhs.copy()
    SOLVING[name].prepare(gram, added=relative_damping(gram, 0.1)).solve(rhs)
    np.testing.assert_array_equal(gram.matrix, matrix)
    np.testing.assert_array_equal(rhs, before)


@every_iteration
def test_no_iterations_allowed(name):
    kind = type(SOLVING[name])
    rhs = random_vector(4)
    solution = kind(max_iterations=0).prepare(gram_of([1.0, 0.5, 0.2, 0.1])).solve(rhs)
    assert solution.status == SolveStatus.INEXACT
    assert solution.inner_iterations == 0
    assert solution.relative_residual == 1


def test_names_of_solvers():
    assert {"cholesky", "sketched", "cg"} <= set(SOLVERS)
    rhs = random_vector(5)
    gram = gram_of(np.geomspace(1, 0.1, 5))
    for name, make in SOLVERS.items():
        assert make().prepare(gram).solve(rhs).status == SolveStatus.SOLVED, name


# Scales


def scaled(name, matrix_scale, rhs_scale):
    gram = gram_of(matrix_scale * np.geomspace(1, 0.01, 5))
    rhs = rhs_scale * random_vector(5)
    return gram, rhs, SOLVING[name].prepare(gram).solve(rhs)


@every_solver
@settings(deadline=None, max_examples=examples(40))
@given(matrix=st.floats(-150, 150), rhs=st.floats(-150, 150))
def test_scales(name, matrix, rhs):
    if not -290 < 2 * rhs - matrix < 290:
        return  # rᵀ G⁻¹ r has no room: see below
    gram, vector, solution = scaled(name, 10**matrix, 10**rhs)
    assert_honest(solution, gram, vector)
    assert solution.status == SolveStatus.SOLVED
    np.testing.assert_allclose(
        solution.value / 10 ** (rhs - matrix), np.linalg.solve(gram.matrix / 10**matrix, vector / 10**rhs), rtol=1e-6
    )


@every_solver
@pytest.mark.parametrize(("matrix", "rhs"), [(1e-150, 1e100), (1e150, 1e-100), (1e-20, 1e150), (1e20, 1e-150)])
def test_extreme_scales_whose_energy_overflows_or_vanishes(name, matrix, rhs):
    gram, vector, solution = scaled(name, matrix, rhs)
    assert_honest(solution, gram, vector)
    if solution.status == SolveStatus.SOLVED:
        assert norm(gram.matrix @ solution.value - vector) <= 1e-9 * norm(vector)
    else:
        assert solution.status == SolveStatus.INEXACT


# Singular systems


def singular_case(kind):
    rng = np.random.default_rng(7)
    transposed, rhs = rng.normal(size=(12, 5)), rng.normal(size=5)
    if kind.startswith("zero matrix"):
        transposed[:] = 0
    elif kind.startswith("duplicates"):
        transposed[:, 4] = transposed[:, 0]
    elif kind.startswith("opposites"):
        transposed[:, 4] = -transposed[:, 0]
    elif kind.startswith("rank one"):
        transposed = np.outer(transposed[:, 0], rhs[::-1])
    elif kind.startswith("silent input"):
        transposed[:, 2] = 0
    elif kind.startswith("all equal"):
        transposed[:] = transposed[:, :1]
    gram = ExplicitGram(transposed)
    return gram, gram.matrix @ rhs if kind.endswith(", consistent") else rhs


KINDS = ["duplicates", "opposites", "rank one", "silent input", "all equal"]
CONSISTENT = [f"{kind}, consistent" for kind in KINDS]
INCONSISTENT = ["zero matrix", *(f"{kind}, inconsistent" for kind in KINDS)]


@every_solver
@pytest.mark.parametrize("kind", CONSISTENT)
def test_singular_and_consistent(name, kind):
    gram, rhs = singular_case(kind)
    solution = SOLVING[name].prepare(gram).solve(rhs)
    assert_honest(solution, gram, rhs)
    assert solution.status != SolveStatus.INEXACT
    assert norm(gram.matrix @ solution.value - rhs) <= 1e-6 * norm(rhs)
    least = norm(np.linalg.pinv(gram.matrix, rcond=1e-12) @ rhs)
    assert norm(solution.value) <= 100 * least


@every_solver
@pytest.mark.parametrize("kind", INCONSISTENT)
def test_singular_and_inconsistent(name, kind):
    gram, rhs = singular_case(kind)
    solution = SOLVING[name].prepare(gram).solve(rhs)
    assert_honest(solution, gram, rhs)
    assert solution.status != SolveStatus.SOLVED
    # Never worse than standing still.
    assert norm(gram.matrix @ solution.value - rhs) <= norm(rhs) * (1 + 1e-6)


@pytest.mark.parametrize("kind", [*CONSISTENT, *INCONSISTENT])
def test_cholesky_cuts_to_the_least_squares_solution_of_least_norm(kind):
    gram, rhs = singular_case(kind)
    solution = Cholesky().prepare(gram).solve(rhs)
    assert solution.status == SolveStatus.TRUNCATED
    assert solution.rank == np.linalg.matrix_rank(gram.matrix)
    np.testing.assert_allclose(solution.value, np.linalg.pinv(gram.matrix, rcond=1e-12) @ rhs, rtol=1e-6, atol=1e-12)


@pytest.mark.parametrize("kind", [*CONSISTENT, *INCONSISTENT])
def test_sketched_repairs_by_damping_that_is_told(kind):
    gram, rhs = singular_case(kind)
    for solver in (Sketched(), Sketched(tol=1e-7)):
        solution = solver.prepare(gram).solve(rhs)
        assert solution.status == SolveStatus.DAMPED
        assert solution.damping == pytest.approx(1e-8 * (np.diagonal(gram.matrix).mean() or 1.0))
        exact = np.linalg.solve(gram.matrix + solution.damping * np.eye(5), rhs)
        least = norm(gram.matrix @ exact - rhs)
        assert norm(gram.matrix @ solution.value - rhs) <= least + 1e-4 * norm(rhs)


@every_solver
@settings(deadline=None, max_examples=examples(25))
@given(digits=st.floats(4, 14), seed=st.integers(0, 10**6))
@example(digits=8.048828125, seed=248)
def test_nearly_equal_inputs(name, digits, seed):
    rng = np.random.default_rng(seed)
    transposed, rhs = rng.normal(size=(12, 5)), rng.normal(size=5)
    transposed[:, 4] = transposed[:, 0] + 10**-digits * rng.normal(size=12)
    gram = ExplicitGram(transposed)
    solution = SOLVING[name].prepare(gram).solve(rhs)
    assert np.isfinite(solution.value).all()
    assert norm(gram.matrix @ solution.value - rhs) <= norm(rhs) * (1 + 1e-6)


@every_solver
def test_singular_with_zero_right_hand_side(name):
    gram, _ = singular_case("duplicates")
    for singular in (gram, ExplicitGram(np.zeros((9, 5)))):
        solution = SOLVING[name].prepare(singular).solve(np.zeros(5))
        np.testing.assert_array_equal(solution.value, 0)


@every_solver
def test_damping_makes_a_singular_system_regular(name):
    gram, rhs = singular_case("duplicates, inconsistent")
    solution = SOLVING[name].prepare(gram, added=relative_damping(gram, 0.1)).solve(rhs)
    added = 0.1 * np.diagonal(gram.matrix).mean()
    assert solution.status == SolveStatus.SOLVED
    np.testing.assert_allclose(solution.value, np.linalg.solve(gram.matrix + added * np.eye(5), rhs), rtol=1e-7)
