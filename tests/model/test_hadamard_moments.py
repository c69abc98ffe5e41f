"""Hadamard rows are as good as Gaussian ones: lengths, moments of products, firing shares, and the limit kernel."""

import numpy as np
import pytest
from scipy import special

from thresher import to_sphere
from thresher.loops.numbers.hadamard import fill_lengths
from thresher.model.hadamard import Rotated
from thresher.model.start import Start
from thresher.theory import cofiring_probability

SHIFTS = (0.5, 1.5, 2.35)
BLOCK = 1 << 13
slow, thorough = pytest.mark.slow, pytest.mark.thorough


def inputs_of(dimension, kind):
    rng, one = np.random.default_rng(dimension), np.eye(dimension)
    if kind == "circle":
        angles = 0.1 + np.linspace(0, 2 * np.pi, 24, endpoint=False)
        return np.stack([np.cos(angles), np.sin(angles)], axis=1)
    if kind == "random":
        return to_sphere(rng.normal(size=(30, dimension)))
    few = one[:8]
    near = to_sphere(few + 0.3 * np.roll(few, 1, axis=1)) if dimension > 1 else few
    return np.concatenate([few, -few[:3], near, np.full((1, dimension), dimension**-0.5), few[:1]])  # the first twice


def products(sequence, X, seed, rows):
    """Blocks of products of start rows with inputs."""
    rotated, start = Rotated.of(X, seed=seed), Start(seed, X.shape[1], False, sequence)
    room, fast = rotated.room(BLOCK), X.astype(np.float32)
    for first in range(0, rows, BLOCK):
        if sequence == "hadamard":
            yield rotated.products(first, first + BLOCK, out=room)[:, : len(X)]
        else:
            yield start.base_block(first, first + BLOCK).T @ fast.T


def errors_of_shares(sequence, X, *, seeds, rows):
    """Co-firing shares minus those of the limit, in standard deviations of that many Gaussian rows.

    Shape (shifts, seeds, pairs), of pairs that fire together often enough; an input fires with itself.
    """
    limits = [cofiring_probability(np.clip(X @ X.T, -1, 1), shift) for shift in SHIFTS]
    counts = np.zeros((len(SHIFTS), len(seeds), len(X), len(X)))
    for k, seed in enumerate(seeds):
        for Z in products(sequence, X, seed, rows):
            for found, shift in zip(counts, SHIFTS, strict=True):
                fires = (np.float32(shift) <= Z).astype(np.float32)
                found[k] += fires.T @ fires
    upper = np.triu(np.ones(2 * (len(X),), bool))
    for count, limit in zip(counts, limits, strict=True):
        often = upper & (limit * rows > 20)
        P = limit[often]
        yield (count[:, often] / rows - P) / np.sqrt(P * (1 - P) / rows)


def root_mean_square(values):
    return np.sqrt(np.mean(np.square(values)))


# Lengths


@pytest.mark.parametrize("p", [256, 1024, 2**15])
def test_the_cube_of_a_normal_number_has_the_moments_of_chi_squared(p):
    """Mean and variance to the third order in 1 / p, and the fourth moment as closely as no sample can tell."""
    x, weights = special.roots_hermitenorm(80)
    share = 2 / (9 * p)
    squares, weights = (1 - share + x * np.sqrt(share)) ** 3, weights / np.sqrt(2 * np.pi)
    assert weights @ squares == pytest.approx(1, abs=2 * share**3)
    assert weights @ squares**2 - (weights @ squares) ** 2 == pytest.approx(2 / p, abs=10 * share**3)
    fourth = (1 + 2 / p) * (1 + 4 / p) * (1 + 6 / p)
    assert weights @ squares**4 == pytest.approx(fourth, rel=20 * share**2)


@pytest.mark.parametrize("p", [256, 2048])
def test_lengths_are_those_of_gaussian_rows(p):
    out = np.empty(1 << 20, np.float32)
    fill_lengths(np.uint64(3), 0, p, out)
    squares, count = out.astype(np.float64) ** 2, len(out)
    assert squares.mean() == pytest.approx(1, abs=5 * np.sqrt(2 / p / count))
    assert squares.var() == pytest.approx(2 / p, rel=5 * np.sqrt(3 / count))
    assert np.mean((squares - 1) ** 4) == pytest.approx(12 / p**2 * (1 + 4 / p), rel=5 * np.sqrt(100 / count))
    assert np.mean((squares - 1) ** 3) == pytest.approx(8 / p**2, abs=5 * np.sqrt(15 * (2 / p) ** 3 / count))
    assert np.mean(out > 0) == pytest.approx(0.5, abs=2.5 / np.sqrt(count))


