"""Hadamard start rows: by definition, however asked for, and products by additions within their bound."""

import naive
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from properties import examples

from thresher import InvalidInput, to_sphere
from thresher.loops.instructions.butterflies import TILE
from thresher.loops.numbers.hadamard import _length
from thresher.loops.numbers.philox import words_to_normals
from thresher.loops.rounding import longest_hadamard, of_transform
from thresher.model.hadamard import Rotated, block_size, rotate, turns_of
from thresher.model.network import NetworkSettings
from thresher.model.start import Start, random_words

SEEDS = (0, 7, 2**32, 2**64 - 1)
SIGNS, LENGTHS, TURNS = 6, 7, 8  # streams of random words
NEIGHBOURS = [63, 64, 65, 127, 128, 129, 255, 256, 257, 511, 512, 513, 1023, 1024, 1025]
thorough = pytest.mark.thorough
DIMENSIONS = [
    pytest.param(d, marks=() if d in (1, 2, 3, 16, 40, 255, 256, 257) else thorough)
    for d in [*range(1, 41), *NEIGHBOURS, 4096]
]


def bits(array):
    return np.ascontiguousarray(array).view(np.uint32)


def start_of(seed, dimension, twins=False):
    return Start(seed, dimension, twins, "hadamard")


def normals_of(words):
    values = np.array(words, np.uint32).view(np.float32)
    words_to_normals(values)
    return values


def plain_turns(seed, p):
    words = random_words(seed, TURNS, np.arange(3), p)
    return naive.hadamard_turns(words, normals_of(words[:, 2]))


