"""The judgement of a pair: one that float32 cannot place is decided as float64 decides, in every loop that judges."""

import numpy as np
import pytest
from grams import make_shard, minus

from thresher.datasets import random_problem
from thresher.loops.structures import Guards
from thresher.model.network import NetworkSettings
from thresher.shards import watchlists

NEURONS, INPUTS, DIMENSION = 8, 6, 10
CLOSE = 1e-9  # below what float32 resolves, above what float64 loses
STAGES = {"start": (None, 1.0), "first step": (0.1, 1.0), "visit": (0.1, 100.0), "new scan": (0.1, 1e-12)}


def reached(index, stage, shift, *, seed, twins, dtype):
    """A shard after its stage, and how many neurons were scanned again."""
    problem = random_problem(inputs=INPUTS, dimension=DIMENSION, seed=seed)
    settings = NetworkSettings.checked(width=NEURONS, dimension=DIMENSION, shift=shift, seed=seed, twins=twins)
    shard = make_shard(index, settings, problem.inputs, range(NEURONS), dtype=dtype)
    size, expected = STAGES[stage]
    step = None if size is None else size * np.random.default_rng(seed).normal(size=INPUTS)
    shard.start(minus(step if stage == "first step" else None), expected=expected)
    rescans = shard.move(minus(step)).effort.rescans if stage in ("visit", "new scan") else 0
    if step is not None:
        shard.linearise(None)
    return shard, rescans


def preactivations(shard):
    neurons = np.repeat(np.arange(NEURONS), INPUTS)
    return shard.position().exact(neurons, np.tile(np.arange(INPUTS, dtype=np.int32), NEURONS))


def hard_cases(stage, *, twins):
    """Shifts next to the pre-activation of a pair after its stage, where that can be arranged."""
    for seed in range(60):
        values = preactivations(reached("scan", stage, 0.5, seed=seed, twins=twins, dtype="float64")[0])
        for side in (-CLOSE, CLOSE):
            shift = float(values[np.argmin(np.abs(values - 0.5))]) + side
            truth, _ = reached("scan", stage, shift, seed=seed, twins=twins, dtype="float64")
            if np.abs(preactivations(truth) - shift).min() < 2 * CLOSE:  # no other pair changed sides on the way
                yield seed, shift, truth.pattern()


def wrong(stage, *, twins):
    """The number of hard cases, and of those in which the certified shard finds other pairs."""
    cases = failures = 0
    for seed, shift, truth in hard_cases(stage, twins=twins):
        shard, rescans = reached("certified", stage, shift, seed=seed, twins=twins, dtype="float32")
        assert (rescans > 0) == (stage == "new scan" and len(shard._lists.neurons) > 0)
        cases += 1
        failures += not all(np.array_equal(a, b) for a, b in zip(shard.pattern(), truth, strict=True))
    return cases, failures


@pytest.mark.parametrize("twins", [False, True])
@pytest.mark.parametrize("stage", STAGES)
def test_pairs_that_float32_cannot_place_are_decided_in_float64(stage, twins):
    cases, failures = wrong(stage, twins=twins)
    assert cases > 40
    assert failures == 0


@pytest.mark.parametrize("stage", STAGES)
def test_a_guard_that_is_too_small_is_noticed(stage, monkeypatch):
    make = watchlists.StartBlock.make
    monkeypatch.setattr(
        watchlists.StartBlock,
        "make",
        lambda *given, **named: make(*given, **named)._replace(guards=Guards(0.0, 0.0, 0.0)),
    )
    _, failures = wrong(stage, twins=False)
    assert failures > 3
