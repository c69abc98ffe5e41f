"""The dense shard: its bits, its counts and its first step, against their definitions."""

import naive
import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as settings_of_hypothesis
from hypothesis import strategies as st
from properties import examples

from thresher import to_sphere
from thresher.loops.pairs.counting import count_shared
from thresher.model.network import NetworkSettings
from thresher.shards import Dense, Recipe, dense

both_twins = pytest.mark.parametrize("twins", [True, False])
both_precisions = pytest.mark.parametrize("dtype", ["float32", "float64"])


def inputs_of(n, d, seed=4):
    return to_sphere(np.random.default_rng(seed).normal(size=(n, d)))


def settings_of(X, *, width, shift=0.7, twins=True, seed=3, **more):
    return NetworkSettings.checked(width=width, dimension=X.shape[1], shift=shift, seed=seed, twins=twins, **more)


def start_of(settings, *, neurons=None):
    neurons = neurons or range(settings.width)
    return settings.start.block(neurons.start, neurons.stop).astype(float), settings.start.signs(np.array(neurons))


def shard_of(X, settings, *, dtype="float32", neurons=None):
    return Dense(Recipe(Dense, settings, X, dtype), neurons or range(settings.width))


def started(X, settings, step=None, **more):
    shard = shard_of(X, settings, **more)
    return shard, shard.start(step, expected=0.0)


def fires_of(shard):
    pattern = shard.pattern()
    fires = np.zeros((len(shard._neurons), len(shard._inputs)), bool)
    fires[pattern.per_pair(pattern.neurons) - shard._neurons.start, pattern.inputs] = True
    return fires


