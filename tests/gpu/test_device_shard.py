"""Training on a GPU: the contract of every shard, the trajectory of the processor, sabotage, files, refusals."""

import pickle

import naive
import numpy as np
import pytest
from grams import random_inputs

pytest.importorskip("torch", reason="needs torch: pip install 'thresher-ml[gpu]'")
pytest.importorskip("triton", reason="needs triton: pip install 'thresher-ml[gpu]'")

from columns import train_columns
from test_contract import SHIFT, Story

import thresher
from thresher import BrokenCertificate, InvalidInput, MemoryRefused, Problem, train
from thresher.gpu import scan, shard
from thresher.gpu.rows import Rows

CASES = [
    # seed, twins, first step, matrix, n, d
    (0, True, 0.5, "from the start", 9, 5),
    (1, False, 0.5, "late", 6, 7),
    (2, True, None, "never", 5, 2),
    (3, False, None, "from the start", 1, 1),
    (5, True, 1e-3, "never", 8, 3),
]


def problem(n=12, d=6, seed=0):
    return Problem(random_inputs(n, d, seed=seed), np.random.default_rng(seed).normal(size=n))


@pytest.mark.parametrize("rows", ["random", "hadamard"])
@pytest.mark.parametrize(("seed", "twins", "first", "matrix", "n", "d"), CASES)
def test_the_contract_of_every_shard(gpu_kind, seed, twins, first, matrix, n, d, rows):
    rng = np.random.default_rng(seed)
    first = None if first is None else rng.normal(size=n) * first
    story = Story(gpu_kind, n=n, d=d, seed=seed, twins=twins, dtype="float32", first=first, rows=rows)
    np.testing.assert_allclose(story.started.before.outputs, story.outputs(story.W0), **story.near)
    assert story.started.before.effort.firing == np.count_nonzero(naive.firing(story.W0, story.X, SHIFT))
    if first is not None:
        np.testing.assert_allclose(story.started.after.outputs, story.outputs(story.there), **story.near)
        if seed % 2:  # the first step is taken back
            story.move(np.zeros(n))
    story.linearise(matrix=matrix == "from the start")
    for size in (0.3, 3.0):
        for _ in range(2):  # each from the same point, as if none had been tried before
            story.move(rng.normal(size=n) * size)
        story.check(story.engine.gram(), matrix=matrix == "from the start")  # nothing has changed yet
        story.linearise(matrix=matrix != "never")
    story.linearise(matrix=matrix != "never")  # without a move: all stays


@pytest.mark.parametrize(
    ("n", "d", "width", "options"),
    [
        (12, 6, 128, {"twins": True}),
        (8, 5, 100, {"twins": False}),
        (6, 150, 64, {"twins": True, "first_step": "gram", "start": "random"}),
        (12, 6, 1100, {"twins": True, "start": "hadamard"}),
        (8, 300, 200, {"twins": False}),
    ],
)
def test_the_trajectory_is_that_of_the_processor(n, d, width, options):
    given = problem(n, d)
    here = train(given, width=width, device="cuda", audit=True, **options)
    there = train(given, width=width, index="certified", **options)
    assert here.status == there.status
    assert here.solver.startswith("Cholesky on the GPU")
    assert len(here.history) == len(there.history)
    for a, b in zip(here.history, there.history, strict=True):
        assert (a.flips, a.firing, a.moved) == (b.flips, b.firing, b.moved)
        assert a.residual == pytest.approx(b.residual, abs=1e-6 * there.history[0].residual)
    for mine, yours in zip(here.network.weights.support, there.network.weights.support, strict=True):
        np.testing.assert_array_equal(mine, yours)
    X = random_inputs(5, d, seed=9)
    answers = here.network.predict(X)
    np.testing.assert_allclose(answers, there.network.predict(X), atol=1e-5)
    np.testing.assert_array_equal(answers, pickle.loads(pickle.dumps(here.network)).predict(X))


def test_neurons_that_leave_their_band_are_scanned_again(monkeypatch):
    monkeypatch.setattr(shard, "expected_band", lambda drift, fires: 0.05)
    result = train(problem(8), width=128, device="cuda", audit=True, twins=True)
    assert sum(record.rescans for record in result.history) > 20


def test_pairs_on_the_threshold_are_decided_in_float64(monkeypatch):
    given, seen = problem(8, 5), []
    look = Rows.look

    def count(self, rows, inputs, *, double=False):
        seen.append(double * len(rows))
        return look(self, rows, inputs, double=double)

    monkeypatch.setattr(Rows, "look", count)
    start = train(given, width=64, shift=1.0, twins=False, max_iterations=0).network.settings.start
    Z = start.block(0, 64).astype(float) @ given.inputs.T
    on_it = float(np.sort(Z[Z > 0.9].ravel())[0])
    for shift in (on_it, np.nextafter(on_it, 9)):
        result = train(given, width=64, shift=shift, twins=False, device="cuda", audit=True)
        other = train(given, width=64, shift=shift, twins=False, index="scan")
        assert [a.firing for a in result.history] == [b.firing for b in other.history]
    assert sum(seen) > 0


def test_many_pairs_in_doubt_find_room(monkeypatch):
    monkeypatch.setattr(shard, "_ROOM", 1)
    monkeypatch.setattr(scan, "guards", lambda *a: (0.05, 1e-14))  # much is in doubt
    given = problem(8)
    result = train(given, width=64, twins=False, device="cuda", audit=True)
    assert [r.firing for r in result.history] == [r.firing for r in train(given, width=64, twins=False).history]


