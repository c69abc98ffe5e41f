"""Training with a penalty, against its definition."""

import naive
import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as settings_of_hypothesis
from hypothesis import strategies as st

from thresher import InvalidInput, MemoryRefused, Status
from thresher.loops.counting import count_shared
from thresher.model.network import NetworkSettings
from thresher.shards import dense
from thresher.theory import firing_probability
from thresher.training import ridge
from thresher.training.ridge import RidgeStart, replay_ridge, train_ridge


def sphere(rng, n, d):
    X = rng.normal(size=(n, d))
    return X / np.linalg.norm(X, axis=1, keepdims=True)


def start(X, settings, **more):
    return RidgeStart(X, settings=settings, **more)


def train_one(X, y, settings, threads=1, **more):
    return train_ridge(start(X, settings, threads=threads), y[:, None], **more)[0]


@pytest.fixture
def case():
    rng = np.random.default_rng(4)
    n, d, shift = 40, 6, 0.7
    X, y = sphere(rng, n, d), rng.normal(size=n)
    penalty = 0.1 * firing_probability(shift) * rng.uniform(0.5, 2, n)
    settings = NetworkSettings.checked(width=3000, dimension=d, shift=shift, seed=3, twins=True)
    return X, y, penalty, settings


@pytest.mark.parametrize("twins", [True, False])
def test_steps_are_those_of_the_definition(case, twins, monkeypatch):
    X, y, penalty, settings = case
    settings = settings._replace(start=settings.start._replace(twins=twins))
    monkeypatch.setattr(ridge, "_INNER_TOLERANCE", 1e-9)
    result = train_one(X, y, settings=settings, penalty=penalty, tol=0.0, max_iterations=4)
    m = settings.width
    W0, signs = settings.start.block(0, m).astype(float), settings.start.signs(np.arange(m))
    fractions = [step.fraction for step in result.steps]
    expected = naive.ridge_steps(W0, signs, X, y, shift=settings.shift, penalty=penalty, fractions=fractions)
    for step, (_, alpha) in zip(result.steps, expected, strict=True):
        np.testing.assert_allclose(step.alpha, alpha, atol=2e-4 * np.abs(alpha).max())
    W = expected[-1][0]
    np.testing.assert_allclose(result.network.weights.vectors(range(m)), W, atol=1e-5)
    outputs = naive.outputs(W, signs, X, settings.shift)
    assert result.history[-1].residual == pytest.approx(np.linalg.norm(outputs - y), rel=1e-4)
    np.testing.assert_allclose(result.network.predict(X), outputs, atol=1e-5)


@pytest.mark.parametrize("rows", [2000, 101])  # an odd number would split twins
@pytest.mark.parametrize("twins", [True, False])
@pytest.mark.parametrize("threads", [1, 3])
def test_the_first_gram_matrix_is_that_of_the_jacobian(case, twins, threads, rows, monkeypatch):
    X, _, _, settings = case
    monkeypatch.setattr(dense, "_COUNTED", 512)
    monkeypatch.setattr(dense, "_TILE", 15)
    monkeypatch.setattr(dense, "PAIRS", rows * len(X))
    settings = settings._replace(start=settings.start._replace(twins=twins), width=1400)
    W, signs = settings.start.block(0, 1400).astype(float), settings.start.signs(np.arange(1400))
    expected = naive.gram(W, signs, X, settings.shift)
    np.testing.assert_allclose(dense.start_gram(X, settings, threads=threads), expected, atol=1e-9)


