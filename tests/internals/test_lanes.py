"""Loops in whole vectors beside what they stand for, with rows of any length."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numba import njit

from thresher.loops import screen
from thresher.loops.lanes import CHUNK, LANES, dot_rows, passed, sum_rows

seeds = st.integers(0, 10**6)
DTYPES = [np.float32, np.float64]


@njit
def summed(steps, coefficients, listed, first, count, X, vector):
    return sum_rows(steps, coefficients, listed, first, count, X, vector)


@njit
def dotted(vector, X, listed, count, out):
    dot_rows(vector, X, listed, count, out)


@njit
def compared(expiry, place, first, last, level):
    return passed(expiry, place, first, last, level)


@given(seed=seeds, n=st.integers(1, 9), d=st.integers(1, 70))
def test_padding_adds_zeros_alone(seed, n, d):
    rows = np.random.default_rng(seed).normal(size=(n, d))
    padded = screen.padded(rows, np.float64)
    assert padded.shape[1] % LANES == 0
    np.testing.assert_array_equal(padded[:, :d], rows)
    assert not padded[:, d:].any()


@pytest.mark.parametrize("listed_as", [np.uint16, np.uint32])
@pytest.mark.parametrize("dtype", DTYPES)
@settings(deadline=None)
@given(seed=seeds, n=st.integers(1, 20), d=st.integers(1, 150), count=st.integers(0, 12), first=st.integers(0, 5))
def test_sums_and_products_of_rows(dtype, listed_as, seed, n, d, count, first):
    random = np.random.default_rng(seed)
    X = screen.padded(random.normal(size=(n, d)), dtype)
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


@pytest.mark.parametrize("dtype", DTYPES)
@settings(deadline=None)
@given(seed=seeds, size=st.integers(CHUNK, 50), data=st.data())
def test_expiries_that_have_passed(dtype, seed, size, data):
    random = np.random.default_rng(seed)
    expiry = random.normal(size=size).astype(dtype)
    place = data.draw(st.integers(0, size - CHUNK))
    first = data.draw(st.integers(place, size))
    last = data.draw(st.integers(first, size))
    level = data.draw(st.sampled_from([*expiry.tolist(), -np.inf, np.inf]))
    expiry[random.random(size) < 0.1] = np.inf
    word, least = compared(expiry, place, first, last, dtype(level))
    counted = [p for p in range(place, place + CHUNK) if first <= p < last]
    assert [p for p in range(place, place + CHUNK) if int(word) >> (p - place) & 1] == [
        p for p in counted if expiry[p] <= dtype(level)
    ]
    assert least == min((expiry[p] for p in counted if not expiry[p] <= dtype(level)), default=np.inf)
