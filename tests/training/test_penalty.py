"""Training with a penalty, against its definition."""

import itertools

import naive
import numpy as np
import pytest

from thresher import (
    Problem,
    Status,
    replay,
    to_sphere,
    train,
    train_together,
)
from thresher.algebra import Cholesky, DirectFactor, MatrixGram
from thresher.engines import engine as engines
from thresher.estimators.models import networks
from thresher.estimators.models.networks import train_penalised
from thresher.model.network import NetworkSettings
from thresher.shards import start_gram
from thresher.theory import firing_probability
from thresher.training.options import Setup
from thresher.training.restore import remake
from thresher.training.train import complete

N, D, SHIFT = 40, 6, 0.7
OPTIONS = {"width": 1500, "shift": SHIFT, "seed": 3, "twins": True}
FIXED = ("width", "shift", "seed", "twins", "activation", "sequence")
every_index = pytest.mark.parametrize("index", ["dense", "scan", "tournament"])
both_twins = pytest.mark.parametrize("twins", [True, False])


def make_case():
    """Inputs, targets and a penalty for each."""
    rng = np.random.default_rng(4)
    X, y = to_sphere(rng.normal(size=(N, D))), rng.normal(size=N)
    return X, y, 0.1 * firing_probability(SHIFT) * rng.uniform(0.5, 2, N)


@pytest.fixture
def case():
    return make_case()


def settings_of(options):
    chosen = {name: value for name, value in options.items() if name in FIXED}
    return NetworkSettings.checked(dimension=D, **chosen)


def start_of(settings):
    m = settings.width
    return settings.start.block(0, m).astype(float), settings.start.signs(np.arange(m))


def loss_of(network, X, y, penalty):
    """The penalised loss, by its definition."""
    W0, signs = start_of(network.settings)
    W = network.weights.vectors(range(network.width))
    f = naive.outputs(W, signs, X, network.shift, network.settings.activation)
    return (((f - y) ** 2 / penalty).sum() + ((W - W0) ** 2).sum()) / 2


def penalised(X, Y, penalty, settings, **more):
    """Networks from the first solutions of the Gram matrix at the start, as estimators train them."""
    Y = Y.reshape(len(X), -1)
    W0, signs = start_of(settings)
    f = naive.outputs(W0, signs, X, settings.shift)
    factor = DirectFactor(MatrixGram(start_gram(X, settings)), penalty)
    first = np.column_stack([factor.solve(y - f).value for y in Y.T])
    options = {"tol": 1e-2, "max_iterations": 4, "threads": 1, **more}
    return train_penalised(X, Y, settings=settings, penalty=penalty, first=first, near=factor, **options)


def assert_same_path(one, other, *, rel):
    assert (one.status, one.message) == (other.status, other.message)
    for name in ("step", "flips", "firing"):
        assert [getattr(a, name) for a in one.history] == [getattr(a, name) for a in other.history], name
    residuals = [[record.residual for record in run.history] for run in (one, other)]
    np.testing.assert_allclose(*residuals, rtol=rel)


