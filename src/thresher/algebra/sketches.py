"""Random matrices S (s x md) that shorten Jᵀ: a recipe and a seed, applied to the non-zeros only.

A sketch keeps its promise when ||I - Uᵀ Sᵀ S U|| <= epsilon for an orthonormal basis U of the columns of Jᵀ;
``rows_for`` gives the number of rows for which a theorem promises that with probability at least 1 - failure, and
:func:`distortion` measures it. Column (r, k) of S is a function of (seed, r, k), so shards need not talk.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import linalg

from thresher.interfaces import Gram, JacobianSlice, Sketch
from thresher.loops.pairs.sketching import add_gaussian, add_hadamard, add_sparse_sign, add_tensor
from thresher.model.firing import Pattern
from thresher.model.start import random_normals, random_words

__all__ = ["SKETCHES", "CountSketch", "Gaussian", "Hadamard", "SparseSign", "TensorSketch", "distortion"]

_CHUNK = 1 << 22  # random numbers made at a time
# Streams of the generator, apart from those of the network's start.
_GAUSSIAN, _SPARSE, _HADAMARD, _TENSOR_NEURONS, _TENSOR_FEATURES = 16, 17, 18, 19, 20


@dataclass(frozen=True)
class _Rows:
    """A sketch whose shares are its rows already."""

    rows: int
    seed: int = 0

    def finish(self, total: NDArray[np.float64], piece: JacobianSlice) -> NDArray[np.float64]:
        """Return S Jᵀ (s, n)."""
        return total.T


@dataclass(frozen=True)
class Gaussian(_Rows):
    """Independent N(0, 1/s) entries. The yardstick for small cases: costs s d random numbers a firing neuron."""

    @staticmethod
    def rows_for(columns: int, *, epsilon: float, failure: float, length: int = 0) -> int:
        """Return s by Davidson and Szarek: singular values of S U within sqrt(n/s) + sqrt(2 ln(2/failure)/s) of 1."""
        spread = math.sqrt(1 + epsilon) - 1  # 2 spread + spread^2 = epsilon
        return math.ceil(((math.sqrt(columns) + math.sqrt(2 * math.log(2 / failure))) / spread) ** 2)

    def gather(self, piece: JacobianSlice) -> NDArray[np.float64]:
        """Return this slice's share (n, s). Cost: O(s d) per firing pair."""
        n, d = piece.inputs.shape
        out = np.zeros((n, self.rows))
        for part, factors in _chunks(piece, self.rows * d):
            S = random_normals(self.seed, _GAUSSIAN, part.neurons, self.rows * d).reshape(-1, self.rows, d)
            add_gaussian(part.bounds, part.inputs, factors, piece.inputs, np.ascontiguousarray(S), out)
        return out / math.sqrt(self.rows)


@dataclass(frozen=True)
class SparseSign(_Rows):
    """``per_column`` entries ±1/sqrt(per_column) in each column, one in each of as many blocks of rows (OSNAP)."""

    per_column: int = 8

    @staticmethod
    def rows_for(columns: int, *, epsilon: float, failure: float, length: int = 0) -> int:
        """Return s from the second moment: E ||I - UᵀSᵀSU||_F² <= n(n + 1)/s for any number of entries a column."""
        return math.ceil(columns * (columns + 1) / (epsilon**2 * failure))

    def gather(self, piece: JacobianSlice) -> NDArray[np.float64]:
        """Return this slice's share (n, s). Cost: O(per_column) a non-zero of Jᵀ."""
        n, d = piece.inputs.shape
        blocks = min(self.per_column, self.rows)
        edges = np.arange(blocks + 1) * self.rows // blocks
        out = np.zeros((n, self.rows))
        for part, factors in _chunks(piece, d * blocks):
            words = random_words(self.seed, _SPARSE, part.neurons, d * blocks)
            add_sparse_sign(part.bounds, part.inputs, factors, piece.inputs, words, edges, out)
        return out / math.sqrt(blocks)


@dataclass(frozen=True)
class CountSketch(SparseSign):
    """One entry ±1 in each column: the cheapest sparse sign sketch."""

    per_column: int = 1


