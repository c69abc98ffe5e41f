"""The loop: what its records mean, when it stops, and that it never goes up."""

import math
from itertools import pairwise
from typing import NamedTuple

import naive
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from properties import examples
from sklearn.datasets import load_digits

from thresher import History, Iteration, MemoryRefused, Problem, Status, to_sphere, train
from thresher.algebra import Cholesky, ConjugateGradient, DirectFactor, Sketched, SketchQR
from thresher.datasets import random_problem
from thresher.model.start import Start

every_index = pytest.mark.parametrize("index", ["scan", "tournament", "certified"])
every_dtype = pytest.mark.parametrize("dtype", ["float32", "float64"])


def make_problem(n=8, d=6, seed=0):
    rng = np.random.default_rng(seed)
    return Problem(to_sphere(rng.normal(size=(n, d))), rng.normal(size=n))


def train_small(problem=None, **options):
    fixed = {"width": 700, "shift": 0.8, "dtype": "float64", "tol": 1e-9, "first_step": "gram", "index": "tournament"}
    fixed["twins"] = False
    if options.get("dtype") == "float32":
        fixed["tol"] = 1e-6
    return train(problem or make_problem(), **fixed | options)


def raw_digits(n):
    """Rows that all point the same way, odd against even: a narrow network overshoots on them."""
    digits = load_digits()
    return Problem(to_sphere(digits.data[:n]), np.where(digits.target[:n] % 2, 1.0, -1.0))


def overshooting(**options):
    fixed = {"width": 10, "shift": 0.3, "dtype": "float64", "max_iterations": 3, "first_step": "gram"}
    return train(raw_digits(300), **fixed | options)


def fired_at_start(result):
    return np.nonzero(naive.firing(start_of(result)[0], make_problem().inputs, 0.8))[0]


def losses(result):
    return [record.loss for record in result.history]


def start_of(result):
    start, width = result.network.settings.start, result.network.width
    return start.block(0, width).astype(np.float64), start.signs(np.arange(width))


@every_index
@every_dtype
def test_the_first_record_is_the_start(index, dtype):
    problem = make_problem()
    result = train_small(index=index, dtype=dtype, max_iterations=0)
    (record,) = result.history
    W0, signs = start_of(result)
    outputs = naive.outputs(W0, signs, problem.inputs, 0.8)
    assert record.iteration == 0
    assert record.residual == pytest.approx(np.linalg.norm(outputs - problem.targets), rel=1e-5)
    assert record.loss == pytest.approx(record.residual**2 / 2)
    assert math.isnan(record.contraction)
    assert (record.step, record.flips, record.moved) == (0.0, 0, 0)
    assert (record.solve, record.inner_iterations, record.damping, record.rank) == ("", 0, 0.0, problem.size)
    assert record.firing == naive.firing(W0, problem.inputs, 0.8).sum()
    assert 8 * 700 <= record.looks <= 8 * 700 + 20
    assert set(record.seconds) == {"start"}
    assert result.status == Status.OUT_OF_ITERATIONS


@every_index
def test_later_records(index):
    result = train_small(index=index)
    assert result.status == Status.CONVERGED
    assert [record.iteration for record in result.history] == list(range(len(result.history)))
    for before, record in pairwise(result.history):
        assert record.contraction == pytest.approx(record.residual / before.residual)
        assert record.loss == pytest.approx(record.residual**2 / 2)
        assert record.step == 1.0
        assert record.solve == "solved"
        assert record.rank == 8
        assert 0 < record.moved <= before.firing
        assert abs(record.firing - before.firing) <= record.flips
        assert set(record.seconds) == {"solve", "move"}
        exact = {"tournament": 8 * record.moved, "scan": 8 * 700, "certified": 0}[index]
        most = exact + 20 + record.flips if index != "certified" else 8 * record.moved
        assert exact <= record.looks <= most
    for record in result.history:
        assert all(isinstance(value, float) and value >= 0 for value in record.seconds.values())
        if record.iteration:
            assert (record.visits > 0) == (index != "scan")
            assert (record.touches > 0) == (index != "scan")


