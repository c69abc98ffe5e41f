"""Sobol points as 32-bit words: the points 0, 1, 2, 4, 8, ... of a sequence make all of its points by exclusive or.

Point i is point 0 xor the offsets of the bits that i has, where the offset of bit t is point 2^t xor point 0. (In the
order of Gray's code, which such sequences are usually in, too: the code of i xor j is that of i xor that of j.)
"""

from __future__ import annotations

import numpy as np
from numba import njit

from thresher.loops import compiled

__all__ = ["fill_points", "fill_points_from"]


@njit(inline="always")
def _word(points, row, k):
    word = points[0, k]
    bit = 1
    while row:
        if row & 1:
            word ^= points[bit, k]
        row >>= 1
        bit += 1
    return word


@compiled
def fill_points_from(points, first, out):
    """Fill ``out`` (d, rows) of uint32 with the points ``first, first + 1, ...``.

    ``points`` (1 + bits, d) are point 0 and the offsets of the bits, as many bits as the last row needs.
    """
    count = out.shape[1]
    for k in range(out.shape[0]):
        done = 0
        while done < count:
            out[k, done] = _word(points, first + done, k)
            size, bit = 1, 1
            # Rows i to i + size - 1 are there. If i has no bit of that size, the next ones differ by its offset alone.
            while done + size < count and (first + done) & size == 0:
                offset = points[bit, k]
                known, new = out[k, done : done + size], out[k, done + size : done + 2 * size]
                for j in range(new.size):
                    new[j] = known[j] ^ offset
                size *= 2
                bit += 1
            done += size


@compiled
def fill_points(points, rows, out):
    """Fill ``out`` (d, rows) of uint32 with the listed points; ``points`` as in :func:`fill_points_from`."""
    for k in range(out.shape[0]):
        word = out[k]
        first = points[0, k]
        for j in range(rows.size):
            word[j] = first
        for bit in range(points.shape[0] - 1):
            offset, mask = points[bit + 1, k], np.uint32(1 << bit)
            for j in range(rows.size):
                word[j] ^= offset if rows[j] & mask else np.uint32(0)
