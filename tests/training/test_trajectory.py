"""Every index and solver walks the path of dense Gauss-Newton: losses, firing sets and weights."""

from typing import NamedTuple

import naive
import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from properties import examples

from thresher import Problem, Status, to_sphere, train
from thresher.algebra import Cholesky, ConjugateGradient, Sketched, SketchQR
from thresher.model.geometry import Geometry
from thresher.model.position import Position
from thresher.model.start import Start
from thresher.model.weights import Weights
from thresher.shards import SHARDS, Scan, Tournament

CLOSE = 1e-8
ROUNDING = 1e-11  # of the first residual: what a solve to 1e-13 leaves behind
WORST_CONDITION = 1e6

SOLVERS = {
    "cholesky": Cholesky(),
    "cg": ConjugateGradient(tol=1e-13),
    "cg with sketch": ConjugateGradient(tol=1e-13, preconditioner=SketchQR()),
    "sketched": Sketched(tol=1e-13),
}
every_index = pytest.mark.parametrize("index", ["scan", "tournament", "certified"])
every_solver = pytest.mark.parametrize("solver", SOLVERS.values(), ids=SOLVERS.keys())
fast_solvers = pytest.mark.parametrize("solver", list(SOLVERS.values())[:-1], ids=list(SOLVERS.keys())[:-1])


class Case(NamedTuple):
    inputs: np.ndarray
    targets: np.ndarray
    width: int
    shift: float
    seed: int = 0
    twins: bool = False
    activation: str = "relu"

    def start(self):
        start = Start(self.seed, self.inputs.shape[1], self.twins)
        return start.block(0, self.width).astype(np.float64), start.signs(np.arange(self.width))

    def dense(self, iterations):
        return naive.gauss_newton(
            *self.start(),
            self.inputs,
            self.targets,
            shift=self.shift,
            iterations=iterations,
            activation=self.activation,
        )

    def train(self, **options):
        fixed = {"width": self.width, "shift": self.shift, "seed": self.seed}
        fixed |= {"twins": self.twins, "activation": self.activation, "tol": 1e-11, "first_step": "gram"}
        if options.get("dtype") != "float64":
            fixed["tol"] = 1e-6
        return train(Problem(self.inputs, self.targets), **fixed | options)

    def fires(self, result):
        return naive.firing(result.network.weights.vectors(range(self.width)), self.inputs, self.shift)


def count_equal_steps(case, *, index, solver, iterations=6):
    """Compare with the dense path as long as its systems can be solved to full accuracy; return how many steps."""
    states = case.dense(iterations)
    first, steps = states[0], -1
    for t, state in enumerate(states):
        if t and naive.condition(states[t - 1]["gram"]) > WORST_CONDITION:
            break
        result = case.train(index=index, solver=solver, max_iterations=t, dtype="float64")
        if any(record.solve not in ("", "solved") for record in result.history):
            break
        assert len(result.history) == t + 1
        check_state(case, result, states[: t + 1])
        steps = t
        if state["residual"] < 1e-9 * first["residual"]:
            break
    return steps


def check_state(case, result, states):
    state, record = states[-1], result.history[-1]
    slack = ROUNDING * states[0]["residual"]
    assert record.residual == pytest.approx(state["residual"], rel=CLOSE / 2, abs=slack)
    if slack < CLOSE / 4 * state["residual"]:
        assert record.loss == pytest.approx(state["loss"], rel=CLOSE)
    assert record.step == state["step"]
    weights = result.network.weights.vectors(range(case.width))
    np.testing.assert_allclose(weights, state["weights"], rtol=0, atol=CLOSE * np.abs(state["weights"]).max())
    np.testing.assert_array_equal(case.fires(result), state["fires"])
    assert record.firing == state["fires"].sum()
    if len(states) > 1:
        before = states[-2]["fires"]
        assert record.flips == (before != state["fires"]).sum()
        assert record.moved == before.any(axis=1).sum()


