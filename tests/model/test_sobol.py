"""Sobol start rows: the points by definition, however asked for, and a Gram matrix that is closer to its limit."""

import pickle
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import naive
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from properties import examples
from scipy.stats import qmc

from thresher import InvalidInput, to_sphere
from thresher.datasets import random_problem
from thresher.engines import start_engine
from thresher.interfaces import Step
from thresher.loops.numbers.sobol import fill_points, fill_points_from
from thresher.model import sobol
from thresher.model.network import Network, NetworkSettings
from thresher.model.start import Start, random_words
from thresher.model.weights import DenseWeights, Weights
from thresher.shards.dense import start_gram
from thresher.theory import limit_kernel

SEEDS = (0, 7, 2**64 - 1)
KINDS = ("random", "sobol", "hadamard")
every_kind = pytest.mark.parametrize("sequence", KINDS)


def bits(array):
    return np.ascontiguousarray(array).view(np.uint32)


def plain_words(seed, dimension, rows):
    """The first rows of the sequence by definition, (rows, d): SciPy's points, and their bits scrambled one by one."""
    whole = qmc.Sobol(dimension, bits=32, scramble=False).random_base2(int(rows - 1).bit_length())[:rows]
    return scramble(seed, whole)


def scramble(seed, points):
    points = np.round(points * 2**32).astype(np.int64)
    random = random_words(seed, 2, np.arange(points.shape[1]), 33).astype(np.int64)
    words = np.zeros_like(points)
    for place in range(32):
        bit = points >> place & 1
        for above in range(place + 1, 32):
            bit ^= points >> above & random[1 + place] >> above & 1
        words |= (bit ^ random[0] >> place & 1) << place
    return words


def sobol_start(seed, dimension, twins=False):
    return Start(seed, dimension, twins, "sobol")


# The points


@pytest.mark.parametrize("dimension", [1, 2, 5, 31, pytest.param(300, marks=pytest.mark.thorough)])
@pytest.mark.parametrize("seed", SEEDS)
def test_words_are_scipys_points_scrambled(dimension, seed):
    expected = plain_words(seed, dimension, 1 << 12)
    for first, last in [(0, 1 << 12), (0, 1), (1, 2), (0, 3), (3, 1027), (1024, 2048), (1000, 3001), (2047, 2049)]:
        np.testing.assert_array_equal(sobol.sobol_block(seed, dimension, first, last).T, expected[first:last])
    some = np.random.default_rng(0).integers(0, 1 << 12, 500)
    np.testing.assert_array_equal(sobol.sobol_rows(seed, dimension, some).T, expected[some])


@pytest.mark.thorough
@pytest.mark.parametrize("first", [2**16 - 5, 2**16, 2**17 + 12_345])
def test_words_beyond_many_rows_are_scipys_points_scrambled(first):
    expected = plain_words(3, 4, 2**18)[first : first + 700]
    np.testing.assert_array_equal(sobol.sobol_block(3, 4, first, first + 700).T, expected)
    np.testing.assert_array_equal(sobol.sobol_rows(3, 4, first + np.arange(700)).T, expected)


@pytest.mark.slow
def test_the_last_row_of_all():
    last = 2**32 - 1
    point = qmc.Sobol(1, bits=32, scramble=False).fast_forward(last).random(1)
    np.testing.assert_array_equal(sobol.sobol_rows(5, 1, np.array([last])), scramble(5, point))
    np.testing.assert_array_equal(
        bits(sobol_start(5, 1).rows(np.array([last]))), bits(sobol_start(5, 1).block(last, last + 1))
    )


def plain_point(points, row):
    word = points[0].copy()
    for bit in range(len(points) - 1):
        if row >> bit & 1:
            word ^= points[1 + bit]
    return word


