"""What is prepared once: many right-hand sides, starting points, and anything that is added to the diagonal."""

import threading

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from properties import examples
from test_solvers import SOLVING, TOL, ExplicitGram, assert_honest, gram_of, norm, random_vector, singular_case

from thresher import Problem, train, train_together
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
every_iteration = pytest.mark.parametrize("name", [name for name in MAKING if name not in ("cholesky", "reused-new")])
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


@every_iteration
@settings(deadline=None, max_examples=examples(25))
@given(**systems, scale=st.sampled_from([1e-100, 1.0, 1e100]))
def test_a_start_at_the_solution_takes_no_iterations(name, n, digits, seed, scale):
    gram, rhs = gram_of(np.geomspace(1, 10**-digits, n), seed), scale * random_vector(n, seed)
    prepared = MAKING[name](n).prepare(gram, added=0.01)
    exact = np.linalg.solve(gram.matrix + 0.01 * np.eye(n), rhs)
    before = exact.copy()
    solution = prepared.solve(rhs, x0=exact)
    assert (solution.status, solution.inner_iterations) == (SolveStatus.SOLVED, 0)
    np.testing.assert_allclose(solution.value, before, rtol=1e-15)
    np.testing.assert_array_equal(exact, before)


@every_iteration
def test_a_start_nearby_saves_iterations_and_is_not_the_answer(name):
    gram, rhs = gram_of(np.geomspace(1, 0.01, 40)), random_vector(40)
    prepared = MAKING[name](40).prepare(gram, added=0.01)
    exact = np.linalg.solve(gram.matrix + 0.01 * np.eye(40), rhs)
    near = prepared.solve(rhs, x0=exact * (1 + 1e-6 * random_vector(40, 7)))
    assert 0 < near.inner_iterations < prepared.solve(rhs).inner_iterations
    np.testing.assert_allclose(near.value, exact, rtol=1e-6)


@every_iteration
@pytest.mark.parametrize("bad", [1e9, -1.0, np.nan, np.inf])
def test_a_start_that_is_worse_than_zero_is_not_taken(name, bad):
    gram, rhs = gram_of(np.geomspace(1, 0.01, 8)), random_vector(8)
    prepared = MAKING[name](8).prepare(gram)
    exact = np.linalg.solve(gram.matrix, rhs)
    ours, plain = prepared.solve(rhs, x0=bad * exact), prepared.solve(rhs)
    np.testing.assert_array_equal(ours.value, plain.value)
    assert ours[1:] == plain[1:]
    np.testing.assert_array_equal(prepared.solve(np.zeros(8), x0=exact).value, 0)


def test_products_are_not_spent_on_what_is_known():
    """One for the starting point, one for each step, one to make sure."""
    gram, rhs = gram_of(np.geomspace(1, 0.01, 8)), random_vector(8)
    prepared = ConjugateGradient().prepare(gram)
    solution = prepared.solve(rhs)
    assert gram.products == solution.inner_iterations + 1
    gram.products = 0
    assert prepared.solve(rhs, x0=solution.value).inner_iterations == 0
    assert gram.products == 1
    gram.products = 0
    near = prepared.solve(rhs, x0=0.9 * solution.value)
    assert gram.products == near.inner_iterations + 2


def test_a_penalty_is_trained_with_products_alone(factored):
    """The start's matrix with its penalty is factored once, when first needed; others are never formed."""

    class NoMatrix(ExplicitGram):
        def dense(self):
            pytest.fail("the matrix was formed")

    start, rng = gram_of(np.geomspace(1, 1e-3, 30)), np.random.default_rng(0)
    penalty = rng.uniform(0.01, 0.02, 30)
    shared = Cholesky().prepare(MatrixGram(start.matrix), added=penalty)
    solver = ConjugateGradient(tol=1e-4, preconditioner=shared, max_iterations=200)
    near = NoMatrix(start._transposed + 0.01 * rng.normal(size=start._transposed.shape))
    prepared = solver.prepare(near, added=penalty)
    rhs = random_vector(30)
    exact = np.linalg.solve(near.matrix + np.diag(penalty), rhs)
    assert prepared.solve(rhs, x0=exact).inner_iterations == 0
    assert factored == []
    solution = prepared.solve(rhs, x0=np.linalg.solve(start.matrix + np.diag(penalty), rhs))
    assert solution.status == SolveStatus.SOLVED
    assert 0 < solution.inner_iterations < 10
    assert norm(near.matrix @ solution.value + penalty * solution.value - rhs) <= 1e-4 * norm(rhs)
    solver.prepare(near, added=penalty).solve(random_vector(30, 1))
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
    together = train_together(problems, width=3000, solver=solver)
    later = sum(record.factored for result in together for record in result.history[2:])
    assert len(factored) == 1 + later
    assert later == 0 or solver == "auto"
    for problem, result in zip(problems, together, strict=True):
        alone = train(problem, width=3000, solver=solver)
        for ours, theirs in zip(result.history, alone.history, strict=True):
            assert (ours.loss, ours.factored, ours.solve) == (theirs.loss, theirs.factored, theirs.solve)