@st.composite
def cases(draw, most_width=4096):
    n = draw(st.integers(1, 8), label="inputs")
    d = draw(st.integers(1, 6), label="dimension")
    twins = draw(st.booleans())
    width = draw(st.integers(1, most_width).filter(lambda m: m & (m - 1)), label="width")
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    return Case(
        inputs=to_sphere(rng.normal(size=(n, d))),
        targets=rng.normal(size=n),
        width=width + (width % 2 if twins else 0),
        shift=draw(st.floats(0, 2)),
        seed=draw(st.integers(0, 2**64 - 1)),
        twins=twins,
        activation=draw(st.sampled_from(["relu", "max"])),
    )


@every_index
@fast_solvers
@settings(deadline=None, max_examples=examples(15))
@given(case=cases())
def test_random_problems(case, index, solver):
    assume(count_equal_steps(case, index=index, solver=solver) > 0)


@every_index
@settings(deadline=None, max_examples=examples(4))
@given(case=cases(most_width=1000))
def test_random_problems_sketched(case, index):
    assume(count_equal_steps(case, index=index, solver=SOLVERS["sketched"], iterations=3) > 0)


@pytest.mark.slow
@every_index
@every_solver
@settings(deadline=None, max_examples=examples(150))
@given(case=cases())
def test_many_random_problems(case, index, solver):
    assume(count_equal_steps(case, index=index, solver=solver) > 0)


def basis(*columns, d):
    return np.eye(d)[list(columns)]


def sphere(n, d, seed=0):
    return to_sphere(np.random.default_rng(seed).normal(size=(n, d)))


def targets(n, seed=1):
    return np.random.default_rng(seed).normal(size=n)


def seed_for(accept, *, d, width, twins=False):
    """The first seed whose start weights are to the taste of ``accept``."""
    return next(seed for seed in range(10_000) if accept(Start(seed, d, twins).block(0, width).astype(np.float64)))


def largest_below(W0, k, rank):
    return float(np.sort(W0[:, k])[rank])


def margin_zero(*, twins):
    W0 = Start(3, 4, twins).block(0, 600)
    return Case(basis(0, 1, 3, d=4), targets(3), 600, shift=largest_below(W0, 1, 500), seed=3, twins=twins)


def all_fire(width, X, shift=0.0):
    seed = seed_for(lambda W: naive.firing(W, X, shift).all(), d=X.shape[1], width=width)
    return Case(X, targets(len(X)), width, shift, seed)


def overshooting(seed):
    rng = np.random.default_rng(seed)
    return Case(to_sphere(1 + rng.normal(size=(6, 3))), targets(6, seed), 30, shift=0.3, seed=seed)


REGULAR = {
    "margin exactly zero": margin_zero(twins=False),
    "twins that tie at margin zero": margin_zero(twins=True),
    "repeated columns": Case(np.repeat(sphere(4, 3), 2, axis=1) / np.sqrt(2), targets(4), 777, 0.7),
    "shift zero": Case(sphere(5, 4), targets(5), 999, 0.0),
    "one neuron": all_fire(1, sphere(1, 3), shift=0.1),
    "one input": Case(sphere(1, 5), targets(1), 300, 1.0),
    "all fire": all_fire(5, to_sphere(np.eye(3) + 0.3)),
    "two neurons": all_fire(2, sphere(2, 3)),
    "three neurons": all_fire(3, sphere(2, 3)),
    "width 1000": Case(sphere(6, 5), targets(6), 1000, 1.0),
    "width 4095": Case(sphere(8, 6), targets(8), 4095, 1.5, activation="max"),
    "opposite inputs": Case(np.vstack([sphere(3, 4), -sphere(3, 4)]), targets(6), 801, 0.5),
    "one dimension": Case(np.array([[1.0], [-1.0]]), targets(2), 50, 0.3),
}


@every_index
@every_solver
@pytest.mark.parametrize("case", REGULAR.values(), ids=REGULAR.keys())
def test_named_case(case, index, solver):
    assert count_equal_steps(case, index=index, solver=solver, iterations=4) >= 1


