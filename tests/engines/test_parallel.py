"""Threads, shards and blocks change nothing but the time it takes; engines keep their contract."""

import weakref
from itertools import pairwise

import naive
import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from properties import examples

from thresher import Callback, Problem, to_sphere, train
from thresher.algebra import Cholesky, Gaussian, SparseSign, TensorSketch
from thresher.engines import engine as local
from thresher.engines import start_engine
from thresher.interfaces import Effort
from thresher.model import network as network_module
from thresher.model.network import Network, NetworkSettings
from thresher.shards import Certified, Recipe

THREADS = (1, 2, 7)
SHIFT = 0.7
every_index = pytest.mark.parametrize("index", ["scan", "tournament", "certified"])
every_dtype = pytest.mark.parametrize("dtype", ["float32", "float64"])
every_activation = pytest.mark.parametrize("activation", ["relu", "max"])


def make_problem(n, d, seed=0):
    rng = np.random.default_rng(seed)
    return Problem(to_sphere(rng.normal(size=(n, d))), rng.normal(size=n))


def start_of(chosen):
    start = chosen.start
    return start.block(0, chosen.width).astype(np.float64), start.signs(np.arange(chosen.width))


def check_same_bits(results, new_inputs):
    first = results[0]
    expected = first.network.predict(new_inputs, threads=THREADS[0])
    for threads, result in zip(THREADS, results, strict=True):
        assert [record.loss for record in result.history] == [record.loss for record in first.history]
        np.testing.assert_array_equal(result.network.weights.support.neurons, first.network.weights.support.neurons)
        np.testing.assert_array_equal(result.network.weights.coefficients, first.network.weights.coefficients)
        np.testing.assert_array_equal(result.network.predict(new_inputs, threads=threads), expected)


@every_index
@every_dtype
@pytest.mark.parametrize("solver", ["cholesky", "cg", "sketched"])
def test_threads_change_no_bit_of_many_shards(index, dtype, solver, monkeypatch):
    monkeypatch.setattr(local, "_SHARD", 64)
    monkeypatch.setattr(network_module, "_TASK", 100)
    assert len(local.shard_ranges(1001)) == 15
    problem = make_problem(12, 6)
    options = {"width": 1001, "shift": SHIFT, "index": index, "dtype": dtype, "solver": solver, "max_iterations": 2}
    results = [train(problem, threads=threads, **options) for threads in THREADS]
    check_same_bits(results, make_problem(40, 6, seed=1).inputs)


@every_dtype
@pytest.mark.parametrize("n, d", [(350, 30), (250, 100)])
def test_threads_change_no_bit_of_large_products(n, d, dtype):
    """Matrix products large enough for a linear algebra library to use threads of its own."""
    problem = make_problem(n, d, seed=2)
    options = {"width": 2000, "shift": 0.0, "dtype": dtype, "max_iterations": 1}
    results = [train(problem, threads=threads, **options) for threads in THREADS]
    check_same_bits(results, make_problem(1000, d, seed=1).inputs)


@every_dtype
def test_threads_change_no_bit_of_large_predictions(dtype):
    network = train(make_problem(5, 30), width=2000, shift=0.0, dtype=dtype, max_iterations=1).network
    for count in (333, 1000):
        new = make_problem(count, 30, seed=1).inputs
        outputs = [network.predict(new, threads=threads) for threads in THREADS]
        for output in outputs[1:]:
            np.testing.assert_array_equal(output, outputs[0])


@every_index
@every_activation
@settings(deadline=None, max_examples=examples(8))
@given(width=st.integers(60, 1200), size=st.integers(1, 300), twins=st.booleans(), seed=st.integers(0, 1000))
def test_shards_change_no_firing_set(index, activation, width, size, twins, seed):
    width += width % 2 if twins else 0
    problem = make_problem(4, 8, seed)
    options = {"width": width, "shift": SHIFT, "seed": seed, "twins": twins, "activation": activation, "index": index}
    options |= {"dtype": "float64", "solver": Cholesky(), "max_iterations": 3, "threads": 2}
    whole = train(problem, **options)
    assume(naive.condition(naive.gram(*start_of(whole.network.settings), problem.inputs, SHIFT)) < 1e3)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(local, "_SHARD", size)
        split = train(problem, **options)
    vectors = [result.network.weights.vectors(range(width)) for result in (whole, split)]
    np.testing.assert_allclose(*vectors, rtol=0, atol=1e-11)
    np.testing.assert_array_equal(*(naive.firing(W, problem.inputs, SHIFT) for W in vectors))
    for one, other in zip(whole.history, split.history, strict=True):
        assert one.residual == pytest.approx(other.residual, rel=1e-12, abs=1e-12 * whole.history[0].residual)
        assert (one.firing, one.flips, one.moved, one.step) == (other.firing, other.flips, other.moved, other.step)