@settings(deadline=None, max_examples=examples(60))
@given(
    first=st.one_of(st.integers(0, 70), st.integers(2**31 - 40, 2**31 + 40), st.integers(2**32 - 99, 2**32 - 40)),
    count=st.integers(0, 40),
    dimension=st.integers(1, 4),
)
def test_loops_combine_points_up_to_the_last_row(first, count, dimension):
    points = np.random.default_rng(dimension).integers(0, 2**32, (33, dimension), dtype=np.uint32)
    expected = np.array([plain_point(points, row) for row in range(first, first + count)], np.uint32)
    block, listed = np.empty((2, dimension, count), np.uint32)
    fill_points_from(points, first, block)
    fill_points(points, np.arange(first, first + count).astype(np.uint32), listed)
    np.testing.assert_array_equal(block.T, expected.reshape(count, dimension))
    np.testing.assert_array_equal(listed, block)


@pytest.mark.parametrize("dimension", [3, 20])
@pytest.mark.parametrize("size", [5, 12])
def test_every_slice_of_a_column_has_its_share_of_rows(dimension, size):
    """What makes the sequence even: the first 2^k rows, and all later 2^k, lie in different 2^k parts of a column."""
    for part in (0, 3):
        words = sobol.sobol_block(1, dimension, part << size, (part + 1) << size)
        slices = np.sort(words >> np.uint32(32 - size), axis=1)
        np.testing.assert_array_equal(slices, np.broadcast_to(np.arange(1 << size), slices.shape))


def test_points_are_found_once_and_only_as_many_as_needed(monkeypatch):
    skipped, forward = [], qmc.Sobol.fast_forward
    monkeypatch.setattr(qmc.Sobol, "fast_forward", lambda engine, n: skipped.append(n) or forward(engine, n))
    sobol._points.cache_clear()
    sobol._directions.cache_clear()
    start = sobol_start(3, 5)
    for first in range(0, 1 << 14, 1024):
        start.block(first, first + 1024)
    assert (1 << 13) // 2 < sum(skipped) <= 1 << 14
    skipped.clear()
    start.block(0, 1 << 14)
    start.rows(np.array([5, (1 << 14) - 1]))
    sobol_start(4, 5).block(0, 1 << 14)  # another seed
    assert not skipped
    start.rows(np.array([1 << 14]))
    assert (1 << 14) // 2 < sum(skipped) <= 1 << 14


# Pinned: a change here changes every network with such rows


GOLDEN = {0: "36500fee 092c163f 5869396d", 1: "c73e34bf ae465850 e59a0ab7", 4095: "36469f1e ef4962d1 3a25f548"}


def test_golden_words():
    words = sobol.sobol_rows(7, 5, np.array([*GOLDEN]))[:3].T
    assert [" ".join(f"{word:08x}" for word in row) for row in words] == [*GOLDEN.values()]


# One contract for every kind of start

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
    sobol._points.cache_clear()
    sobol._directions.cache_clear()
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
    np.testing.assert_allclose(engine.linearise().dense(), start_gram(problem.inputs, made), rtol=1e-12)
    engine.move(Step(np.linalg.solve(engine.gram().dense(), problem.targets)))
    engine.linearise()
    engine.audit()


def test_engines_that_make_rows_themselves_refuse_others():
    problem = random_problem(inputs=15, dimension=4)
    made = NetworkSettings.checked(width=2000, dimension=4, sequence="sobol")
    with pytest.raises(InvalidInput, match=r"certified.*needs.*'random' or 'hadamard'; got 'sobol'.*scan"):
        start_engine(problem, made, index="certified")


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
    assert words == {"random": "5", "sobol": "5, Sobol start rows", "hadamard": "5, Hadamard start rows"}[sequence]


# Seeds, bounds, moments


def test_other_seeds_give_other_rows():
    blocks = [sobol_start(seed, 8).block(0, 512) for seed in (0, 1, 2, 2**32, 2**32 + 1, 2**63)]
    for one, other in ((a, b) for a in range(len(blocks)) for b in range(a)):
        assert (blocks[one] != blocks[other]).any(axis=1).all()
    assert (sobol_start(0, 8).block(0, 512) != Start(0, 8).block(0, 512)).any(axis=1).all()


