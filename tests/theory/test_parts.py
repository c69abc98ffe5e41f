"""A kernel of parts in every form in which it is computed, against its definition."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from parted import SHARES, Parted
from properties import examples

from thresher.estimators.processor import Cpu
from thresher.loops.parts import add_parts, add_parts_double
from thresher.theory import Parts, Shares, firing_probability
from thresher.theory.limit_matrix import LimitMatrix, half_bytes, limit_block, limit_cross, limit_product
from thresher.theory.parts import APART, column_kernel

SINGLE = 4e-6  # of the diagonal: by so much angles of single precision are off


@st.composite
def shares(draw):
    """Any shares that add up to 1, many of them 0."""
    sizes = np.array([draw(st.sampled_from([0.0, 0.1, 1.0, 7.0])) for _ in range(4)])
    sizes = sizes if sizes.any() else np.ones(4)
    return Shares(*(sizes / sizes.sum()).tolist())


@st.composite
def tables(draw, most=12):
    categories = draw(st.lists(st.booleans(), min_size=1, max_size=5))
    return Parted.drawn(draw(st.integers(1, most)), draw(st.integers(0, 99)), categories=categories)


def room(tile):
    return np.empty((2, tile.shape[1]), tile.dtype)


@settings(max_examples=examples(200))
@given(one=tables(), shares=shares(), shift=st.sampled_from([0.0, 0.5, 2.0]), seed=st.integers(100, 120))
def test_loops_are_the_definition(one, shares, shift, seed):
    other = Parted.drawn(7, seed, categories=one.categories)
    parts = Parts.of(len(one.categories), shares)
    expected, plain = one.defined(other, shares, shift), one.defined(other, Shares(), shift)
    diagonal = firing_probability(shift)
    left, right = (parts.split(each.inputs)[1] for each in (one, other))
    tile = plain.copy()
    add_parts_double(tile, left, np.ascontiguousarray(right.T), parts.factors(diagonal), *room(tile))
    np.testing.assert_allclose(tile, expected, rtol=0, atol=2e-8 * diagonal)  # arccos near 1
    single = plain.astype(np.float32)
    left, right = (parts.split(each.inputs.astype(np.float32))[1] for each in (one, other))
    factors = parts.factors(diagonal).astype(np.float32)
    add_parts(single, left, np.ascontiguousarray(right.T), factors, *room(single))
    # The layer has a kink where all columns agree, as the kernel of all columns has.
    atol = SINGLE + 4e-4 * shares.layer
    np.testing.assert_allclose(single, expected, rtol=0, atol=atol * diagonal)


@settings(max_examples=examples(200))
@given(one=tables(most=30), shares=shares(), shift=st.sampled_from([0.0, 0.5, 2.0]))
def test_it_is_positive(one, shares, shift):
    matrix = Cpu(1).dense(one.kernel(shares, shift), one.inputs).dense()
    assert np.linalg.eigvalsh(matrix).min() >= -1e-7 * firing_probability(shift)
    np.testing.assert_array_equal(matrix, matrix.T)


@pytest.mark.parametrize("only", ["single", "pairs", "layer"])
def test_each_part_is_positive_on_a_line(only):
    """Close by and far apart, where a kernel of distances that is cut off wrongly has negative eigenvalues."""
    cells = np.linspace(-4, 4, 150)[:, None]
    one = Parted(np.ones((150, 1)), np.hstack([cells, cells[::-1] ** 3]), (False, False))
    shares = Shares(0.0)._replace(**{only: 1.0})
    assert np.linalg.eigvalsh(Cpu(1).dense(one.kernel(shares), one.inputs).dense()).min() > -1e-7


@pytest.mark.parametrize("shares", SHARES)
@pytest.mark.parametrize("shift", [0.0, 0.1, 1.5])  # the second is too sharp for polynomials
def test_blocks_and_products(shares, shift):
    one, other = Parted.drawn(31), Parted.drawn(9, 1)
    parts, diagonal = one.kernel(shares).parts, firing_probability(shift)
    expected, kernel = other.defined(one, shares, shift), one.kernel(shares, shift)
    left, right = other.inputs, one.inputs
    np.testing.assert_allclose(limit_cross(left, right, shift, parts=parts), expected, atol=3e-8)
    single, near = (left.astype(np.float32), right.astype(np.float32)), 1e-4 * diagonal
    np.testing.assert_allclose(limit_block(*single, shift, parts=parts), expected, atol=near)
    out = np.zeros((9, 40), np.float32)[:, 5:36]  # not contiguous
    assert limit_block(*single, shift, out, parts=parts) is out
    np.testing.assert_allclose(out, expected, atol=near)
    for columns in (1, 6, 7):  # few are multiplied by a loop of ours, more by BLAS
        vectors = np.random.default_rng(columns).normal(size=(31, columns))
        for double, most in ((True, 1e-6), (False, 40 * near)):
            found = limit_product(left, right, vectors, shift, threads=2, double=double, parts=parts)
            np.testing.assert_allclose(found, expected @ vectors, atol=most)
            np.testing.assert_array_equal(
                found, Cpu(1).product(kernel, left, right, vectors, double=double), err_msg="by threads"
            )


@pytest.mark.parametrize("share", [0.0, 0.4, np.inf])
def test_half_matrices(share):
    """What is kept and what is made anew; rows from a second panel on; another kernel in the same memory."""
    one, shares = Parted.drawn(300), SHARES[-1]
    kernel = one.kernel(shares)
    whole = Cpu(1).dense(kernel, one.inputs).dense()
    np.testing.assert_allclose(whole[250:, :40], _some(one, slice(250, 300)).defined(_some(one, slice(40)), shares),
                               atol=3e-8)  # fmt: skip
    matrix = LimitMatrix(one.inputs, kernel.shift, memory=share * half_bytes(300), parts=kernel.parts)
    rng = np.random.default_rng(0)
    for until in (300, 120, 257):
        vectors = rng.normal(size=(until, 3))
        for _ in range(2):
            np.testing.assert_allclose(matrix.times(vectors), whole[:, :until] @ vectors, atol=2e-3)
    some = np.array([7, 299, 0])
    columns = matrix.columns(some)
    np.testing.assert_allclose(columns, whole[some], atol=1e-4)
    np.testing.assert_array_equal(columns[np.arange(3), some], np.float32(kernel.diagonal))
    np.testing.assert_array_equal([matrix.diagonal, kernel.diagonal], firing_probability(kernel.shift))
    for other in (one.kernel(SHARES[0], 0.2), one.kernel(SHARES[3])):
        renewed = matrix.renewed(other, one.inputs)
        there = Cpu(1).dense(other, one.inputs).dense()
        np.testing.assert_allclose(renewed.times(vectors), there[:, :257] @ vectors, atol=2e-3)


def _some(one, rows):
    return one._replace(vectors=one.vectors[rows], cells=one.cells[rows])


@pytest.mark.parametrize("shares", SHARES)
def test_what_is_explained_at_other_rows(shares):
    one, other = Parted.drawn(40), Parted.drawn(6, 1)
    kernel, penalty = one.kernel(shares), np.linspace(0.01, 0.2, 40)
    dense = Cpu(1).dense(kernel, one.inputs)
    K, C = one.defined(one, shares), other.defined(one, shares)
    np.testing.assert_allclose(dense.dense(), K, atol=3e-8)
    np.testing.assert_allclose(dense.dense().diagonal(), kernel.diagonal, rtol=1e-7)
    expected = np.einsum("ij,ji->i", C, np.linalg.solve(K + np.diag(penalty), C.T))
    np.testing.assert_allclose(dense.explained(penalty)(other.inputs), expected, rtol=1e-5)


def test_strips_of_a_large_matrix_meet():
    one = Parted.drawn(400, categories=(False,) * 6)
    matrix = Cpu(2).dense(one.kernel(SHARES[0]), one.inputs).dense()
    np.testing.assert_array_equal(matrix, matrix.T)
    few = _some(one, [0, 127, 128, 255, 256, 399])
    np.testing.assert_allclose(matrix[np.ix_(*[[0, 127, 128, 255, 256, 399]] * 2)], few.defined(few, SHARES[0]),
                               atol=3e-8)  # fmt: skip


@pytest.mark.parametrize("columns", [1, 2, 9, 41, 49, 110])
def test_an_input_and_itself_in_single_precision(columns):
    """The layer has a kink there: without care the rounding of a sum would show as its root."""
    one = Parted.drawn(50, categories=(False,) * columns)
    inputs = one.inputs.astype(np.float32)
    for shares in (Shares(0.0, layer=1.0), Shares(0.0, 0.5, 0.5)):
        kernel = one.kernel(shares)
        block = limit_block(inputs, inputs, kernel.shift, parts=kernel.parts)
        np.testing.assert_allclose(block.diagonal(), kernel.diagonal, rtol=2e-6)


def test_one_column_has_no_pairs():
    assert Parts.of(1, Shares(0.5, 0.25, 0.25)) == Parts(1, Shares(0.5, 0.5))
    assert Parts.of(2, Shares(0.5, 0.25, 0.25)) == Parts(2, Shares(0.5, 0.25, 0.25))


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=9), st.integers(0, 9))
def test_the_kernel_of_one_column(cells, code):
    angles = np.arctan2(1.0, cells)
    found = column_kernel(angles, angles)
    np.testing.assert_array_equal(found.diagonal(), 1.0)
    assert (np.abs(found) <= 1).all()
    codes = APART * np.array([code, code + 1.0, code + 7.0])
    np.testing.assert_allclose(column_kernel(codes, codes), np.eye(3), atol=1e-15)