def plain_row(seed, dimension, row):
    """A row by definition, of random words that belong to its seed, its block and its number."""
    p = block_size(dimension)
    signs = naive.hadamard_signs(random_words(seed, SIGNS, np.array([row // p]), p // 32)[:, 0], p)
    word = random_words(seed, LENGTHS, np.array([row // 4]), 4)[row % 4, 0]
    length = naive.hadamard_length(normals_of([word])[0], word, p)
    return naive.hadamard_row(row % p, signs, *plain_turns(seed, p), length, dimension)


# The rows


@pytest.mark.parametrize("dimension", DIMENSIONS)
def test_rows_are_those_of_the_definition(dimension):
    p, seed = block_size(dimension), SEEDS[dimension % len(SEEDS)]
    assert p >= max(dimension, 256)
    assert p == 256 or p < 2 * dimension
    numbers = np.array([0, 1, p - 1, p, 5 * p + 17, 2**40 + 3, 2**61 + 2])[: 7 if p <= 1024 else 4]
    made = start_of(seed, dimension).rows(numbers)
    assert made.shape == (len(numbers), dimension)
    assert made.dtype == np.float32
    for row, number in zip(made, numbers.tolist(), strict=True):
        np.testing.assert_array_equal(bits(row), bits(plain_row(seed, dimension, number)))
        np.testing.assert_array_equal(bits(row), bits(start_of(seed, dimension).block(number, number + 1)[0]))


@pytest.mark.parametrize("seed", SEEDS)
def test_seeds_of_64_bits_make_rows_of_their_own(seed):
    np.testing.assert_array_equal(bits(start_of(seed, 5).rows(np.array([300]))[0]), bits(plain_row(seed, 5, 300)))
    others = [start_of(other, 5).block(0, 600) for other in SEEDS if other != seed]
    mine = start_of(seed, 5).block(0, 600)
    assert all((mine != other).any(axis=1).all() for other in others)
    assert len(np.unique(mine, axis=0)) == 600


@pytest.mark.parametrize("dimension", DIMENSIONS)
def test_blocks_equal_rows_wherever_they_begin_and_end(dimension):
    start, p = start_of(11, dimension), block_size(dimension)
    first, last = p - 37, p + 70
    rows = start.rows(np.arange(first, last))
    for begin, end in [(first, last), (p - 1, p + 1), (p, p + 16), (p + 5, p + 6), (p + 15, p + 17), (p + 3, p + 3)]:
        expected = rows[begin - first : end - first]
        np.testing.assert_array_equal(bits(start.base_block(begin, end).T), bits(expected))


@pytest.mark.parametrize(("dimension", "most"), [(1, 256), (100, 256), (257, 512), pytest.param(600, 1024)])
def test_fewer_columns_are_the_first_of_as_many_as_a_block_has(dimension, most):
    whole, fewer = start_of(3, most).block(0, 99), start_of(3, dimension).block(0, 99)
    np.testing.assert_array_equal(bits(fewer), bits(whole[:, :dimension]))


@settings(deadline=None, max_examples=examples(40))
@given(seed=st.integers(0, 2**64 - 1), row=st.integers(0, 2**62), dimension=st.integers(1, 40))
def test_a_row_is_a_function_of_seed_and_number(seed, row, dimension):
    expected = plain_row(seed, dimension, row)
    np.testing.assert_array_equal(bits(start_of(seed, dimension).rows(np.array([row]))[0]), bits(expected))
    twin = start_of(seed, dimension, twins=True).rows(np.array([2 * row, 2 * row + 1]))
    np.testing.assert_array_equal(bits(twin), bits(np.array([expected, expected])))


def test_what_belongs_to_a_seed_is_shared_and_cannot_be_changed():
    turns = turns_of(5, 256)
    S, T = plain_turns(5, 256)
    np.testing.assert_array_equal(turns.signs, S)
    np.testing.assert_array_equal(turns.own, np.einsum("kaa->ka", T).ravel())
    np.testing.assert_array_equal(turns.other, np.stack([T[:, 1, 0], T[:, 0, 1]], axis=1).ravel())
    for array in turns:
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 2


def test_columns_that_whole_numbers_have_no_room_for_are_refused():
    NetworkSettings.checked(width=10, dimension=2**15, sequence="hadamard")
    with pytest.raises(InvalidInput, match=r"at most 32,768 columns; got 32,769. Use start='random'"):
        NetworkSettings.checked(width=10, dimension=2**15 + 1, sequence="hadamard")
    start = start_of(1, 2**15)
    np.testing.assert_array_equal(bits(start.rows(np.array([40_000]))), bits(start.block(40_000, 40_001)))


# Products by additions


def unit_inputs(n, dimension, kind="random"):
    rng = np.random.default_rng(dimension)
    if kind == "random":
        return to_sphere(rng.normal(size=(n, dimension)))
    single = np.zeros((n, dimension))
    single[np.arange(n), np.arange(n) % dimension] = np.where(np.arange(n) < dimension, 1.0, -1.0)
    if kind == "single":  # one number that is not zero
        return single
    if kind == "equal":
        return np.full((n, dimension), dimension**-0.5)
    return to_sphere(start_of(9, dimension).rows(np.arange(n)).astype(np.float64))  # along rows: as large as they come


KINDS = ("random", "single", "equal", "along")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dimension", [1, 2, 10, 300])
def test_rotation_is_what_the_definition_says_and_keeps_inner_products(dimension, kind):
    X = unit_inputs(20, dimension, kind)
    Z = rotate(X, 9)
    np.testing.assert_allclose(Z, naive.rotated(X, *plain_turns(9, block_size(dimension))), atol=1e-12)
    np.testing.assert_allclose(Z @ Z.T, X @ X.T, atol=3e-7)  # turns are rounded to float32


def products_of(X, seed, first, last):
    made = Rotated.of(X, seed=seed)
    return made, made.products(first, last, out=made.room(last - first))[:, : len(X)]


def errors(X, seed, first, last):
    """What products by additions are off by, at most, in bounds on that; and exact ones."""
    made, fast = products_of(X, seed, first, last)
    exact = start_of(seed, X.shape[1]).block(first, last).astype(np.float64) @ X.T
    assert fast.dtype == np.float32
    return np.abs(fast - exact).max() / of_transform(made.tiles.shape[1])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dimension", DIMENSIONS)
def test_products_are_within_their_bound_which_is_not_far(dimension, kind):
    p = block_size(dimension)
    X = unit_inputs(TILE + 1, dimension, kind)
    assert 0.001 < errors(X, 9, 0, p) < 1
    assert 0.0005 < errors(X[:5], 9, 3 * p - 20, 3 * p + 33) < 1


@pytest.mark.parametrize("n", [1, TILE - 1, TILE, TILE + 1, 2 * TILE + 3])
def test_products_do_not_depend_on_what_is_asked_with_them(n):
    X = unit_inputs(2 * TILE + 3, 20)
    _, whole = products_of(X, 4, 0, 700)
    for first, last in [(0, 700), (1, 2), (200, 300), (255, 257), (256, 512), (17, 600), (5, 5)]:
        made, some = products_of(X[:n], 4, first, last)
        np.testing.assert_array_equal(bits(some), bits(whole[first:last, :n]))
        assert made.guards.made >= of_transform(256) + made.guards.exact


@pytest.mark.parametrize("dimension", [3, 100, 300])
def test_a_wrong_number_is_beyond_the_bound(dimension):
    X, p = unit_inputs(9, dimension), block_size(dimension)
    made, _ = products_of(X, 9, 0, p)
    exact = start_of(9, dimension).block(0, p).astype(np.float64) @ X.T
    room = made.room(p)

    def worst():
        return np.abs(made.products(0, p, out=room)[:, : len(X)] - exact).max() / of_transform(p)

    assert worst() < 1
    made.tiles[0, p // 2 + 1, 4] += 2 * of_transform(p)  # of one input, in one coordinate
    assert worst() > 1
    assert np.abs(exact).max() > 1000 * of_transform(p)


def test_no_row_is_longer_than_the_bound_that_guards_are_made_of():
    for p in (256, 1024, 2**15):
        ends = [abs(float(_length.py_func(np.uint32(word), p))) for word in (0, 2**31 - 1, 2**31, 2**32 - 1)]
        assert 0.97 * longest_hadamard(p) < max(ends) * np.sqrt(p) < longest_hadamard(p)
        assert min(ends) > 0.3
        rows = start_of(1, p).block(0, 64).astype(np.float64)
        assert np.linalg.norm(rows, axis=1).max() < longest_hadamard(p)