def test_bounds_are_told_before_anything_is_made():
    with pytest.raises(InvalidInput, match=r"2\*\*32 rows.*4294967298 are needed.*start='random'"):
        NetworkSettings.checked(width=2**32 + 2, dimension=3, sequence="sobol")
    NetworkSettings.checked(width=2**33, dimension=3, sequence="sobol", twins=True)
    NetworkSettings.checked(width=2**33, dimension=30_000)
    with pytest.raises(InvalidInput, match=r"at most 21201 columns; got dimension 21202"):
        NetworkSettings.checked(width=10, dimension=21_202, sequence="sobol")
    NetworkSettings.checked(width=10, dimension=21_201, sequence="sobol")
    for wrong in ("Sobol", "halton", "", None, True):
        with pytest.raises(InvalidInput, match="sequence must be one of 'random', 'sobol', 'hadamard'"):
            NetworkSettings.checked(width=10, dimension=3, sequence=wrong)
    for ask in (
        lambda start: start.block(2**32, 2**32 + 1),
        lambda start: start.base_block(0, 2**32 + 1),
        lambda start: start.rows(np.array([3, 2**32])),
    ):
        with pytest.raises(InvalidInput, match=r"2\*\*32 rows"):
            ask(sobol_start(0, 2))
    with pytest.raises(InvalidInput, match="21201 columns"):
        sobol_start(0, 21_202).block(0, 1)


@pytest.mark.parametrize("dimension", [1, 4, 40])
def test_moments(dimension):
    rows = sobol_start(11, dimension).block(0, 1 << 14).astype(np.float64)
    assert np.isfinite(rows).all()
    assert (rows != 0).all()
    assert len(np.unique(rows, axis=0)) == len(rows)
    # Random rows would differ from these by about 0.01 each
    np.testing.assert_allclose(rows.mean(axis=0), 0, atol=5e-4)
    np.testing.assert_allclose((rows**2).mean(axis=0), 1, atol=3e-3)
    np.testing.assert_allclose((rows**4).mean(axis=0), 3, atol=0.1)
    np.testing.assert_allclose(rows.T @ rows / len(rows), np.eye(dimension), atol=0.01)


# What it is for


def gram_errors(sequence, *, dimension, shift, width):
    """What Gram matrices at the start are off by, relative to the norm of their limit, for some seeds."""
    X = to_sphere(np.random.default_rng(1).normal(size=(60, dimension)))
    limit = limit_kernel(X @ X.T, shift)
    options = {"width": width, "dimension": dimension, "shift": shift, "twins": True, "sequence": sequence}
    made = [start_gram(X, NetworkSettings.checked(seed=seed, **options)) for seed in range(6)]
    return (np.array(made) - limit) / np.linalg.norm(limit)


def norms(errors):
    return np.linalg.norm(errors, axis=(1, 2))


@pytest.mark.parametrize("shift", [0.0, 0.5, 1.5])
@pytest.mark.parametrize(("dimension", "gain"), [(4, 4.5), (8, 2.2), (32, 1.5)])
def test_the_first_gram_matrix_is_as_near_to_its_limit_as_that_of_a_wider_network(dimension, shift, gain):
    """Measured for 20 seeds and 100 inputs: as with 6.6 to 9.5, 3.1 to 3.9 and 2.2 to 2.4 times the width."""
    options = {"dimension": dimension, "shift": shift, "width": 1 << 13}
    errors, random = norms(gram_errors("sobol", **options)), norms(gram_errors("random", **options))
    assert errors.max() < random.min()
    assert (random.mean() / errors.mean()) ** 2 > gain


def test_errors_of_several_seeds_cancel_as_independent_ones_do():
    errors = gram_errors("sobol", dimension=8, shift=0.5, width=1 << 13)
    assert 0.3 < np.linalg.norm(errors.mean(axis=0)) / norms(errors).mean() < 0.55  # 6^(-1/2) is 0.41