def test_history_is_a_sequence():
    history = train_small().history
    assert isinstance(history[0], Iteration)
    assert isinstance(history[1:], History)
    assert [record.iteration for record in history[1:]] == list(range(1, len(history)))
    assert history[-1] is list(history)[-1]
    assert "iterations" in repr(history)
    assert repr(History()) == "History(0 iterations)"


@settings(deadline=None, max_examples=examples(10))
@given(tol=st.sampled_from([0.5, 0.1, 1e-2, 1e-4, 1e-8]), size=st.sampled_from([1e-3, 1.0, 1e3]))
def test_tol_is_relative_to_the_first_residual(tol, size):
    problem = make_problem()
    result = train_small(Problem(problem.inputs, size * problem.targets), tol=tol, width=5000, max_iterations=50)
    assert result.status == Status.CONVERGED
    residuals = [record.residual for record in result.history]
    assert residuals[-1] <= tol * residuals[0]
    assert all(residual > tol * residuals[0] for residual in residuals[:-1])


def test_nothing_to_learn():
    problem = make_problem()
    result = train_small(Problem(problem.inputs, np.zeros(8)), twins=True)
    assert result.status == Status.CONVERGED
    assert losses(result) == [0.0]
    assert not len(result.network.weights.coefficients)


class Timid:
    """Takes a share of the Gauss-Newton step in each iteration: the last of ``shares`` once they are used up."""

    def __init__(self, *shares):
        self.shares = shares

    def prepare(self, gram, *, added=0.0, iteration=0):
        share = self.shares[min(iteration, len(self.shares) - 1)]
        return Multiplied(Cholesky().prepare(gram, added=added), share)


class Multiplied(NamedTuple):
    """A factor whose solutions are so many times what they should be."""

    factor: DirectFactor
    times: float

    def solve(self, rhs):
        solution = self.factor.solve(rhs)
        return solution._replace(value=self.times * solution.value)


@pytest.mark.parametrize("tol, planned", [(0.5, 1), (0.3, 2), (0.1, 4)])
def test_ten_times_the_planned_iterations_at_the_most(tol, planned):
    result = train_small(solver=Timid(0.01), tol=tol)
    assert result.status == Status.OUT_OF_ITERATIONS
    assert all(record.contraction > 0.5 for record in result.history[1:])
    assert len(result.history) - 1 == 10 * planned
    assert "max_iterations" in result.message


@pytest.mark.parametrize("slow", [1, 5, 8])
def test_iterations_that_do_not_halve_the_residual_earn_another(slow):
    result = train_small(solver=Timid(*[0.01] * slow, 1.0), tol=0.5)
    assert result.status == Status.CONVERGED
    assert len(result.history) - 1 == slow + 1


@pytest.mark.parametrize("most", [0, 1, 3, 25])
def test_max_iterations_is_kept(most):
    result = train_small(solver=Timid(0.01), tol=0.5, max_iterations=most)
    assert result.status == Status.OUT_OF_ITERATIONS
    assert len(result.history) - 1 == most


def test_stalled_once_no_step_goes_down():
    result = train_small(solver=Timid(-1.0))
    assert result.status == Status.STALLED
    assert len(result.history) == 2
    assert losses(result)[0] == losses(result)[1]
    last = result.history[1]
    assert (last.step, last.flips, last.moved, last.contraction) == (0.0, 0, 0, 1.0)
    assert not len(result.network.weights.coefficients)


def test_stalled_after_all_halvings():
    """A slope that is promised but never kept: every length is tried, and the weights stay where they were."""

    class Liar:
        def prepare(self, gram, *, added=0.0, iteration=0):
            return Multiplied(Cholesky().prepare(gram), 1e7)

    result = train_small(solver=Liar())
    assert result.status == Status.STALLED
    last = result.history[-1]
    assert last.step == 0.0
    assert last.looks >= 13 * 8 * len(np.unique(fired_at_start(result)))
    assert losses(result)[0] == losses(result)[1]
    np.testing.assert_array_equal(result.network.weights.vectors(range(700)), start_of(result)[0])


