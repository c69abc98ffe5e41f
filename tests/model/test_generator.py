"""The random numbers: published words, normals by statistics, and the same numbers however they are asked for."""

import math
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numba import njit
from properties import examples
from scipy import special, stats

from thresher.loops.numbers.philox import _philox, fill_block, fill_rows, words_to_normals
from thresher.model.start import Start, random_normals, random_words

ROWS, COLUMNS = 1 << 15, 64
MASK = 0xFFFFFFFF
SIGMAS = 5.5  # of a single statistic: 4e-8 two-sided, so that thousands of entries may be looked at

# Random123's published answers: counter, key, words.
KNOWN_ANSWERS = [
    ("00000000 00000000 00000000 00000000", "00000000 00000000", "6627e8d5 e169c58d bc57ac4c 9b00dbd8"),
    ("ffffffff ffffffff ffffffff ffffffff", "ffffffff ffffffff", "408f276d 41c83b0e a20bc7c6 6d5451fd"),
    ("243f6a88 85a308d3 13198a2e 03707344", "a4093822 299f31d0", "d16cfe09 94fdcceb 5001e420 24126ea1"),
]


@njit
def compiled_words(counter, key, out):
    out[0], out[1], out[2], out[3] = _philox(counter[0], counter[1], counter[2], counter[3], key[0], key[1])


def plain_philox(counter, key):
    c, k = list(counter), list(key)
    for _ in range(10):
        p0, p1 = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [(p1 >> 32) ^ c[1] ^ k[0], p1 & MASK, (p0 >> 32) ^ c[3] ^ k[1], p0 & MASK]
        k = [(k[0] + 0x9E3779B9) & MASK, (k[1] + 0xBB67AE85) & MASK]
    return c


def from_hex(text):
    return [int(word, 16) for word in text.split()]


def bits(values):
    return np.ascontiguousarray(values).view(np.uint32)


def normals_of(words):
    values = np.array(words, np.uint32).view(np.float32)
    words_to_normals(values)
    return values


def exact_normals(words):
    """ndtri((signed + 1/2) / 2^32 + 1/2), from the side where the argument is exact."""
    signed = np.asarray(words, np.uint32).view(np.int32).astype(np.float64)
    lower = np.where(signed >= 0, 2.0**31 - 0.5 - signed, 2.0**31 + 0.5 + signed) / 2.0**32
    return np.where(signed >= 0, -1, 1) * special.ndtri(lower)


@pytest.fixture(scope="module")
def sample():
    return Start(seed=11, dimension=COLUMNS).block(0, ROWS).astype(np.float64)


# Words


@pytest.mark.parametrize(("counter", "key", "words"), KNOWN_ANSWERS, ids=["zeros", "ones", "pi"])
def test_known_answers(counter, key, words):
    out = np.empty(4, np.uint32)
    compiled_words(np.array(from_hex(counter), np.uint32), np.array(from_hex(key), np.uint32), out)
    assert out.tolist() == from_hex(words) == plain_philox(from_hex(counter), from_hex(key))


def test_first_known_answer_through_the_public_functions():
    words = random_words(0, 0, np.array([0]), 4)
    assert words[:, 0].tolist() == from_hex(KNOWN_ANSWERS[0][2])
    fill_block(np.uint64(0), np.uint64(0), np.uint64(0), words)
    assert words[:, 0].tolist() == from_hex(KNOWN_ANSWERS[0][2])


words64 = st.one_of(st.integers(0, 2**64 - 1), st.integers(0, 5), st.integers(2**32 - 3, 2**32 + 3))


