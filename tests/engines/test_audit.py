"""The audit: ties pass and are counted, anything beyond the rounding of float64 does not."""

import naive
import numpy as np
import pytest

from thresher import BrokenCertificate, Problem, train
from thresher.datasets import random_problem
from thresher.engines import ShardEngine
from thresher.interfaces import Audit
from thresher.loops.rounding import of_outputs
from thresher.model.firing import pattern_of_pairs
from thresher.shards.pairs import PairShard


def audit_at(beyond, *, missing):
    """Audit weights with a pair that lies ``beyond`` above the threshold, and is missing or not."""
    problem = random_problem(inputs=6, dimension=4)
    result = train(problem, width=50, shift=0.5, dtype="float64", max_iterations=2)
    weights, settings = result.network.weights, result.network.settings
    neuron, i = weights.support.neurons[3], weights.support.inputs[weights.support.bounds[3]]
    vectors = weights.vectors(range(50))
    settings = settings._replace(shift=float((vectors @ problem.inputs.T)[neuron, i]) - beyond)
    fires = naive.firing(vectors, problem.inputs, settings.shift)
    fires[neuron, i] = not missing
    rows, columns = np.nonzero(fires)
    pattern = pattern_of_pairs(rows, columns.astype(np.int32))
    shard = PairShard()
    shard._settings, shard._inputs, shard._neurons = settings, problem.inputs, range(50)
    shard.pattern, shard.weights, shard.rounding = lambda: pattern, lambda: weights, lambda: 0.0
    return shard.audit()


def test_a_pair_on_the_threshold_is_a_tie():
    assert audit_at(0.0, missing=True).ties == 1
    assert audit_at(0.0, missing=False).ties <= 1  # the scan's own rounding may put it below
    assert audit_at(1e-6, missing=False).ties == 0


@pytest.mark.parametrize("beyond", [1e-12, 1e-6])
def test_a_pair_beyond_rounding_is_a_missed_flip(beyond):
    with pytest.raises(BrokenCertificate, match=r"neuron \d+ fires on input \d+, against what is maintained \(1 such"):
        audit_at(beyond, missing=True)


@pytest.mark.parametrize("beyond", [-1e-12, -1e-6])
def test_a_pair_that_fires_no_more_is_one_too(beyond):
    with pytest.raises(BrokenCertificate, match=r"neuron \d+ does not fire on input \d+"):
        audit_at(beyond, missing=False)


def test_audits_add_up():
    assert Audit(5, 0.1, 1).plus(Audit(7, 0.3, 0)) == Audit(12, 0.3, 1)
    result = train(random_problem(inputs=6, dimension=4), width=50, audit=True)
    assert result.audit.pairs == result.audited == 300 * len(result.history[1:])
    assert 0 <= result.audit.error < 1e-6


@pytest.mark.parametrize("twins", [False, True])
@pytest.mark.parametrize("shift", [0.0, 1.0])
@pytest.mark.parametrize("index", ["certified", "scan", "dense"])
def test_large_weights_that_cancel_pass(index, shift, twins):
    """Few neurons of few inputs have to become long: sums in float32 lose what is much, beside the outputs."""
    options = {"width": 12, "shift": shift, "twins": twins, "index": index, "max_iterations": 12, "audit": True}
    for seed in range(6):
        problem = random_problem(inputs=60, dimension=2, seed=seed)
        for size in (1, 30):
            train(Problem(problem.inputs, size * problem.targets), seed=seed, **options)


@pytest.mark.parametrize(
    ("neurons", "dimension", "size"), [(12, 2, 1.0), (12, 2, 1e4), (1000, 30, 1.0), (1000, 3, 100.0)]
)
def test_sums_in_float32_lose_what_the_bound_says(neurons, dimension, size):
    X = random_problem(inputs=500, dimension=dimension).inputs.astype(np.float32)
    lost = np.zeros(500)
    for seed in range(20):
        rng = np.random.default_rng(seed)
        W, signs = size * rng.standard_normal((neurons, dimension), np.float32), rng.choice([-1.0, 1.0], neurons)
        margins = W.astype(np.float64) @ X.T.astype(np.float64) - 0.5
        found = signs.astype(np.float32) @ np.maximum(W @ X.T - np.float32(0.5), 0)
        squares = of_outputs(margins, np.linalg.norm(W, axis=1), dimension, 0.5)
        with np.errstate(invalid="ignore"):  # nothing is lost where nothing fires
            lost = np.fmax(lost, np.abs(found - signs @ np.maximum(margins, 0)) / np.sqrt(squares) * 2.0**24)
    assert 0.02 < lost.max() < 1  # a half of what is let pass


@pytest.mark.parametrize("index", ["certified", "dense"])
@pytest.mark.parametrize("part", ["_outputs", "_counts"])
def test_outputs_and_counts_that_are_off_are_noticed(part, index, monkeypatch):
    linearise = ShardEngine.linearise

    def spoil(self):
        gram = linearise(self)
        if (values := getattr(self, part)) is not None:
            setattr(self, part, values + (1e-3 if part == "_outputs" else np.eye(len(values), dtype=np.int32)))
        return gram

    monkeypatch.setattr(ShardEngine, "linearise", spoil)
    with pytest.raises(BrokenCertificate, match=r"the (output on input|co-firing count)"):
        train(random_problem(inputs=6, dimension=4), width=500, audit=True, index=index, solver="cholesky")