@dataclass(frozen=True)
class Hadamard(_Rows):
    """Sub-sampled randomised Hadamard transform: s rows of H D, scaled; the fast JL transform that the paper names.

    H over the padded length is a Kronecker product of one over neurons and one over features, so a firing pair costs
    one transform of length d and one sign per row of S; nothing of length md is ever formed.
    """

    @staticmethod
    def rows_for(columns: int, *, epsilon: float, failure: float, length: int) -> int:
        """Return s by Tropp's bound as in Boutsidis and Gittens (2013), for Jᵀ of ``length`` = md rows."""
        delta = failure / 3
        bracket = math.sqrt(columns) + math.sqrt(8 * math.log(length / delta))
        return math.ceil(6 * bracket**2 * math.log(columns / delta) / epsilon**2)

    def gather(self, piece: JacobianSlice) -> NDArray[np.float64]:
        """Return this slice's share (n, s). Cost: O(s + d log d) per firing pair, O(s) a firing neuron."""
        n, d = piece.inputs.shape
        padded = (1 << (piece.neurons - 1).bit_length()) << (d - 1).bit_length()
        pick = np.random.Generator(np.random.Philox(key=self.seed))
        sampled = pick.choice(padded, self.rows, replace=self.rows > padded)
        out = np.zeros((n, self.rows))
        for part, factors in _chunks(piece, d):
            words = random_words(self.seed, _HADAMARD, part.neurons, d)
            add_hadamard(part.neurons, part.bounds, part.inputs, factors, piece.inputs, words, sampled, out)
        return out / math.sqrt(self.rows)


@dataclass(frozen=True)
class TensorSketch(_Rows):
    """CountSketches of the two factors of each column (neurons ⊗ x_i), convolved: the Khatri-Rao form at work.

    A firing pair costs one addition whatever the dimension d.
    """

    @staticmethod
    def rows_for(columns: int, *, epsilon: float, failure: float, length: int = 0) -> int:
        """Return s by Avron, Nguyen and Woodruff (2014) for order two: (2 + 3²) n² / (epsilon² failure)."""
        return math.ceil(11 * columns**2 / (epsilon**2 * failure))

    def gather(self, piece: JacobianSlice) -> NDArray[np.float64]:
        """Return this slice's share (n, s): the sketch over neurons. Cost: O(1) per firing pair."""
        out = np.zeros((len(piece.inputs), self.rows))
        for part, factors in _chunks(piece, 1):
            words = random_words(self.seed, _TENSOR_NEURONS, part.neurons, 1)[0]
            add_tensor(part.bounds, part.inputs, factors, words, out)
        return out

    def finish(self, total: NDArray[np.float64], piece: JacobianSlice) -> NDArray[np.float64]:
        """Return S Jᵀ (s, n): convolve with the sketch over features. Cost: O(n (d + s log s))."""
        from scipy import fft  # other solvers do not need it

        n, d = piece.inputs.shape
        words = random_words(self.seed, _TENSOR_FEATURES, np.arange(d), 1)[0].astype(np.uint64)
        buckets = ((words >> np.uint64(1)) * np.uint64(self.rows)) >> np.uint64(31)
        signs = np.where(words & np.uint64(1), 1.0, -1.0)
        features = np.zeros((self.rows, n))
        np.add.at(features, buckets.astype(np.intp), (piece.inputs * signs).T)
        sketched: NDArray[np.float64] = fft.irfft(
            fft.rfft(total.T, axis=0) * fft.rfft(features, axis=0), self.rows, axis=0
        )
        return sketched


SKETCHES: dict[str, type[Gaussian] | type[SparseSign] | type[Hadamard] | type[TensorSketch]] = {
    "gaussian": Gaussian,
    "hadamard": Hadamard,
    "sparse-sign": SparseSign,
    "count": CountSketch,
    "tensor": TensorSketch,
}


def distortion(gram: Gram, sketch: Sketch) -> float:
    """Return ||I - Uᵀ Sᵀ S U||, U an orthonormal basis of the columns of Jᵀ. Cost: one sketch and O(s n² + n³).

    With G = V D Vᵀ, U = Jᵀ V D^(-1/2); directions of G that vanish to rounding are left out.
    """
    values, vectors = linalg.eigh(gram.dense())
    kept = values > 1e-12 * values[-1]
    basis = gram.sketch(sketch) @ (vectors[:, kept] / np.sqrt(values[kept]))  # S U, (s, rank)
    lost = np.eye(int(kept.sum())) - basis.T @ basis
    return float(np.abs(np.linalg.eigvalsh(lost)).max(initial=0.0))


def _chunks(piece: JacobianSlice, per_neuron: int) -> Iterator[tuple[Pattern, NDArray[np.float64]]]:
    """Yield the slice in chunks of neurons whose random numbers fit in cache-sized memory."""
    count = len(piece.pattern.neurons)
    size = max(1, _CHUNK // per_neuron)
    for first in range(0, count, size):
        last = min(first + size, count)
        yield piece.pattern.slice(first, last), piece.scale * piece.signs[first:last]