def test_rows_have_these_lengths():
    rows, lengths = Start(3, 256, False, "hadamard").block(0, 512).astype(np.float64), np.empty(512, np.float32)
    fill_lengths(np.uint64(3), 0, 256, lengths)
    np.testing.assert_allclose(np.linalg.norm(rows, axis=1), 16 * np.abs(lengths), rtol=1e-6)


def test_rows_of_a_block_are_orthogonal_and_blocks_are_not():
    rows = Start(3, 256, False, "hadamard").block(0, 512).astype(np.float64)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    np.testing.assert_allclose(rows[:256] @ rows[:256].T, np.eye(256), atol=1e-6)
    assert root_mean_square(rows[:256] @ rows[256:].T) == pytest.approx(1 / 16, rel=0.05)


# Products


@pytest.mark.parametrize(("dimension", "kind"), [(1, "special"), (2, "circle"), (3, "special"), (40, "random")])
def test_products_have_the_moments_of_normal_numbers(dimension, kind):
    X = inputs_of(dimension, kind)
    Z = np.concatenate([block.astype(np.float64) for block in products("hadamard", X, 11, 1 << 16)])
    count = len(Z)
    for power, expected, variance in [(1, 0, 1), (2, 1, 2), (3, 0, 15), (4, 3, 96)]:
        np.testing.assert_allclose((Z**power).mean(axis=0), expected, atol=5 * np.sqrt(variance / count))
    np.testing.assert_allclose(Z.T @ Z / count, X @ X.T, atol=5 * np.sqrt(2 / count))


def test_columns_of_rows_have_the_moments_of_normal_numbers():
    rows = Start(5, 40, False, "hadamard").block(0, 1 << 14).astype(np.float64)
    np.testing.assert_allclose(rows.mean(axis=0), 0, atol=5 / 2**7)
    np.testing.assert_allclose((rows**4).mean(axis=0), 3, atol=5 * np.sqrt(96) / 2**7)
    np.testing.assert_allclose(rows.T @ rows / len(rows), np.eye(40), atol=5 * np.sqrt(2) / 2**7)


@pytest.mark.parametrize(
    ("dimension", "kind"),
    [
        (2, "circle"),
        (50, "random"),
        *[pytest.param(d, "special", marks=thorough) for d in (1, 2, 3, 10)],
    ],
)
def test_firing_shares_are_those_of_the_limit(dimension, kind):
    X = inputs_of(dimension, kind)
    for errors in errors_of_shares("hadamard", X, seeds=(1, 2), rows=1 << 16):
        assert np.abs(errors).max() < 5.5
        assert root_mean_square(errors) < 1.5


CASES = [(2, "circle")] + [(d, kind) for d in (2, 3, 10, 50, 100, 300, 1000) for kind in ("random", "special")]


@slow
@pytest.mark.parametrize(("dimension", "kind"), CASES)
def test_shares_are_no_noisier_than_those_of_gaussian_rows_and_have_no_bias(dimension, kind):
    """32 seeds of 2^16 rows: their mean is that of 2^21 rows, whose noise would hide no bias of that of 2^20."""
    X, seeds = inputs_of(dimension, kind), range(32)
    both = [errors_of_shares(sequence, X, seeds=seeds, rows=1 << 16) for sequence in ("hadamard", "random")]
    for errors, random in zip(*both, strict=True):
        bias = root_mean_square(errors.mean(axis=0)) * np.sqrt(len(seeds))  # 1 for Gaussian rows
        assert root_mean_square(errors) < 1.05 * root_mean_square(random)
        assert bias < 1.3


@slow
@pytest.mark.parametrize(
    ("dimension", "kind", "rows"),
    [(*case, 1 << 20) for case in CASES] + [(2, "circle", 1 << 24), (10, "special", 1 << 24), (100, "random", 1 << 24)],
)
def test_the_bias_of_one_seed_is_below_the_noise(dimension, kind, rows):
    """All blocks of a seed share its signs and turns: more rows do not average what those do."""
    X = inputs_of(dimension, kind)
    for errors in errors_of_shares("hadamard", X, seeds=(1, 2), rows=rows):
        assert root_mean_square(errors) < 1.7
