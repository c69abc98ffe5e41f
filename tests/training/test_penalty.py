"""Training with a penalty, against its definition."""

import itertools
import re
from dataclasses import replace

import naive
import numpy as np
import pytest

from thresher import (
    Callback,
    InvalidInput,
    MemoryRefused,
    Problem,
    Status,
    replay,
    to_sphere,
    train,
    train_together,
)
from thresher.algebra import Cholesky, DirectFactor, MatrixGram
from thresher.datasets import random_problem
from thresher.engines import engine as engines
from thresher.engines import estimate_memory
from thresher.estimators import networks
from thresher.estimators.networks import train_penalised
from thresher.model.network import NetworkSettings
from thresher.shards import Slice, start_gram
from thresher.theory import firing_probability
from thresher.training.options import Setup
from thresher.training.replay import remake
from thresher.training.train import complete

N, D, SHIFT = 40, 6, 0.7
OPTIONS = {"width": 1500, "shift": SHIFT, "seed": 3, "twins": True}
FIXED = ("width", "shift", "seed", "twins", "activation", "sequence")
every_index = pytest.mark.parametrize("index", ["dense", "scan", "tournament"])
both_twins = pytest.mark.parametrize("twins", [True, False])


@pytest.fixture
def case():
    rng = np.random.default_rng(4)
    X, y = to_sphere(rng.normal(size=(N, D))), rng.normal(size=N)
    return X, y, 0.1 * firing_probability(SHIFT) * rng.uniform(0.5, 2, N)


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

    def test_sobol_starts(self, case):
        X, y, penalty = case
        options = OPTIONS | {"sequence": "sobol", "penalty": penalty, "tol": 1e-2, "max_iterations": 3}
        runs = [train(X, y, index=index, **options) for index in ("dense", "scan")]
        assert_same_path(*runs, rel=1e-6)
        random = train(X, y, **options | {"sequence": "random"})
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
        options |= {"twins": settings.start.twins, "sequence": settings.start.sequence, "penalty": penalty}
        setup = Setup.of([Problem(X, np.zeros(len(X))) for _ in together], complete(options))
        again = remake(replace(setup, first_step="given"), [[*one.steps] for one in together])
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


