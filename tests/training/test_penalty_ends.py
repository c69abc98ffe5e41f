"""Training with a penalty: how it ends, and what is refused."""

import re

import numpy as np
import pytest
from test_penalty import OPTIONS, D, N, every_index, make_case, penalised, settings_of

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
from thresher.algebra import DirectFactor, MatrixGram
from thresher.datasets import random_problem
from thresher.engines import Footprint
from thresher.engines.engine import ShardEngine
from thresher.estimators.models import networks
from thresher.estimators.models.networks import train_penalised
from thresher.interfaces import Shard
from thresher.shards import SHARDS, Slice, start_gram


@pytest.fixture
def case():
    return make_case()


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

    def test_targets_that_are_met_cost_no_search(self, case, monkeypatch):
        X, _, penalty = case
        moves, real = [], ShardEngine.move
        monkeypatch.setattr(ShardEngine, "move", lambda self, step: moves.append(step) or real(self, step))
        none, options = np.zeros((N, 1)), {"tol": 1e-2, "max_iterations": 4, "threads": 1}
        (met,) = train_penalised(X, none, settings=settings_of(OPTIONS), penalty=penalty, first=none, **options)
        assert (met.status, met.history[-1].residual) == (Status.CONVERGED, 0)
        assert len(moves) == 1  # back to the start
        np.testing.assert_array_equal(met.network.predict(X), 0)

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
            if method is Shard.move:
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
        one = Footprint([y], settings_of(OPTIONS), "dense", SHARDS["dense"]).here()
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
