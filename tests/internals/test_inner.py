"""Inside solvers and sketches: when an inner iteration ends, what a preconditioner is, which numbers are drawn."""

import math
from itertools import pairwise

import numpy as np
import pytest
from grams import make_gram, random_inputs
from test_iterating import _Nothing
from test_sketches import slice_of
from test_solvers import ExplicitGram, gram_of, norm, random_vector

from thresher import InvalidInput
from thresher.algebra import (
    SKETCHES,
    Cholesky,
    ConjugateGradient,
    Jacobi,
    MatrixGram,
    ReusedFactor,
    Sketched,
    SketchQR,
    distortion,
    paper,
    sketches,
)
from thresher.algebra.system import Search, System
from thresher.algebra.system import norm as length_of
from thresher.interfaces import SolveStatus

# When a search ends


def walk(ratio, *, tol=1e-6, most=10_000):
    """A search on G = I in which every step multiplies the residual by a ratio."""
    gram = ExplicitGram(np.eye(3))
    search = Search(System(gram, 0.0), np.array([1.0, 2.0, 0.5]), tol)
    while search.goes_on(most):
        change = (1 - ratio) * search.residual
        search.step(change, change, 1.0)
    return search.solution(repaired=False)


def test_a_search_goes_on_while_it_gains_a_per_cent_now_and_then():
    found = walk(0.995, tol=1e-4)
    assert found.status == SolveStatus.SOLVED
    assert found.inner_iterations == math.ceil(math.log(1e-4) / math.log(0.995)) > Search.PATIENCE


@pytest.mark.parametrize("ratio", [-1.0, -1.2, -1.4])
def test_a_search_is_given_up_after_500_steps_without_gain(ratio):
    found = walk(ratio)
    assert found.inner_iterations == 500
    assert found.status == SolveStatus.INEXACT
    assert found.relative_residual == 1
    np.testing.assert_array_equal(found.value, 0)


def test_a_search_takes_as_many_steps_as_it_may():
    assert [walk(0.9, most=most).inner_iterations for most in (0, 1, 7)] == [0, 1, 7]


def test_a_residual_that_is_just_the_goal_has_reached_it():
    found = walk(0.5, tol=0.25)  # powers of two: not rounded
    assert found.inner_iterations == 2
    assert found.status == SolveStatus.SOLVED
    assert found.relative_residual == 0.25


@pytest.mark.parametrize("length", [0.0, -1.0, math.inf, math.nan])
def test_a_step_without_a_length_ends_the_search(length):
    gram = ExplicitGram(np.eye(2))
    search = Search(System(gram, 0.0), np.ones(2), 1e-3)
    assert search.goes_on(5)
    search.step(np.ones(2), np.ones(2), length)
    assert not search.goes_on(5)
    assert search.solution(repaired=False).inner_iterations == 0


def test_conjugate_gradient_ends_at_once_where_there_is_no_curvature():
    gram = ExplicitGram(np.zeros((6, 4)))
    assert ConjugateGradient().prepare(gram).solve(random_vector(4)).inner_iterations == 0
    assert gram.products <= 2


def test_conjugate_gradient_takes_10_n_and_100_steps_at_the_most():
    class Whirl(ExplicitGram):
        """Not symmetric: what one step gains another loses."""

        def times(self, vector):
            return vector + 1.5 * np.array([-vector[1], vector[0]])

    for n, most in ((None, 120), (33, 33)):
        found = ConjugateGradient(max_iterations=n).prepare(Whirl(np.eye(2))).solve(np.ones(2))
        assert found.inner_iterations == most
        assert found.status == SolveStatus.INEXACT


class Changing(ExplicitGram):
    """Twice itself for some products; what was multiplied is written down."""

    def __init__(self, transposed, twice):
        super().__init__(transposed)
        self.asked, self._twice = [], twice

    def times(self, vector):
        self.asked.append(vector.copy())
        return super().times(vector) * (2 if len(self.asked) <= self._twice else 1)


def test_conjugate_gradient_starts_again_from_the_true_residual():
    solver, rhs = ConjugateGradient(tol=0.1, preconditioner=_Nothing()), random_vector(8)
    rhs *= 0.75 / norm(rhs)  # is not scaled then
    root = np.diag(np.geomspace(1, 3, 8))
    steps = solver.prepare(Changing(root, twice=10**6)).solve(rhs).inner_iterations
    gram = Changing(root, twice=steps)  # all seems well until the residual is made anew
    assert solver.prepare(gram).solve(rhs).status == SolveStatus.SOLVED
    value, direction = gram.asked[steps : steps + 2]
    np.testing.assert_allclose(direction, rhs - gram.matrix @ value, rtol=1e-12)
    assert norm(direction) > 0.3 * norm(rhs)


