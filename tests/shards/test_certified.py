"""Expiry dates: the certified shard finds what the scan finds, looks at little, and is caught when it lies."""

import gc
from itertools import pairwise

import numpy as np
import pytest
from grams import make_shard, minus
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule
from properties import examples

import thresher.shards.certified as certified
import thresher.shards.watchlists as watchlists
from thresher import BrokenCertificate, Problem, Status, to_sphere, train
from thresher.datasets import random_problem
from thresher.engines import ShardEngine, start_engine
from thresher.loops.certified.visits import BUFFER
from thresher.loops.pairs.counting import count_bits, count_pairs
from thresher.loops.structures import Rebuilt
from thresher.model.geometry import Geometry
from thresher.model.hadamard import Rotated
from thresher.model.network import NetworkSettings
from thresher.model.position import Position
from thresher.shards import Scan


def silent(done, total):
    pass


def clustered_problem(inputs, dimension, *, spread, seed=0):
    """Inputs around one direction: neurons fire on many of them at once."""
    generator = np.random.default_rng(seed)
    rows = generator.normal(size=dimension) + spread * generator.normal(size=(inputs, dimension))
    return Problem(to_sphere(rows), generator.normal(size=inputs))


def same_pairs(a, b):
    return all(np.array_equal(x, y) for x, y in zip(a, b, strict=True))


class ShardsAgree(RuleBasedStateMachine):
    """Random steps, retreats and linearisations: a certified shard and a scanning one must tell the same story."""

    @initialize(
        seed=st.integers(0, 10**6),
        inputs=st.integers(1, 30),
        dimension=st.integers(1, 8),
        width=st.integers(1, 300),
        shift=st.floats(0, 2.5),
        twins=st.booleans(),
        spread=st.sampled_from([0.1, 1.0, 100.0]),
        dtype=st.sampled_from(["float32", "float64"]),
        first=st.booleans(),
        rows=st.sampled_from(["random", "hadamard", "poisson"]),
    )
    def begin(self, seed, inputs, dimension, width, shift, twins, spread, dtype, first, rows):
        self.random = np.random.default_rng(seed)
        problem = clustered_problem(inputs, dimension, spread=spread, seed=seed)
        width *= 2 if twins else 1
        self.settings = NetworkSettings.checked(
            width=width, dimension=dimension, shift=shift, seed=seed, twins=twins,
            sequence="hadamard" if rows == "hadamard" else "random",
        )  # fmt: skip
        if rows == "poisson" and twins and shift:
            self.settings = self.settings.drawn_at(problem.inputs)
        neurons = range(self.settings.neurons)
        self.shards = [
            make_shard(name, self.settings, problem.inputs, neurons, dtype=dtype) for name in ("certified", "scan")
        ]
        self.inputs, self.tolerance = inputs, 1e-4 if dtype == "float32" else 1e-9
        step = self.random.normal(size=inputs) if first else None
        ours, theirs = (shard.start(minus(step), expected=0.01) for shard in self.shards)
        for a, b in zip(ours[:2], theirs[:2], strict=True):
            np.testing.assert_allclose(a, b, atol=self.tolerance)
        assert ours.effort_after.flips == theirs.effort_after.flips
        self.counts = None
        self.settle()

    @rule(size=st.sampled_from([0.0, 1e-3, 0.1, 1.0, 10.0]))
    def move(self, size):
        step = size * self.random.normal(size=self.inputs) * np.sqrt(self.settings.width)
        ours, theirs = (shard.move(minus(step)) for shard in self.shards)
        np.testing.assert_allclose(ours.change, theirs.change, atol=self.tolerance * (1 + 100 * size))
        assert ours.effort.flips == theirs.effort.flips
        assert ours.effort.firing == theirs.effort.firing

    @rule()
    def settle(self):
        for shard, counts in zip(self.shards, self.counts or (None, None), strict=True):
            shard.linearise(counts)
        ours, theirs = (shard.pattern() for shard in self.shards)
        assert same_pairs(ours, theirs)
        ours, theirs = (shard.weights() for shard in self.shards)
        everyone = range(self.settings.neurons)
        np.testing.assert_allclose(ours.vectors(everyone), theirs.vectors(everyone), atol=self.tolerance)
        if self.counts:
            np.testing.assert_array_equal(*self.counts)

    @precondition(lambda self: self.counts is None)
    @rule()
    def count(self):
        self.settle()
        self.counts = tuple(np.zeros((self.inputs, self.inputs), np.int32) for _ in self.shards)
        for shard, counts in zip(self.shards, self.counts, strict=True):
            shard.add_counts(counts)
        np.testing.assert_array_equal(*self.counts)


