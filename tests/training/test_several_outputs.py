"""Several targets are columns of y: k networks from one start, one result."""

import math

import numpy as np
import pytest

import thresher
from thresher import Callback, InvalidInput, Status, train
from thresher.datasets import random_problem
from thresher.export import predict_arrays

X = random_problem(inputs=20, dimension=8).inputs
Y = np.random.default_rng(1).normal(size=(20, 3)) * (1.0, 1e-3, 100.0)
NEW = random_problem(inputs=7, dimension=8, seed=1).inputs
WIDTH = 3000


@pytest.fixture(scope="module")
def result():
    return train(X, Y, width=WIDTH)


@pytest.fixture(scope="module")
def alone():
    return [train(X, y, width=WIDTH) for y in Y.T]


def test_each_output_is_that_of_its_column_alone(result, alone):
    assert len(result.outputs) == len(result.network.outputs) == 3
    for one, other, network in zip(result.outputs, alone, result.network.outputs, strict=True):
        assert [record.loss for record in one.history] == [record.loss for record in other.history]
        np.testing.assert_array_equal(network.predict(NEW), other.network.predict(NEW))
        np.testing.assert_array_equal(one.network.predict(NEW), other.network.predict(NEW))


def test_predictions_and_gradients_have_a_column_for_each(result, alone):
    network = result.network
    np.testing.assert_array_equal(network.predict(NEW), np.column_stack([one.network.predict(NEW) for one in alone]))
    gradients = network.gradients(NEW)
    assert gradients.shape == (7, 3, 8)
    np.testing.assert_array_equal(gradients[:, 1], alone[1].network.gradients(NEW))
    np.testing.assert_array_equal(network.neuron(5), [one.network.neuron(5) for one in alone])
    assert np.linalg.norm(network.predict(X) - Y) <= 1e-4 * np.linalg.norm(Y)


def test_residual_and_distance_are_of_each(result, alone):
    np.testing.assert_array_equal(result.residual, [one.history[-1].residual for one in alone])
    np.testing.assert_allclose(result.residual, np.linalg.norm(result.network.predict(X) - Y, axis=0), atol=1e-4)
    W0 = alone[0].network.settings.start.block(0, WIDTH)
    moved = [np.linalg.norm(one.network.weights.vectors(range(WIDTH)) - W0) for one in alone]
    np.testing.assert_allclose(result.distance, moved, rtol=1e-6)
    assert alone[0].residual == alone[0].history[-1].residual
    assert alone[0].distance == pytest.approx(moved[0], rel=1e-6)


def test_records_are_sums(result, alone):
    histories = [one.history for one in alone]
    assert len(result.history) == max(map(len, histories))
    for name in ("looks", "flips", "moved", "inner_iterations"):
        total = sum(getattr(record, name) for history in histories for record in history)
        assert sum(getattr(record, name) for record in result.history) == total
    for t, record in enumerate(result.history):
        last = [history[min(t, len(history) - 1)] for history in histories]
        assert record.loss == sum(one.loss for one in last)
        assert record.firing == sum(one.firing for one in last)
        assert record.residual == pytest.approx(math.hypot(*(one.residual for one in last)))
    assert math.isnan(result.history[0].contraction)
    assert result.history[1].contraction == result.history[1].residual / result.history[0].residual
    assert "seconds_move" in result.history.to_pandas()


def test_steps_are_stacked(result, alone):
    assert len(result.steps) == max(len(one.steps) for one in alone)
    for t, step in enumerate(result.steps):
        for column, one in zip(step.T, alone, strict=True):
            np.testing.assert_array_equal(column, one.steps[t] if t < len(one.steps) else 0)


def test_the_status_is_that_of_the_worst():
    twice = np.vstack([X[:1], X])  # equal inputs: only the first column has equal targets there
    targets = np.column_stack([np.append(1.0, np.ones(20)), np.append(-1.0, np.ones(20))])
    result = train(twice, targets, width=WIDTH)
    assert [one.status for one in result.outputs] == [Status.CONVERGED, Status.STALLED]
    assert result.status == Status.STALLED
    assert result.message == f"1 of 2 outputs: {result.outputs[1].message}"
    assert result.remainder == result.outputs[1].remainder
    assert train(X, Y, width=WIDTH).message == "The residual fell to 1e-06 of its size at the start."


def test_one_column_is_a_column():
    result = train(X, Y[:, :1], width=WIDTH)
    assert result.network.predict(NEW).shape == (7, 1)
    expected = train(X, Y[:, 0], width=WIDTH).network.predict(NEW)
    np.testing.assert_array_equal(result.network.predict(NEW)[:, 0], expected)
    assert not train(X, Y[:, 0], width=WIDTH).outputs


@pytest.mark.parametrize("form", ["full", "recipe"])
@pytest.mark.parametrize("options", [{}, {"index": "dense", "twins": True}, {"first_step": "gram"}])
def test_files(form, options, tmp_path):
    result = train(X, Y, width=600, **options)
    result.save(tmp_path / "net", form=form)
    loaded = thresher.load(tmp_path / "net")
    np.testing.assert_array_equal(loaded.network.predict(NEW), result.network.predict(NEW))
    assert (loaded.status, loaded.message, len(loaded.outputs)) == (result.status, result.message, 3)
    assert repr(list(loaded.history)) == repr(list(result.history))
    np.testing.assert_array_equal(loaded.residual, result.residual)


def test_exports_have_all_outputs(result):
    np.testing.assert_allclose(predict_arrays(result.to_numpy(), NEW), result.network.predict(NEW), atol=1e-4)


def test_what_each_output_has_of_its_own_is_asked_of_it(result):
    for ask in (lambda: result.network.weights, result.network.compact, result.network.neurons):
        with pytest.raises(InvalidInput, match=r"has 3 outputs, each with neurons of its own: ask outputs\[k\] for"):
            ask()
    assert result.network.outputs[1].compact().predict(NEW).shape == (7,)


def test_what_it_says_of_itself(result):
    assert "outputs=3" in repr(result.network) and "of 3 outputs" in result._repr_html_()


def test_callbacks_see_one_output_after_the_other():
    seen, ended = [], []

    class Look(Callback):
        def on_iteration(self, record):
            seen.append(record.iteration)

        def on_end(self, result):
            ended.append(result)

    result = train(X, Y, width=600, callbacks=[Look()])
    assert seen == [record.iteration for one in result.outputs for record in one.history]
    assert ended == list(result.outputs)
    stopped = train(X, Y, width=600, callbacks=[lambda record: record.iteration == 1])
    assert {one.status for one in stopped.outputs} == {stopped.status} == {Status.INTERRUPTED}


def test_rows_of_columns_are_those_of_the_inputs():
    with pytest.raises(InvalidInput, match="there are 20 inputs and 19 targets"):
        train(X, Y[1:], width=600)
