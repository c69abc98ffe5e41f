"""Rows that are put on the sphere: what is refused, and where the others go."""

import math

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from properties import examples

from thresher import InvalidInput, Problem, to_sphere

NAN, INF = math.nan, math.inf


@settings(deadline=None, max_examples=examples(40))
@given(n=st.integers(1, 5), d=st.integers(1, 2000), seed=st.integers(0, 2**32), scale=st.floats(-10, 10))
def test_rows_normalised_in_single_precision_are_accepted(n, d, seed, scale):
    X = (np.random.default_rng(seed).normal(size=(n, d)) * 10**scale).astype(np.float32)
    rows = X / np.linalg.norm(X, axis=1, keepdims=True)
    assert rows.dtype == np.float32
    Problem(rows, np.zeros(n))


BAD_ROWS = {
    "zero row": (
        {"X": [[1.0, 0.0], [0.0, 0.0]]},
        r"row 1 of X is zero and has no direction\. Remove it, or pass bias=1",
    ),
    "mean": ({"X": [[0.0], [1.0], [2.0]], "centre": True}, r"row 1 of X is zero after centring and has no direction"),
    "one row centred": ({"X": [[1.0, 2.0]], "centre": True}, r"row 0 of X is zero after centring .*bias=1"),
    "equal rows centred": ({"X": [[0.1, 0.2]] * 3, "centre": True}, r"row 0 of X is zero after centring .*bias=1"),
    "nan": ({"X": [[1.0, NAN]]}, r"X must be finite; row 0, column 1 is nan"),
    "inf": ({"X": [[1.0], [INF]]}, r"X must be finite; row 1, column 0 is inf"),
    "one dimension": ({"X": [1.0, 2.0]}, r"X must have shape \(n, d\); got shape \(2,\)"),
    "empty": ({"X": np.empty((0, 2))}, r"X must not be empty"),
    "strings": ({"X": [["a"]]}, r"X must be numbers; got values of type <U1\. Encode them first"),
    "complex": ({"X": [[1j]]}, r"X must be real; got complex numbers"),
    "bias nan": ({"X": [[1.0]], "bias": NAN}, r"bias must be a finite number; got nan"),
    "bias string": ({"X": [[1.0]], "bias": "1"}, r"bias must be a number; got '1'"),
}

NAN, INF = math.nan, math.inf


@pytest.mark.parametrize("case", BAD_ROWS)
def test_rows_that_cannot_be_lifted(case):
    arguments, message = BAD_ROWS[case]
    with pytest.raises(InvalidInput, match=message):
        to_sphere(**arguments)


shapes = st.tuples(st.integers(1, 5), st.integers(1, 6))
magnitudes = st.one_of(
    st.just(0.0), st.floats(-300, 300).map(lambda e: 10.0**e), st.floats(-300, 300).map(lambda e: -(10.0**e))
)

NAN, INF = math.nan, math.inf


@settings(deadline=None, max_examples=examples(100))
@given(X=arrays(np.float64, shapes, elements=magnitudes), bias=st.sampled_from([0.0, 1.0, -3.0, 1e-300, 1e300]))
def test_lifted_rows_have_norm_one_and_keep_their_direction(X, bias):
    assume(bias or np.abs(X).max(axis=1).min() > 0)
    before = X.copy()
    lifted = to_sphere(X, bias=bias)
    np.testing.assert_array_equal(X, before)
    assert lifted.shape == (len(X), X.shape[1] + bool(bias))
    np.testing.assert_allclose(np.linalg.norm(lifted, axis=1), 1, rtol=1e-14)
    Problem(lifted, np.zeros(len(X)))
    rows = np.column_stack([X, np.full(len(X), bias)]) if bias else X
    for row, unit in zip(rows, lifted, strict=True):
        exact = row / np.abs(row).max()
        np.testing.assert_allclose(unit, exact / math.sqrt(math.fsum(exact**2)), rtol=1e-13, atol=1e-300)


NAN, INF = math.nan, math.inf


@settings(deadline=None, max_examples=examples(50))
@given(n=st.integers(2, 6), d=st.integers(1, 5), seed=st.integers(0, 2**32), power=st.floats(-290, 290))
def test_centring_removes_the_common_part(n, d, seed, power):
    X = np.random.default_rng(seed).normal(size=(n, d))
    assume(np.linalg.norm(X - X.mean(axis=0), axis=1).min() > 1e-6)
    centred = X - X.mean(axis=0)
    expected = centred / np.linalg.norm(centred, axis=1, keepdims=True)
    np.testing.assert_allclose(to_sphere(X * 10**power, centre=True), expected, rtol=1e-7, atol=1e-7)
    np.testing.assert_allclose(to_sphere(X + 3.0, centre=True), expected, rtol=1e-6, atol=1e-7)


NAN, INF = math.nan, math.inf


@settings(deadline=None, max_examples=examples(50))
@given(n=st.integers(1, 7), row=arrays(np.float64, 3, elements=st.floats(-1e6, 1e6)))
def test_equal_rows_cannot_be_centred(n, row):
    with pytest.raises(InvalidInput, match="zero after centring"):
        to_sphere(np.tile(row, (n, 1)), centre=True)


def test_bias_keeps_lengths_apart():
    X = np.array([[1.0, 0.0], [2.0, 0.0]])
    np.testing.assert_allclose(to_sphere(X)[0], to_sphere(X)[1])
    lifted = to_sphere(X, bias=1.0)
    np.testing.assert_allclose(lifted[:, 0] / lifted[:, 2], [1, 2])


NAN, INF = math.nan, math.inf


@settings(deadline=None, max_examples=examples(30))
@given(X=arrays(np.float64, shapes, elements=st.floats(0.1, 10)))
def test_rows_on_the_sphere_stay_where_they_are(X):
    once = to_sphere(X)
    np.testing.assert_allclose(to_sphere(once), once, rtol=1e-14)
    np.testing.assert_allclose(to_sphere(7.0 * X), once, rtol=1e-14)
