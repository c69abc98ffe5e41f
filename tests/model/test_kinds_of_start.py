"""Start rows of every kind: the same however they are asked for, from threads, in networks and in files."""

import pickle
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import naive
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from properties import examples

from thresher import InvalidInput
from thresher.datasets import random_problem
from thresher.engines import start_engine
from thresher.model.network import Network, NetworkSettings
from thresher.model.start import Start
from thresher.model.weights import DenseWeights, Weights

KINDS = ("random", "hadamard")
every_kind = pytest.mark.parametrize("sequence", KINDS)


def bits(array):
    return np.ascontiguousarray(array).view(np.uint32)


starts = st.builds(
    Start,
    st.integers(0, 2**64 - 1),
    st.integers(1, 9),
    st.booleans(),
    st.sampled_from(KINDS),
)


@settings(deadline=None, max_examples=examples(60))
@given(start=starts, first=st.integers(0, 5000), lengths=st.lists(st.integers(0, 90), min_size=1, max_size=5))
def test_blocks_of_any_size_equal_rows(start, first, lengths):
    edges = first + np.cumsum([0, *lengths])
    neurons = np.arange(edges[0], edges[-1])
    whole = start.block(first, int(edges[-1]))
    assert whole.shape == (len(neurons), start.dimension)
    assert whole.dtype == np.float32
    parts = [start.block(int(a), int(b)) for a, b in pairwise(edges)]
    np.testing.assert_array_equal(bits(np.concatenate(parts)), bits(whole))
    np.testing.assert_array_equal(bits(start.rows(neurons)), bits(whole))
    if not start.twins:
        np.testing.assert_array_equal(bits(start.base_block(first, int(edges[-1])).T), bits(whole))


@settings(deadline=None, max_examples=examples(30))
@given(start=starts, order=st.permutations(range(30)), count=st.integers(0, 30))
def test_rows_in_any_order_and_with_repetition(start, order, count):
    neurons = np.array([*order[:count], *order[:3]])
    np.testing.assert_array_equal(bits(start.rows(neurons)), bits(start.block(0, 30))[neurons])
    np.testing.assert_array_equal(start.signs(neurons), start.signs(np.arange(30))[neurons])


@settings(deadline=None, max_examples=examples(20))
@given(start=starts, more=st.integers(0, 20))
def test_a_larger_dimension_keeps_the_first_columns(start, more):
    larger = start._replace(dimension=start.dimension + more)
    np.testing.assert_array_equal(bits(start.block(0, 99)), bits(larger.block(0, 99)[:, : start.dimension]))


@every_kind
@pytest.mark.parametrize("neuron", [0, 1, 65_535, 10**6])
def test_a_single_row(sequence, neuron):
    start = Start(2, 3, False, sequence)
    row = start.rows(np.array([neuron]))
    np.testing.assert_array_equal(bits(row), bits(start.block(neuron, neuron + 1)))
    np.testing.assert_array_equal(bits(row[0]), bits(start.block(neuron - neuron % 100, neuron + 1)[-1]))
    assert start.rows(np.array([], np.int64)).shape == (0, 3)
    assert start.block(neuron, neuron).shape == (0, 3)


@every_kind
def test_twins_share_rows_and_have_opposite_signs(sequence):
    start, even = Start(4, 5, True, sequence), np.arange(0, 3000, 2)
    np.testing.assert_array_equal(start.signs(even), -start.signs(even + 1))
    np.testing.assert_array_equal(bits(start.rows(even)), bits(start.rows(even + 1)))
    np.testing.assert_array_equal(bits(start.rows(even)), bits(Start(4, 5, False, sequence).block(0, 1500)))
    np.testing.assert_array_equal(bits(start.base_block(7, 1500).T), bits(start.block(14, 3000)[::2]))


@every_kind
def test_threads_make_the_same_numbers(sequence):
    start, edges = Start(5, 6, True, sequence), np.linspace(0, 9000, 14).astype(int)
    with ThreadPoolExecutor(4) as pool:
        parts = list(pool.map(start.block, edges[:-1].tolist(), edges[1:].tolist()))
    np.testing.assert_array_equal(bits(np.concatenate(parts)), bits(start.block(0, 9000)))


@every_kind
def test_a_network_is_what_its_rows_say(sequence):
    problem = random_problem(inputs=20, dimension=4)
    made = NetworkSettings.checked(width=3000, dimension=4, shift=0.3, seed=9, sequence=sequence)
    W, a = made.start.block(0, 3000), made.start.signs(np.arange(3000))
    expected = naive.outputs(W.astype(np.float64), a, problem.inputs, 0.3)
    for weights in (
        Weights.at_start(made.start, problem.inputs, dtype="float64"),
        DenseWeights(made.start, np.zeros((3000, 4), np.float32)),
    ):
        np.testing.assert_allclose(Network(made, weights).predict(problem.inputs), expected, atol=1e-10)


@every_kind
@pytest.mark.parametrize("index", ["scan", "tournament"])
def test_engines_that_ask_the_start_train_with_any(sequence, index):
    problem = random_problem(inputs=15, dimension=4)
    made = NetworkSettings.checked(width=2000, dimension=4, shift=0.5, seed=1, twins=True, sequence=sequence)
    engine, _ = start_engine(problem, made, index=index, dtype="float64", threads=1)
    W, a = made.start.block(0, 2000).astype(np.float64), made.start.signs(np.arange(2000))
    np.testing.assert_allclose(engine.linearise().dense(), naive.gram(W, a, problem.inputs, 0.5), rtol=1e-12)
    engine.move(np.linalg.solve(engine.gram().dense(), problem.targets))
    engine.linearise()
    engine.audit()


@every_kind
def test_signs_do_not_depend_on_the_rows(sequence):
    neurons = np.arange(500)
    np.testing.assert_array_equal(Start(6, 3, False, sequence).signs(neurons), Start(6, 3).signs(neurons))


@every_kind
def test_settings_and_starts_survive_a_pickle(sequence):
    made = NetworkSettings.checked(width=100, dimension=3, seed=5, twins=True, sequence=sequence)
    assert made.start == Start(5, 3, True, sequence)
    assert pickle.loads(pickle.dumps(made)) == made
    words = Network(made, DenseWeights(made.start, np.zeros((100, 3), np.float32))).describe()["seed"]
    assert words == {"random": "5", "hadamard": "5, Hadamard start rows"}[sequence]


# Seeds and names


@every_kind
def test_other_seeds_give_other_rows(sequence):
    blocks = [Start(seed, 8, False, sequence).block(0, 512) for seed in (0, 1, 2, 2**32, 2**32 + 1, 2**63)]
    for one, other in ((a, b) for a in range(len(blocks)) for b in range(a)):
        assert (blocks[one] != blocks[other]).any(axis=1).all()


@pytest.mark.parametrize("wrong", ["Hadamard", "sobol", "halton", "", None, True])
def test_a_kind_that_is_none_is_refused(wrong):
    with pytest.raises(InvalidInput, match="sequence must be one of 'random', 'hadamard'"):
        NetworkSettings.checked(width=10, dimension=3, sequence=wrong)