@every_index
@every_dtype
def test_steps_are_shortened_where_full_ones_go_up(index, dtype):
    result = overshooting(index=index, dtype=dtype)
    steps = [record.step for record in result.history[1:]]
    assert min(steps) < 1
    assert all(math.log2(step).is_integer() and 2**-12 <= step <= 1 for step in steps)
    assert all(after <= before for before, after in pairwise(losses(result)))
    shortened = next(record for record in result.history[1:] if record.step < 1)
    if index != "certified":
        tries = 1 - math.log2(shortened.step)
        assert shortened.looks >= tries * 300 * (shortened.moved if index == "tournament" else 10)


def test_the_full_step_would_have_gone_up():
    problem, result = raw_digits(300), overshooting(max_iterations=1)
    assert result.history[1].step < 1
    W0, signs = start_of(result)
    J = naive.jacobian(W0, signs, problem.inputs, 0.3)
    residual = naive.outputs(W0, signs, problem.inputs, 0.3) - problem.targets
    full = W0 - (J.T @ np.linalg.lstsq(J @ J.T, residual, rcond=1e-13)[0]).reshape(W0.shape)
    reached = naive.outputs(full, signs, problem.inputs, 0.3) - problem.targets
    assert np.linalg.norm(reached) > np.linalg.norm(residual)


@settings(deadline=None, max_examples=examples(20))
@given(
    n=st.integers(1, 30),
    d=st.integers(1, 5),
    width=st.integers(1, 60),
    shift=st.floats(0, 1.5),
    spread=st.floats(0.05, 2),
    solver=st.sampled_from(["cholesky", "cg", Sketched(max_iterations=50)]),
    dtype=st.sampled_from(["float32", "float64"]),
    seed=st.integers(0, 2**32 - 1),
)
def test_losses_never_go_up(n, d, width, shift, spread, solver, dtype, seed):
    rng = np.random.default_rng(seed)
    problem = Problem(to_sphere(1 + spread * rng.normal(size=(n, d))), rng.normal(size=n))
    result = train(problem, width=width, shift=shift, seed=seed, solver=solver, dtype=dtype, max_iterations=6)
    assert np.isfinite(losses(result)).all()
    assert all(after <= before for before, after in pairwise(losses(result)))
    assert result.message
    assert result.status in (Status.CONVERGED, Status.STALLED, Status.OUT_OF_ITERATIONS)


@pytest.mark.parametrize("twins", [False, True])
@pytest.mark.parametrize("noise", [0.0, 0.05])
@pytest.mark.parametrize("n, d, width", [(6, 12, 4000), (8, 8, 20_000)])
def test_paper_halves_the_residual_on_separated_inputs(n, d, width, noise, twins):
    rng = np.random.default_rng(n)
    problem = Problem(to_sphere(np.eye(d)[:n] + noise * rng.normal(size=(n, d))), rng.normal(size=n))
    result = train(problem, width=width, method="paper", twins=twins)
    assert result.status == Status.CONVERGED
    for record in result.history[1:]:
        assert record.step == 1.0
        assert record.contraction <= 0.5
        assert record.solve == "solved"
        assert record.visits > 0
        assert record.inner_iterations > 0


def test_paper_is_short_for_tournament_and_sketched():
    short = train_small(method="paper", max_iterations=2)
    spelt = train_small(
        index="tournament", solver=Sketched(preconditioner=SketchQR(oversampling=None)), max_iterations=2
    )
    assert losses(short) == losses(spelt)


@pytest.mark.parametrize("solver", [Cholesky(), ConjugateGradient(tol=1e-13)], ids=["cholesky", "cg"])
@pytest.mark.parametrize("damping", [1e-3, 0.1, 2.0])
def test_damping_is_in_the_record_and_in_the_step(damping, solver):
    problem = make_problem()
    result = train_small(damping=damping, solver=solver, max_iterations=4)
    W0, signs = start_of(result)
    states = naive.gauss_newton(W0, signs, problem.inputs, problem.targets, shift=0.8, iterations=4, damping=damping)
    assert result.history[0].damping == 0.0
    for before, record, state in zip(states[:-1], result.history[1:], states[1:], strict=True):
        assert record.damping == pytest.approx(damping * np.diag(before["gram"]).mean(), rel=1e-10)
        assert record.loss == pytest.approx(state["loss"], rel=1e-8, abs=1e-18)
    np.testing.assert_allclose(result.network.weights.vectors(range(700)), states[-1]["weights"], rtol=0, atol=1e-8)


