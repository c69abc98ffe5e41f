"""Watchlists and the start scan: room is made in time and not in vain, bounds are those of the arithmetic."""

from types import SimpleNamespace

import numpy as np
import pytest
from grams import make_shard, minus

from thresher import to_sphere
from thresher.datasets import random_problem
from thresher.loops.rounding import FINE
from thresher.model.network import NetworkSettings
from thresher.shards import certified, watchlists


def make(*, width=3000, inputs=12, dimension=5, shift=0.8, twins=False, dtype="float64", neurons=None, seed=1):
    problem = random_problem(inputs=inputs, dimension=dimension)
    settings = NetworkSettings.checked(width=width, dimension=dimension, shift=shift, seed=seed, twins=twins)
    shard = make_shard("certified", settings, problem.inputs, neurons or range(width), dtype=dtype)
    return shard, shard._geometry, settings


# Room


def test_room_is_made_when_there_is_none_and_by_a_quarter_at_least():
    lists = watchlists.Watchlists.with_capacity(3, 100, dtype=np.dtype("f4"), inputs=9)
    lists.start[:] = np.arange(100)
    assert lists.with_room(100) is lists
    for wanted, size in ((101, 125), (125, 125), (126, 126), (1000, 1000)):
        grown = lists.with_room(wanted)
        assert {len(getattr(grown, name)) for name in watchlists._OF_ENTRIES} == {size}
        np.testing.assert_array_equal(grown.start[:100], np.arange(100))
        assert grown.neurons is lists.neurons


@pytest.mark.parametrize("twins", [False, True])
@pytest.mark.parametrize("first", [0, 40_000])
def test_room_is_forecast_from_the_rows_that_were_scanned(first, twins, monkeypatch):
    made = []
    original = watchlists.Watchlists.with_room

    def told(lists, entries):
        made.append(entries)
        return original(lists, entries)

    monkeypatch.setattr(watchlists.Watchlists, "with_room", told)
    shard, _, _ = make(width=50_000, shift=0.3, twins=twins, neurons=range(first, first + 8000))
    shard.start(None, expected=0.01)
    used = int(shard._lists.length.sum())
    assert shard._entries_used == used  # none is left out
    assert 1 <= len(made) <= 4
    assert used < made[-1] < 1.4 * used


# Bounds


@pytest.mark.parametrize(("dtype", "unit"), [("float32", 2.0**-24), ("float64", 2.0**-53)])
def test_bounds_are_those_of_the_working_precision(dtype, unit, monkeypatch):
    scanned = []
    original = watchlists.scan_block
    monkeypatch.setattr(watchlists, "scan_block", lambda *given: scanned.append(given[2].unit) or original(*given))
    shard, weights, settings = make(dtype=dtype)
    shard.start(None, expected=0.1)
    assert set(scanned) == {unit}
    known = shard._constants
    assert (known.shift, known.unit, known.scale) == (0.8, unit, settings.scale)
    assert (known.first_neuron, known.twins) == (0, False)
    assert known.trust == 1  # below 1 breaks certificates, above it wastes looks
    longest = np.linalg.norm(settings.start.block(0, 3000), axis=1)
    np.testing.assert_allclose(known.guards[:2], weights.guards(norms=longest), rtol=1e-6)
    assert known.guards.working == known.guards.made


def test_rounding_of_the_weights_that_are_given_back():
    """A coefficient is a difference of larger numbers: what they lost is told."""
    shard, _, settings = make()
    shard.start(None, expected=0.1)
    assert shard.rounding() == 0
    silent, _, _ = make(shift=50.0)
    silent.start(minus(np.ones(12)), expected=0.1)
    silent.linearise(None)
    assert silent.rounding() == 0
    steps = [np.linspace(-3, 3, 12), np.linspace(200, -100, 12), np.linspace(2, -1, 12)]
    for step in steps:
        shard.move(minus(step))
        shard.linearise(None)
    made = shard.position()
    alone = made.with_coefficients(made.weights.support, made.weights.coefficients).rounding
    longest = int(np.diff(made.weights.support.bounds).max())
    peak = settings.scale * np.abs(np.cumsum(steps, axis=0)).max()
    assert longest > 2
    assert made.rounding - alone == pytest.approx(4 * longest * FINE * peak, rel=1e-6, abs=0)


