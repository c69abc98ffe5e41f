"""Dense shards on a GPU: the contract of every shard, whole trainings, and where they are the default."""

import naive
import numpy as np
import pytest
from grams import random_inputs

pytest.importorskip("torch", reason="needs torch: pip install 'thresher-ml[gpu]'")
pytest.importorskip("triton", reason="needs triton: pip install 'thresher-ml[gpu]'")

from test_contract import SHIFT, Story, steps_of

from thresher import BrokenCertificate, MemoryRefused, Problem, train
from thresher.gpu import dense_shard
from thresher.gpu.dense_shard import DenseDeviceShard
from thresher.shards import SHARDS
from thresher.training import options
from thresher.training.train import complete


@pytest.fixture
def kind(monkeypatch):
    monkeypatch.setattr(dense_shard, "_BLOCK", 300)  # several blocks
    monkeypatch.setitem(SHARDS, "dense on a GPU", DenseDeviceShard)
    return "dense on a GPU"


@pytest.mark.parametrize(
    ("seed", "twins", "first", "matrix", "n", "d"),
    [(0, True, 0.5, "from the start", 9, 5), (1, False, 0.5, "late", 6, 7), (2, True, None, "never", 5, 2),
     (3, False, None, "from the start", 1, 1), (5, True, 1e-3, "late", 8, 3)],
)  # fmt: skip
def test_the_contract_of_every_shard(kind, seed, twins, first, matrix, n, d):
    rng = np.random.default_rng(seed)
    first = None if first is None else rng.normal(size=n) * first
    story = Story(kind, n=n, d=d, seed=seed, twins=twins, dtype="float32", first=first)
    np.testing.assert_allclose(story.started.before.outputs, story.outputs(story.W0), **story.near)
    assert story.started.before.effort.firing == np.count_nonzero(naive.firing(story.W0, story.X, SHIFT))
    if first is not None:
        np.testing.assert_allclose(story.started.after.outputs, story.outputs(story.there), **story.near)
    story.linearise(matrix=matrix == "from the start")
    for late in (False, True):
        steps = steps_of(rng, n)
        for place in rng.permutation(len(steps)):  # each from the same point, as if none had been tried before
            story.move(steps[place])
        story.check(story.engine.gram(), matrix=matrix == "from the start")
        story.linearise(matrix=matrix == "from the start" or (late and matrix == "late"))
    story.linearise(matrix=matrix != "never")


def test_a_pair_that_is_off_is_noticed(kind):
    story = Story(kind, dtype="float32", first=np.linspace(-1, 1, 9))
    story.linearise(matrix=False)
    fires = story.engine._executor._slices[0]._shards[0]._fires
    fires[3, 2] = ~fires[3, 2]
    with pytest.raises(BrokenCertificate, match=r"neuron 3 (fires|does not fire) on input 2"):
        story.engine.audit()


def test_a_shard_that_never_counted_knows_how_counts_change(kind):
    """One that was made again, from the start and its moves, is asked for changes of counts it was not asked for."""
    shards, n = [], 9
    for counted in (True, False):
        story = Story(kind, dtype="float32", first=np.linspace(-1, 1, n))
        story.linearise(matrix=False)
        shards.append(story.engine._executor._slices[0]._shards[0])
        if counted:
            shards[-1].add_counts(np.zeros((n, n), np.int32))
        shards[-1].move(np.linspace(2, -1, n))
    changes = [np.zeros((n, n), np.int32) for _ in shards]
    for shard, change in zip(shards, changes, strict=True):
        shard.linearise(change)
    np.testing.assert_array_equal(*changes)
    assert changes[0].any()


def problem(n=12, d=6, seed=0):
    return Problem(random_inputs(n, d, seed=seed), np.random.default_rng(seed).normal(size=n))


@pytest.mark.parametrize(
    ("sequence", "given"),
    [
        ("hadamard", {"index": "dense", "first_step": "gram"}),
        ("random", {"index": "dense", "first_step": "gram"}),
    ],
)
def test_the_trajectory_is_that_of_the_processor(sequence, given):
    asked = {"width": 128, "twins": True, "start": sequence, **given}
    here, there = (train(problem(), **asked, device=device, audit=True) for device in ("cuda", "cpu"))
    assert here.status == there.status
    assert len(here.history) == len(there.history)
    for mine, yours in zip(here.history, there.history, strict=True):
        assert (mine.flips, mine.firing) == (yours.flips, yours.firing)
        assert mine.residual == pytest.approx(yours.residual, rel=1e-3, abs=1e-5 * there.history[0].residual)
    X = random_inputs(5, 6, seed=9)
    np.testing.assert_allclose(here.network.predict(X), there.network.predict(X), atol=1e-4)


def test_they_are_the_default_where_many_inputs_move_neurons_far(monkeypatch):
    monkeypatch.setattr(options, "_moves_far", lambda facts: True)
    setup = options.Setup.of([problem()], complete({"device": "cuda", "width": 64}))
    assert setup.kind is DenseDeviceShard
    assert setup.index == "dense"


def test_memory_is_refused_in_advance(monkeypatch):
    monkeypatch.setattr(dense_shard, "device_bytes", lambda device: 1000)
    with pytest.raises(MemoryRefused, match="128 neurons on 12 inputs on the GPU"):
        train(problem(), width=128, index="dense", device="cuda")
