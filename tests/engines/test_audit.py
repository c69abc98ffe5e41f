"""The audit: ties pass and are counted, anything beyond the rounding of float64 does not."""

import numpy as np
import pytest

from thresher import BrokenCertificate, train
from thresher.datasets import random_problem
from thresher.engines import LocalEngine
from thresher.engines.engine import _compare
from thresher.interfaces import Audit
from thresher.model.firing import pattern_of_pairs
from thresher.shards import Scan
from thresher.shards.search import SearchShard


def truth_at(beyond):
    """A shard with a pair that lies ``beyond`` above the threshold, and its pattern without that pair."""
    result = train(random_problem(inputs=6, dimension=4), width=50, shift=0.5, dtype="float64", max_iterations=2)
    weights = result.network.weights
    neurons, inputs = np.array([weights.support.neurons[3]]), weights.support.inputs[weights.support.bounds[3:4]]
    value = float(weights.look(neurons, inputs)[0])
    truth = SearchShard(result.network.settings._replace(shift=value - beyond), weights, range(50), index=Scan())
    truth.start(None, expected=0.0)
    found = truth.pattern()
    rows, columns = found.per_pair(found.neurons), found.inputs
    others = (rows != neurons[0]) | (columns != inputs[0])
    assert others.sum() == len(rows) - 1
    return pattern_of_pairs(rows[others], columns[others]), truth


def test_a_pair_on_the_threshold_is_a_tie():
    maintained, truth = truth_at(beyond=0.0)
    assert _compare(maintained, truth) == 1
    assert _compare(truth.pattern(), truth) == 0


@pytest.mark.parametrize("beyond", [1e-12, 1e-6])
def test_a_pair_beyond_rounding_is_a_missed_flip(beyond):
    with pytest.raises(BrokenCertificate, match=r"neuron \d+ fires on input \d+, against what is maintained \(1 such"):
        _compare(*truth_at(beyond=beyond))


def test_audits_add_up():
    assert Audit(5, 0.1, 1).plus(Audit(7, 0.3, 0)) == Audit(12, 0.3, 1)
    result = train(random_problem(inputs=6, dimension=4), width=50, audit=True)
    assert result.audit.pairs == result.audited == 300 * len(result.history[1:])
    assert 0 <= result.audit.error < 1e-6


@pytest.mark.parametrize("part", ["_outputs", "_counts"])
def test_outputs_and_counts_that_are_off_are_noticed(part, monkeypatch):
    linearise = LocalEngine.linearise

    def spoil(self):
        gram = linearise(self)
        if (values := getattr(self, part)) is not None:
            setattr(self, part, values + (1e-3 if part == "_outputs" else np.eye(len(values), dtype=np.int32)))
        return gram

    monkeypatch.setattr(LocalEngine, "linearise", spoil)
    with pytest.raises(BrokenCertificate, match=r"the (output on input|co-firing count)"):
        train(random_problem(inputs=6, dimension=4), width=500, audit=True)