@settings(deadline=None, max_examples=examples(200))
@given(width=st.integers(1, 10**12), size=st.integers(1, 10**6))
def test_shards_make_up_the_width(width, size):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(local, "_SHARD", size)
        ranges = local.shard_ranges(width)
    assert ranges[0].start == 0
    assert ranges[-1].stop == width
    assert all(one.stop == other.start for one, other in pairwise(ranges))
    assert all(len(one) >= min(width, size) - 1 for one in ranges)  # slices of an even width are even
    assert 1 <= len(ranges) <= 64


def make_engine(problem, *, index="tournament", dtype="float64", threads=2, **options):
    chosen = NetworkSettings.checked(**{"width": 500, "dimension": problem.dimension, "shift": SHIFT} | options)
    engine, started = start_engine(problem, chosen, index=index, dtype=dtype, threads=threads)
    return engine, chosen, started.before


def naive_state(chosen, problem, step):
    """Weights and outputs after one step of size ``step`` (n,) from the start."""
    W0, signs = start_of(chosen)
    J = naive.jacobian(W0, signs, problem.inputs, chosen.shift)
    W = W0 - (J.T @ step).reshape(W0.shape)
    return W, naive.outputs(W, signs, problem.inputs, chosen.shift, chosen.activation)


engine_cases = pytest.mark.parametrize("shard", [64, 1 << 14])


@every_index
@every_dtype
@every_activation
@engine_cases
def test_engine_moves_and_retreats(index, dtype, activation, shard, monkeypatch):
    monkeypatch.setattr(local, "_SHARD", shard)
    problem = make_problem(6, 4)
    close = 1e-12 if dtype == "float64" else 1e-5
    step = np.random.default_rng(2).normal(size=6)
    engine, chosen, start = make_engine(problem, index=index, dtype=dtype, activation=activation)
    W0, signs = start_of(chosen)
    expected = naive.outputs(W0, signs, problem.inputs, SHIFT, activation)
    np.testing.assert_allclose(start.outputs, expected, rtol=0, atol=close)
    engine.linearise()
    np.testing.assert_array_equal(engine.weights().vectors(range(500)), W0)

    for fraction in (1.0, 0.5, 0.0, 8.0, 0.5):
        moved = engine.move(-fraction * step)
        W, expected = naive_state(chosen, problem, fraction * step)
        np.testing.assert_allclose(moved.outputs, expected, rtol=0, atol=close * max(1.0, fraction))
        before, after = (naive.firing(V, problem.inputs, SHIFT) for V in (W0, W))
        assert moved.effort.firing == after.sum()
        assert moved.effort.flips == (before != after).sum()
        assert moved.effort.moved == before.any(axis=1).sum()
        np.testing.assert_array_equal(engine.weights().vectors(range(500)), W0)

    fresh, *_ = make_engine(problem, index=index, dtype=dtype, activation=activation)
    fresh.linearise()
    direct = fresh.move(-0.5 * step)
    np.testing.assert_allclose(moved.outputs, direct.outputs, rtol=0, atol=close)
    assert moved.effort.firing == direct.effort.firing
    engine.linearise()
    fresh.linearise()
    np.testing.assert_array_equal(engine.weights().vectors(range(500)), fresh.weights().vectors(range(500)))
    np.testing.assert_array_equal(engine.linearise().dense(), fresh.linearise().dense())
    np.testing.assert_allclose(engine.weights().vectors(range(500)), W, rtol=0, atol=min(close, 1e-8))


@engine_cases
def test_gram_is_that_of_the_jacobian(shard, monkeypatch):
    monkeypatch.setattr(local, "_SHARD", shard)
    problem = make_problem(6, 4)
    engine, chosen, _ = make_engine(problem)
    W, vector = start_of(chosen)[0], np.random.default_rng(3).normal(size=6)
    for _ in range(2):
        gram = engine.linearise()
        expected = naive.gram(W, start_of(chosen)[1], problem.inputs, SHIFT)
        counts = naive.count_cofiring(naive.firing(W, problem.inputs, SHIFT))
        assert gram.size == 6
        np.testing.assert_allclose(gram.diagonal(), np.diag(expected), rtol=1e-12)
        np.testing.assert_allclose(gram.times(vector), expected @ vector, rtol=0, atol=1e-12)
        np.testing.assert_array_equal(gram.dense(), problem.products * counts / 500)
        np.testing.assert_allclose(gram.dense(), expected, rtol=0, atol=1e-12)
        np.testing.assert_allclose(gram.times(vector), expected @ vector, rtol=0, atol=1e-12)
        engine.move(-vector)
        W, _ = naive_state(chosen, problem, vector)


@pytest.mark.parametrize("sketch", [Gaussian(20), SparseSign(20), TensorSketch(20)], ids=lambda one: type(one).__name__)
def test_sketch_of_shards_is_the_sketch_of_the_whole(sketch, monkeypatch):
    problem = make_problem(6, 4)
    sketched = []
    for shard in (64, 1 << 14):
        monkeypatch.setattr(local, "_SHARD", shard)
        engine, *_ = make_engine(problem)
        sketched.append(engine.linearise().sketch(sketch))
    assert sketched[0].shape == (20, 6)
    np.testing.assert_allclose(*sketched, rtol=0, atol=1e-13)


