"""Places of values that reach a level, against NumPy."""

import numba
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from properties import examples

from thresher.loops.instructions.places import EXTRA, HALF, places_at_least, places_in_rows


@numba.njit
def at_least(values, count, low, found):
    return places_at_least(values, count, low, found)


@numba.njit
def in_rows(values, lows, base, rows, found):
    return places_in_rows(values, lows, base, rows, found)


@settings(max_examples=examples(60), deadline=None)
@given(
    count=st.integers(0, 300), share=st.sampled_from([0.0, 0.01, 0.1, 0.5, 1.0]), seed=st.integers(0, 2**16),
    number=st.sampled_from([np.float32, np.float64]), place=st.sampled_from([np.uint16, np.int32]),
)  # fmt: skip
def test_places_are_those_of_a_plain_search(count, share, seed, number, place):
    values = np.random.default_rng(seed).integers(-50, 50, count + 64).astype(number)
    low = number(np.quantile(values, 1 - share)) if share < 1 else number(-50)
    found = np.full(count + EXTRA, 7, place)
    listed = at_least(values, count, low, found)
    np.testing.assert_array_equal(found[:listed], np.flatnonzero(values[:count] >= low))


@settings(max_examples=examples(40), deadline=None)
@given(pairs=st.integers(0, 40), base=st.integers(0, 3), above=st.floats(-1, 4), seed=st.integers(0, 2**16))
def test_places_in_rows_that_have_levels_of_their_own(pairs, base, above, seed):
    random, rows = np.random.default_rng(seed), 2 * pairs
    values = random.integers(-50, 50, (rows, HALF)).astype(np.float32)
    lows = np.round(random.normal(50 * above / 4, 20, base + rows)).astype(np.float32)
    lows[random.random(len(lows)) < 0.1] = np.inf
    found = np.full(values.size + EXTRA, 7, np.int32)
    listed = in_rows(values.ravel(), lows, base, rows, found)
    np.testing.assert_array_equal(found[:listed], np.flatnonzero(values >= lows[base:, None]))


@pytest.mark.parametrize("count", [63, 64, 65, 1000])
def test_all_places_fit_the_room_for_them(count):
    found = np.full(count + EXTRA + 1, 7, np.uint16)
    assert at_least(np.ones(count, np.float32), count, np.float32(0), found) == count
    np.testing.assert_array_equal(found[:count], np.arange(count))
    assert found[-1] == 7
