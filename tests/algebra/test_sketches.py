"""Sketches: the product with Jᵀ is that of one explicit matrix, whoever computes it, and it keeps its promise."""

import math
import tracemalloc
from itertools import pairwise

import numpy as np
import pytest
from grams import dense_jacobian, make_gram, random_inputs
from hypothesis import given, settings
from hypothesis import strategies as st
from properties import examples
from scipy import linalg, stats

from thresher.algebra import SKETCHES, CountSketch, Gaussian, Hadamard, SparseSign, TensorSketch, sketches
from thresher.algebra.sketches import distortion
from thresher.engines import engine as local
from thresher.interfaces import JacobianSlice
from thresher.loops.pairs.sketching import add_tensor
from thresher.model.firing import Pattern
from thresher.model.start import random_normals, random_words

every_sketch = pytest.mark.parametrize("name", SKETCHES)


def slice_of(neurons, fires, signs, inputs, *, scale, width):
    """The slice for a 0/1 matrix ``fires`` (k, n); its neurons fire on at least one input each."""
    rows, columns = np.nonzero(fires)
    bounds = np.searchsorted(rows, np.arange(len(neurons) + 1))
    pattern = Pattern(np.asarray(neurons, np.int64), bounds.astype(np.int64), columns.astype(np.int32))
    return JacobianSlice(pattern, np.asarray(signs, np.float64), inputs, scale, width)


def apply(sketch, piece):
    return sketch.finish(sketch.gather(piece), piece)


def recover(sketch, width, dimension):
    """S (s, md), from what the sketch makes of one neuron that fires on all unit vectors."""
    unit = np.eye(dimension)
    blocks = [
        apply(sketch, slice_of([r], np.ones((1, dimension)), [1.0], unit, scale=1.0, width=width)) for r in range(width)
    ]
    return np.concatenate(blocks, axis=1)


# Explicit matrices from the random words, written without the compiled loops


def explicit_gaussian(sketch, width, dimension):
    normals = random_normals(sketch.seed, sketches._GAUSSIAN, np.arange(width), sketch.rows * dimension)
    S = normals.astype(np.float64).reshape(width, sketch.rows, dimension)
    return S.transpose(1, 0, 2).reshape(sketch.rows, -1) / math.sqrt(sketch.rows)


def bucket_and_sign(word, count):
    word = int(word)
    return (word >> 1) * count >> 31, 1.0 if word & 1 else -1.0


def explicit_sparse_sign(sketch, width, dimension):
    blocks = min(sketch.per_column, sketch.rows)
    words = random_words(sketch.seed, sketches._SPARSE, np.arange(width), dimension * blocks)
    S = np.zeros((sketch.rows, width * dimension))
    for r in range(width):
        for k in range(dimension):
            for block in range(blocks):
                first, last = block * sketch.rows // blocks, (block + 1) * sketch.rows // blocks
                row, sign = bucket_and_sign(words[k * blocks + block, r], last - first)
                S[first + row, r * dimension + k] = sign / math.sqrt(blocks)
    return S


def explicit_hadamard(sketch, width, dimension):
    tall, wide = (1 << (count - 1).bit_length() for count in (width, dimension))
    sampled = np.random.Generator(np.random.Philox(key=sketch.seed)).choice(
        tall * wide, sketch.rows, replace=sketch.rows > tall * wide
    )
    words = random_words(sketch.seed, sketches._HADAMARD, np.arange(width), dimension)  # (d, m)
    signs = np.where(words.T & 1, 1.0, -1.0).ravel()
    columns = (np.arange(width)[:, None] * wide + np.arange(dimension)).ravel()
    return linalg.hadamard(tall * wide)[np.ix_(sampled, columns)] * signs / math.sqrt(sketch.rows)


def explicit_tensor(sketch, width, dimension):
    def count_sketch(stream, length):
        S = np.zeros((sketch.rows, length))
        for column, word in enumerate(random_words(sketch.seed, stream, np.arange(length), 1)[0]):
            row, sign = bucket_and_sign(word, sketch.rows)
            S[row, column] = sign
        return S

    over_neurons = count_sketch(sketches._TENSOR_NEURONS, width)
    over_features = count_sketch(sketches._TENSOR_FEATURES, dimension)
    S = np.zeros((sketch.rows, width, dimension))
    for a in range(sketch.rows):
        for b in range(sketch.rows):
            S[(a + b) % sketch.rows] += np.outer(over_neurons[a], over_features[b])
    return S.reshape(sketch.rows, -1)