TestShardsAgree = ShardsAgree.TestCase
TestShardsAgree.settings = settings(
    max_examples=examples(60), stateful_step_count=12, deadline=None, suppress_health_check=list(HealthCheck)
)


CASES = {
    "random": lambda: (random_problem(inputs=40, dimension=20), {"width": 3000}),
    "twins": lambda: (random_problem(inputs=40, dimension=20), {"width": 3000, "twins": True}),
    "clustered": lambda: (clustered_problem(40, 10, spread=1.0), {"width": 2000, "shift": 1.0}),
    "all fire": lambda: (clustered_problem(12, 4, spread=0.1), {"width": 500, "shift": 0.0, "max_iterations": 4}),
    "duplicates": lambda: (
        Problem(np.repeat(random_problem(inputs=10, dimension=8).inputs, 2, axis=0), np.repeat(np.arange(10.0), 2)),
        {"width": 2000},
    ),
    "opposite": lambda: (
        Problem(np.vstack([random_problem(inputs=8, dimension=6).inputs * s for s in (1, -1)]), np.arange(16.0)),
        {"width": 2000},
    ),
    "many coordinates": lambda: (random_problem(inputs=20, dimension=70), {"width": 3000}),
    "one input": lambda: (random_problem(inputs=1, dimension=3), {"width": 100}),
    "one neuron": lambda: (random_problem(inputs=3, dimension=2), {"width": 1, "shift": 0.1}),
    "one dimension": lambda: (Problem([[1.0], [-1.0]], [2.0, 3.0]), {"width": 501}),
    "max": lambda: (random_problem(inputs=20, dimension=10), {"width": 1000, "activation": "max"}),
}
every_start = pytest.mark.parametrize("start", ["random", "hadamard"])