class TestTheDefinition:
    @every_index
    @both_twins
    def test_steps_are_those_of_the_dense_formula(self, case, index, twins):
        X, y, penalty = case
        options = OPTIONS | {"twins": twins}
        result = train(
            X, y, penalty=penalty, index=index, first_step="gram", dtype="float64", tol=1e-9, max_iterations=4,
            solver=Cholesky(), **options,
        )  # fmt: skip
        self.check(result, X, y, penalty, 1e-9)
        assert len(result.steps) > 1

    @both_twins
    def test_so_are_those_of_estimators(self, case, twins, monkeypatch):
        X, y, penalty = case
        monkeypatch.setattr(networks, "_INNER_TOLERANCE", 1e-9)
        settings = settings_of(OPTIONS | {"twins": twins})
        (result,) = penalised(X, y, penalty, settings, tol=1e-9)
        self.check(result, X, y, penalty, 2e-4)
        assert len(result.steps) > 1

    @staticmethod
    def check(result, X, y, penalty, near):
        settings = result.network.settings
        W0, signs = start_of(settings)
        fractions = [1 - step.keep for step in result.steps]
        assert fractions == [record.step for record in result.history[1:]][: len(fractions)]
        expected = naive.ridge_steps(W0, signs, X, y, shift=settings.shift, penalty=penalty, fractions=fractions)
        for step, fraction, (_, alpha) in zip(result.steps, fractions, expected, strict=True):
            np.testing.assert_allclose(step.v, fraction * alpha, atol=near * np.abs(alpha).max())
        W = expected[-1][0]
        np.testing.assert_allclose(result.network.weights.vectors(range(settings.width)), W, atol=0.1 * near)
        outputs = naive.outputs(W, signs, X, settings.shift)
        assert result.history[len(fractions)].residual == pytest.approx(np.linalg.norm(outputs - y), rel=near)
        np.testing.assert_allclose(result.network.predict(X), outputs, atol=near)

    def test_it_ends_at_a_minimum(self, case):
        X, y, _ = case
        p, tol = 1.0, 2e-3  # so large that few pairs sit on the threshold at the minimum
        result = train(X, y, penalty=p, tol=tol, width=1 << 14, shift=SHIFT, dtype="float64")
        assert result.status == Status.CONVERGED
        W0, signs = start_of(result.network.settings)
        W = result.network.weights.vectors(range(1 << 14))
        f = naive.outputs(W, signs, X, SHIFT)
        alpha = result.steps[-1].v
        assert result.remainder == pytest.approx(np.linalg.norm(p * alpha - (y - f)) / np.linalg.norm(y), rel=1e-4)
        assert result.remainder <= tol
        fires = naive.firing(W, X, SHIFT)
        towards = signs[:, None] * (fires * ((y - f) / p)) @ X / np.sqrt(len(W))  # Jᵀ (y - f) / p
        assert np.linalg.norm(W - W0 - towards) < 0.15 * np.linalg.norm(W - W0)  # but for pairs on the threshold

    def test_a_number_is_the_same_penalty_for_every_input(self, case):
        X, y, penalty = case
        runs = [train(X, y, penalty=p, max_iterations=2, **OPTIONS) for p in (0.1, np.full(N, 0.1), penalty)]
        steps = [[step.v.tolist() for step in run.steps] for run in runs]
        assert steps[0] == steps[1] != steps[2]

    def test_gradients_are_those_of_the_outputs(self, case):
        X, y, penalty = case
        network = train(X, y, penalty=penalty, max_iterations=2, **OPTIONS).network
        W, (_, signs) = network.weights.vectors(range(network.width)), start_of(network.settings)
        expected = (naive.firing(W, X, SHIFT).T * signs) @ W / np.sqrt(network.width)
        np.testing.assert_allclose(network.gradients(X), expected, atol=1e-4)


