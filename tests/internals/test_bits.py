"""Loops over bits, against matrix products of zeros and ones."""

import naive
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from properties import examples

from thresher.loops.pairs import bits


def fires_of(rng, k, n, share):
    return rng.random((k, n)) < share


cases = given(
    seed=st.integers(0, 10**6),
    k=st.integers(1, 20),
    n=st.sampled_from([1, 7, 8, 1023, 1024, 1025, 2100]),
    d=st.sampled_from([1, 63, 64, 65, 130]),
    share=st.sampled_from([0.0, 0.02, 0.4, 1.0]),
)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@settings(max_examples=examples(25))
@cases
def test_products_over_pairs_are_matrix_products(dtype, seed, k, n, d, share):
    rng = np.random.default_rng(seed)
    fires, X = fires_of(rng, k, n, share), rng.normal(size=(n, d)).astype(dtype)
    factors = rng.normal(size=n).astype(dtype)
    panels = bits.panels_of(X)
    pairs = bits.list_pairs(np.packbits(fires, axis=1))
    assert sorted(pairs[1]) == sorted(np.nonzero(fires)[1])
    sums = np.zeros((len(panels), k, panels.shape[2]), dtype)
    bits.add_pushes(*pairs, factors, panels, sums)
    expected = (fires * factors) @ X
    near = {"rtol": 1e-4, "atol": 1e-3} if dtype == "float32" else {"rtol": 1e-10, "atol": 1e-10}
    rows = sums.transpose(1, 0, 2).reshape(k, -1)
    np.testing.assert_allclose(rows[:, :d], expected, **near)
    assert not rows[:, d:].any()
    outputs = np.zeros(n)
    bits.add_outputs(*pairs, bits.panels_of(expected.astype(dtype)), panels, outputs)
    scale = np.abs(expected).max(initial=1.0) * d**0.5
    np.testing.assert_allclose(outputs, np.einsum("nd,nd->n", fires.T @ expected, X), atol=scale * near["atol"])


@settings(max_examples=examples(40))
@given(seed=st.integers(0, 10**6), k=st.integers(1, 4), n=st.integers(1, 30), flips=st.sampled_from([0.0, 0.1, 1.0]))
def test_counts_change_by_flips(seed, k, n, flips):
    rng = np.random.default_rng(seed)
    before = fires_of(rng, k, n, 0.5)
    after = before ^ fires_of(rng, k, n, flips)
    counts = np.tril(naive.count_cofiring(before)).astype(np.int32)
    bits.count_flips(*(np.packbits(fires, axis=1) for fires in (before, after)), counts)
    np.testing.assert_array_equal(counts, np.tril(naive.count_cofiring(after)))
