"""Start rows of which 2^q share their random numbers: products with all of them are one Walsh-Hadamard transform.

See ``loops/numbers/hadamard.py`` for what a row is. Each row is nearly N(0, I): lengths are those of Gaussian rows, and
so are the first moments of products; rows of a block are orthogonal before their lengths are drawn, so that averages
over them are less noisy than over independent ones.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import DTypeLike, NDArray

from thresher.errors import InvalidInput
from thresher.loops.instructions.butterflies import TILE
from thresher.loops.numbers.hadamard import (
    GROUP,
    TURNS,
    fill_hadamard,
    fill_hadamard_row,
    multiply_rows,
    rotate_tile,
)
from thresher.loops.numbers.philox import fill_block, words_to_normals
from thresher.loops.rounding import guards, longest_hadamard, of_transform, unit_roundoff
from thresher.loops.structures import Floating, Guards, Turns

__all__ = [
    "MOST_COLUMNS", "Rotated", "block_size", "by_additions", "check_hadamard", "hadamard_block", "hadamard_rows",
    "rotate", "turns_of",
]  # fmt: skip

MOST_COLUMNS = 1 << 15
# Rows of a block: of fewer, products are further from normal than the noise of a million rows shows.
_FEWEST = 256


def block_size(dimension: int) -> int:
    """Return p: how many rows share their random signs, a power of 2 that is not below the number of columns."""
    return max(_FEWEST, 1 << (dimension - 1).bit_length())


def check_hadamard(dimension: int) -> None:
    """Raise :class:`InvalidInput` for more columns than whole numbers have room for."""
    if dimension > MOST_COLUMNS:
        raise InvalidInput(
            f"start='hadamard' makes rows of at most {MOST_COLUMNS:,} columns; got {dimension:,}. Use start='random'."
        )


def by_additions(sequence: str, dtype: DTypeLike) -> bool:
    """Return whether products with start rows of that kind are made by a transform.

    Not in float64: a row is rounded to float32, which a transform does not see.
    """
    return sequence == "hadamard" and np.dtype(dtype) == np.float32


@lru_cache(maxsize=16)
def turns_of(seed: int, p: int) -> Turns:
    """Return the signs and turns that belong to a seed. Cost: O(p), once."""
    words = np.empty((p, 3), np.uint32)
    fill_block(np.uint64(seed), TURNS, np.uint64(0), words)
    signs = 1.0 - 2.0 * (words[:, :2] & 1)
    normals = np.ascontiguousarray(words[:, 2]).view(np.float32)
    words_to_normals(normals)
    pairs = normals.astype(np.float64).reshape(-1, 2)
    cosine, sine = (pairs / np.sqrt(pairs[:, :1] * pairs[:, :1] + pairs[:, 1:] * pairs[:, 1:])).T
    other = np.stack([sine, -sine], axis=1).ravel() * signs[np.arange(p) ^ 1, 1]
    own = np.repeat(cosine, 2) * signs[:, 1]
    made = Turns(signs[:, 0].astype(np.float32), own.astype(np.float32), other.astype(np.float32))
    for array in made:
        array.flags.writeable = False  # they are shared
    return made


class Rotated(NamedTuple):
    """Inputs in the coordinates in which products with Hadamard rows take additions alone."""

    seed: int
    dimension: int
    tiles: NDArray[np.float32]  # (tiles, p, TILE): those of TILE inputs follow each other

    @classmethod
    def of(cls, inputs: NDArray[np.float64], *, seed: int) -> Rotated:
        """Rotate inputs (n, d). Cost: O(p log p) each."""
        (n, d), p = inputs.shape, block_size(inputs.shape[1])
        tiles = np.zeros((-(-n // TILE), p, TILE), np.float32)
        for tile, first in zip(tiles, range(0, n, TILE), strict=True):
            tile[:, : min(TILE, n - first)] = rotate(inputs[first : first + TILE], seed).T
        return cls(seed, d, tiles)

    @property
    def longest(self) -> float:
        """The largest norm that a row can have."""
        return float(longest_hadamard(self.tiles.shape[1]))

    @property
    def guards(self) -> Guards:
        """Bounds on the rounding of products with rows."""
        working, exact = guards(self.longest, self.dimension, unit_roundoff(np.float32))
        return Guards(of_transform(self.tiles.shape[1]) + exact, exact, working)

    def room(self, rows: int) -> NDArray[np.float32]:
        """Return room for the products of that many rows."""
        # Places in rows that are a multiple of a page apart would share few places of the cache.
        return np.empty((rows + 2 * GROUP, self.tiles.shape[0] * TILE + 16), np.float32)

    def products(self, first: int, last: int, *, out: Floating) -> Floating:
        """Return products of rows ``first`` to ``last - 1`` with all inputs, (last - first, at least n), in room.

        Columns beyond the number of inputs mean nothing. Cost: O(log p) additions each.
        """
        _, p, _ = self.tiles.shape
        begin, end = first - first % GROUP, last + -last % GROUP
        signs, lengths = np.empty((2, p), np.float32)
        room = np.empty((p, TILE), np.float32)
        multiply_rows(np.uint64(self.seed), begin, end, self.tiles, signs, lengths, room, out)
        return out[first - begin : last - begin]


def rotate(inputs: NDArray[np.float64], seed: int) -> NDArray[np.float64]:
    """Return inputs (n, d) in rotated coordinates (n, p): products with rows are those with ±rho H_j D.

    Cost: O(p log p) each.
    """
    (n, d), p = inputs.shape, block_size(inputs.shape[1])
    turns, rotated = turns_of(seed, p), np.empty((n, p))
    before, after = np.empty((2, p, TILE))
    for first in range(0, n, TILE):
        some = inputs[first : first + TILE]
        before[:] = 0.0
        before[:d, : len(some)] = (some * turns.signs[:d]).T
        rotate_tile(before, turns.own, turns.other, after)
        rotated[first : first + TILE] = after[:, : len(some)].T
    return rotated


def hadamard_block(seed: int, dimension: int, first: int, last: int) -> NDArray[np.float32]:
    """Return rows ``first`` to ``last - 1`` as columns (d, last - first). Cost: O(p + d log d) each."""
    p, out = block_size(dimension), np.empty((dimension, last - first), np.float32)
    spread, group = np.empty((2, p, GROUP), np.float32)
    room = np.empty(p, np.float32), spread, group, np.empty(GROUP, np.float32)
    fill_hadamard(np.uint64(seed), first, turns_of(seed, p), out, *room)
    return out


def hadamard_rows(seed: int, dimension: int, rows: NDArray[np.int64]) -> NDArray[np.float32]:
    """Return the listed rows (len(rows), d). Cost: O(p log p) each."""
    p, out = block_size(dimension), np.empty((len(rows), dimension), np.float32)
    room, turns = np.empty((2, p), np.float32), turns_of(seed, p)
    for place, row in enumerate(rows):
        fill_hadamard_row(np.uint64(seed), int(row), turns, room, out[place])
    return out