def test_progress_ends_at_the_width(monkeypatch):
    monkeypatch.setattr(local, "_SHARD", 64)
    told = []

    class Witness(Callback):
        def on_progress(self, done, total):
            told.append((done, total))

    train(make_problem(3, 4), width=500, max_iterations=0, callbacks=[Witness()])
    assert told[-1] == (500, 500)
    assert told == sorted(told)
    assert len(told) == 7


@every_index
def test_effort_is_the_sum_over_shards(index, monkeypatch):
    problem = make_problem(3, 4)
    efforts = []
    for shard in (50, 1 << 14):
        monkeypatch.setattr(local, "_SHARD", shard)
        engine, _, start = make_engine(problem, index=index)
        engine.linearise()
        efforts.append((start.effort, engine.move(-np.ones(3)).effort))
    for split, whole in zip(*efforts, strict=True):
        ignored = {"visits": 0, "touches": 0}
        assert split._replace(**ignored) == whole._replace(**ignored)
        assert whole.looks >= 1
    assert Effort(1, 2, 3, 4, 5, 6).plus(Effort(6, 5, 4, 3, 2, 1)) == Effort(7, 7, 7, 7, 7, 7)


def trained(width, *, d=3, dtype="float64", **options):
    return train(make_problem(5, d), width=width, shift=0.4, dtype=dtype, max_iterations=2, **options).network


@every_dtype
@every_activation
@pytest.mark.parametrize("width", [1, 2, 1023, 1024, 1025, 3000, 65_537])
def test_predict_is_the_definition(width, activation, dtype):
    network = trained(width, dtype=dtype, activation=activation)
    new = make_problem(9, 3, seed=5).inputs
    W, signs = network.weights.vectors(range(width)), start_of(network.settings)[1]
    expected = naive.outputs(W, signs, new, 0.4, activation)
    np.testing.assert_allclose(network.predict(new), expected, rtol=0, atol=1e-11 if dtype == "float64" else 1e-4)
    if width > 1000:
        moved = network.weights.support.neurons
        assert len(moved) > 100
        np.testing.assert_allclose(W[moved[-1]], network.neuron(int(moved[-1])), rtol=0, atol=0)


@every_activation
@settings(deadline=None, max_examples=examples(15))
@given(width=st.integers(1, 1500), twins=st.booleans(), new=st.integers(1, 30), seed=st.integers(0, 1000))
def test_predict_at_any_width(activation, width, twins, new, seed):
    width += width % 2 if twins else 0
    network = trained(width, activation=activation, twins=twins, seed=seed)
    inputs = make_problem(new, 3, seed=seed + 1).inputs
    W, signs = network.weights.vectors(range(width)), start_of(network.settings)[1]
    expected = naive.outputs(W, signs, inputs, 0.4, activation)
    np.testing.assert_allclose(network.predict(inputs), expected, rtol=0, atol=1e-11)


def test_blocks_of_inputs_do_not_show(monkeypatch):
    network = trained(1500)
    new = make_problem(25, 3, seed=5).inputs
    whole = network.predict(new)
    monkeypatch.setattr(network_module, "_INPUT_BLOCK", 7)
    np.testing.assert_allclose(network.predict(new), whole, rtol=0, atol=1e-13)


@every_dtype
@every_activation
def test_predict_on_the_inputs_is_what_training_saw(activation, dtype):
    problem = make_problem(7, 5)
    result = train(problem, width=900, shift=SHIFT, activation=activation, dtype=dtype, max_iterations=2)
    residual = np.linalg.norm(result.network.predict(problem.inputs) - problem.targets)
    assert residual == pytest.approx(result.history[-1].residual, abs=1e-12 if dtype == "float64" else 1e-5)


def test_an_untrained_network_predicts():
    chosen = NetworkSettings.checked(width=777, dimension=4, shift=0.5, seed=9, activation="max")
    problem = make_problem(3, 4)
    engine, _ = start_engine(problem, chosen, index="scan", dtype="float64")
    expected = naive.outputs(*start_of(chosen), problem.inputs, 0.5, "max")
    np.testing.assert_allclose(Network(chosen, engine.weights()).predict(problem.inputs), expected, rtol=0, atol=1e-12)


def test_a_sum_over_shards_holds_few_of_them_at_a_time():
    """Sketches are large, and there are up to 64 shards."""
    made = []

    class Executor:
        def map(self, *given):
            for _ in range(20):
                part = np.ones(5)
                made.append(weakref.ref(part))
                yield part
                del part
                assert sum(one() is not None for one in made) <= 2

    problem = make_problem(5, 3)
    settings = NetworkSettings.checked(width=20, dimension=3, shift=SHIFT)
    engine = local.ShardEngine(Recipe(Certified, settings, problem.inputs, "float32"), Executor())
    np.testing.assert_array_equal(engine.firing_counts(), 20 * np.ones(5))