@pytest.mark.parametrize("size", [1e-300, 1e-170, 1e-3, 1.0, 1e3, 1e170, 1e300])
def test_lengths_neither_vanish_nor_overflow(size):
    assert length_of(size * np.array([3.0, -4.0])) == pytest.approx(5 * size, rel=1e-15, abs=0)


def test_lengths_of_nothing_and_of_what_is_no_number():
    assert length_of(np.zeros(3)) == length_of(np.empty(0)) == 0
    assert length_of(np.array([1.0, math.nan])) == length_of(np.array([1.0, -math.inf])) == math.inf


def test_a_solution_that_overflows_is_no_step():
    with np.errstate(all="ignore"):
        found = Cholesky().prepare(MatrixGram(np.diag([1e-200, 1e-200]))).solve(np.full(2, 1e200))
    assert found.status == SolveStatus.INEXACT
    assert found.relative_residual == 1
    np.testing.assert_array_equal(found.value, 0)


@pytest.mark.parametrize("scale", [1e-100, 1e-20, 1.0, 1e20])
def test_a_singular_matrix_of_any_scale_is_cut_to_its_rank(scale):
    rows = np.random.default_rng(3).normal(size=(9, 4))
    rows[:, 3] = rows[:, 0]
    gram = ExplicitGram(math.sqrt(scale) * rows)
    found = Cholesky().prepare(gram).solve(random_vector(4))
    assert (found.status, found.rank) == (SolveStatus.TRUNCATED, 3)
    exact = np.linalg.pinv(gram.matrix / scale, rcond=1e-12) @ random_vector(4)
    np.testing.assert_allclose(scale * found.value, exact, rtol=1e-6)


# What a preconditioner is


def test_jacobi_divides_by_the_damped_diagonal():
    gram = MatrixGram(np.diag([0.5, 2.0, 0.0]))
    for damping, expected in ((0.0, [6.0, 1.5, 0.0]), (0.5, [3.0, 1.2, 6.0])):
        inverse = Jacobi().prepare(gram, added=damping, iteration=0)
        np.testing.assert_allclose(inverse(np.full(3, 3.0)), expected)


@pytest.mark.parametrize("epsilon", [-0.1, 0.0, 1.0, 1.5])
def test_epsilon_is_between_0_and_1(epsilon):
    with pytest.raises(InvalidInput, match="epsilon must be between 0 and 1"):
        SketchQR(epsilon=epsilon)
    assert SketchQR(epsilon=0.999).epsilon == 0.999


class Exact:
    """A preconditioner that is no sketch: the root of a diagonal matrix."""

    def __init__(self, diagonal):
        self._diagonal = np.asarray(diagonal, float)

    def prepare(self, gram, *, added, iteration):
        return paper.Triangle(np.diag(np.sqrt(self._diagonal)), rows=7, added=added, repaired=False)


@pytest.mark.parametrize(
    ("diagonal", "tol"),
    [([4.0, 9.0, 1.0], math.sqrt(1 / 3) / 6), ([0.04, 1.0], math.sqrt(0.02) / 6), ([50.0, 60.0], 1 / 6),
     ([1e-30, 1.0], 1e-12)],
)  # fmt: skip
def test_the_papers_tolerance(diagonal, tol, monkeypatch):
    asked = []

    class Told(Search):
        def __init__(self, system, rhs, tol, **more):
            asked.append(tol)
            super().__init__(system, rhs, tol, **more)

    monkeypatch.setattr(paper, "Search", Told)
    gram, rhs = MatrixGram(np.diag(diagonal)), np.ones(len(diagonal))
    found = Sketched(preconditioner=Exact(diagonal)).prepare(gram).solve(rhs)
    assert asked == [pytest.approx(tol, rel=1e-6, abs=0)]
    assert found.sketch_rows == 7
    Sketched(tol=0.3, preconditioner=Exact(diagonal)).prepare(gram).solve(rhs)
    assert asked[1] == 0.3


def test_rows_of_a_sketch_are_told_where_there_is_one():
    gram, rhs = gram_of([1.0, 0.5, 0.3]), random_vector(3)
    assert ConjugateGradient().prepare(gram).solve(rhs).sketch_rows == 0
    assert ConjugateGradient(preconditioner=SketchQR()).prepare(gram).solve(rhs).sketch_rows == 48


def test_seeds_of_sketches_follow_from_seed_and_iteration():
    gram = gram_of([1.0, 0.5, 0.3])
    for seed, iteration in ((0, 0), (5, 3), (2**64 - 1, 0)):
        SketchQR(seed=seed).prepare(gram, added=0.0, iteration=iteration)
    assert [sketch.seed for sketch in gram.sketches] == [1_000_003, 5 + 4 * 1_000_003, 1_000_002]


