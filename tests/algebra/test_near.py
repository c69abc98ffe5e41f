"""Random pivots of a matrix that is near, as a preconditioner."""

import numpy as np
import pytest
from grams import make_gram, random_inputs
from hypothesis import given, settings
from hypothesis import strategies as st
from properties import examples

from thresher import InvalidInput, to_sphere
from thresher.algebra import ConjugateGradient, Jacobi, MatrixGram, RandomPivots
from thresher.theory.limit_matrix import LimitMatrix


def near_of(inputs, shift):
    return lambda: LimitMatrix(inputs, shift, memory=0, threads=1)


def scaled_limit(inputs, shift, scale):
    limit = LimitMatrix(inputs, shift, memory=0, threads=1)
    return scale[:, None] * limit.columns(np.arange(len(inputs))).astype(float) * scale


@settings(max_examples=examples(15))
@given(seed=st.integers(0, 10**6), n=st.integers(1, 40), added=st.sampled_from([0.0, 0.3, "each"]))
def test_a_whole_factor_of_what_is_near_up_to_its_diagonal_is_an_inverse(seed, n, added):
    rng = np.random.default_rng(seed)
    inputs, scale = random_inputs(n, 30, seed), rng.uniform(0.3, 3, size=n)
    gram = MatrixGram(scaled_limit(inputs, 0.5, scale))
    added = rng.uniform(0.1, 1, size=n) if added == "each" else added
    apply = RandomPivots(near_of(inputs, 0.5), rank=n).prepare(gram, added=added, iteration=0)
    vectors = rng.normal(size=(n, 2))
    back = apply(gram.times(vectors) + (added * vectors.T).T)
    np.testing.assert_allclose(back, vectors, rtol=0.05, atol=0.05)
    one = apply(vectors[:, 0])
    np.testing.assert_allclose(one, apply(vectors)[:, 0], atol=1e-3 * np.abs(one).max())


@settings(max_examples=examples(15))
@given(seed=st.integers(0, 10**6), rank=st.integers(1, 12))
def test_it_is_symmetric_and_positive(seed, rank):
    inputs = random_inputs(25, 4, seed)
    gram, network = make_gram(inputs=inputs, width=300, shift=0.4, seed=seed)
    apply = RandomPivots(near_of(inputs, network.shift), rank=rank, seed=seed).prepare(gram, added=0.0, iteration=0)
    matrix = apply(np.eye(25))
    np.testing.assert_allclose(matrix, matrix.T, atol=1e-3 * np.abs(matrix).max())
    assert np.linalg.eigvalsh((matrix + matrix.T) / 2)[0] > 0


def test_inputs_that_no_neuron_fires_on_stay_where_they_are():
    inputs = random_inputs(10, 5)
    matrix = np.eye(10)
    matrix[3, 3] = 0.0
    pivots = RandomPivots(near_of(inputs, 0.2), rank=4)
    assert pivots.prepare(MatrixGram(matrix), added=0.0, iteration=0)(np.ones(10))[3] == 0
    assert pivots.prepare(MatrixGram(matrix), added=0.5, iteration=0)(np.ones(10))[3] > 0


def test_it_takes_fewer_products_than_the_diagonal_where_inputs_are_alike():
    rng = np.random.default_rng(0)
    centres = rng.normal(size=(5, 10))
    inputs = to_sphere(np.repeat(centres, 30, axis=0) + 0.2 * rng.normal(size=(150, 10)))
    gram, network = make_gram(inputs=inputs, width=4000, shift=0.5)
    rhs, products = rng.normal(size=150), {}
    for name, one in (("diagonal", Jacobi()), ("pivots", RandomPivots(near_of(inputs, network.shift), rank=40))):
        products[name] = ConjugateGradient(tol=1e-6, preconditioner=one).prepare(gram).solve(rhs).inner_iterations
    assert products["pivots"] < 0.7 * products["diagonal"]


def test_what_it_knows_shows_and_a_rank_is_checked():
    pivots = RandomPivots(lambda: pytest.fail("too early"), rank=7)
    assert repr(pivots) == "RandomPivots(rank=7, seed=0)"
    assert [RandomPivots.default_rank(n) for n in (1, 400, 10**6)] == [1, 100, 2000]
    with pytest.raises(InvalidInput, match="rank must be"):
        RandomPivots(lambda: None, rank=0)