@settings_of_hypothesis(max_examples=examples(40))
@given(n=st.integers(1, 30), m=st.integers(1, 150), tile=st.integers(1, 31), seed=st.integers(0, 100))
def test_bits_that_rows_share_are_co_firing_neurons(n, m, tile, seed):
    fires = np.random.default_rng(seed).random((m, n)) < 0.6
    bits = np.zeros((n, 8 * -(-m // 64)), np.uint8)
    bits[:, : -(-m // 8)] = np.packbits(fires.T, axis=1)
    counts = np.ones((n, n), np.int32)  # added to
    for row in range(0, n, tile):
        for column in range(0, row + 1, tile):
            last, right = min(row + tile, n), min(column + tile, n)
            count_shared(bits.view(np.uint64), row, last, column, right, 1, counts)
    np.testing.assert_array_equal(counts, 1 + np.tril(naive.count_cofiring(fires)))


@pytest.mark.parametrize("tile", [4, 256])
@both_twins
def test_counts_are_those_of_the_definition(twins, tile, monkeypatch):
    monkeypatch.setattr(dense, "_COUNTED", 512)
    monkeypatch.setattr(dense, "_TILE", tile)
    X = inputs_of(40, 6)
    settings = settings_of(X, width=1400, twins=twins)
    shard, _ = started(X, settings)
    counts = np.zeros((40, 40), np.int32)
    shard.add_counts(counts)
    expected = naive.count_cofiring(naive.firing(start_of(settings)[0], X, settings.shift))
    np.testing.assert_array_equal(counts, np.tril(expected))


class TestDecisions:
    """Pairs closer to the threshold than single precision can tell are decided in double precision.

    The inputs differ by 1e-8, and the shift is the exact pre-activation of one neuron on the first of them.
    With at most seven columns sums from left to right are those that decide, to the bit.
    """

    @staticmethod
    def case(seed, twins, above, *, n=12, width=64):
        rng = np.random.default_rng(seed)
        d = int(rng.integers(2, 8))
        X = to_sphere(rng.normal(size=d) + 1e-8 * rng.normal(size=(n, d)))
        settings = settings_of(X, width=width, twins=twins, seed=seed)
        Z = naive.preactivations(start_of(settings)[0], X)
        shift = Z[int(rng.integers(width)), 0]
        settings = settings._replace(shift=float(np.nextafter(shift, np.inf) if above else shift))
        single = Z.astype(np.float32) >= np.float32(settings.shift)
        return X, settings, settings.shift <= Z, single

    def test_single_precision_would_be_wrong(self):
        cases = [self.case(seed, False, True) for seed in range(20)]
        assert sum((fires != single).any() for *_, fires, single in cases) > 15

    @settings_of_hypothesis(max_examples=examples(60))
    @given(seed=st.integers(0, 10**6), twins=st.booleans(), above=st.booleans())
    def test_of_the_start(self, seed, twins, above):
        X, settings, fires, _ = self.case(seed, twins, above)
        shard, _ = started(X, settings)
        np.testing.assert_array_equal(fires_of(shard), fires)

    @settings_of_hypothesis(max_examples=examples(60))
    @given(
        seed=st.integers(0, 10**6),
        twins=st.booleans(),
        above=st.booleans(),
        size=st.sampled_from([0.0, 1e-8, 1e-7, 1e-6, 1.0]),
        dtype=st.sampled_from(["float32", "float64"]),
    )
    def test_of_steps(self, seed, twins, above, size, dtype):
        X, settings, *_ = self.case(seed, twins, above)
        step = size * np.random.default_rng(seed).normal(size=len(X))
        first, _ = started(X, settings, step, dtype=dtype)
        moved, _ = started(X, settings, dtype=dtype)
        moved.move(step)
        for shard in (first, moved):
            shard.linearise(None)
            W = shard.weights().vectors(range(settings.width))
            np.testing.assert_array_equal(fires_of(shard), naive.firing(W, X, settings.shift))


class TestTheFirstStep:
    @both_twins
    @both_precisions
    @pytest.mark.parametrize("size", [0.2, 100.0])
    def test_it_is_the_move(self, twins, dtype, size, monkeypatch):
        monkeypatch.setattr(dense, "_PAIRS", 64 * 1000)
        X, y = inputs_of(40, 6), np.random.default_rng(5).normal(size=40)
        neurons = range(200, 5200)
        settings = settings_of(X, width=60_000, twins=twins)
        step = size * y
        near, found = started(X, settings, step, dtype=dtype, neurons=neurons)
        passed, before = started(X, settings, dtype=dtype, neurons=neurons)
        expected = passed.move(step)
        np.testing.assert_array_equal(found.before, before.before)
        assert found.effort_after.flips == expected.effort.flips > 5
        assert found.effort_after.firing == expected.effort.firing
        assert expected.effort.looks == 5000 * 40
        assert found.effort_after.looks < 10_000 if size < 1 else found.effort_after.looks == 5000 * 40
        W0, signs = start_of(settings, neurons=neurons)
        for shard in (near, passed):
            shard.linearise(None)
        np.testing.assert_array_equal(fires_of(near), fires_of(passed))
        W = near.weights().vectors(neurons)
        outputs = naive.outputs(W, signs, X, settings.shift) * np.sqrt(len(W))
        rough = 1e-8 if dtype == "float64" else 2e-3
        np.testing.assert_allclose(found.after, outputs, atol=1e-5 if twins and size < 1 else rough)
        np.testing.assert_allclose(before.before + expected.change, outputs, atol=rough)
        fires = naive.firing(W0, X, settings.shift)
        np.testing.assert_allclose(W, W0 + settings.scale * signs[:, None] * (fires * step) @ X, rtol=1e-5, atol=1e-6)

    def test_a_long_one_is_noticed_before_many_neurons_have_moved(self, monkeypatch):
        X, blocks = inputs_of(40, 6), []
        monkeypatch.setattr(dense, "_PAIRS", 64 * 40)
        collect = dense.collect_within
        monkeypatch.setattr(dense, "collect_within", lambda *given: blocks.append(len(given[0])) or collect(*given))
        settings = settings_of(X, width=3000)
        shard = shard_of(X, settings)
        first = dense._FirstStep(shard, 100 * np.random.default_rng(0).normal(size=40))
        weights = shard._start_rows(slice(0, 64))[::2]
        margins = shard._margins.of_vectors(weights)
        blocks.clear()
        for _ in range(3):
            first.add(slice(0, 64), weights, margins, (margins >= 0).astype(np.float32))
        assert first.far
        assert blocks == [32]

    def test_longer_inputs_flip_farther_from_the_threshold(self):
        """Rows may be longer than 1 by a hundred-thousandth."""
        rng = np.random.default_rng(0)
        X = inputs_of(30, 3) * (1 + 9e-6)
        settings = settings_of(X, width=20_000, shift=0.2, twins=False)
        step = rng.normal(size=30) * 0.1
        near, found = started(X, settings, step)
        passed, _ = started(X, settings)
        assert found.effort_after.flips == passed.move(step).effort.flips > 0
        np.testing.assert_array_equal(near._found, passed._found)

    @pytest.mark.parametrize("number", [np.nan, np.inf, -np.inf, 1e300, 3e38])
    @both_precisions
    def test_one_beyond_all_numbers_is_not_short(self, number, dtype):
        X = inputs_of(20, 4)
        settings = settings_of(X, width=500)
        shard, found = started(X, settings, np.full(20, number), dtype=dtype)
        assert found.effort_after.looks == 500 * 20
        here = found.before
        back = shard.move(np.zeros(20))
        assert back.effort.flips == 0
        np.testing.assert_allclose(here + back.change, here, atol=1e-5)

    @both_precisions
    @both_twins
    def test_no_flip_is_missed_by_a_step_just_across_the_threshold(self, twins, dtype):
        """Each neuron fires on one input of its own or on none; the step carries some across the threshold."""
        for dimension, shift in ((2, 0.0), (30, 1.0), (300, 0.5)):
            X = inputs_of(50, dimension, seed=dimension)
            settings = settings_of(X, width=2000, shift=shift, twins=twins)
            W0, signs = start_of(settings)
            fires = naive.firing(W0, X, settings.shift)
            step = np.random.default_rng(1).normal(size=50) * 0.03
            moved = settings.scale * signs[:, None] * (fires * step) @ X
            after = naive.preactivations(W0 + moved, X) - shift
            shard, found = started(X, settings, step, dtype=dtype)
            assert found.effort_after.looks < 2000 * 50 / 10
            shard.linearise(None)
            clear = np.abs(after) > 1e-6
            np.testing.assert_array_equal(fires_of(shard)[clear], (after >= 0)[clear])
            assert np.count_nonzero(fires != (after >= 0)) > 5


@both_twins
def test_a_step_after_a_short_one_counts_from_where_that_led(twins):
    X, y = inputs_of(40, 6), np.random.default_rng(5).normal(size=40)
    settings = settings_of(X, width=20_000, twins=twins)
    shard, found = started(X, settings, 0.02 * y)
    assert found.effort_after.flips > 5
    shard.linearise(None)
    W0, signs = start_of(settings)
    before, here = shard.weights().vectors(range(20_000)), found.after
    moved = shard.move(0.01 * y[::-1])
    shard.linearise(None)
    after = shard.weights().vectors(range(20_000))
    fired, fires = (naive.firing(W, X, settings.shift) for W in (before, after))
    pushed = signs[:, None] * (fired * 0.01 * y[::-1]) @ X * settings.scale
    np.testing.assert_allclose(after - W0, before - W0 + pushed, atol=1e-9)
    assert moved.effort.flips == np.count_nonzero(fired != fires)
    assert moved.effort.firing == np.count_nonzero(fires)
    expected = naive.outputs(after, signs, X, settings.shift)
    np.testing.assert_allclose((here + moved.change) * settings.scale, expected, atol=2e-6)