def test_a_factor_is_reused_for_its_size_only():
    solver = ReusedFactor()
    for size in (4, 4, 3, 3):
        found = solver.prepare(gram_of(np.geomspace(1, 0.1, size))).solve(random_vector(size))
        assert found.factored == (len(solver.factor.lower) != size or found.inner_iterations == 0)
        assert found.status == SolveStatus.SOLVED
    for solver in (ReusedFactor(), Cholesky()):
        first = solver.prepare(gram_of([1.0, 0.5])).solve(random_vector(2))
        assert (first.factored, first.inner_iterations) == (True, 0)


def test_defaults_are_a_promise():
    """Results follow from them to the bit, so a change is a change for everybody."""
    assert Sketched() == Sketched(tol=None, preconditioner=SketchQR(), max_iterations=1000)
    assert SketchQR() == SketchQR("tensor", oversampling=16.0, epsilon=0.1, seed=0)
    assert ConjugateGradient() == ConjugateGradient(tol=1e-10, preconditioner=Jacobi(), max_iterations=None)
    assert ReusedFactor() == ReusedFactor(tol=1e-9, patience=25, factor=None)
    for make in SKETCHES.values():
        assert make(9) == make(9, seed=0)
    assert (SKETCHES["sparse-sign"](9).per_column, SKETCHES["count"](9).per_column) == (8, 1)


# Which numbers are drawn


def test_streams_are_apart_from_each_other_and_from_the_start():
    streams = [getattr(sketches, f"_{name}") for name in ("GAUSSIAN", "SPARSE", "HADAMARD")]
    streams += [sketches._TENSOR_NEURONS, sketches._TENSOR_FEATURES]
    assert all(a < b for a, b in pairwise([15, *streams]))


GOLDEN = {  # but for hadamard, whose rows NumPy picks, and may pick in another way in a later version
    "gaussian": [-0.079328, -0.024254, 0.477524, 0.186077, -0.46529, -0.163381],
    "sparse-sign": [0.11547, -0.288675, -0.11547, 0.288675, 0.0, 0.288675],
    "count": [0.4, 0.0, 0.4, 0.0, -0.6, -0.5],
    "tensor": [-0.1, 0.5, 0.0, 0.0, -0.1, 0.0],
}


@pytest.mark.parametrize("name", GOLDEN)
def test_golden_values(name):
    """A run can be made again with a later version: the same seed gives the same sketch."""
    fires, inputs = np.array([[1, 0], [1, 1]]), np.array([[0.6, 0.8], [1.0, 0.0]])
    piece = slice_of([2, 5], fires, [1.0, -1.0], inputs, scale=0.5, width=8)
    sketch = SKETCHES[name](3, seed=11)
    np.testing.assert_allclose(sketch.finish(sketch.gather(piece), piece).ravel(), GOLDEN[name], atol=1e-6)


@pytest.mark.parametrize("name", SKETCHES)
def test_random_numbers_are_drawn_in_few_pieces(name, monkeypatch):
    drawn = []
    for make in ("random_words", "random_normals"):
        original = getattr(sketches, make)
        monkeypatch.setattr(
            sketches, make, lambda *asked, original=original: drawn.append(len(asked[2])) or original(*asked)
        )
    gram, _ = make_gram(inputs=random_inputs(5, 4), width=1000, shift=1.0)
    gram.sketch(SKETCHES[name](10))
    besides = drawn.count(4) if name == "tensor" else 0  # the four features
    assert len(drawn) == 1 + besides
    firing = drawn[0]
    monkeypatch.setattr(sketches, "_CHUNK", 1)
    drawn.clear()
    gram.sketch(SKETCHES[name](10))
    assert drawn[:firing] == [1] * firing  # never more than fit, but one neuron at least


def test_distortion_counts_directions_that_are_weak():
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(2, 6))
    near = rows[0] + 1e-4 * rng.normal(size=6)
    inputs = np.array([row / np.linalg.norm(row) for row in (*rows, near)])
    gram, _ = make_gram(inputs=inputs, width=400, shift=0.0)
    values = np.linalg.eigvalsh(gram.dense())
    assert 1e-11 < values[0] / values[-1] < 1e-3
    wide = SKETCHES["gaussian"](2000, seed=1)
    half = np.linalg.cholesky(gram.dense())
    SU = np.linalg.solve(half, gram.sketch(wide).T).T
    assert distortion(gram, wide) == pytest.approx(np.linalg.norm(np.eye(3) - SU.T @ SU, 2), rel=1e-4)


def test_nothing_is_distorted_where_nobody_fires():
    gram, _ = make_gram(inputs=random_inputs(4, 3), width=6, shift=9.0)
    assert distortion(gram, SKETCHES["count"](9)) == 0


def test_distortion_of_one_input_is_that_of_its_length():
    gram, _ = make_gram(inputs=random_inputs(1, 3), width=60, shift=0.0)
    sketch = SKETCHES["gaussian"](9)
    expected = abs(1 - np.sum(gram.sketch(sketch) ** 2) / gram.dense()[0, 0])
    assert distortion(gram, sketch) == pytest.approx(expected, rel=1e-9)
