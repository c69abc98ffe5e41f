"""Scrambled Sobol points: rows that fill space more evenly than random ones, each a function of (seed, row) alone."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thresher.errors import InvalidInput
from thresher.kernels.sobol import fill_points, fill_points_from

__all__ = ["check_sobol", "sobol_block", "sobol_rows"]

_BITS = 32  # of a word, and of the number of a row
_FEWEST = 10  # bits of row numbers that are made ready at once: blocks are seldom smaller


def check_sobol(dimension: int, rows: int) -> None:
    """Refuse with :class:`InvalidInput` more columns or rows than the sequence has."""
    if rows > 1 << _BITS:
        raise InvalidInput(
            f"a Sobol sequence has 2**{_BITS} rows, one for each neuron or pair of twins; {rows} are needed. "
            "Use a smaller width or sequence='random'."
        )
    most = _engine().MAXDIM
    if dimension > most:
        raise InvalidInput(f"Sobol rows have at most {most} columns; got dimension {dimension}. Use sequence='random'.")


def sobol_block(seed: int, dimension: int, first: int, last: int) -> NDArray[np.uint32]:
    """Return the words of rows ``first`` to ``last - 1``, (d, last - first).

    Cost: O(d) a row; once per seed and dimension O(d) for each row up to ``last``, and again when ``last`` doubles.
    """
    points = _points_for(seed, dimension, int(last))
    words = np.empty((dimension, last - first), np.uint32)
    fill_points_from(points, first, words)
    return words


def sobol_rows(seed: int, dimension: int, rows: NDArray[np.int64]) -> NDArray[np.uint32]:
    """Return the words of the listed rows, (d, len(rows)).

    Cost: O(d) for each bit of a row's number; once as for :func:`sobol_block`, for the largest.
    """
    points = _points_for(seed, dimension, int(rows.max(initial=-1)) + 1)
    words = np.empty((dimension, len(rows)), np.uint32)
    fill_points(points, rows.astype(np.uint32), words)
    return words


def _points_for(seed: int, dimension: int, rows: int) -> NDArray[np.uint32]:
    check_sobol(dimension, rows)
    return _points(seed, dimension, max((rows - 1).bit_length(), _FEWEST))


@lru_cache(maxsize=64)  # a pass over many rows asks for one entry after the other: all must have room
def _points(seed: int, dimension: int, bits: int) -> NDArray[np.uint32]:
    """Return what makes the first 2^bits points, (1 + bits, d): point 0, and what points 1, 2, 4, 8, ... xor it are."""
    engine = _make_engine(seed, dimension)
    points = np.empty((1 + bits, dimension), np.uint32)
    points[0] = _next_point(engine)
    for bit in range(bits):
        engine.fast_forward((1 << bit) - (1 << bit >> 1) - 1 if bit else 0)
        points[1 + bit] = _next_point(engine) ^ points[0]
    points.flags.writeable = False  # it is shared
    return points


def _next_point(engine: Any) -> NDArray[np.uint32]:
    return (engine.random(1)[0] * 2.0**_BITS).astype(np.uint32)  # exact


def _make_engine(seed: int, dimension: int) -> Any:
    # A generator, not the seed: SciPy makes different ones of a number under its old and its new keyword.
    generator = np.random.default_rng(seed)
    try:
        return _engine()(dimension, scramble=True, bits=_BITS, rng=generator)
    except TypeError:  # SciPy before 1.15
        return _engine()(dimension, scramble=True, bits=_BITS, seed=generator)


def _engine() -> Any:
    from scipy.stats.qmc import Sobol  # it takes a second to import, and most networks do without

    return Sobol
