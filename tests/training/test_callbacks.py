"""Callbacks see every iteration and may stop a training; an interrupt leaves the network of the last record."""

import numpy as np
import pytest
from test_training import make_problem, train_small

from thresher import Callback, Status
from thresher.shards import Tournament


class Witness(Callback):
    def __init__(self, stop_at=None, raise_at=None):
        self.stop_at, self.raise_at = stop_at, raise_at
        self.progress, self.records, self.results = [], [], []

    def on_progress(self, done, total):
        self.progress.append((done, total))

    def on_iteration(self, record):
        self.records.append(record)
        if record.iteration == self.raise_at:
            raise KeyboardInterrupt
        return record.iteration == self.stop_at

    def on_end(self, result):
        self.results.append(result)


def test_callbacks_see_everything():
    witness, seen = Witness(), []
    result = train_small(callbacks=[witness, seen.append])
    assert witness.records == seen == list(result.history)
    assert witness.progress[-1] == (700, 700)
    assert witness.results == [result]


@pytest.mark.parametrize("stop_at", [0, 1, None])
def test_the_end_is_shown_while_the_engine_still_has_the_neurons(stop_at):
    seen = []

    class Last(Callback):
        def on_finish(self, state):
            seen.append((state.residual, state.engine.weights(), *state.engine.drifts()))

        def on_end(self, result):
            assert len(seen) == 1

    result = train_small(index="certified", callbacks=[Witness(stop_at=stop_at), Last()])
    residual, weights, drifts, bands = seen[0]
    assert np.linalg.norm(residual) == result.history[-1].residual
    np.testing.assert_array_equal(weights.distances(), result.network.weights.distances())
    assert np.all(drifts <= bands)


@pytest.mark.parametrize("stop_at", [0, 1, 2])
def test_a_callback_can_stop(stop_at):
    witness = Witness(stop_at=stop_at)
    for callbacks in ([witness], [lambda record: record.iteration == stop_at, witness]):
        result = train_small(callbacks=callbacks)
        assert result.status == Status.INTERRUPTED
        assert "callback" in result.message
        assert result.history[-1].iteration == stop_at
        check_network_belongs_to_the_last_record(result)
    assert len(witness.results) == 2


def test_none_and_false_do_not_stop():
    assert train_small(callbacks=[lambda record: None, lambda record: False]).status == Status.CONVERGED


def test_convergence_is_no_interruption():
    last = train_small().history[-1].iteration
    assert train_small(callbacks=[lambda record: record.iteration == last]).status == Status.CONVERGED


def check_network_belongs_to_the_last_record(result):
    problem, last = make_problem(), result.history[-1]
    whole = train_small(max_iterations=last.iteration)
    np.testing.assert_array_equal(result.network.weights.vectors(range(700)), whole.network.weights.vectors(range(700)))
    residual = np.linalg.norm(result.network.predict(problem.inputs) - problem.targets)
    assert residual == pytest.approx(last.residual, rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("raise_at", [0, 1, 2, 3])
def test_keyboard_interrupt_in_a_callback(raise_at):
    witness = Witness(raise_at=raise_at)
    result = train_small(callbacks=[witness])
    assert result.status == Status.INTERRUPTED
    assert witness.results == [result]
    check_network_belongs_to_the_last_record(result)


@pytest.mark.parametrize("call", [1, 2, 3])
@pytest.mark.parametrize("method", ["update", "firing"])
def test_keyboard_interrupt_in_the_middle_of_a_move(call, method, monkeypatch):
    original, calls = getattr(Tournament, method), []

    def interrupted(self, *arguments):
        calls.append(method)
        if len(calls) == call + (method == "firing"):
            raise KeyboardInterrupt
        return original(self, *arguments)

    with monkeypatch.context() as patch:
        patch.setattr(Tournament, method, interrupted)
        result = train_small(index="tournament", threads=1)
    assert result.status == Status.INTERRUPTED
    assert result.history[-1].iteration == call - 1
    check_network_belongs_to_the_last_record(result)


def test_keyboard_interrupt_before_there_is_a_network():
    class Impatient(Callback):
        def on_progress(self, done, total):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train_small(callbacks=[Impatient()])
