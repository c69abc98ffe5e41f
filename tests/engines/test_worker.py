"""Workers of a cluster, without one: what they are told and answer is bytes, and their log makes them again."""

import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from properties import examples

from thresher import InvalidInput, MemoryRefused, NotAvailable, Ray, to_sphere
from thresher.engines.cluster import Node, deal, require_nodes, share_of_cpu
from thresher.engines.footprint import Shares
from thresher.engines.worker import Call, Worker, here, pack
from thresher.interfaces import Shard
from thresher.model.network import NetworkSettings
from thresher.shards import SHARDS, Recipe, Slice

INPUTS = to_sphere(np.random.default_rng(1).normal(size=(12, 5)))
RANGES = [range(40), range(40, 90), range(90, 100)]


def worker(index):
    network = NetworkSettings.checked(width=100, dimension=5, shift=0.6, seed=0)
    return Worker(pickle.dumps(Recipe(SHARDS[index], network, INPUTS, "float32", 2)), RANGES, 1, here())


def answer(one, call, before=()):
    value, error, _ = pickle.loads(one.do(call.data, before))
    assert error is None
    return pickle.dumps(value)


def step(seed):
    return np.random.default_rng(seed).normal(size=len(INPUTS))


CALLS = {
    "move": lambda k, seed: Call.of(Slice.call, (k, Shard.move, step(seed)), adds=False),
    "linearise": lambda k, seed: Call.of(Slice.call, (k, Shard.linearise, None), adds=False),
    "counting": lambda k, seed: Call.of(Slice.call, (k, Shard.linearise), adds=True),
    "add_counts": lambda k, seed: Call.of(Slice.call, (k, Shard.add_counts), adds=True),
    "gram_times": lambda k, seed: Call.of(Slice.call, (k, Shard.gram_times, step(seed)), adds=False),
    "firing_counts": lambda k, seed: Call.of(Slice.call, (k, Shard.firing_counts), adds=False),
    "weights": lambda k, seed: Call.of(Slice.call, (k, Shard.weights), adds=False),
    "audit": lambda k, seed: Call.of(Slice.call, (k, Shard.audit), adds=False),
}
START = Call.of(Slice.start, ([step(0), None], [0.3, 0.4]), adds=False)
QUESTIONS = [name for name in CALLS if name not in ("move", "linearise", "counting")]


@pytest.mark.parametrize("index", SHARDS)
@given(made=st.lists(st.tuples(st.sampled_from(list(CALLS)), st.integers(0, 1), st.integers(0, 9)), max_size=8))
@settings(max_examples=examples(10))
def test_a_log_makes_a_worker_again_to_the_bit(index, made):
    first, second = worker(index), worker(index)
    calls = [START, *(CALLS[name](output, seed) for name, output, seed in made)]
    for call in calls:
        answer(first, call)
    log = [call.data for call in calls if call.changes]
    for name in [*QUESTIONS, "move", "linearise", *QUESTIONS]:
        call = CALLS[name](1, 17)
        assert call.changes == (name not in QUESTIONS)
        assert answer(second, call, log) == answer(first, call)
        log = []


def unheard_of(shard):
    """A method that no shard has."""


def test_calls_that_no_shard_knows_yet_are_kept():
    assert Call.of(Slice.call, (0, unheard_of), adds=False).changes
    assert Call.of(Slice.release, (1,), adds=False)[1:] == (1, True, True)


def test_an_error_comes_back_as_it_is():
    value, error, _ = pickle.loads(worker("scan").do(Call.of(Slice.call, (0, unheard_of), adds=False).data))
    assert value is None
    assert isinstance(error, AttributeError)
    assert "unheard_of" in str(error)


def test_another_version_is_refused():
    with pytest.raises(InvalidInput, match=r"the caller 0\.0"):
        Worker(b"", RANGES, 1, "0.0")


@given(
    arrays.arrays(np.int32, st.integers(1, 9).map(lambda n: (n, n)), elements=st.integers(-(2**31) + 1, 2**31 - 1)),
    st.integers(0, 31),
    st.integers(0, 3),
)
def test_packed_counts_are_the_counts_in_few_bytes(counts, bits, spread):
    counts = np.tril(counts >> bits) * np.int32(np.arange(counts.size).reshape(counts.shape) % (spread + 1) == 0)
    total = np.ones_like(counts)
    packed = pack(counts)
    packed.add_to(total)
    np.testing.assert_array_equal(total, counts + np.int32(1))
    sent = packed.values.nbytes + (0 if packed.places is None else packed.places.nbytes)
    n = len(counts)
    assert sent <= n * (n + 1) // 2 * (1 if np.abs(counts).max() < 128 else 4)
    assert sent <= 8 * np.count_nonzero(counts) or packed.places is None


@given(st.integers(1, 64), st.integers(1, 70))
def test_slices_are_dealt_out_in_order_and_evenly(count, workers):
    ranges = [range(k, k + 1) for k in range(count)]
    parts = deal(ranges, workers)
    assert [one for part in parts for one in part] == ranges
    sizes = [len(part) for part in parts]
    assert len(parts) == min(count, workers)
    assert max(sizes) - min(sizes) <= 1


@given(st.lists(st.integers(0, 9), min_size=1, max_size=4), st.integers(1, 64), st.integers(1, 4))
def test_all_workers_find_a_place_however_few_processors_there_are(cpus, workers, each):
    nodes = [Node(float(one), 1e12) for one in cpus]
    share = share_of_cpu(nodes, workers, each)
    grains = round(share * 10_000)  # as Ray counts
    assert share * 10_000 == pytest.approx(grains, abs=1e-6)
    assert share == 0 or sum(one * 10_000 // grains for one in cpus) >= workers
    assert share <= each
    if sum(one // each for one in cpus) >= workers:
        assert share == each


def test_what_does_not_fit_into_the_machines_is_refused():
    nodes, shares = [Node(2.0, 10e9), Node(1.0, 4e9)], Shares(10**9, 3 * 10**9)
    require_nodes(nodes, shares, workers=3, share=1.0, remedy="Less.")
    with pytest.raises(MemoryRefused, match=r"each of 4 workers needs about 2\.8 GiB.* have room for 3\. Less\."):
        require_nodes(nodes, shares, workers=4, share=1.0, remedy="Less.")
    require_nodes(nodes, shares, workers=4, share=0.5, remedy="Less.")
    with pytest.raises(MemoryRefused, match="room for 4"):
        require_nodes(nodes, shares, workers=5, share=0.0, remedy="Less.")


@pytest.mark.parametrize(
    ("options", "kind", "words"),
    [
        ({"workers": 0}, InvalidInput, "workers"),
        ({"cpus": 1.5}, InvalidInput, "cpus"),
        ({"retries": -1}, InvalidInput, "retries"),
        ({"patience": 0}, InvalidInput, "patience"),
        ({"address": 1}, InvalidInput, "address"),
        ({"address": "ray://10.0.0.1:10001"}, NotAvailable, "does not train through a Ray client"),
    ],
)
def test_options_that_cannot_be_are_refused(options, kind, words):
    with pytest.raises(kind, match=words):
        Ray(**options)