@pytest.mark.parametrize("first_step", ["limit", "gram"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("case", CASES)
@every_start
def test_trajectory_is_that_of_the_scan(case, dtype, first_step, start):
    problem, options = CASES[case]()
    options = {
        "start": start,
        "twins": False,
        "dtype": dtype,
        "first_step": first_step,
        "solver": "cholesky",
        "max_iterations": 5,
        **options,
    }
    ours = train(problem, index="certified", audit=True, **options)
    theirs = train(problem, index="scan", **options)
    tolerance = 1e-6 if dtype == "float32" else 1e-10
    scale = np.abs(problem.targets).max() + theirs.history[0].residual
    for a, b in zip(ours.history, theirs.history, strict=True):
        assert a.residual == pytest.approx(b.residual, abs=10 * tolerance * scale)
        assert (a.flips, a.firing, a.step) == (b.flips, b.firing, b.step)
    np.testing.assert_allclose(
        ours.network.predict(problem.inputs), theirs.network.predict(problem.inputs), atol=10 * tolerance * scale
    )


@pytest.mark.parametrize("iterations", range(4))
@every_start
def test_firing_sets_are_those_of_the_scan_in_every_iteration(iterations, start):
    problem = random_problem(inputs=60, dimension=16)
    for dtype in ("float32", "float64"):
        patterns = []
        for index in ("certified", "scan", "tournament"):
            result = train(problem, width=5000, start=start, index=index, dtype=dtype, max_iterations=iterations)
            weights = result.network.weights
            position = Position.at_start(weights.start, Geometry.of(problem.inputs, dtype="float64"))
            scan = Scan()
            scan.init(position.with_coefficients(weights.support, weights.coefficients), range(5000))
            patterns.append(scan.firing(result.network.shift).pattern)
        assert same_pairs(patterns[0], patterns[1])
        assert same_pairs(patterns[0], patterns[2])


@pytest.mark.parametrize("threads", [1, 2, 7])
@every_start
def test_the_number_of_threads_changes_nothing(threads, start, monkeypatch):
    monkeypatch.setattr("thresher.engines.engine._SHARD", 500)
    problem = random_problem(inputs=50, dimension=20)
    one, many = (train(problem, width=8000, start=start, threads=count) for count in (1, threads))
    assert [record.loss for record in one.history] == [record.loss for record in many.history]
    assert np.array_equal(one.network.weights.coefficients, many.network.weights.coefficients)


@every_start
def test_looks_are_few_and_fall_with_the_residual(start):
    problem = random_problem(inputs=100, dimension=50)
    result = train(problem, width=2**16, first_step="gram", start=start)
    assert result.status == Status.CONVERGED
    pairs = 100 * 2**16
    looks = [record.looks for record in result.history[1:]]
    assert looks[0] < 0.06 * pairs
    assert all(later < earlier for earlier, later in pairwise(looks))
    assert looks[-1] < 1e-4 * pairs


@every_start
def test_the_limit_step_saves_most_looks(start):
    problem = random_problem(inputs=100, dimension=50)
    total = {
        first: sum(record.looks for record in train(problem, width=2**16, start=start, first_step=first).history[1:])
        for first in ("limit", "gram")
    }
    assert total["limit"] < total["gram"] / 2


def test_a_retreat_leads_where_a_shorter_step_leads():
    problem = random_problem(inputs=30, dimension=10)
    network = NetworkSettings.checked(width=2000, dimension=10)
    step = np.random.default_rng(1).normal(size=30) * 20
    outputs = []
    for tries in ([step, 0.5 * step], [0.5 * step]):
        engine, _ = start_engine(problem, network, index="certified", dtype="float64")
        engine.linearise()
        for attempt in tries:
            moved = engine.move(minus(attempt))
        outputs.append(moved.outputs)
        engine.linearise()
        engine.audit()
    np.testing.assert_allclose(outputs[0], outputs[1], rtol=0, atol=1e-10)


def test_counts_by_bits_are_counts_by_pairs():
    generator = np.random.default_rng(0)
    linear = generator.integers(0, 40, size=5000).astype(np.int32)
    begin = np.cumsum(linear) - linear
    inputs = np.concatenate([generator.choice(50, size, replace=False) for size in linear]).astype(np.uint16)
    by_pairs, by_bits = np.zeros((50, 50), np.int32), np.zeros((50, 50), np.int32)
    places = np.arange(5000)
    count_pairs(begin, linear, inputs, places, by_pairs)
    count_bits(begin, linear, inputs, places, 1, by_bits)
    np.testing.assert_array_equal(by_pairs, by_bits)


class TestSabotage:
    """Each way to break a certificate is caught by the audit, which names the neuron and the input."""

    problem = random_problem(inputs=100, dimension=20)

    @pytest.fixture(autouse=True, params=["random", "hadamard"])
    def start(self, request):
        self.rows = request.param

    def run(self):
        return train(self.problem, width=20_000, start=self.rows, twins=False, audit=True, first_step="gram")

    def expect_to_be_caught(self):
        with pytest.raises(BrokenCertificate, match=r"neuron \d+ (fires|does not fire) on input \d+"):
            self.run()

    def test_honest_certificates_pass(self):
        assert self.run().status == Status.CONVERGED

    def test_rotated_inputs_that_are_off(self, monkeypatch):
        """By more than guards allow for: pairs near the threshold are taken for what they are not."""
        of = Rotated.of
        monkeypatch.setattr(Rotated, "of", lambda *given, **more: _longer(of(*given, **more)))
        if self.rows == "hadamard":
            self.expect_to_be_caught()
        else:
            self.run()

    def test_under_reported_drift(self, monkeypatch):
        monkeypatch.setattr(certified, "_TRUST", 0.3)
        self.expect_to_be_caught()

    def test_a_band_that_claims_too_much(self, monkeypatch):
        watchlists = certified.StartScan.watchlists

        def claim_more(scan):
            lists, *rest = watchlists(scan)
            lists.band[:] *= 10
            return lists, *rest

        monkeypatch.setattr(certified, "BAND_BEFORE", 0.1)
        monkeypatch.setattr(certified.StartScan, "watchlists", claim_more)
        self.expect_to_be_caught()

    def test_a_skipped_scan(self, monkeypatch):
        monkeypatch.setattr(certified, "BAND_BEFORE", 0.1)
        skip = lambda shard, places, corrections: (places[:0], Rebuilt(shard._entries_used, 0, 0, 0, 0))  # noqa: E731
        monkeypatch.setattr(certified.Certified, "_scan_again", skip)
        self.expect_to_be_caught()

    def test_a_narrow_band_alone_is_no_sabotage(self, monkeypatch):
        monkeypatch.setattr(certified, "BAND_BEFORE", 0.1)
        result = self.run()
        assert result.status == Status.CONVERGED
        assert result.history[1].rescans > 0

    def test_a_wake_up_that_comes_too_late(self, monkeypatch):
        take = certified.Certified._take_snapshot

        def sleep_longer(shard, *running_sum):
            before = shard._clock
            take(shard, *running_sum)
            shard._clock = before + 0.02 * (shard._clock - before)

        monkeypatch.setattr(certified.Certified, "_take_snapshot", sleep_longer)
        self.expect_to_be_caught()


def _longer(rotated):
    rotated.tiles[:] *= 1 + 1e-3
    return rotated


@pytest.mark.parametrize("scale", [1e-30, 1e-6, 1e6, 1e9, 1e19])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_certificates_hold_whatever_the_scale_of_the_targets(scale, dtype):
    """Coefficients once were rounded to float32 when a pair flipped, which no drift knew of."""
    for seed in range(3):
        problem = random_problem(inputs=30, dimension=12, seed=seed)
        scaled = Problem(problem.inputs, scale * problem.targets)
        train(scaled, width=3000, shift=0.8, first_step="gram", audit=True, tol=1e-7, dtype=dtype, max_iterations=12)


def test_inputs_a_little_longer_than_one_keep_their_certificates():
    """Norms may be off by 1e-5, and a pre-activation moves by the drift times the norm."""
    problem = Problem([[1 + 9.9e-6]], [5.0])  # a target of 0 would leave no band: every move would be scanned anew
    for seed in range(8):
        for dtype in ("float32", "float64"):
            network = NetworkSettings.checked(width=1, dimension=1, shift=0.0, seed=seed)
            engine, started = start_engine(problem, network, index="certified", dtype=dtype)
            start = started.before.outputs
            diagonal = engine.linearise().diagonal()
            if diagonal[0] > 0:
                engine.move(minus(start * (1 + 4e-6) / diagonal))
                engine.linearise()
                engine.audit()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_ties_are_decided_alike(dtype):
    """With targets of zero a step leads exactly to the threshold."""
    for seed in range(60):
        rows = np.random.default_rng(seed).normal(size=(3, 5)) + 3
        problem = Problem(to_sphere(rows), np.zeros(3))
        train(problem, width=3, shift=0.3, seed=seed, dtype=dtype, audit=True)
    for seed in range(20):
        train(Problem([[1.0]], [0.0]), width=1, shift=0.0, seed=seed, dtype=dtype, audit=True)


@pytest.mark.parametrize("first_step", ["limit", "gram"])
@pytest.mark.parametrize("shift", [0.0, 0.5, 2.0])
def test_outputs_stay_true_when_large_coefficients_cancel(first_step, shift):
    """Near-duplicates: float32 may find out which pairs fire, it must not enter the outputs."""
    random = np.random.default_rng(7)
    rows = random.standard_normal((8, 10))
    rows = to_sphere(np.vstack([rows, rows + 0.1 * random.standard_normal(rows.shape)]))
    problem = Problem(rows, random.standard_normal(16))
    result = train(problem, width=4000, shift=shift, twins=True, audit=True, first_step=first_step)
    assert result.status == Status.CONVERGED
    off = np.linalg.norm(result.network.predict(rows) - problem.targets)
    assert off <= 2e-6 * np.linalg.norm(problem.targets)


def test_a_network_does_not_outlive_its_training():
    gc.collect()
    gc.disable()
    try:
        train(random_problem(inputs=10, dimension=5), width=500)
        assert not [one for one in gc.get_objects() if type(one) is ShardEngine]  # isinstance would ask strangers
    finally:
        gc.enable()


@pytest.mark.parametrize("twins", [False, True])
def test_after_the_first_step_only_neurons_that_flipped_are_waiting(twins):
    problem = random_problem(inputs=12, dimension=5)
    settings = NetworkSettings.checked(width=400, dimension=5, shift=0.8, seed=1, twins=twins)
    shard = make_shard("certified", settings, problem.inputs, range(400), dtype="float64")
    shard.start(minus(problem.targets), expected=0.1)
    waiting = set(shard._lists.neurons[shard._pending].tolist())
    before = _pairs(shard.pattern())
    shard.linearise(None)
    flipped = before ^ _pairs(shard.pattern())
    assert waiting == {neuron for neuron, _ in flipped}
    assert 0 < len(waiting) < len(before)
    assert not len(shard._pending)


def _pairs(pattern):
    return set(zip(pattern.per_pair(pattern.neurons).tolist(), pattern.inputs.tolist(), strict=True))


def test_inputs_are_numbered_in_as_few_bytes_as_they_need():
    def made(inputs):
        return watchlists.Watchlists.with_capacity(3, 5, dtype=np.dtype("f4"), inputs=inputs).inputs.dtype

    assert (made(1), made(1 << 16), made((1 << 16) + 1)) == (np.uint16, np.uint16, np.uint32)


def test_more_flips_than_are_kept_at_a_time():
    """Values of pairs that flipped are computed together; what is needed for the neuron at hand must stay untouched."""
    result = train(random_problem(inputs=300, dimension=6), width=2**15, max_iterations=3, audit=True)
    assert max(record.flips for record in result.history) > 4 * BUFFER