EXPLICIT = {
    "gaussian": explicit_gaussian,
    "hadamard": explicit_hadamard,
    "sparse-sign": explicit_sparse_sign,
    "count": explicit_sparse_sign,
    "tensor": explicit_tensor,
}


@every_sketch
@pytest.mark.parametrize(("width", "dimension", "rows"), [(1, 1, 1), (5, 3, 7), (16, 4, 20), (9, 5, 200)])
def test_equals_the_explicit_matrix(name, width, dimension, rows):
    sketch = SKETCHES[name](rows, seed=2**63 + 17)
    S = recover(sketch, width, dimension)
    np.testing.assert_allclose(S, EXPLICIT[name](sketch, width, dimension), atol=1e-12)


@every_sketch
@settings(deadline=None, max_examples=examples(25))
@given(data=st.data())
def test_product_with_any_slice_is_linear(name, data):
    width, dimension, count = (data.draw(st.integers(1, most)) for most in (9, 5, 6))
    sketch = SKETCHES[name](data.draw(st.integers(1, 12)), seed=data.draw(st.integers(0, 2**64 - 1)))
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    fires = rng.random((width, count)) < data.draw(st.sampled_from([0.1, 0.5, 1.0]))
    signs, inputs, scale = rng.choice([-1.0, 1.0], width), rng.normal(size=(count, dimension)), 0.37
    transposed = np.einsum("ri,ik->rki", scale * signs[:, None] * fires, inputs).reshape(-1, count)
    expected = recover(sketch, width, dimension) @ transposed

    def piece(first, last):
        neurons = first + np.flatnonzero(fires[first:last].any(axis=1))
        return slice_of(neurons, fires[neurons], signs[neurons], inputs, scale=scale, width=width)

    np.testing.assert_allclose(apply(sketch, piece(0, width)), expected, atol=1e-12)
    cut = data.draw(st.integers(0, width))
    total = sketch.gather(piece(0, cut)) + sketch.gather(piece(cut, width))
    np.testing.assert_allclose(sketch.finish(total, piece(0, cut)), expected, atol=1e-12)


@every_sketch
def test_sketch_of_a_network(name):
    inputs = random_inputs(6, 5)
    gram, network = make_gram(inputs=inputs, width=60, shift=0.4)
    transposed = dense_jacobian(network, inputs)
    sketch = SKETCHES[name](23, seed=4)
    np.testing.assert_allclose(gram.sketch(sketch), EXPLICIT[name](sketch, 60, 5) @ transposed, atol=1e-12)
    np.testing.assert_allclose(gram.dense(), transposed.T @ transposed, atol=1e-12)


# What the matrices look like


@pytest.mark.parametrize("rows", [3, 8, 29, 64])
@pytest.mark.parametrize("sketch", [CountSketch, SparseSign])
def test_sparse_columns_have_one_entry_in_each_block(sketch, rows):
    recipe = sketch(rows, seed=1)
    blocks = min(recipe.per_column, rows)
    S = recover(recipe, 40, 6)
    edges = np.arange(blocks + 1) * rows // blocks
    for first, last in pairwise(edges):
        np.testing.assert_array_equal(np.count_nonzero(S[first:last], axis=0), 1)
    np.testing.assert_allclose(np.abs(S[S != 0]), 1 / math.sqrt(blocks))


@pytest.mark.parametrize("sketch", [CountSketch(16, seed=3), TensorSketch(16, seed=3)])
def test_buckets_are_uniform_and_signs_balanced(sketch):
    unit = np.eye(1)
    neurons = np.arange(4000)
    fires = np.ones((1, 1))
    columns = np.concatenate(
        [apply(sketch, slice_of([r], fires, [1.0], unit, scale=1.0, width=4000)) for r in neurons], axis=1
    ).round(9)
    np.testing.assert_array_equal(np.count_nonzero(columns, axis=0), 1)
    assert abs(columns.sum()) < 5.5 * math.sqrt(columns.shape[1])
    assert stats.chisquare(np.count_nonzero(columns, axis=1)).pvalue > 1e-6


def test_hadamard_rows_are_orthogonal_when_all_are_taken():
    S = recover(Hadamard(64, seed=9), 16, 4)
    np.testing.assert_allclose(S.T @ S, np.eye(64), atol=1e-12)


def test_gaussian_entries_are_normal():
    S = recover(Gaussian(50, seed=2), 30, 8) * math.sqrt(50)
    assert stats.kstest(S.ravel(), "norm").pvalue > 1e-6