@every_index
@every_solver
@pytest.mark.parametrize("seed", [5, 6, 21])
def test_shortened_steps_are_the_same(seed, index, solver):
    case = overshooting(seed)
    assert min(state["step"] for state in case.dense(4)[1:]) < 1
    assert count_equal_steps(case, index=index, solver=solver, iterations=4) == 4


@pytest.mark.parametrize("twins", [False, True])
def test_a_margin_of_zero_fires(twins):
    case = margin_zero(twins=twins)
    W0, _ = case.start()
    at_zero = W0[:, 1] == case.shift
    assert at_zero.sum() == (2 if twins else 1)
    above = naive.preactivations(W0, case.inputs) > case.shift
    for index in SHARDS:
        for dtype in ("float32", "float64"):
            record = case.train(index=index, dtype=dtype, max_iterations=0).history[0]
            assert record.firing == above.sum() + at_zero.sum()


def seed_with_silence(*, shift, width):
    """A seed for which some neuron fires on the first basis vector and none on the second."""
    return seed_for(lambda W: naive.firing(W, np.eye(2), shift).any(axis=0).tolist() == [True, False], d=2, width=width)


def twice(X):
    return np.vstack([X, X])


SINGULAR = {
    "equal inputs, equal targets": Case(twice(sphere(3, 4)), np.tile(targets(3), 2), 500, 0.7),
    "equal inputs, targets that disagree": Case(twice(sphere(3, 4)), targets(6), 500, 0.7),
    "one dimension, equal inputs": Case(np.ones((3, 1)), targets(3), 40, 0.2),
    "one neuron, more inputs than weights": all_fire(1, to_sphere(np.eye(4)[:, :3] + 1.0)),
    "one silent input": Case(basis(0, 1, d=2), targets(2), 9, 0.8, seed=seed_with_silence(shift=0.8, width=9)),
}


def least_loss(case):
    """No function can do better than the mean of the targets of equal inputs."""
    _, group = np.unique(case.inputs, axis=0, return_inverse=True)
    means = np.bincount(group, case.targets) / np.bincount(group)
    return np.sum((case.targets - means[group]) ** 2) / 2


@every_index
@every_solver
@pytest.mark.parametrize("case", SINGULAR.values(), ids=SINGULAR.keys())
def test_singular_case_stays_finite_and_never_goes_up(case, index, solver):
    result = case.train(index=index, solver=solver, dtype="float64", max_iterations=8)
    losses = np.array([record.loss for record in result.history])
    assert np.isfinite(losses).all()
    assert np.isfinite(result.network.weights.coefficients).all()
    assert np.isfinite(result.network.weights.vectors(range(case.width))).all()
    assert (np.diff(losses) <= 0).all()
    assert (losses >= least_loss(case) * (1 - CLOSE)).all()
    assert {record.solve for record in result.history[1:]} <= {"solved", "damped", "truncated", "inexact"}
    assert all(np.isfinite([record.damping, record.rank]).all() for record in result.history)


@every_solver
@pytest.mark.parametrize("case", SINGULAR.values(), ids=SINGULAR.keys())
def test_singular_case_goes_down_where_it_can(case, solver):
    W0, signs = case.start()
    start = case.dense(0)[0]
    gradient = naive.jacobian(W0, signs, case.inputs, case.shift).T @ (start_outputs(case) - case.targets)
    assert np.linalg.norm(gradient) > 1e-3 * start["residual"]
    result = case.train(solver=solver, dtype="float64", max_iterations=1)
    assert result.history[1].loss < (1 - 1e-3) * result.history[0].loss


def start_outputs(case):
    return naive.outputs(*case.start(), case.inputs, case.shift, case.activation)


