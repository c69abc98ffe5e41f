"""The start of a network: weights N(0, I) and signs ±1, each row a function of (seed, neuron) alone."""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from thresher.loops.numbers.philox import fill_block, fill_rows, words_to_normals
from thresher.loops.structures import Turns
from thresher.model.hadamard import block_size, hadamard_block, hadamard_rows, turns_of

__all__ = ["Sequence", "Start", "random_normals", "random_words"]

Sequence = Literal["random", "hadamard"]

# Streams keep draws for different purposes apart under one seed.
_WEIGHTS, _SIGNS = 0, 1


class Start(NamedTuple):
    """A recipe for start weights and signs; nothing is stored.

    With ``twins`` neurons 2k and 2k + 1 share a row and have opposite signs, so the network starts at f = 0.
    ``sequence`` sets where rows come from: ``"random"`` rows are independent, ``"hadamard"`` rows share random signs,
    so that products with them take additions alone (``model/hadamard.py``).
    """

    seed: int
    dimension: int
    twins: bool = False
    sequence: Sequence = "random"

    @property
    def kind(self) -> str:
        """The name of such starts: that of their rows."""
        return self.sequence

    @property
    def copies(self) -> int:
        """Number of neurons that share a row."""
        return 2 if self.twins else 1

    @property
    def bounds(self) -> None:
        """Nothing: rows are not drawn at inputs."""

    @property
    def turns(self) -> Turns | None:
        """What makes Hadamard rows; nothing for others."""
        return turns_of(self.seed, block_size(self.dimension)) if self.sequence == "hadamard" else None

    @property
    def tail(self) -> float:
        """0: rows are not drawn at inputs."""
        return 0.0

    def neurons_of(self, width: int) -> int:
        """Return how many neurons a network of that width has: all exist."""
        return width

    def block(self, first: int, last: int) -> NDArray[np.float32]:
        """Return the start weights of neurons ``first`` to ``last - 1``, (last - first, d). Cost: O(d) per row."""
        if self.twins:
            pairs = self.base_block(first >> 1, (last + 1) >> 1).T
            return np.repeat(pairs, 2, axis=0)[first & 1 :][: last - first]
        return self.base_block(first, last).T

    def base_block(self, first: int, last: int) -> NDArray[np.float32]:
        """Return rows ``first`` to ``last - 1`` of the generator as columns, (d, last - first); twins share a row."""
        if self.sequence == "hadamard":
            return hadamard_block(self.seed, self.dimension, first, last)
        words = np.empty((self.dimension, last - first), np.uint32)
        fill_block(np.uint64(self.seed), np.uint64(_WEIGHTS), np.uint64(first), words)
        return _normals(words).T

    def rows(self, neurons: NDArray[np.int64]) -> NDArray[np.float32]:
        """Return the start weights of the listed neurons, (len(neurons), d). Cost: O(d) per row."""
        rows = neurons >> 1 if self.twins else neurons
        if self.sequence == "hadamard":
            return hadamard_rows(self.seed, self.dimension, rows)
        return random_normals(self.seed, _WEIGHTS, rows, self.dimension)

    def signs(self, neurons: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the signs a of the listed neurons, (len(neurons),). Cost: O(1) each."""
        odd = neurons & 1 if self.twins else random_words(self.seed, _SIGNS, neurons, 1)[0] & 1
        return 1.0 - 2.0 * odd.astype(np.float64)


def random_words(seed: int, stream: int, rows: NDArray[np.int64], count: int) -> NDArray[np.uint32]:
    """Return ``count`` random words for each row, (count, len(rows)): functions of (seed, stream, row)."""
    words = np.empty((count, len(rows)), np.uint32)
    fill_rows(np.uint64(seed), np.uint64(stream), np.ascontiguousarray(rows, np.uint64), words)
    return words


def random_normals(seed: int, stream: int, rows: NDArray[np.int64], count: int) -> NDArray[np.float32]:
    """Return ``count`` N(0, 1) numbers for each row, (len(rows), count): functions of (seed, stream, row)."""
    return _normals(random_words(seed, stream, rows, count))


def _normals(words: NDArray[np.uint32]) -> NDArray[np.float32]:
    normals = words.view(np.float32)
    words_to_normals(normals.reshape(-1))
    return normals.T