@every_sketch
def test_seed_matters_and_nothing_else_does(name):
    gram, _ = make_gram(inputs=random_inputs(4, 3), width=50, shift=0.2)
    first = gram.sketch(SKETCHES[name](12, seed=5))
    np.testing.assert_array_equal(first, gram.sketch(SKETCHES[name](12, seed=5)))
    assert np.abs(first - gram.sketch(SKETCHES[name](12, seed=6))).max() > 1e-3
    assert np.abs(first - gram.sketch(SKETCHES[name](12, seed=5 + 2**40))).max() > 1e-3


@every_sketch
def test_mean_of_squares_is_the_identity(name):
    width, dimension, trials = 4, 3, 400
    samples = np.empty((trials, width * dimension, width * dimension))
    for seed in range(trials):
        S = recover(SKETCHES[name](5, seed=seed), width, dimension)
        samples[seed] = S.T @ S
    error = samples.std(axis=0) / math.sqrt(trials)
    assert (np.abs(samples.mean(axis=0) - np.eye(width * dimension)) <= 5.5 * error + 1e-12).all()


# The same for any number of shards, threads and chunks


@every_sketch
def test_shards_and_threads_do_not_matter(name, monkeypatch):
    inputs = random_inputs(5, 4)
    sketch = SKETCHES[name](19, seed=1)
    found = {}
    for size in (1 << 14, 100, 37, 8):
        monkeypatch.setattr(local, "_SHARD", size)
        for threads in (1, 3):
            gram, _ = make_gram(inputs=inputs, width=500, shift=0.5, threads=threads)
            found[size, threads] = gram.sketch(sketch)
        np.testing.assert_array_equal(found[size, 1], found[size, 3])
        np.testing.assert_allclose(found[size, 1], found[1 << 14, 1], atol=1e-12)
    assert len(local.shard_ranges(500)) > 50


@every_sketch
@pytest.mark.parametrize("chunk", [1, 100])
def test_chunks_do_not_matter(name, chunk, monkeypatch):
    gram, _ = make_gram(inputs=random_inputs(5, 4), width=200, shift=0.5)
    whole = gram.sketch(SKETCHES[name](11, seed=1))
    monkeypatch.setattr(sketches, "_CHUNK", chunk)
    np.testing.assert_allclose(gram.sketch(SKETCHES[name](11, seed=1)), whole, atol=1e-13)


# The promise


@every_sketch
@pytest.mark.parametrize("duplicates", [0, 1])
def test_distortion_is_measured_on_an_orthonormal_basis(name, duplicates):
    inputs = random_inputs(5, 4)
    inputs[5 - duplicates :] = inputs[:duplicates]
    gram, network = make_gram(inputs=inputs, width=60, shift=0.3)
    U = linalg.orth(dense_jacobian(network, inputs), rcond=1e-9)
    assert U.shape[1] == 5 - duplicates
    sketch = SKETCHES[name](30, seed=8)
    SU = EXPLICIT[name](sketch, 60, 4) @ U
    assert distortion(gram, sketch) == pytest.approx(np.linalg.norm(np.eye(U.shape[1]) - SU.T @ SU, 2), rel=1e-6)


@every_sketch
@pytest.mark.parametrize("columns", [2, 4])
def test_distortion_promise(name, columns):
    epsilon, failure, trials = 0.5, 0.2, 60
    width, dimension = 1 << 9, 8
    gram, _ = make_gram(inputs=random_inputs(columns, dimension, seed=columns), width=width, shift=1.5)
    rows = SKETCHES[name].rows_for(columns, epsilon=epsilon, failure=failure, length=width * dimension)
    broken = sum(distortion(gram, SKETCHES[name](rows, seed=seed)) > epsilon for seed in range(trials))
    assert broken <= stats.binom.isf(1e-6, trials, failure)


@every_sketch
def test_distortion_falls_with_the_square_root_of_the_rows(name):
    gram, _ = make_gram(inputs=random_inputs(3, 8), width=1 << 12, shift=2.0)
    few, many = (
        np.mean([distortion(gram, SKETCHES[name](rows, seed=seed)) for seed in range(40)]) for rows in (50, 800)
    )
    assert 2.5 < few / many < 6.5  # 4 but for chance


