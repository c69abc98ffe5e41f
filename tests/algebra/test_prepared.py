"""What is prepared once: many right-hand sides, and anything that is added to the diagonal."""

import threading

import numpy as np
import pytest
from columns import train_columns
from hypothesis import given, settings
from hypothesis import strategies as st
from properties import examples
from test_solvers import SOLVING, TOL, ExplicitGram, assert_honest, gram_of, norm, random_vector, singular_case

from thresher import Problem, train
from thresher.algebra import (
    Cholesky,
    ConjugateGradient,
    MatrixGram,
    ReusedFactor,
    direct,
)
from thresher.datasets import random_problem
from thresher.interfaces import SolveStatus


def old_factor(size, tol=TOL):
    """A solver that remembers the factor of a matrix of that size, near those of ``gram_of``."""
    solver = ReusedFactor(tol=tol, patience=100)
    solver.prepare(gram_of(np.geomspace(1, 0.1, size), seed=3), added=0.1).solve(np.ones(size))
    return solver


MAKING = {name: lambda size, name=name: SOLVING[name] for name in SOLVING} | {
    "reused-new": lambda size: ReusedFactor(tol=TOL),
    "reused-old": old_factor,
    "cg-factor": lambda size: ConjugateGradient(
        tol=TOL, preconditioner=Cholesky().prepare(gram_of(np.geomspace(1, 0.1, size), seed=3), added=0.1)
    ),
}
every_solver = pytest.mark.parametrize("name", MAKING)
systems = {"n": st.integers(1, 12), "digits": st.floats(0, 4), "seed": st.integers(0, 10**6)}


@pytest.fixture
def factored(monkeypatch):
    """The sizes of the matrices that are factored, in order."""
    sizes, factor = [], direct.factor
    monkeypatch.setattr(
        direct, "factor", lambda matrix, **options: sizes.append(len(matrix)) or factor(matrix, **options)
    )
    return sizes


@every_solver
@settings(deadline=None, max_examples=examples(25))
@given(**systems)
def test_one_factor_solves_many_right_hand_sides_as_separate_ones_do(name, n, digits, seed):
    gram = gram_of(np.geomspace(1, 10**-digits, n), seed)
    prepared = MAKING[name](n).prepare(gram, added=0.01)
    for k in range(3):
        rhs = random_vector(n, seed + k)
        together, alone = prepared.solve(rhs), MAKING[name](n).prepare(gram, added=0.01).solve(rhs)
        assert_honest(together, gram, rhs)
        assert together.status == SolveStatus.SOLVED
        np.testing.assert_array_equal(together.value, alone.value)
        assert together[1:] == alone[1:]


@every_solver
@settings(deadline=None, max_examples=examples(25))
@given(**systems, scale=st.sampled_from([1e-8, 1.0, 1e8]), largest=st.floats(0.01, 100))
def test_what_is_added_is_added_to_the_diagonal(name, n, digits, seed, scale, largest):
    gram, rhs = gram_of(scale * np.geomspace(1, 10**-digits, n), seed), random_vector(n, seed)
    added = scale * largest * np.random.default_rng(seed).uniform(0.1, 1, n)
    before = added.copy()
    solution = MAKING[name](n).prepare(gram, added=added).solve(rhs)
    exact = np.linalg.solve(gram.matrix + np.diag(before), rhs)
    assert solution.status == SolveStatus.SOLVED
    assert norm(solution.value - exact) <= 1e-4 * norm(exact)
    assert type(solution.damping) is float
    assert solution.damping == pytest.approx(before.mean())
    np.testing.assert_array_equal(added, before)


def test_zero_is_solved_by_zero_and_no_product_is_spent_twice():
    """One for each step, one to make sure."""
    gram, rhs = gram_of(np.geomspace(1, 0.01, 8)), random_vector(8)
    prepared = ConjugateGradient().prepare(gram)
    np.testing.assert_array_equal(prepared.solve(np.zeros(8)).value, 0)
    gram.products = 0
    solution = prepared.solve(rhs)
    assert gram.products == solution.inner_iterations + 1


