"""Replay: recorded steps lead to the same network, to the bit, whatever was tried in between."""

import numpy as np
import pytest
from columns import replay, replay_columns, train_columns

from thresher import Problem, Status, to_sphere, train
from thresher.datasets import random_problem


def clustered(inputs=40, dimension=6, *, spread=0.5, seed=0):
    """Inputs around one direction: full steps overshoot, so that some are halved."""
    generator = np.random.default_rng(seed)
    rows = generator.normal(size=dimension) + spread * generator.normal(size=(inputs, dimension))
    return Problem(to_sphere(rows), generator.normal(size=inputs))


def bits(network):
    weights = network.weights
    parts = (*weights.support, weights.coefficients)
    return [part.tobytes() for part in parts]


def same(a, b, X):
    assert bits(a) == bits(b)
    assert a.predict(X).tobytes() == b.predict(X).tobytes()


@pytest.mark.parametrize("first_step", ["limit", "gram"])
@pytest.mark.parametrize("twins", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("index", ["certified", "scan", "tournament"])
def test_the_network_is_the_same_to_the_bit(index, dtype, twins, first_step, monkeypatch):
    monkeypatch.setattr("thresher.engines.engine._SHARD", 300)  # several shards, several threads
    problem = random_problem(inputs=20, dimension=10)
    options = {"width": 1500, "index": index, "dtype": dtype, "twins": twins, "first_step": first_step}
    result = train(problem, **options, threads=2)
    assert result.status == Status.CONVERGED
    assert len(result.steps) == len(result.history) - 1
    for threads in (1, 3):
        same(result.network, replay(problem, steps=result.steps, **options, threads=threads), problem.inputs)


@pytest.mark.parametrize("first_step", ["limit", "gram"])
@pytest.mark.parametrize("index", ["certified", "scan"])
def test_steps_that_were_halved_are_replayed_at_their_length(index, first_step):
    problem = clustered()
    options = {"width": 60, "shift": 0.3, "index": index, "first_step": first_step, "max_iterations": 8}
    result = train(problem, **options)
    assert any(0 < record.step < 1 for record in result.history[1:])
    same(result.network, replay(problem, steps=result.steps, **options), problem.inputs)


@pytest.mark.parametrize("index", ["certified", "scan"])
def test_a_first_step_that_was_taken_back_is_a_step_of_length_zero(index):
    problem = Problem(np.array([[1.0, 0.0], [0.0, 1.0]]), np.array([1e-3, -1e-3]))
    for seed in range(200):
        options = {"width": 8, "shift": 0.0, "twins": False, "index": index, "seed": seed, "max_iterations": 4}
        result = train(problem, **options)
        if len(result.history) > 2 and result.history[1].step == 0:
            break
    else:
        pytest.fail("no first step was taken back")
    assert not result.steps[0].any()
    same(result.network, replay(problem, steps=result.steps, **options), problem.inputs)


def test_fewer_steps_give_an_earlier_network():
    problem = random_problem(inputs=20, dimension=10)
    steps = train(problem, width=1000).steps
    earlier = train(problem, width=1000, max_iterations=2).network
    same(earlier, replay(problem, steps=steps[:2], width=1000), problem.inputs)
    same(train(problem, width=1000, max_iterations=0).network, replay(problem, steps=[], width=1000), problem.inputs)


def test_by_the_paper():
    problem = random_problem(inputs=10, dimension=10)
    result = train(problem, width=2000, method="paper")
    same(result.network, replay(problem, steps=result.steps, width=2000, method="paper"), problem.inputs)


@pytest.mark.parametrize("first_step", ["limit", "gram"])
def test_several_outputs(first_step):
    problems = [Problem(random_problem(inputs=20, dimension=8).inputs, np.roll(np.arange(20.0), k)) for k in range(3)]
    results = train_columns(problems, width=1000, first_step=first_step)
    made = replay_columns(
        problems, steps=[result.steps for result in results], width=1000, first_step=first_step, threads=1
    )
    for result, network in zip(results, made, strict=True):
        same(result.network, network, problems[0].inputs)