class TestOnePath:
    @both_twins
    @pytest.mark.parametrize("activation", ["relu", "max"])
    @pytest.mark.parametrize("dtype", ["float32", "float64"])
    @pytest.mark.parametrize("first_step", ["limit", "gram"])
    def test_every_index_walks_it(self, case, twins, activation, dtype, first_step):
        X, y, penalty = case
        options = OPTIONS | {"twins": twins, "activation": activation, "dtype": dtype, "first_step": first_step}
        options |= {"penalty": penalty, "tol": 1e-2, "max_iterations": 4}
        runs = {index: train(X, y, index=index, audit=True, **options) for index in ("dense", "scan", "tournament")}
        for run in runs.values():
            assert_same_path(run, runs["scan"], rel=1e-6 if dtype == "float32" else 1e-10)
            np.testing.assert_allclose(run.network.predict(X), runs["scan"].network.predict(X), atol=1e-5)
        W, (_, signs) = runs["dense"].network.weights.vectors(range(1500)), start_of(settings_of(options))
        f = naive.outputs(W, signs, X, SHIFT, activation)
        assert np.linalg.norm(f - y) == pytest.approx(runs["dense"].history[-1].residual, rel=1e-5)

    def test_hadamard_starts(self, case):
        X, y, penalty = case
        options = OPTIONS | {"start": "hadamard", "penalty": penalty, "tol": 1e-2, "max_iterations": 3}
        runs = [train(X, y, index=index, **options) for index in ("dense", "scan")]
        assert_same_path(*runs, rel=1e-6)
        random = train(X, y, **options | {"start": "random"})
        assert random.history[1].firing != runs[0].history[1].firing

    def test_threads_and_replaying_change_no_bit(self, case, monkeypatch):
        X, y, penalty = case
        monkeypatch.setattr(engines, "_SHARD", 2048)
        options = OPTIONS | {"penalty": penalty, "tol": 1e-2, "max_iterations": 3}
        assert len(engines.shard_ranges(1500, share=8)) == 5
        runs = [train(X, y, threads=threads, **options) for threads in (1, 3)]
        again = replay(Problem(X, y), steps=runs[0].steps, **options)
        assert len(runs[0].steps) > 1
        for step, other in zip(*(run.steps for run in runs), strict=True):
            np.testing.assert_array_equal(step.v, other.v)
        np.testing.assert_array_equal(runs[0].network.weights.moved, runs[1].network.weights.moved)
        np.testing.assert_array_equal(runs[0].network.weights.moved, again.weights.moved)

    @pytest.mark.parametrize("first_step", ["limit", "gram"])
    def test_outputs_trained_together_are_those_trained_alone(self, case, first_step):
        X, y, penalty = case
        targets = [y, y[::-1], np.zeros(N), 1e3 * y, 1e-3 * y]
        options = OPTIONS | {"penalty": penalty, "tol": 1e-2, "max_iterations": 3, "first_step": first_step}
        together = train_together([Problem(X, one) for one in targets], threads=2, **options)
        assert together[2].status == Status.CONVERGED
        assert not together[2].network.weights.moved.any()
        for one, result in zip(targets, together, strict=True):
            alone = train(X, one, threads=1, **options)
            assert_same_path(alone, result, rel=0)
            np.testing.assert_array_equal(result.network.weights.moved, alone.network.weights.moved)

    def test_so_are_those_of_estimators_and_they_are_made_again(self, case):
        X, y, penalty = case
        settings, Y = settings_of(OPTIONS), np.column_stack([y, 0.01 * y[::-1], np.zeros(N)])
        together = penalised(X, Y, penalty, settings, threads=2)
        options = {"width": settings.width, "shift": settings.shift, "seed": settings.start.seed, "threads": 1}
        options |= {"twins": settings.start.twins, "start": settings.start.sequence, "penalty": penalty}
        setup = Setup.of([Problem(X, np.zeros(len(X))) for _ in together], complete(options))
        again = remake(setup.with_first_step("given"), [[*one.steps] for one in together])
        for column, result, network in zip(Y.T, together, again, strict=True):
            (alone,) = penalised(X, column, penalty, settings)
            np.testing.assert_array_equal(result.network.weights.moved, alone.network.weights.moved)
            np.testing.assert_array_equal(result.network.weights.moved, network.weights.moved)


class TestTheFirstStep:
    def test_a_known_one_is_taken_and_its_factor_makes_later_solves_short(self, case):
        X, y, penalty = case
        (result,) = penalised(X, y, penalty / 1000, settings_of(OPTIONS), tol=1e-9, max_iterations=3)
        assert result.history[1].inner_iterations == 0
        assert result.history[1].factored
        later = [record.inner_iterations for record in result.history[2:]]
        assert 0 < max(later) <= 12

    def test_a_long_one_passes_over_all_pairs(self, case):
        X, y, penalty = case
        options = OPTIONS | {"penalty": penalty, "max_iterations": 1}
        looks = {scale: train(X, scale * y, **options).history[1].looks for scale in (1e-3, 10.0)}
        assert looks[10.0] >= 1500 * N > 20 * looks[1e-3]

    @every_index
    def test_steps_are_halved_until_the_penalised_loss_falls(self, case, index):
        X, y, _ = case
        options = {"width": 60, "shift": SHIFT, "seed": 1, "index": index, "penalty": 0.01}
        problem = Problem(X, 100 * y)
        result = train(problem, max_iterations=5, **options)
        assert min(record.step for record in result.history[1:]) < 1
        paths = [result.steps[:k] for k in range(len(result.steps) + 1)]
        losses = [loss_of(replay(problem, steps=path, **options), X, 100 * y, 0.01) for path in paths]
        assert len(losses) > 2
        for (before, after), record in zip(itertools.pairwise(losses), result.history[1:], strict=False):
            assert after < before if record.step else after == before