@settings_of_hypothesis(max_examples=40)
@given(n=st.integers(1, 30), m=st.integers(1, 150), tile=st.integers(1, 31), seed=st.integers(0, 100))
def test_bits_that_rows_share_are_co_firing_neurons(n, m, tile, seed):
    fires = np.random.default_rng(seed).random((m, n)) < 0.6
    bits = np.zeros((n, 8 * -(-m // 64)), np.uint8)
    bits[:, : -(-m // 8)] = np.packbits(fires.T, axis=1)
    counts = np.ones((n, n), np.int32)  # added to
    for row in range(0, n, tile):
        for column in range(0, row + 1, tile):
            last, right = min(row + tile, n), min(column + tile, n)
            count_shared(bits.view(np.uint64), row, last, column, right, counts)
    np.testing.assert_array_equal(counts, 1 + np.tril(naive.count_cofiring(fires)))


def test_the_first_gram_matrix_is_that_of_exact_counts(case):
    X, _, _, settings = case
    settings = settings._replace(width=300)
    counts = naive.count_cofiring(naive.firing(settings.start.block(0, 300).astype(float), X, settings.shift))
    gram = dense.start_gram(X, settings)
    np.testing.assert_allclose(gram, counts * (X @ X.T) / 300, rtol=1e-13)
    np.testing.assert_array_equal(gram, gram.T)


@pytest.mark.parametrize("threads", [1, 3])
def test_the_first_gram_matrix_is_made_in_small_tasks_and_can_be_interrupted(case, threads, monkeypatch):
    X, _, _, settings = case
    monkeypatch.setattr(dense, "_COUNTED", 128)
    monkeypatch.setattr(dense, "_TILE", 4)
    calls = []

    def count(bits, first, last, left, right, counts):
        assert (last - first) * (right - left) <= 4 * 4
        assert bits.shape == (len(X), 2)
        calls.append((first, left))
        if len(calls) == 30:
            raise KeyboardInterrupt

    monkeypatch.setattr(dense, "count_shared", count)
    with pytest.raises(KeyboardInterrupt):
        dense.start_gram(X, settings, threads=threads)
    assert 30 <= len(calls) <= 30 + 2 * threads  # of 55 for each 128 neurons


def test_training_ends_near_a_minimum_of_the_penalised_loss(case):
    X, y, penalty, settings = case
    settings = settings._replace(width=1 << 18)  # so wide that few pairs sit on the threshold at the minimum
    result = train_one(X, y, settings=settings, penalty=penalty, max_iterations=50)
    assert result.status == Status.CONVERGED
    alpha = (y - result.network.predict(X)) / penalty  # W - W(0) = Jᵀ alpha at a minimum
    assert np.linalg.norm(result.steps[-1].alpha - alpha) < 0.05 * np.linalg.norm(alpha)


def test_neither_threads_nor_replaying_change_a_bit(case, monkeypatch):
    X, y, penalty, settings = case
    monkeypatch.setattr(dense, "_TASK", 512)
    runs = [train_one(X, y, settings=settings, penalty=penalty, threads=threads) for threads in (1, 3)]
    for step, other in zip(*(run.steps for run in runs), strict=True):
        np.testing.assert_array_equal(step.alpha, other.alpha)
    again = replay_ridge(start(X, settings, threads=2), runs[0].steps)
    np.testing.assert_array_equal(runs[0].network.weights.moved, runs[1].network.weights.moved)
    np.testing.assert_array_equal(runs[0].network.weights.moved, again.moved)


def test_outputs_trained_together_are_those_trained_alone(case):
    X, y, penalty, settings = case
    Y = np.column_stack([y, y[::-1], np.zeros_like(y), 1e3 * y])
    told = []
    begun = start(X, settings, threads=3)
    together = train_ridge(begun, Y, penalty=penalty, on_iteration=lambda k, one: told.append((k, one.iteration)))
    assert [result.status for result in together][2] == Status.CONVERGED
    assert not together[2].network.weights.moved.any()
    for output, result in enumerate(together):
        assert [iteration for k, iteration in told if k == output] == list(range(len(result.history)))
        alone = train_one(X, Y[:, output], settings=settings, penalty=penalty)
        assert (alone.status, len(alone.steps)) == (result.status, len(result.steps))
        scale = np.abs(alone.network.weights.moved).max(initial=1e-300)
        np.testing.assert_allclose(result.network.weights.moved, alone.network.weights.moved, atol=1e-4 * scale)
        again = replay_ridge(start(X, settings), result.steps)
        np.testing.assert_array_equal(result.network.weights.moved, again.moved)


def test_the_first_factor_makes_later_solves_short(case):
    X, y, penalty, settings = case
    result = train_one(X, y, settings=settings, penalty=penalty / 1000, tol=0.0, max_iterations=3)
    later = [record.inner_iterations for record in result.history[2:]]
    assert later
    assert 0 < max(later) <= 12
    assert result.history[1].inner_iterations == 0
    assert result.history[1].factored


@pytest.mark.parametrize("fraction", [1.0, 0.5])
@pytest.mark.parametrize("twins", [True, False])
def test_a_short_first_step_is_known_without_a_pass(case, twins, fraction, monkeypatch):
    X, y, _, settings = case
    settings = settings._replace(start=settings.start._replace(twins=twins), width=60_000)
    begun = start(X, settings, threads=2)
    step = dense.RidgeStep(0.02 * y, fraction)
    near, passed = (begun.output(threads=2) for _ in range(2))
    monkeypatch.setattr(dense, "_BAND", 1e-3)
    found = near.look(step)
    monkeypatch.setattr(dense, "_BAND", 0.0)
    expected = passed.look(step)
    assert found.looks < expected.looks / 100 == settings.width * len(y) / 100
    assert found.flips == expected.flips > 20
    assert found.firing == expected.firing
    assert found.distance == pytest.approx(expected.distance)
    np.testing.assert_array_equal(near._found, passed._found)
    W = settings.start.block(0, settings.width) + near._tried.astype(float)
    outputs = naive.outputs(W, settings.start.signs(np.arange(settings.width)), X, settings.shift)
    np.testing.assert_allclose(found.outputs, outputs, atol=1e-8 if twins else 1e-6)
    np.testing.assert_allclose(expected.outputs, outputs, atol=1e-6)


@pytest.mark.parametrize("twins", [True, False])
def test_a_step_after_a_short_one_counts_from_where_that_led(case, twins):
    X, y, _, settings = case
    settings = settings._replace(start=settings.start._replace(twins=twins), width=60_000)
    output = start(X, settings).output(threads=1)
    assert output.look(dense.RidgeStep(0.02 * y, 1.0)).flips > 20
    output.accept()
    m, signs = settings.width, settings.start.signs(np.arange(settings.width))
    before = output.weights().vectors(range(m))
    found = output.look(dense.RidgeStep(0.02 * y[::-1], 0.5))
    output.accept()
    after = output.weights().vectors(range(m))
    fired, fires = (naive.firing(W, X, settings.shift) for W in (before, after))
    pulled = settings.start.block(0, m) + signs[:, None] * (fired * 0.02 * y[::-1]) @ X / np.sqrt(m)
    np.testing.assert_allclose(after, (before + pulled) / 2, atol=1e-8)
    assert found.flips == pytest.approx(np.count_nonzero(fired != fires), abs=2)  # single precision
    assert found.firing == pytest.approx(np.count_nonzero(fires), abs=2)
    np.testing.assert_allclose(found.outputs, naive.outputs(after, signs, X, settings.shift), atol=1e-6)


def test_a_long_first_step_passes_over_all_pairs(case):
    X, y, penalty, settings = case
    looks = {scale: train_one(X, scale * y, settings, penalty=penalty).history[1].looks for scale in (1e-4, 1.0)}
    assert looks[1.0] == settings.width * len(y) > 100 * looks[1e-4]


def test_a_long_first_step_is_noticed_before_many_neurons_have_moved(case, monkeypatch):
    X, y, _, settings = case
    monkeypatch.setattr(dense, "_TASK", 512)
    moves, move = [], dense.Dense._move
    monkeypatch.setattr(dense.Dense, "_move", lambda *given: moves.append(given[1]) or move(*given))
    start(X, settings).output(threads=1).look(dense.RidgeStep(y, 1.0))
    assert settings.width < sum(rows.stop - rows.start for rows in moves) <= settings.width + 512


def test_longer_inputs_flip_farther_from_the_threshold(monkeypatch):
    X = np.array([[1.5]])
    settings = NetworkSettings.checked(width=20_000, dimension=1, shift=0.2, seed=3)
    near, passed = (start(X, settings).output(threads=1) for _ in range(2))
    step = dense.RidgeStep(np.array([-0.0009 / 1.5 * np.sqrt(20_000)]), 1.0)
    found = near.look(step)
    monkeypatch.setattr(dense, "_BAND", 0.0)
    assert found.flips == passed.look(step).flips > 0


def test_a_step_that_is_no_number_is_not_short(case):
    X, y, _, settings = case
    output = start(X, settings).output(threads=1)
    with np.errstate(all="ignore"):
        found = output.look(dense.RidgeStep(np.full(len(y), np.nan), 1.0))
    assert found.looks == settings.width * len(y)


def test_short_and_long_first_steps_are_replayed_to_the_bit(case, monkeypatch):
    X, y, _, settings = case
    monkeypatch.setattr(dense, "_TASK", 512)
    probe = start(X, settings).output(threads=1)
    probe.look(dense.RidgeStep(y, 1.0))
    band = dense._BAND / np.linalg.norm(probe._tried, axis=1).max()
    for reach, short in ((0.999, True), (1.001, False)):
        steps = [dense.RidgeStep(reach * band * y, 1.0), dense.RidgeStep(0.5 * band * y[::-1], 0.5)]
        output = start(X, settings, threads=3).output(threads=3)
        output.look(steps[0]._replace(fraction=0.25))  # tried, and not accepted
        assert (output.look(steps[0]).looks < settings.width * len(y)) == short
        output.accept()
        output.look(steps[1])
        output.accept()
        again = replay_ridge(start(X, settings), steps)
        np.testing.assert_array_equal(again.moved, output.weights().moved)


@pytest.mark.parametrize(("dimension", "shift"), [(2, 0.0), (30, 2.0), (300, 0.5)])
def test_no_flip_is_missed_at_the_edge_of_the_band(dimension, shift, monkeypatch):
    m, rng, little = 400, np.random.default_rng(0), 1e-6
    settings = NetworkSettings.checked(width=m, dimension=dimension, shift=shift, seed=3)
    W = settings.start.block(0, m).astype(float)
    along = W / np.linalg.norm(W, axis=1, keepdims=True)
    X = sphere(rng, m, dimension)
    X -= (X * along).sum(axis=1, keepdims=True) * along
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    sides = rng.choice([-1.0, 1.0], m)
    heights = (shift + sides * dense._BAND * (1 - 2 * little)) / np.linalg.norm(W, axis=1)  # of row k above neuron k
    kept = np.abs(heights) < 1
    heights = np.clip(heights, -1, 1)[:, None]
    X = heights * along + np.sqrt(1 - heights**2) * X
    moves = (-sides[:, None] * dense._BAND * (1 - little) * X).astype(np.float32)  # just across the threshold

    def move(self, rows, *_):
        self._tried[rows] = moves[rows]
        return self._tried[rows]

    monkeypatch.setattr(dense.Dense, "_move", move)
    output = start(X, settings).output(threads=1)
    assert output.look(dense.RidgeStep(np.ones(m), 1.0)).looks < m * m / 50
    output.accept()
    fires = output._fires(slice(0, m)).diagonal()
    assert np.count_nonzero(kept) > 50
    np.testing.assert_array_equal(fires[kept], sides[kept] < 0)


def test_many_columns_are_not_told_apart_in_single_precision():
    rng = np.random.default_rng(0)
    X, y = sphere(rng, 10, 3000), 1e-3 * rng.normal(size=10)
    settings = NetworkSettings.checked(width=400, dimension=3000, shift=0.5, seed=3, twins=True)
    result = train_one(X, y, settings=settings, penalty=np.full(10, 0.01))
    assert result.history[1].looks == 400 * 10
    np.testing.assert_allclose(result.network.predict(X), y, atol=3e-4)


def test_it_says_how_solves_and_training_ended(case, monkeypatch):
    X, y, penalty, settings = case
    settled = train_one(X, y, settings=settings, penalty=penalty, tol=0.0, max_iterations=50)
    assert settled.status == Status.STALLED
    assert settled.gap > 0
    assert "the gap was still" in settled.message
    assert {record.solve for record in settled.history[1:]} == {"solved"}
    monkeypatch.setattr(ridge, "_MOST_PRODUCTS", 1)
    hasty = train_one(X, y, settings=settings, penalty=penalty / 1000, tol=0.0, max_iterations=2)
    assert [record.solve for record in hasty.history] == ["", "solved", "inexact"]


def test_outputs_take_memory(case):
    X, y, penalty, settings = case
    Y, budget = np.tile(y[:, None], 50), 30_000_000
    begun = start(X, settings, memory_budget=10**9)
    begun.memory_budget = budget
    assert len(train_ridge(begun, Y[:, :1], penalty=penalty)) == 1
    begun.memory_budget = 50 * 4 * settings.width * X.shape[1]
    with pytest.raises(MemoryRefused, match="50 networks"):
        train_ridge(begun, Y, penalty=penalty)


def test_gradients_are_those_of_the_outputs(case):
    X, y, penalty, settings = case
    network = train_one(X, y, settings=settings, penalty=penalty).network
    W, signs = network.weights.vectors(range(settings.width)), settings.start.signs(np.arange(settings.width))
    expected = (naive.firing(W, X, settings.shift).T * signs) @ W / np.sqrt(settings.width)
    np.testing.assert_allclose(network.gradients(X), expected, atol=1e-4)


def test_bad_requests_are_refused(case):
    X, _, _, settings = case
    with pytest.raises(MemoryRefused, match="may be taken"):
        start(X, settings, memory_budget=1000)
    with pytest.raises(InvalidInput, match="activation='relu'"):
        start(X, settings._replace(activation="max"))
