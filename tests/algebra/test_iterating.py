"""Solvers that iterate: how many steps they take, when they stop, and how large sketches are."""

import math

import numpy as np
import pytest
from grams import make_gram, random_inputs
from hypothesis import given, settings
from hypothesis import strategies as st
from properties import examples
from scipy.linalg import norm  # scaled: does not overflow where NumPy's does
from test_solvers import SOLVING, ExplicitGram, assert_honest, gram_of, random_vector, systems

from thresher.algebra import (
    SKETCHES,
    ConjugateGradient,
    Gaussian,
    Sketched,
    SketchQR,
    paper,
)
from thresher.interfaces import SolveStatus
from thresher.model.network import default_shift


@pytest.mark.parametrize("seed", range(3))
def test_conjugate_gradient_is_patient_with_a_bad_condition(seed):
    gram, rhs = gram_of(np.geomspace(1, 1e-6, 60), seed), random_vector(60, seed)
    solution = ConjugateGradient(tol=1e-4).prepare(gram).solve(rhs)
    assert solution.relative_residual <= 1e-4


def test_conjugate_gradient_ends_after_as_many_steps_as_eigenvalues():
    gram, rhs = gram_of([1.0] * 10 + [5.0] * 10 + [9.0] * 10), random_vector(30)
    plain = ConjugateGradient(preconditioner=_Nothing()).prepare(gram).solve(rhs)
    assert plain.inner_iterations == 3
    assert gram.products <= 3 + 3  # one a step, and to make sure


class _Nothing:
    def prepare(self, gram, *, added, iteration):
        return lambda vector: vector


def test_jacobi_makes_a_diagonal_matrix_trivial():
    gram = ExplicitGram(np.diag(np.geomspace(1, 1e3, 8)))
    assert ConjugateGradient().prepare(gram).solve(random_vector(8)).inner_iterations == 1


def test_preconditioning_by_the_sketch_saves_iterations():
    gram, rhs = gram_of(np.geomspace(1, 1e-5, 30)), random_vector(30)
    jacobi, sketch = SOLVING["cg-jacobi"].prepare(gram).solve(rhs), SOLVING["cg-sketch"].prepare(gram).solve(rhs)
    assert sketch.inner_iterations < jacobi.inner_iterations / 2


# The paper's iteration


@settings(deadline=None, max_examples=examples(25))
@given(**systems)
def test_paper_stop(n, digits, seed):
    gram, rhs = gram_of(np.geomspace(1, 10**-digits, n), seed), random_vector(n, seed)
    solution = Sketched(preconditioner=SketchQR(oversampling=40)).prepare(gram).solve(rhs)
    assert solution.status == SolveStatus.SOLVED
    assert_honest(solution, gram, rhs)
    stop = min(math.sqrt(10**-digits / n), 1) / 6
    assert solution.relative_residual <= 1.5 * stop  # the smallest eigenvalue is estimated from the sketch


def test_inner_iterations_are_recorded():
    gram, rhs = gram_of(np.geomspace(1, 1e-3, 8)), random_vector(8)
    steps = [Sketched(tol=tol).prepare(gram).solve(rhs) for tol in (1e-2, 1e-5, 1e-10)]
    assert 0 < steps[0].inner_iterations < steps[1].inner_iterations < steps[2].inner_iterations
    assert all(solution.sketch_rows == 16 * 8 for solution in steps)
    limited = Sketched(tol=1e-10, max_iterations=steps[1].inner_iterations).prepare(gram).solve(rhs)
    assert limited.status == SolveStatus.INEXACT
    assert limited.inner_iterations == steps[1].inner_iterations
    np.testing.assert_allclose(limited.value, steps[1].value)


@pytest.mark.thorough
@pytest.mark.parametrize("inputs", [4, 8, 16, 32, 64])
def test_inner_iterations_are_logarithmic_on_networks(inputs):
    gram, _ = make_gram(inputs=random_inputs(inputs, 32, seed=inputs), width=1 << 13, shift=default_shift(1 << 13))
    smallest = float(np.linalg.eigvalsh(gram.dense())[0])
    rhs = random_vector(inputs)
    solution = Sketched(preconditioner=SketchQR(oversampling=None)).prepare(gram).solve(rhs)
    assert solution.status == SolveStatus.SOLVED
    assert 1 <= solution.inner_iterations <= 4 + 2 * math.log2(inputs / smallest)
    assert norm(gram.dense() @ solution.value - rhs) <= norm(rhs) / 6 * math.sqrt(smallest / inputs) * 1.2