def test_a_factor_of_a_near_matrix_leaves_products_alone(factored):
    """It is made once, when first needed; the other matrix is never formed."""

    class NoMatrix(ExplicitGram):
        def dense(self):
            pytest.fail("the matrix was formed")

    start, rng = gram_of(np.geomspace(1, 1e-3, 30)), np.random.default_rng(0)
    shared = Cholesky().prepare(MatrixGram(start.matrix), added=0.015)
    solver = ConjugateGradient(tol=1e-4, preconditioner=shared, max_iterations=200)
    near = NoMatrix(start._transposed + 0.01 * rng.normal(size=start._transposed.shape))
    prepared, rhs = solver.prepare(near, added=0.015), random_vector(30)
    assert factored == []
    solution = prepared.solve(rhs)
    assert solution.status == SolveStatus.SOLVED
    plain = ConjugateGradient(tol=1e-4).prepare(near, added=0.015).solve(rhs)
    assert 0 < solution.inner_iterations < 0.6 * plain.inner_iterations
    assert norm(near.matrix @ solution.value + 0.015 * solution.value - rhs) <= 1e-4 * norm(rhs)
    solver.prepare(near, added=0.015).solve(random_vector(30, 1))
    shared.solve(rhs)
    assert factored == [30]


def test_a_factor_is_made_once_by_many_threads(factored):
    gram, results = gram_of(np.geomspace(1, 0.1, 200)), {}
    shared, ready = Cholesky().prepare(gram), threading.Barrier(4)

    def ask(k):
        ready.wait()
        results[k] = shared.solve(random_vector(200, k)).value

    threads = [threading.Thread(target=ask, args=(k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert factored == [200]
    for k in range(4):
        np.testing.assert_array_equal(results[k], Cholesky().prepare(gram).solve(random_vector(200, k)).value)


@pytest.mark.parametrize("kind", ["duplicates", "zero matrix", "silent input"])
def test_a_singular_matrix_is_cut_once_and_preconditions_what_is_near(kind, monkeypatch):
    gram, rhs = singular_case(f"{kind}, inconsistent")
    cuts, eigh = [], direct.linalg.eigh
    monkeypatch.setattr(direct.linalg, "eigh", lambda *a, **k: cuts.append(1) or eigh(*a, **k))
    prepared = Cholesky().prepare(gram)
    assert prepared.lower is None
    for seed in range(3):
        assert prepared.solve(random_vector(5, seed)).status == SolveStatus.TRUNCATED
    near = MatrixGram(gram.matrix + 0.1 * np.eye(5))
    solution = ConjugateGradient(preconditioner=prepared).prepare(near).solve(rhs)
    assert solution.status == SolveStatus.SOLVED
    assert cuts == [1]


def test_a_factor_that_fails_is_replaced_and_remembered(factored):
    near, far, rhs = gram_of(np.geomspace(1, 0.1, 20)), gram_of(np.geomspace(1, 1e-4, 20), seed=1), random_vector(20)
    solver = ReusedFactor(patience=3)
    solver.prepare(near).solve(rhs)
    first = solver.factor
    prepared = solver.prepare(far)
    assert solver.factor is first
    solutions = [prepared.solve(random_vector(20, k)) for k in range(3)]
    assert [one.inner_iterations for one in solutions] == [3, 0, 0]
    assert all(one.factored for one in solutions)
    again = solver.prepare(far).solve(rhs)
    assert (again.factored, again.inner_iterations) == (False, 1)
    assert factored == [20, 20]


def test_a_singular_matrix_is_not_remembered():
    gram, rhs = singular_case("duplicates, inconsistent")
    solver = ReusedFactor()
    assert solver.prepare(gram).solve(rhs).status == SolveStatus.TRUNCATED
    assert solver.factor is None


@pytest.mark.parametrize("solver", ["auto", "cg", ReusedFactor()], ids=["cholesky", "cg", "reused"])
def test_the_limit_kernel_is_factored_once_for_several_outputs(solver, factored):
    X = random_problem(inputs=30, dimension=12).inputs
    problems = [Problem(X, np.random.default_rng(seed).normal(size=30)) for seed in range(4)]
    together = train_columns(problems, width=3000, solver=solver)
    later = sum(record.factored for result in together for record in result.history[2:])
    assert len(factored) == 1 + later
    assert later == 0 or solver == "auto"
    for problem, result in zip(problems, together, strict=True):
        alone = train(problem, width=3000, solver=solver)
        for ours, theirs in zip(result.history, alone.history, strict=True):
            assert (ours.loss, ours.factored, ours.solve) == (theirs.loss, theirs.factored, theirs.solve)
