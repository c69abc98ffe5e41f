"""Loops in whole vectors beside what they stand for, with rows of any length."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numba import njit
from numba.core.errors import TypingError

from thresher.loops.instructions.vectors import COMPARED, LANES, dot_pairs, dot_rows, padded, passed, sum_rows

seeds = st.integers(0, 10**6)
DTYPES = [np.float32, np.float64]


@njit
def summed(steps, coefficients, listed, first, count, X, vector):
    return sum_rows(steps, coefficients, listed, first, count, X, vector)


@njit
def dotted(vector, X, listed, count, out):
    dot_rows(vector, X, listed, count, out)


@njit
def paired(vectors, base, X, first, width, listed, count, out):
    dot_pairs(vectors, base, X, first, width, listed, count, out)


@njit
def compared(expiry, place, first, last, level):
    return passed(expiry, place, first, last, level)


@given(seed=seeds, n=st.integers(1, 9), d=st.integers(1, 70))
def test_padding_adds_zeros_alone(seed, n, d):
    rows = np.random.default_rng(seed).normal(size=(n, d))
    longer = padded(rows, np.float64)
    assert longer.shape[1] % LANES == 0
    np.testing.assert_array_equal(longer[:, :d], rows)
    assert not longer[:, d:].any()


@pytest.mark.parametrize("listed_as", [np.uint16, np.uint32])
@pytest.mark.parametrize("dtype", DTYPES)
@settings(deadline=None)
@given(seed=seeds, n=st.integers(1, 20), d=st.integers(1, 150), count=st.integers(0, 12), first=st.integers(0, 5))
def test_sums_and_products_of_rows(dtype, listed_as, seed, n, d, count, first):
    random = np.random.default_rng(seed)
    X = padded(random.normal(size=(n, d)), dtype)
    steps, coefficients = random.normal(size=(2, count)).astype(dtype)
    listed = random.integers(0, n, size=first + count).astype(listed_as)
    vector = np.full(X.shape[1], np.nan, dtype)
    square = summed(steps, coefficients, listed, first, count, X, vector)
    rows, loose = X[listed[first:]].astype(np.float64), 1e-4 if dtype == np.float32 else 1e-11
    np.testing.assert_allclose(vector, coefficients @ rows, atol=loose)
    np.testing.assert_allclose(square, np.sum((steps @ rows) ** 2), rtol=loose, atol=loose)
    out = np.full(count + 1, 7.0)
    dotted(vector, X, listed[first:].copy(), count, out)
    np.testing.assert_allclose(out[:count], rows @ vector.astype(np.float64), atol=100 * loose)
    assert out[count] == 7.0  # nothing is written beyond


def in_order(a, b):
    """The inner product of two vectors in the order that is promised: blocks, their parts, what is left, halves."""
    block = 1024 // (8 * a.itemsize)
    whole, sums = len(a) - len(a) % block, np.zeros(block, a.dtype)
    for first in range(0, whole, block):
        sums = sums + a[first : first + block] * b[first : first + block]
    total = sums[:LANES]
    for first in range(LANES, block, LANES):
        total = total + sums[first : first + LANES]
    for first in range(whole, len(a), LANES):
        total = total + a[first : first + LANES] * b[first : first + LANES]
    while len(total) > 1:
        half = len(total) // 2
        total = total[:half] + total[half:]
    return total[0]


@pytest.mark.parametrize("dtype", DTYPES)
@settings(deadline=None)
@given(seed=seeds, d=st.integers(1, 150))
def test_the_order_of_sums_is_the_one_that_is_written(dtype, seed, d):
    """To the bit: a compiler that fuses or reorders would make processes differ that compiled by themselves."""
    random = np.random.default_rng(seed)
    X, listed = padded(random.normal(size=(5, d)), dtype), np.array([3, 0, 4], np.uint16)
    vector, out = X[1].copy(), np.empty(3, dtype)
    dotted(vector, X, listed, 3, out)
    np.testing.assert_array_equal(out, [in_order(vector, X[i]) for i in listed])
    coefficients = random.normal(size=3).astype(dtype)
    square = summed(coefficients, coefficients, listed, 0, 3, X, vector)
    added = coefficients[0] * X[3]  # what is added to zeros first
    for coefficient, i in zip(coefficients[1:], listed[1:], strict=True):
        added = added + coefficient * X[i]
    np.testing.assert_array_equal(vector, added)
    np.testing.assert_allclose(square, np.sum(added.astype(np.float64) ** 2), rtol=1e-5)


@pytest.mark.parametrize("dtype", DTYPES)
@settings(deadline=None)
@given(seed=seeds, d=st.integers(1, 150), base=st.integers(0, 3), first=st.integers(0, 4), width=st.integers(1, 9))
def test_products_of_pairs_are_those_of_rows(dtype, seed, d, base, first, width):
    """To the bit, and in the same order of sums."""
    random = np.random.default_rng(seed)
    vectors, X = (padded(random.normal(size=(rows + 5, d)), dtype) for rows in (base, first + width))
    listed, out = random.integers(0, 5 * width, 12).astype(np.int32), np.full(13, 7.0, dtype)
    paired(vectors, base, X, first, width, listed, 12, out)
    expected = [in_order(vectors[base + pair // width], X[first + pair % width]) for pair in listed]
    np.testing.assert_array_equal(out, np.array([*expected, 7.0], dtype))


def test_two_types_of_numbers_are_refused():
    X, listed = np.ones((3, LANES)), np.zeros(1, np.uint16)
    with pytest.raises(TypingError, match="one type of number"):
        dotted(np.ones(LANES, np.float32), X, listed, 1, np.empty(1))
    with pytest.raises(TypingError, match="one type of number"):
        summed(np.ones(1), np.ones(1, np.float32), listed, 0, 1, X, np.ones(LANES))
    with pytest.raises(TypingError, match="one type of number"):
        paired(X.astype(np.float32), 0, X, 0, 1, np.zeros(1, np.int32), 1, np.empty(1))


@pytest.mark.parametrize("dtype", DTYPES)
@settings(deadline=None)
@given(seed=seeds, size=st.integers(COMPARED, 50), data=st.data())
def test_expiries_that_have_passed(dtype, seed, size, data):
    random = np.random.default_rng(seed)
    expiry = random.normal(size=size).astype(dtype)
    place = data.draw(st.integers(0, size - COMPARED))
    first = data.draw(st.integers(place, size))
    last = data.draw(st.integers(first, size))
    level = data.draw(st.sampled_from([*expiry.tolist(), -np.inf, np.inf]))
    expiry[random.random(size) < 0.1] = np.inf
    word, least = compared(expiry, place, first, last, dtype(level))
    counted = [p for p in range(place, place + COMPARED) if first <= p < last]
    assert [p for p in range(place, place + COMPARED) if int(word) >> (p - place) & 1] == [
        p for p in counted if expiry[p] <= dtype(level)
    ]
    assert least == min((expiry[p] for p in counted if not expiry[p] <= dtype(level)), default=np.inf)