@pytest.mark.thorough
@pytest.mark.parametrize("sketch", SKETCHES)
def test_a_poor_sketch_converges_on_a_network(sketch):
    gram, _ = make_gram(inputs=random_inputs(12, 16), width=1 << 11, shift=1.0)
    rhs = random_vector(12)
    poor = SketchQR(sketch=sketch, oversampling=2)
    solution = Sketched(tol=1e-4, preconditioner=poor, max_iterations=20_000).prepare(gram).solve(rhs)
    assert solution.status == SolveStatus.SOLVED
    assert norm(gram.dense() @ solution.value - rhs) <= 1e-4 * norm(rhs) * (1 + 1e-9)


@pytest.mark.parametrize("condition", [10, 1e3, 1e5])
def test_a_poor_sketch_is_not_given_up(condition):
    for seed in range(5):
        gram, rhs = gram_of(np.geomspace(1, 1 / condition, 10), seed), random_vector(10, seed)
        poor = SketchQR(oversampling=2)
        solution = Sketched(tol=1e-2, preconditioner=poor, max_iterations=20_000).prepare(gram).solve(rhs)
        assert solution.relative_residual <= 1e-2


# The preconditioner


@settings(deadline=None, max_examples=examples(50))
@given(inputs=st.integers(1, 3000), epsilon=st.floats(0.05, 0.5))
def test_rows_of_the_papers_choice(inputs, epsilon):
    rows = SketchQR(oversampling=None, epsilon=epsilon).rows(inputs)
    spread = math.sqrt(1 + epsilon) - 1
    failure = 1 / max(inputs, 2) ** 2
    promised = ((math.sqrt(inputs) + math.sqrt(2 * math.log(2 / failure))) / spread) ** 2
    fitting = (1 << 25) // inputs
    assert rows == max(min(math.ceil(promised), fitting), 2 * inputs)
    assert math.ceil(promised) == Gaussian.rows_for(inputs, epsilon=epsilon, failure=failure)


@settings(deadline=None, max_examples=examples(50))
@given(inputs=st.integers(1, 10**6), oversampling=st.floats(2, 100))
def test_rows_by_oversampling(inputs, oversampling):
    rows = SketchQR(oversampling=oversampling).rows(inputs)
    assert rows >= 2 * inputs
    if rows > 2 * inputs:
        assert rows * inputs <= 1 << 25
        assert rows in (math.ceil(oversampling * inputs), (1 << 25) // inputs)
    elif oversampling > 2:
        assert rows == math.ceil(oversampling * inputs) or (1 << 25) // inputs <= rows


def test_rows_are_capped_by_memory(monkeypatch):
    assert SketchQR(oversampling=16).rows(100) == 1600
    monkeypatch.setattr(paper, "_MOST_ENTRIES", 50_000)
    assert SketchQR(oversampling=16).rows(100) == 500
    assert SketchQR(oversampling=None).rows(100) == 500
    assert SketchQR(oversampling=16).rows(1000) == 2000


def test_every_iteration_draws_a_fresh_sketch():
    for name in ("cg-sketch", "sketched"):
        gram, rhs = gram_of([1.0, 0.5, 0.3]), random_vector(3)
        for iteration in (0, 1, 2, 0):
            SOLVING[name].prepare(gram, iteration=iteration).solve(rhs)
        seeds = [sketch.seed for sketch in gram.sketches]
        assert len(set(seeds)) == 3
        assert seeds[0] == seeds[3]
        solver = type(SOLVING[name])(preconditioner=SketchQR(seed=2**64 - 1))
        solver.prepare(gram).solve(rhs)
        assert gram.sketches[-1].seed not in seeds


@pytest.mark.parametrize("oversampling", [4, 16, None])
@pytest.mark.parametrize("damping", [0.0, 0.3])
def test_factor_is_near_the_matrix(oversampling, damping):
    gram = gram_of(np.geomspace(1, 1e-4, 6))
    triangle = SketchQR(oversampling=oversampling).prepare(gram, added=damping, iteration=0)
    matrix = gram.matrix + damping * np.eye(6)
    np.testing.assert_allclose(np.tril(triangle.factor, -1), 0, atol=1e-14)
    ratios = np.linalg.eigvals(np.linalg.solve(matrix, triangle.factor.T @ triangle.factor)).real
    spread = math.sqrt(6 / triangle.rows)
    assert (1 - spread) ** 2 / 4 < ratios.min() <= ratios.max() < 2 * (1 + spread) ** 2
    vector = random_vector(6)
    np.testing.assert_allclose(triangle.factor.T @ (triangle.factor @ triangle(vector)), vector, rtol=1e-9)
    smallest = np.linalg.eigvalsh(triangle.factor.T @ triangle.factor)[0]
    assert triangle.smallest_eigenvalue() == pytest.approx(smallest, rel=0.05)