@settings(deadline=None, max_examples=examples(60))
@given(key=words64, row=words64, stream=st.integers(0, MASK), count=st.integers(1, 13))
def test_counter_is_row_quad_stream_and_key_is_seed(key, row, stream, count):
    out = np.zeros((count, 1), np.uint32)
    fill_rows(np.uint64(key), np.uint64(stream), np.array([row], np.uint64), out)
    expected = [
        word
        for quad in range((count + 3) // 4)
        for word in plain_philox((row & MASK, row >> 32, quad, stream), (key & MASK, key >> 32))
    ]
    assert out[:, 0].tolist() == expected[:count]


def test_every_bit_of_the_words_is_balanced():
    words = random_words(3, 0, np.arange(ROWS), COLUMNS)
    for bit in range(32):
        ones = int(((words >> np.uint32(bit)) & np.uint32(1)).sum())
        assert abs(ones - words.size / 2) < SIGMAS * math.sqrt(words.size) / 2


# Normals


def test_normals_are_the_inverse_of_the_distribution():
    edges = np.array([0, 1, 2, 3, 2**31 - 2, 2**31 - 1, 2**31, 2**31 + 1, 2**32 - 2, 2**32 - 1], np.uint32)
    not_numbers = np.array([0x7F800001, 0x7FBFFFFF, 0x7FC00000, 0xFF800001, 0x7F800000, 0xFF800000], np.uint32)
    tails = (2**31 + np.arange(-(2**14), 2**14)).astype(np.uint32)
    centre = np.arange(-(2**14), 2**14).astype(np.int32).view(np.uint32)
    spread = np.arange(0, 2**32, 9973).astype(np.uint32)
    words = np.concatenate([edges, not_numbers, tails, centre, spread])
    found, exact = normals_of(words), exact_normals(words)
    common = np.abs(exact) < 5.5  # beyond are 164 of the 2^32 words
    np.testing.assert_allclose(found[common], exact[common], rtol=2e-6)
    np.testing.assert_allclose(found, exact, rtol=5e-4)


def test_normals_are_antisymmetric():
    words = np.arange(0, 2**32, 65521).astype(np.uint32)
    np.testing.assert_array_equal(normals_of(words), -normals_of(~words))


def test_normals_ascend_with_the_word_in_the_tail():
    words = np.arange(2**31 - 2**16, 2**31).astype(np.uint32)
    assert (np.diff(normals_of(words)) >= 0).all()


def test_moments_of_normals(sample):
    count = sample.size
    z = sample.ravel()
    for power, mean, variance in [(1, 0, 1), (2, 1, 2), (3, 0, 15), (4, 3, 96)]:
        assert abs((z**power).mean() - mean) < SIGMAS * math.sqrt(variance / count), f"moment {power}"


def test_tail_counts_of_normals(sample):
    for bound in (1, 2, 3, 4, 5):
        for side in (1, -1):
            count = int((side * sample > bound).sum())
            chance = stats.norm.sf(bound)
            assert stats.binomtest(count, sample.size, chance).pvalue > 1e-7, f"{count} beyond {side * bound}"


def test_normals_pass_kolmogorov_smirnov(sample):
    assert stats.kstest(sample.ravel()[: 1 << 18], "norm").pvalue > 1e-6


# Independence


def assert_uncorrelated(a, b):
    assert abs((a * b).mean()) < SIGMAS / math.sqrt(a.size)
    assert abs((a**2 * b**2 - 1).mean()) < SIGMAS * math.sqrt(8 / a.size)
    assert abs((np.sign(a) * np.sign(b)).mean()) < SIGMAS / math.sqrt(a.size)


@pytest.mark.parametrize("lag", [1, 2, 3, 4, 1024, ROWS // 2])
def test_rows_are_independent(sample, lag):
    assert_uncorrelated(sample[lag:], sample[:-lag])


def test_columns_are_independent(sample):
    products = (sample.T @ sample / math.sqrt(ROWS))[np.triu_indices(COLUMNS, 1)]
    assert np.abs(products).max() < SIGMAS
    assert abs((products**2).mean() - 1) < SIGMAS * math.sqrt(2 / products.size)


@pytest.mark.parametrize("other", [10, 12, 11 + 2**32, 11 << 32])
def test_seeds_are_independent(sample, other):
    assert_uncorrelated(sample, Start(other, COLUMNS).block(0, ROWS).astype(np.float64))


@pytest.mark.parametrize("stream", [1, 2, 16, 17])
def test_streams_are_independent(sample, stream):
    assert_uncorrelated(sample, random_normals(11, stream, np.arange(ROWS), COLUMNS).astype(np.float64))


def test_signs_are_balanced_and_independent_of_weights_and_seeds(sample):
    neurons = np.arange(ROWS)
    signs = Start(11, COLUMNS).signs(neurons)
    assert set(np.unique(signs)) == {-1.0, 1.0}
    assert abs(signs.sum()) < SIGMAS * math.sqrt(ROWS)
    assert abs((signs[1:] * signs[:-1]).sum()) < SIGMAS * math.sqrt(ROWS)
    assert abs((signs * Start(12, COLUMNS).signs(neurons)).sum()) < SIGMAS * math.sqrt(ROWS)
    assert np.abs(signs @ sample).max() < SIGMAS * math.sqrt(ROWS)


# The same numbers however asked for

starts = st.builds(Start, st.integers(0, 2**64 - 1), st.integers(1, 19), st.booleans(), st.just("random"))
first_neurons = st.one_of(st.integers(0, 40), st.integers(2**32 - 20, 2**32 + 20), st.integers(2**33 - 20, 2**62))


@settings(deadline=None, max_examples=examples(60))
@given(start=starts, first=first_neurons, lengths=st.lists(st.integers(0, 17), min_size=1, max_size=5))
def test_blocks_of_any_size_equal_rows(start, first, lengths):
    edges = first + np.cumsum([0, *lengths])
    neurons = np.arange(edges[0], edges[-1])
    whole = start.block(first, int(edges[-1]))
    assert whole.shape == (len(neurons), start.dimension)
    parts = [start.block(int(a), int(b)) for a, b in pairwise(edges)]
    np.testing.assert_array_equal(bits(np.concatenate(parts)), bits(whole))
    np.testing.assert_array_equal(bits(start.rows(neurons)), bits(whole))


@settings(deadline=None, max_examples=examples(30))
@given(start=starts, order=st.permutations(range(30)), count=st.integers(0, 30))
def test_rows_in_any_order_and_with_repetition(start, order, count):
    neurons = np.array([*order[:count], *order[:3]])
    np.testing.assert_array_equal(bits(start.rows(neurons)), bits(start.block(0, 30))[neurons])
    np.testing.assert_array_equal(start.signs(neurons), start.signs(np.arange(30))[neurons])


@settings(deadline=None, max_examples=examples(20))
@given(seed=st.integers(0, 2**64 - 1), few=st.integers(1, 20), more=st.integers(0, 20))
def test_a_larger_dimension_keeps_the_first_columns(seed, few, more):
    np.testing.assert_array_equal(
        bits(Start(seed, few).block(0, 9)), bits(Start(seed, few + more).block(0, 9)[:, :few])
    )


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_threads_make_the_same_numbers(threads):
    start = Start(7, 24)
    edges = np.linspace(0, 6000, 14).astype(int)
    with ThreadPoolExecutor(threads) as pool:
        parts = list(pool.map(start.block, edges[:-1].tolist(), edges[1:].tolist()))
    np.testing.assert_array_equal(bits(np.concatenate(parts)), bits(start.block(0, 6000)))


@settings(deadline=None, max_examples=examples(40))
@given(seed=st.integers(0, 2**64 - 1), dimension=st.integers(1, 9), first=first_neurons)
def test_twins_share_rows_and_have_opposite_signs(seed, dimension, first):
    start = Start(seed, dimension, twins=True)
    even = 2 * (first // 2) + 2 * np.arange(5)
    np.testing.assert_array_equal(start.signs(even), -start.signs(even + 1))
    np.testing.assert_array_equal(bits(start.rows(even)), bits(start.rows(even + 1)))
    np.testing.assert_array_equal(bits(start.rows(even)), bits(Start(seed, dimension).rows(even // 2)))


@pytest.mark.parametrize("neuron", [0, 1, 12345, 2**32 - 1])
def test_rows_beyond_32_bits_are_not_their_low_words(neuron):
    start = Start(5, 16)
    aliases = neuron + np.array([0, 2**32, 2**33, 2**40, 2**61])
    rows = start.rows(aliases)
    assert np.isfinite(rows).all()
    for a in range(len(rows)):
        for b in range(a):
            assert (bits(rows[a]) != bits(rows[b])).all()
    signs = np.stack([start.signs(neuron + 2**32 * k + np.arange(200)) for k in range(3)])
    assert 0 < (signs[0] != signs[1]).sum() < 200
    assert 0 < (signs[0] != signs[2]).sum() < 200


# Pinned: a change here changes every trained network


GOLDEN_ROWS = {
    0: "3fa35877 be9bb4f2 bf385c80 bfa01e24 c0082cf6",
    1: "bd8e9df6 3f8b7d56 bf5d0e6c 3dbeb34f bf0cf132",
    2**32: "3fb1828f be5ce61a 3fd4b6d5 3d923c10 3ffce03e",
}
GOLDEN_SIGNS = "----++-++-+--+--"


def test_golden_values():
    rows = Start(0, 5).rows(np.array([*GOLDEN_ROWS]))
    assert bits(rows).tolist() == [from_hex(row) for row in GOLDEN_ROWS.values()]
    signs = Start(0, 5).signs(np.arange(16))
    assert "".join("+" if sign > 0 else "-" for sign in signs) == GOLDEN_SIGNS