def test_the_clock_goes_on_by_the_largest_change_of_the_running_sum():
    """Wherever a step comes from: a retreat that crosses zero is the longer for it."""
    shard, _, _ = make()
    shard.start(None, expected=0.1)
    far, near = np.linspace(-3, 1, 12), np.linspace(4, 0, 12)
    clock = shard._clock
    for step, change in ((far, 3.0), (near, 7.0), (far, 7.0), (far, 0.0)):
        shard.move(minus(step))
        assert shard._clock - clock == pytest.approx(change)
        clock = shard._clock
    shard.linearise(None)
    shard.move(minus(near))
    assert shard._clock - clock == pytest.approx(4.0)


# Effort


@pytest.mark.parametrize("twins", [False, True])
@pytest.mark.parametrize("shift", [0.8, 2.0])
def test_neurons_that_move_in_the_first_step_are_those_that_fire(shift, twins):
    for step, share in ((None, 0), (np.linspace(-1, 2, 12), 1)):
        shard, _, _ = make(shift=shift, twins=twins)
        started = shard.start(minus(step), expected=0.1)
        firing = len(shard._lists.neurons)
        assert 0 < firing < 3000
        assert started.effort_before.moved == 0
        assert started.effort_after.moved == share * firing
        assert started.effort_before.firing == int(shard._lists.linear.sum())


def test_the_tree_has_two_nodes_a_neuron_and_a_step_writes_no_more():
    shard, _, _ = make()
    shard.start(None, expected=0.1)
    nodes = 2 * len(shard._lists.neurons)
    assert shard._nodes.shape == (nodes, 1)
    everybody = shard.move(minus(np.full(12, 40.0))).effort
    assert everybody.touches == nodes - 1
    shard.linearise(None)
    nobody = shard.move(minus(np.full(12, 40.0))).effort  # where they stand already, but for rounding
    assert nobody.touches <= nodes - 1


def test_nobody_is_looked_at_where_nothing_moves():
    shard, _, _ = make()
    shard.start(None, expected=0.1)
    effort = shard.move(minus(np.zeros(12))).effort
    assert (effort.looks, effort.flips, effort.rescans) == (0, 0, 0)
    assert effort.firing == int(shard._lists.linear.sum())


def test_neurons_that_are_scanned_again_are_looked_at_on_every_input():
    shard, _, _ = make()
    shard.start(None, expected=1e-9)
    effort = shard.move(minus(np.linspace(-1, 1, 12))).effort
    assert effort.rescans > 0
    assert effort.looks >= 12 * effort.rescans


def test_neurons_that_are_scanned_again_have_wider_bands():
    shard, _, _ = make(width=200)
    shard.start(None, expected=1e-9)
    step = np.linspace(-1, 1, 12)
    assert shard.move(minus(step)).effort.rescans == len(shard._lists.neurons)
    drifts, bands = shard.drifts()
    np.testing.assert_allclose(bands, 2 * drifts, rtol=1e-5)
    assert shard.move(minus(1.001 * step)).effort.rescans == 0


@pytest.mark.parametrize("first", [0, 1000])
def test_part_of_the_neurons_is_scanned_again_like_all(first):
    step = np.linspace(-20, 30, 12)
    part, _, _ = make(neurons=range(first, first + 500))
    whole, _, _ = make()
    for shard in (part, whole):
        shard.start(None, expected=1e-9)
        assert shard.move(minus(step)).effort.rescans > 0
        shard.linearise(None)
    ours = whole.pattern()
    inside = (ours.per_pair(ours.neurons) >= first) & (ours.per_pair(ours.neurons) < first + 500)
    theirs = part.pattern()
    np.testing.assert_array_equal(theirs.per_pair(theirs.neurons), ours.per_pair(ours.neurons)[inside])
    np.testing.assert_array_equal(theirs.inputs, ours.inputs[inside])


def test_bands_are_wider_before_the_first_step_than_after():
    assert certified.BAND_AFTER_FIRST_STEP < certified.BAND_BEFORE
    for step, share in ((None, certified.BAND_BEFORE), (np.ones(12), certified.BAND_AFTER_FIRST_STEP)):
        shard, _, _ = make()
        shard.start(minus(step), expected=0.1)
        counts = shard._lists.linear if step is None else shard._lists.fired
        np.testing.assert_allclose(shard._lists.band, 0.1 * share * (np.sqrt(counts) + 2), rtol=1e-6)


# Two ways to the same


def told_of(module, names, monkeypatch):
    """What is called in a module, in order: names and arguments."""
    calls = []
    for name in names:
        original = getattr(module, name)
        monkeypatch.setattr(
            module, name, lambda *given, name=name, original=original: calls.append((name, given)) or original(*given)
        )
    return calls


