"""Bounds on rounding hold against exact arithmetic, and are not so wide that they say nothing."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from thresher import to_sphere
from thresher.loops import rounding

PRECISIONS = [np.float32, np.float64]
sizes = st.integers(1, 40)
seeds = st.integers(0, 10**6)


def exact_product(a, b):
    return sum((Fraction(float(x)) * Fraction(float(y)) for x, y in zip(a, b, strict=True)), Fraction(0))


def summed(values):
    """One after the other: the order that loses most."""
    total = values[0]
    for value in values[1:]:
        total = total + value
    return total


@pytest.mark.parametrize("dtype", PRECISIONS)
@given(seed=seeds, d=sizes)
def test_products(dtype, seed, d):
    random = np.random.default_rng(seed)
    w, x = random.normal(size=d), to_sphere(random.normal(size=(1, d)))[0]
    computed = summed(w.astype(dtype) * x.astype(dtype))
    unit, length = rounding.unit_roundoff(dtype), float(np.linalg.norm(w))
    error = abs(Fraction(float(computed)) - exact_product(w, x))
    assert error <= rounding.of_product(d, unit) * length * (1 + rounding.NORM_TOLERANCE)
    working, exact = rounding.guards(length, d, unit)
    assert error + Fraction(exact) <= Fraction(working) * (1 + Fraction(1, 10**9))
    assert working <= 3 * (d + 3) * unit * length


@pytest.mark.parametrize("dtype", PRECISIONS)
@given(seed=seeds, d=sizes, count=sizes)
def test_changes_by_products_and_by_the_vector(dtype, seed, d, count):
    random = np.random.default_rng(seed)
    X, x = to_sphere(random.normal(size=(count, d))), to_sphere(random.normal(size=(1, d)))[0]
    c = random.normal(size=count) * 10.0 ** random.integers(-5, 5, size=count)
    exact = exact_product(c, [exact_product(one, x) for one in X])
    by_products = summed(c.astype(dtype) * (X @ x).astype(dtype))
    vector = summed(c.astype(dtype)[:, None] * X.astype(dtype))
    by_vector = summed(vector * x.astype(dtype))
    bound = rounding.of_change(count, d, rounding.unit_roundoff(dtype), float(np.abs(c).sum()))
    for computed in (by_products, by_vector):
        assert abs(Fraction(float(computed)) - exact) <= bound


@given(seed=seeds, d=sizes, count=sizes, size=st.floats(1e-6, 1e6))
def test_looks(seed, d, count, size):
    random = np.random.default_rng(seed)
    X, x = to_sphere(random.normal(size=(count, d))), to_sphere(random.normal(size=(1, d)))[0]
    start, c = float(random.normal()), size * random.normal(size=count)
    computed = summed(np.concatenate([[start], c * (X @ x)]))
    exact = Fraction(start) + exact_product(c, [exact_product(one, x) for one in X])
    bound = rounding.of_look(count, d, float(np.abs(c).sum()), float(computed))
    assert abs(Fraction(float(computed)) - exact) <= bound


@pytest.mark.parametrize("dtype", PRECISIONS)
@given(seed=seeds, d=sizes, count=sizes, shrink=st.integers(0, 8))
def test_norms(dtype, seed, d, count, shrink):
    """Inputs that nearly coincide cancel: little is left but rounding."""
    random = np.random.default_rng(seed)
    X = to_sphere(random.normal(size=d) + 10.0**-shrink * random.normal(size=(count, d)))
    c = random.normal(size=count)
    square = float(summed((c[:, None] * c * (X @ X.T).astype(dtype)).ravel()))
    bound = rounding.norm_at_most(square, count, d, rounding.unit_roundoff(dtype), float(np.abs(c).sum()))
    assert bound >= np.linalg.norm(c @ X) * (1 - 1e-9)


@pytest.mark.parametrize("dtype", PRECISIONS)
@given(seed=seeds, d=sizes, count=sizes, shrink=st.integers(0, 8), size=st.integers(-45, 30))
def test_norms_of_sums(dtype, seed, d, count, shrink, size):
    """Squares of small and large numbers leave the range of float32."""
    random = np.random.default_rng(seed)
    X = to_sphere(random.normal(size=d) + 10.0**-shrink * random.normal(size=(count, d)))
    c = random.normal(size=count) * 10.0**size
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        vector = summed(c.astype(dtype)[:, None] * X.astype(dtype))
        square, total = float(summed(vector * vector)), float(np.abs(c).sum())
    bound = rounding.norm_of_sum(square, count, d, rounding.unit_roundoff(dtype), total)
    length = np.linalg.norm(c @ X)
    assert bound >= length * (1 - 1e-9)
    assert bound <= 1.1 * total
    if 1e-10 < length < 1e10:
        assert bound <= 1.001 * length + 2 * np.sqrt((count + d + 12) * rounding.unit_roundoff(dtype)) * total


@pytest.mark.parametrize("dtype", PRECISIONS)
@given(a=st.floats(0, 1e6), b=st.floats(0, 1e6))
def test_what_is_stored_is_on_the_safe_side(dtype, a, b):
    unit = rounding.unit_roundoff(dtype)
    tiny = Fraction(float(np.finfo(dtype).tiny))
    assert Fraction(float(dtype(rounding.rounded_up(a, unit)))) >= Fraction(a) - tiny
    assert Fraction(float(dtype(rounding.rounded_down(a, unit)))) <= Fraction(a)
    assert Fraction(float(dtype(rounding.expiry_at(a, b, unit)))) <= Fraction(a) + Fraction(b)
    assert Fraction(float(np.float32(rounding.wake_up_at(a)))) <= Fraction(a)