class TestEnds:
    def test_it_says_how_solves_and_training_ended(self, case, monkeypatch):
        X, y, penalty = case
        settings = settings_of(OPTIONS)
        (settled,) = penalised(X, y, penalty, settings, tol=1e-9, max_iterations=100)
        assert settled.status == Status.STALLED
        assert settled.remainder > 1e-9
        assert re.search(r"gradient is still [\d.e-]+ of the targets.*raise the width, or the penalty", settled.message)
        assert {record.solve for record in settled.history[1:]} == {"solved"}
        monkeypatch.setattr(networks, "_MOST_PRODUCTS", 1)
        (hasty,) = penalised(X, y, penalty / 1000, settings, tol=1e-9, max_iterations=2)
        assert [record.solve for record in hasty.history] == ["", "solved", "inexact"]
        assert hasty.status == Status.OUT_OF_ITERATIONS
        assert "max_iterations" in hasty.message

    def test_callbacks_stop_it(self, case):
        X, y, penalty = case
        problems = [Problem(X, y), Problem(X, -y)]
        told = []

        def second(record):
            told.append(record.iteration)
            return record.iteration == 2

        results = train_together(problems, penalty=penalty, tol=1e-9, callbacks=[second], **OPTIONS)
        assert told[:3] == [0, 1, 2]
        assert [result.status for result in results] == [Status.INTERRUPTED] * 2
        assert [len(result.steps) for result in results] == [2, 1]
        again = replay(problems[0], steps=results[0].steps, penalty=penalty, **OPTIONS)
        np.testing.assert_array_equal(again.weights.moved, results[0].network.weights.moved)

    @pytest.mark.parametrize("at", [1, 2])
    def test_an_interrupt_leaves_the_network_of_whole_iterations(self, case, at):
        X, y, penalty = case

        def interrupt(record):
            if record.iteration == at:
                raise KeyboardInterrupt

        result = train(X, y, penalty=penalty, tol=1e-9, callbacks=[interrupt], **OPTIONS)
        assert (result.status, len(result.steps), len(result.history)) == (Status.INTERRUPTED, at, at + 1)
        again = replay(Problem(X, y), steps=result.steps, penalty=penalty, **OPTIONS)
        np.testing.assert_array_equal(again.weights.moved, result.network.weights.moved)

    @every_index
    def test_an_interrupt_in_the_middle_of_a_move(self, case, index, monkeypatch):
        X, y, penalty = case
        options = OPTIONS | {"penalty": penalty, "index": index, "tol": 1e-9}
        moves, call = [], Slice.call

        def interrupted(self, output, method, *arguments):
            found = call(self, output, method, *arguments)
            if method == "move":
                moves.append(arguments)
                if len(moves) == 2:
                    raise KeyboardInterrupt
            return found

        with monkeypatch.context() as patch:
            patch.setattr(Slice, "call", interrupted)
            result = train(X, y, **options)
        assert result.status == Status.INTERRUPTED
        again = replay(Problem(X, y), steps=result.steps, **options)
        vectors = (network.weights.vectors(range(1500)) for network in (again, result.network))
        np.testing.assert_array_equal(*vectors)

    X = to_sphere(np.random.default_rng(0).normal(size=(20, D)))
    Y = np.random.default_rng(1).normal(size=20)
    ENDS = {  # noqa: RUF012
        "one input": (X[:1], Y[:1], {}, "converged"),
        "one neuron": (X, Y, {"width": 1}, "(converged|stalled|out of iterations)"),
        "one neuron, one input": (X[:1], Y[:1], {"width": 1}, "(converged|stalled)"),
        "one dimension": ([[1.0], [-1.0]], [1.0, 2.0], {}, "converged"),
        "zero targets": (X, 0 * Y, {"penalty": 10.0}, "converged"),
        "zero targets of twins": (X, 0 * Y, {"twins": True}, "converged: The gradient"),
        "targets of 1e19": (X, 1e19 * Y, {}, "(out of iterations|stalled): .*(larger|[Rr]aise) the"),
        "targets of 1e-90": (X, 1e-90 * Y, {"twins": True, "dtype": "float64"}, "(converged|stalled: .*cancel beyond)"),
        "targets below float32": (X, 1e-90 * Y, {"twins": True}, "(converged|stalled: .*cancel beyond)"),
        "nothing fires": (X, Y, {"shift": 40.0}, "stalled: .*no neuron fires. Lower the shift or raise the width"),
        "nothing fires, zero targets": (X, 0 * Y, {"shift": 40.0}, "converged"),
        "equal inputs, other targets": (np.repeat(X[:1], 20, axis=0), Y, {"penalty": 10.0}, "converged"),
        "a huge penalty": (X, Y, {"penalty": 1e199, "twins": True}, "converged"),
        "a tiny penalty": (X, Y, {"penalty": 1e-199}, "(stalled|out of iterations): .*[Rr]aise the width"),
        "a tiny penalty on silent inputs": (X, Y, {"penalty": 1e-199, "width": 3}, "(stalled|out of iterations)"),
        "penalties far apart": (X, Y, {"penalty": np.geomspace(1e-50, 1e50, 20)}, "(stalled|out of|converged)"),
        "few iterations": (X, Y, {"max_iterations": 1, "tol": 1e-9}, "out of iterations: .*max_iterations"),
        "no iterations": (X, Y, {"max_iterations": 0}, "out of iterations"),
    }

    @every_index
    @pytest.mark.parametrize("name", ENDS)
    def test_the_end_says_what_happened_and_what_to_change(self, name, index):
        X, y, options, words = self.ENDS[name]
        for first_step in ("limit", "gram"):
            given = {
                "width": 300,
                "shift": 0.5,
                "penalty": 1.0,
                "tol": 1e-2,
                "max_iterations": 15,
                "index": index,
                **options,
            }
            result = train(X, y, first_step=first_step, audit=True, **given)
            assert re.match(words, f"{result.status.value}: {result.message}"), result.message
            assert np.isfinite([record.loss for record in result.history]).all()
            assert np.isfinite(result.network.weights.vectors(range(given["width"]))).all()

    @pytest.mark.parametrize("number", [1e38, 1e300])
    def test_a_first_step_beyond_single_precision_is_not_taken(self, case, number):
        X, y, penalty = case
        settings = settings_of(OPTIONS)
        first, near = np.full((N, 1), number), DirectFactor(MatrixGram(start_gram(X, settings)), penalty)
        (result,) = train_penalised(
            X, y[:, None], settings=settings, penalty=penalty, first=first, near=near, tol=0.5,
            max_iterations=3, threads=1,
        )  # fmt: skip
        assert result.history[1].step == 0
        assert result.status == Status.CONVERGED


