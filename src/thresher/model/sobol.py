"""Scrambled Sobol points: rows that fill space more evenly than random ones, each a function of (seed, row) alone.

The sequence is the published one (Joe and Kuo 2008), which SciPy provides. It is scrambled here with our own random
words: SciPy's scramble draws from a NumPy generator, whose numbers may change from version to version.
"""

from __future__ import annotations

from functools import cache, lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thresher.errors import InvalidInput
from thresher.loops.numbers.philox import fill_block
from thresher.loops.numbers.sobol import fill_points, fill_points_from

__all__ = ["MOST_COLUMNS", "check_sobol", "sobol_block", "sobol_points", "sobol_rows"]

MOST_COLUMNS = 21201  # of the published sequence
_BITS = 32  # of a word, and of the number of a row
_SCRAMBLE = 2  # stream of random words, separate from those of start weights and signs
_FEWEST = 10  # bits of row numbers prepared at once: blocks are seldom smaller


def check_sobol(dimension: int, rows: int) -> None:
    """Raise :class:`InvalidInput` for more columns or rows than the sequence has."""
    if rows > 1 << _BITS:
        raise InvalidInput(
            f"a Sobol sequence has 2**{_BITS} rows, one for each neuron or pair of twins; {rows} are needed. "
            "Use a smaller width or start='random'."
        )
    if dimension > MOST_COLUMNS:
        raise InvalidInput(
            f"Sobol rows have at most {MOST_COLUMNS} columns; got dimension {dimension}. Use start='random'."
        )


def sobol_block(seed: int, dimension: int, first: int, last: int) -> NDArray[np.uint32]:
    """Return the words of rows ``first`` to ``last - 1``, (d, last - first).

    Cost: O(d) per row; once per dimension O(d) for each row up to ``last``, however few are requested, and again when
    ``last`` has doubled; once per seed O(d).
    """
    points = sobol_points(seed, dimension, int(last))
    words = np.empty((dimension, last - first), np.uint32)
    fill_points_from(points, first, words)
    return words


def sobol_rows(seed: int, dimension: int, rows: NDArray[np.int64]) -> NDArray[np.uint32]:
    """Return the words of the listed rows, (d, len(rows)).

    Cost: O(d) for each bit of a row's number; once as for :func:`sobol_block`, for the largest.
    """
    points = sobol_points(seed, dimension, int(rows.max(initial=-1)) + 1)
    words = np.empty((dimension, len(rows)), np.uint32)
    fill_points(points, rows.astype(np.uint32), words)
    return words


def sobol_points(seed: int, dimension: int, rows: int) -> NDArray[np.uint32]:
    """Return the words that make that many rows, (1 + bits, d): point 0, and points 1, 2, 4, 8, ... xor it."""
    check_sobol(dimension, rows)
    return _points(seed, dimension, max((rows - 1).bit_length(), _FEWEST))


@lru_cache(maxsize=64)  # a pass over many rows requests one entry after the other: all must fit
def _points(seed: int, dimension: int, bits: int) -> NDArray[np.uint32]:
    """Return the words that make the first 2^bits points, (1 + bits, d): point 0, and points 1, 2, 4, 8, ... xor it.

    Matoušek's scramble: each bit of a word is replaced by the parity of it and of a random choice of the bits above it,
    then all are shifted by a random word. The randomness of column k follows from (seed, k). Cost: O(d) per bit.
    """
    random = np.empty((1 + _BITS, dimension), np.uint32)
    fill_block(np.uint64(seed), np.uint64(_SCRAMBLE), np.uint64(0), random)
    plain = _directions(dimension, bits)
    points = np.zeros((1 + bits, dimension), np.uint32)
    points[0] = random[0]
    for place in range(_BITS):
        above = np.uint32(2**_BITS - (2 << place))
        parity = np.bitwise_count(plain & (random[1 + place] & above | np.uint32(1 << place))) & np.uint32(1)
        points[1:] |= parity << np.uint32(place)
    points.flags.writeable = False  # it is shared
    return points


@lru_cache(maxsize=64)
def _directions(dimension: int, bits: int) -> NDArray[np.uint32]:
    """Return points 1, 2, 4, 8, ... of the published sequence, (bits, d); its point 0 is 0.

    Cost: O(d) for each point up to the last.
    """
    engine = _engine()(dimension, scramble=False, bits=_BITS)
    engine.random(1)
    points = np.empty((bits, dimension), np.uint32)
    for bit in range(bits):
        engine.fast_forward((1 << bit) - 1 - (1 << bit >> 1))  # the last one drawn was half as far
        points[bit] = engine.random(1)[0] * 2.0**_BITS  # exact
    return points


@cache
def _engine() -> Any:
    from scipy.stats.qmc import Sobol  # it takes a second to import, and most networks do not need it

    return Sobol