def test_a_tree_is_climbed_for_few_and_built_for_many(monkeypatch):
    shard, _, _ = make()
    shard._nodes = np.full((80, 1), -np.inf, np.float32)
    calls = told_of(certified.trees, ("climb", "build"), monkeypatch)
    for count in range(40):
        shard._climb(np.arange(count))
    assert [name for name, _ in calls] == ["climb"] * 10 + ["build"] * 30  # a path of eight nodes each, about


def test_neurons_that_fire_on_many_are_counted_by_bits(monkeypatch):
    shard, _, _ = make(inputs=90, dimension=30, shift=1.5)
    shard.start(None, expected=0.1)
    calls = told_of(certified.counting, ("count_pairs", "count_bits"), monkeypatch)
    shard.add_counts(np.zeros((90, 90), np.int32))
    many = certified.counting.BITS_PER_PAIR * shard._lists.linear.astype(int) ** 2 > 90**2
    assert 0 < many.sum() < len(many)
    for (name, given), expected in zip(calls, (~many, many), strict=True):
        np.testing.assert_array_equal(given[3], np.flatnonzero(expected), err_msg=name)


def naive_choice(Z, step, *, shift, scale, band, d):
    """Whether matrix products are cheaper, from every 64th row: the pairs that would be followed, one by one."""
    rows, n = Z[::64], Z.shape[1]
    followed = 0
    for z in rows:
        fires = [j for j in range(n) if z[j] >= shift]
        reach = scale * np.sqrt(sum(step[j] ** 2 for j in fires))
        low = shift - band * (np.sqrt(len(fires)) + 2) - reach
        followed += len(fires) * sum(z >= low)
    return followed / len(rows) >= n * (1 + d / 25)


def test_the_first_step_is_taken_in_the_cheaper_way():
    random = np.random.default_rng(0)
    chosen = []
    for _ in range(1500):
        n, d, rows = random.integers(1, 30), random.integers(1, 60), random.integers(1, 200)
        X = to_sphere(random.normal(size=(n, d)))
        Z, step = random.normal(size=(rows, n)), random.normal(size=n) * random.choice([0.1, 1.0, 3.0])
        shift, scale, band = random.uniform(0, 1.5), random.uniform(0.01, 1), random.uniform(0, 0.3)
        if random.random() < 0.3:  # some lie on the threshold
            shift = Z[0, 0]
        asked = SimpleNamespace(
            _geometry=SimpleNamespace(fast_inputs=X), _settings=SimpleNamespace(shift=shift, scale=scale), _step=step,
            _constants=SimpleNamespace(band=band),
        )  # fmt: skip
        change = watchlists.StartScan._first_step_change(asked, Z)
        by_products = naive_choice(Z, step, shift=shift, scale=scale, band=band, d=d)
        chosen.append(by_products)
        assert change.shape == ((rows if by_products else 0), n)
        if by_products:
            np.testing.assert_allclose(change, (shift <= Z) * -(scale * step) @ X @ X.T, atol=1e-12)
        asked._step = np.zeros(n)
        assert len(watchlists.StartScan._first_step_change(asked, Z)) == 0
    assert 0.2 < np.mean(chosen) < 0.8


@pytest.mark.parametrize("twins", [False, True])
@pytest.mark.parametrize("size", [10, 1e4])  # of the first step: the larger one needs float64
@pytest.mark.parametrize(("n", "d"), [(60, 40), (60, 4), (800, 30), (800, 300)])
def test_the_first_step_adds_no_more_rounding_than_the_start(n, d, size, twins):
    """Changes come from products or from the vector; rounding loses about a hundredth of what the guard allows."""
    random = np.random.default_rng(n + d)
    half = to_sphere(random.normal(size=(n // 2, d)))
    X = to_sphere(np.vstack([half, half + 1e-3 * random.normal(size=half.shape)]))  # steps of near-duplicates cancel
    step = size * np.repeat([1.0, -1.0], n // 2) * np.tile(random.normal(size=n // 2), 2)
    settings = NetworkSettings.checked(width=2000, dimension=d, shift=1.5, twins=twins)
    shard = make_shard("certified", settings, X, range(2000), dtype="float32")
    started = shard.start(minus(step), expected=0.01)

    signs = settings.start.signs(np.arange(2000))[:, None]
    Z = settings.start.block(0, 2000).astype(np.float64) @ X.T
    after = Z - signs * settings.scale * ((settings.shift <= Z) * step) @ X @ X.T
    firing = (after >= settings.shift).sum(axis=0)
    outputs = (signs * np.maximum(after - settings.shift, 0)).sum(axis=0)
    assert started.effort_after.firing == firing.sum() > n
    assert (np.abs(started.after - outputs) <= 0.05 * shard._constants.guards.made * firing).all()