class TestRefusals:
    def test_penalties(self, case):
        X, y, _ = case
        for penalty, words in (
            (-1.0, "penalty must be at least 0"),
            (np.nan, "penalty must be a finite number"),
            (np.ones(3), f"penalty must be a number, or {N} numbers, one per input; got 3"),
            (np.r_[np.ones(N - 1), 0.0], "above 0; that of input"),
            (1e-201, "penalties must be between 1e-200 and 1e.200, or 0 for none.*Rescale"),
            (np.full(N, 1e201), "penalties must be between"),
        ):
            with pytest.raises(InvalidInput, match=words):
                train(X, y, penalty=penalty, **OPTIONS)
        assert train(X, y, penalty=0.0, max_iterations=1, **OPTIONS).network.weights.support.pairs  # certified

    def test_certificates(self, case):
        X, y, penalty = case
        with pytest.raises(InvalidInput, match="Use index='dense', the default with a penalty"):
            train(X, y, penalty=penalty, index="certified", **OPTIONS)

    def test_memory_before_any_work(self, case, monkeypatch):
        X, y, penalty = case
        monkeypatch.setattr("thresher.training.loop.start_engines", lambda *_, **__: pytest.fail("work was done"))
        with pytest.raises(MemoryRefused, match=r"1,500 neurons on 40 inputs.*may be taken\. Use a smaller width"):
            train(X, y, penalty=penalty, memory_budget=1000, **OPTIONS)
        one = estimate_memory(Problem(X, y), settings_of(OPTIONS), index="dense")
        many = [Problem(X, y)] * 5000
        with pytest.raises(MemoryRefused):
            train_together(many, penalty=penalty, memory_budget=one, **OPTIONS)


class TestWhatAReviewFound:
    def test_a_checkpoint_with_a_penalty_is_not_resumed_without(self, tmp_path):
        problem, path = random_problem(inputs=20, dimension=4), tmp_path / "run"

        class Stop(Callback):
            def on_progress(self, done, total):
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            train(problem, width=512, penalty=1.0, shift=0.5, checkpoint=path, callbacks=[Stop()])
        with pytest.raises(InvalidInput, match="was written with penalty="):
            train(problem, width=512, index="dense", shift=0.5, resume=path)

    def test_options_that_exclude_each_other_are_refused(self):
        problem = random_problem(inputs=20, dimension=4)
        with pytest.raises(InvalidInput, match="damping is for training without a penalty"):
            train(problem, width=512, penalty=0.1, damping=1.0)
        with pytest.raises(InvalidInput, match="that of input 3 is 0"):
            train(problem, width=512, penalty=np.where(np.arange(20) == 3, 0.0, 1.0))
        assert train(problem, width=512, penalty=np.array(0.1), method="paper", max_iterations=1).history[1].touches > 0

    def test_the_reason_of_an_interrupt_is_that_of_all_outputs(self):
        X = random_problem(inputs=10, dimension=4).inputs

        class Impatient(Callback):
            def on_iteration(self, record):
                raise KeyboardInterrupt

        results = train_together(
            [Problem(X, np.arange(10.0) + k) for k in range(3)], width=500, callbacks=[Impatient()]
        )
        assert {one.message for one in results} == {"Interrupted by the keyboard."}