def test_no_damping_unless_asked():
    assert all(record.damping == 0.0 for record in train_small().history)


@settings(deadline=None, max_examples=examples(25))
@given(
    pairs=st.integers(1, 1500),
    n=st.integers(1, 12),
    d=st.integers(1, 8),
    shift=st.floats(0, 2),
    seed=st.integers(0, 2**32 - 1),
    index=st.sampled_from(["scan", "tournament"]),
    dtype=st.sampled_from(["float32", "float64"]),
    activation=st.sampled_from(["relu", "max"]),
)
def test_twins_start_at_zero(pairs, n, d, shift, seed, index, dtype, activation):
    problem = make_problem(n, d, seed)
    options = {"seed": seed, "index": index, "dtype": dtype, "activation": activation, "max_iterations": 0}
    result = train(problem, width=2 * pairs, shift=shift, twins=True, **options)
    assert result.history[0].residual == np.linalg.norm(problem.targets)
    W0 = Start(seed, d, True).block(0, 2 * pairs)
    np.testing.assert_array_equal(W0[::2], W0[1::2])


def test_twins_start_at_zero_in_odd_shards(monkeypatch):
    monkeypatch.setattr("thresher.engines.engine._SHARD", 7)
    problem = make_problem()
    result = train_small(problem, twins=True, width=902, max_iterations=0)
    assert result.history[0].residual == pytest.approx(np.linalg.norm(problem.targets), rel=1e-14)


class TestCompact:
    @pytest.mark.parametrize("dtype", ["float32", "float64"])
    def test_it_says_what_the_network_says_with_fewer_neurons(self, dtype):
        problem = random_problem(inputs=10, dimension=8)
        network = train(problem, width=6000, twins=True, dtype=dtype).network
        compact, others = network.compact(), random_problem(inputs=1200, dimension=8, seed=1).inputs
        moved = set(network.weights.moved_neurons().tolist())
        kept = np.flatnonzero([neuron in moved or neuron ^ 1 in moved for neuron in range(6000)])
        assert len(compact.vectors) == len(kept) < 6000
        np.testing.assert_allclose(compact.vectors, [network.neuron(neuron) for neuron in kept], rtol=1e-6)
        close = 1e-5 if dtype == "float32" else 1e-12
        np.testing.assert_allclose(compact.predict(others), network.predict(others), atol=close)
        np.testing.assert_array_equal(compact.predict(others, threads=1), compact.predict(others, threads=3))

    @pytest.mark.parametrize("activation", ["relu", "max"])
    def test_without_twins_every_neuron_counts(self, activation):
        network = train(random_problem(inputs=10, dimension=8), width=600, twins=False, activation=activation).network
        others = random_problem(inputs=50, dimension=8, seed=1).inputs
        assert len(network.compact().vectors) == 600
        np.testing.assert_allclose(network.compact().predict(others), network.predict(others), atol=1e-5)

    def test_an_untrained_network_of_twins_has_nothing_to_say(self):
        network = train(Problem([[1.0, 0.0]], [0.0]), width=100, twins=True).network
        assert len(network.compact().vectors) == 0
        assert not network.compact().predict([[0.0, 1.0]]).any()

    def test_what_cannot_be_is_refused(self):
        problem = random_problem(inputs=5, dimension=3)
        with pytest.raises(MemoryRefused, match=r"10,000 neurons needs about 351\.6 KiB.*twins=True"):
            train(problem, width=10_000, twins=False).network.compact(memory_budget=1000)
        network = train(problem, width=10_000, twins=True).network
        with pytest.raises(MemoryRefused, match="compact network"):
            network.compact(memory_budget=1000)