def test_certificates_that_are_too_long_are_noticed(monkeypatch):
    monkeypatch.setattr(shard, "_TRUST", 0.2)
    with pytest.raises(BrokenCertificate):
        train(problem(), width=512, device="cuda", audit=True, twins=True)


def test_counts_that_are_off_are_noticed(gpu_kind):
    story = Story(gpu_kind, dtype="float32")
    story.linearise(matrix=True)
    story.engine._executor._slices[0]._shards[0]._counts[2, 1] += 1
    with pytest.raises(BrokenCertificate, match="co-firing counts"):
        story.engine.audit()


def test_a_coefficient_that_is_off_is_noticed(gpu_kind):
    story = Story(gpu_kind, dtype="float32", first=np.linspace(-1, 1, 9))
    story.linearise(matrix=True)
    lists = story.engine._executor._slices[0]._shards[0]._lists
    lists.coefficients[lists.begin[3]] += 0.5
    with pytest.raises(BrokenCertificate, match=r"neuron \d+ .* on input \d+|the output on input"):
        story.engine.audit()


def test_results_leave_the_device(tmp_path):
    given = problem()
    result = train(given, width=128, device="cuda", twins=True)
    predicted = result.network.predict(given.inputs)
    result.save(tmp_path / "result")
    again = thresher.load(tmp_path / "result")
    np.testing.assert_array_equal(again.network.predict(given.inputs), predicted)


def test_several_outputs_are_trained_together():
    X = random_inputs(7, 4)
    problems = [Problem(X, np.random.default_rng(seed).normal(size=7)) for seed in range(2)]
    for mine, yours in zip(
        train_columns(problems, width=96, device="cuda"),
        train_columns(problems, width=96),
        strict=True,
    ):
        assert [a.flips for a in mine.history] == [b.flips for b in yours.history]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"index": "scan"}, "searches with index='certified'"),
        ({"dtype": "float64"}, "works in float32"),
        ({"method": "paper"}, "searches with index='certified'"),
    ],
)
def test_what_a_gpu_does_not_do_is_refused_by_name(options, message):
    with pytest.raises(InvalidInput, match=message):
        train(problem(), width=64, device="cuda", **options)


def test_what_does_not_fit_is_refused_before_any_work(monkeypatch):
    monkeypatch.setattr(shard, "device_bytes", lambda device: 1 << 30)
    with pytest.raises(MemoryRefused, match="on the GPU needs about"):
        train(problem(200, 20), width=10**9, device="cuda")


@pytest.mark.gpu
@pytest.mark.parametrize(
    ("n", "d", "width", "options"),
    [
        (200, 50, 1 << 17, {"twins": True, "start": "random"}),
        (300, 20, 1 << 16, {"start": "random", "twins": False}),
        (200, 50, 1 << 17, {"twins": True}),
        (300, 784, 1 << 15, {"twins": False}),
        (300, 300, 1 << 15, {"twins": True, "start": "random"}),
        (100, 1024, 1 << 15, {"start": "random", "twins": False}),
        (33, 6, 1 << 14, {"shift": 1.0, "twins": False}),
        (1500, 30, 1 << 14, {"twins": True, "first_step": "gram", "start": "random"}),
    ],
)
def test_large_trajectories_are_those_of_the_processor(n, d, width, options):
    given = problem(n, d, seed=3)
    here = train(given, width=width, device="cuda", audit=True, **options)
    there = train(given, width=width, index="certified", solver="cholesky", **options)
    assert here.status == there.status
    for a, b in zip(here.history, there.history, strict=True):
        assert (a.flips, a.firing) == (b.flips, b.firing)
        assert a.residual == pytest.approx(b.residual, abs=1e-6 * there.history[0].residual)


@pytest.mark.gpu
def test_the_same_seed_gives_the_same_bits_again():
    given = problem(300, 30)
    first, again = (train(given, width=1 << 18, device="cuda", twins=True) for _ in range(2))
    assert [a.residual for a in first.history] == [b.residual for b in again.history]
    np.testing.assert_array_equal(first.network.weights.coefficients, again.network.weights.coefficients)


@pytest.mark.gpu
def test_ten_million_neurons_are_audited():
    result = train(problem(500, 64), width=10**7, device="cuda", twins=True, audit=True)
    assert result.status == "converged"
    assert result.audit.pairs >= 2e10


def test_moves_that_are_too_far_for_integers_are_refused():
    X = random_inputs(4, 3)
    for seed in range(3):
        y = 3e4 * np.random.default_rng(seed).normal(size=4)
        try:
            result = train(Problem(X, y), width=64, shift=0.0, twins=True, device="cuda", max_iterations=8, seed=2)
        except InvalidInput as refused:
            assert "move too far" in str(refused)
            continue
        predicted = result.network.predict(X)
        assert np.linalg.norm(predicted - y) == pytest.approx(result.history[-1].residual, abs=1e-3 * np.linalg.norm(y))


def test_damping_is_added_to_a_copy_of_the_matrix():
    given = problem(6, 4)
    here, there = (train(given, width=64, twins=False, damping=0.1, device=device) for device in ("cuda", "cpu"))
    for a, b in zip(here.history, there.history, strict=True):
        assert a.residual == pytest.approx(b.residual, abs=1e-6 * there.history[0].residual)