@every_index
@pytest.mark.parametrize("case", SINGULAR.values(), ids=SINGULAR.keys())
def test_singular_case_by_minimum_norm(case, index):
    states = case.dense(6)
    result = case.train(index=index, solver=Cholesky(), dtype="float64", max_iterations=len(states) - 1)
    for record, state in zip(result.history, states, strict=False):
        slack = CLOSE / 4 * state["residual"]
        if slack < ROUNDING * states[0]["residual"]:
            break
        assert record.loss == pytest.approx(state["loss"], rel=CLOSE)
        assert record.firing == state["fires"].sum()
    assert any(record.solve == "truncated" and record.rank < len(case.inputs) for record in result.history)


@every_index
@every_solver
def test_equal_inputs_with_equal_targets_are_learned(index, solver):
    case = SINGULAR["equal inputs, equal targets"]
    result = case.train(index=index, solver=solver, dtype="float64", tol=1e-6, max_iterations=10)
    assert result.status == Status.CONVERGED


@every_index
@pytest.mark.parametrize("solver", ["cholesky", "sketched"])
def test_targets_that_disagree_are_averaged(index, solver):
    case = SINGULAR["equal inputs, targets that disagree"]
    result = case.train(index=index, solver=SOLVERS[solver], dtype="float64", max_iterations=10)
    assert result.history[-1].loss == pytest.approx(least_loss(case), rel=1e-6)
    assert result.status == Status.STALLED
    assert "singular" in result.message


@every_index
@every_solver
@pytest.mark.parametrize("activation", ["relu", "max"])
def test_none_fires(index, solver, activation):
    case = Case(sphere(4, 3), targets(4), 50, 1e3, activation=activation)
    result = case.train(index=index, solver=solver, dtype="float64")
    assert result.status == Status.STALLED
    assert "shift" in result.message
    assert "width" in result.message
    assert [record.firing for record in result.history] == [0, 0]
    losses = [record.loss for record in result.history]
    assert losses[0] == losses[1] == pytest.approx(case.dense(0)[0]["loss"], rel=1e-12)
    np.testing.assert_array_equal(result.network.weights.vectors(range(50)), case.start()[0])


@settings(deadline=None, max_examples=examples(20))
@given(case=cases(most_width=2000))
def test_precision_does_not_change_who_fires(case):
    """Weights of a float32 path, looked at in float64: both indexes and both precisions find the same pairs."""
    result = case.train(dtype="float32", max_iterations=2)
    weights = result.network.weights
    expected = naive.firing(weights.vectors(range(case.width)), case.inputs, case.shift)
    for dtype in (np.float32, np.float64):
        for index in (Scan, Tournament):
            searched = index()
            position = Position.at_start(weights.start, Geometry.of(case.inputs, dtype=dtype))
            searched.init(position.with_coefficients(weights.support, weights.coefficients), range(case.width))
            pattern = searched.firing(case.shift).pattern
            found = np.zeros_like(expected)
            found[pattern.per_pair(pattern.neurons), pattern.inputs] = True
            np.testing.assert_array_equal(found, expected)
    starts = [case.train(dtype=dtype, max_iterations=0).history[0].firing for dtype in ("float32", "float64")]
    assert starts[0] == starts[1] == naive.firing(case.start()[0], case.inputs, case.shift).sum()


@pytest.mark.parametrize("case", REGULAR.values(), ids=REGULAR.keys())
def test_float32_path_does_not_depend_on_the_index(case):
    for t in range(5):
        scan, *others = (
            case.train(index=index, solver=Cholesky(), dtype="float32", tol=1e-6, max_iterations=t)
            for index in ("scan", "tournament", "certified")
        )
        for other in others:
            np.testing.assert_array_equal(case.fires(scan), case.fires(other))
            counters = [[(one.firing, one.flips, one.moved) for one in result.history] for result in (scan, other)]
            assert counters[0] == counters[1]


def test_start_weights_are_exact_in_both_precisions():
    case = REGULAR["width 1000"]
    W0, _ = case.start()
    for dtype in ("float32", "float64"):
        start = Weights.at_start(Start(case.seed, 5), case.inputs, dtype=dtype)
        np.testing.assert_array_equal(start.vectors(range(case.width)), W0)