@pytest.mark.parametrize("name", ["sparse-sign", "count"])
def test_second_moment_of_sparse_signs(name):
    columns, rows, trials = 3, 40, 300
    gram, _ = make_gram(inputs=random_inputs(columns, 4), width=100, shift=0.5)
    half = linalg.inv(linalg.sqrtm(gram.dense()).real)
    squares = np.empty(trials)
    for seed in range(trials):
        SU = gram.sketch(SKETCHES[name](rows, seed=seed)) @ half
        squares[seed] = np.sum((np.eye(columns) - SU.T @ SU) ** 2)
    assert squares.mean() < columns * (columns + 1) / rows + 5.5 * squares.std() / math.sqrt(trials)


@every_sketch
@settings(deadline=None, max_examples=examples(30))
@given(
    columns=st.integers(1, 200),
    epsilon=st.floats(0.05, 0.9),
    failure=st.floats(0.001, 0.5),
    length=st.integers(2, 2**40),
)
def test_rows_for_asks_for_more_when_more_is_promised(name, columns, epsilon, failure, length):
    def rows(columns=columns, epsilon=epsilon, failure=failure):
        return SKETCHES[name].rows_for(columns, epsilon=epsilon, failure=failure, length=length)

    assert isinstance(rows(), int)
    assert columns < rows() <= rows(columns=columns + 1)
    assert rows() <= rows(epsilon=epsilon / 2)
    assert rows() <= rows(failure=failure / 2)


@pytest.mark.parametrize(
    ("name", "rows"), [("gaussian", 341), ("sparse-sign", 400), ("count", 400), ("tensor", 3520), ("hadamard", 0)]
)
def test_rows_for_by_the_theorems(name, rows):
    if name == "hadamard":
        rows = math.ceil(24 * (2 + math.sqrt(8 * math.log(15 * 4096))) ** 2 * math.log(15 * 4))
    assert SKETCHES[name].rows_for(4, epsilon=0.5, failure=0.2, length=4096) == rows


# Silence and cost


@every_sketch
def test_inputs_on_which_nobody_fires_have_zero_columns(name):
    gram, _ = make_gram(inputs=random_inputs(12, 3), width=6, shift=1.2)
    silent = gram.diagonal() == 0
    assert 0 < silent.sum() < 12
    sketched = gram.sketch(SKETCHES[name](9, seed=2))
    np.testing.assert_allclose(sketched[:, silent], 0, atol=1e-15)
    assert (np.linalg.norm(sketched[:, ~silent], axis=0) > 0).all()
    gram, _ = make_gram(inputs=random_inputs(4, 3), width=6, shift=9.0)
    np.testing.assert_array_equal(gram.sketch(SKETCHES[name](9)), np.zeros((9, 4)))


@every_sketch
def test_a_wide_network_is_sketched_without_the_dense_matrix(name):
    width, dimension, rows = 1 << 16, 32, 64
    gram, _ = make_gram(inputs=random_inputs(8, dimension), width=width, shift=1.5)  # four neurons in ten fire
    sketch = SKETCHES[name](rows)
    gram.sketch(sketch)  # compiled before memory is watched
    tracemalloc.start()
    try:
        assert gram.sketch(sketch).shape == (rows, 8)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < rows * width * dimension * 8 / 24  # S alone would take 1 GiB


@pytest.mark.parametrize(
    ("name", "per_neuron", "besides"),
    [("gaussian", 10 * 4, 0), ("hadamard", 4, 0), ("sparse-sign", 8 * 4, 0), ("count", 4, 0), ("tensor", 1, 4)],
)
def test_random_words_are_drawn_for_firing_neurons_only(name, per_neuron, besides, monkeypatch):
    drawn = []

    def counting(make):
        def draw(seed, stream, rows, count):
            drawn.append(len(rows) * count)
            return make(seed, stream, rows, count)

        return draw

    monkeypatch.setattr(sketches, "random_words", counting(random_words))
    monkeypatch.setattr(sketches, "random_normals", counting(random_normals))
    inputs = random_inputs(5, 4)
    gram, network = make_gram(inputs=inputs, width=1000, shift=2.0)
    firing = int((np.abs(dense_jacobian(network, inputs)).reshape(1000, -1).max(axis=1) > 0).sum())
    gram.sketch(SKETCHES[name](10))
    assert 0 < firing < 300
    assert sum(drawn) == firing * per_neuron + besides


def test_tensor_sketch_adds_one_number_a_firing_pair():
    out = np.zeros((3, 4))
    bounds, inputs = np.array([0, 2, 3]), np.array([0, 2, 1], np.int32)
    add_tensor(bounds, inputs, np.array([1.0, -2.0]), np.array([1, 2**32 - 1], np.uint32), out)
    np.testing.assert_array_equal(out, [[1, 0, 0, 0], [0, 0, 0, -2], [1, 0, 0, 0]])
