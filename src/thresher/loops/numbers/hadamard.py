"""Start rows from a Walsh-Hadamard transform: 2^q rows at a time share their random signs.

With H the Hadamard matrix of p = 2^q rows, x padded with zeros to p numbers, S signs and T turns of pairs of
coordinates that belong to the seed, the rotated input is z = H T H S x / p, of the same length. Row j of block k is
rho_j H_j D_k in rotated coordinates: H_j is row j of H, D_k are p random signs, and rho_j = ±sqrt(chi²_p / p). In the
coordinates of the inputs that is rho_j / p times S H Tᵀ v, where v[c] = V[c xor j] and V = H D_k, whole numbers that
all rows of a block share.

Products are rounded to float32 in one fixed order, and so are sums, from the largest distance to the smallest: every
machine and every loop gives a row the same bits.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from thresher.loops import compiled, helper
from thresher.loops.instructions.butterflies import GROUP, TILE, transform_rows, transform_tile
from thresher.loops.numbers.philox import normal_of, row_words

__all__ = [
    "GROUP",
    "TURNS",
    "fill_hadamard",
    "fill_hadamard_row",
    "fill_lengths",
    "fill_signs",
    "multiply_rows",
    "rotate_tile",
]

SIGNS, LENGTHS, TURNS = np.uint64(6), np.uint64(7), np.uint64(8)  # streams of the generator
_TWO, _THREE = np.uint64(2), np.uint64(3)
_f = np.float32


@njit(inline="always")
def _length(word, p):
    """Return ±sqrt(chi² / p), by the cube of a normal number (Wilson and Hilferty 1931); the last bit is the sign."""
    share = _f(_f(2) / _f(9 * p))
    root = _f(1) - share + normal_of(word) * np.sqrt(share)
    length = np.sqrt(root * root * root)
    return -length if word & np.uint32(1) else length


@compiled
def fill_lengths(seed, first, p, out):
    """Fill ``out`` (k,) with the lengths rho of rows ``first, first + 1, ...``, float32 with a sign. Cost: O(k)."""
    quad, words = np.uint64(1) << np.uint64(63), row_words(seed, LENGTHS, np.uint64(0), 0)
    for k in range(out.size):
        row = np.uint64(first + k)
        if row >> _TWO != quad:
            quad = row >> _TWO
            words = row_words(seed, LENGTHS, quad, 0)
        out[k] = np.uint32(words[np.int64(row & _THREE)]).view(_f)
    for k in range(out.size):  # a loop of its own: it takes whole vectors
        out[k] = _length(_f(out[k]).view(np.uint32), p)


@compiled
def fill_signs(seed, block, out):
    """Fill ``out`` (p,) with the signs D of a block: 1 or -1. Cost: O(p)."""
    for quad in range(out.size // 128):
        words = row_words(seed, SIGNS, np.uint64(block), quad)
        for part in range(4):
            word = words[part]
            for bit in range(32):
                out[128 * quad + 32 * part + bit] = 1 - 2 * np.int64((word >> np.uint32(bit)) & np.uint32(1))


@compiled
def spread_signs(signs, spread):
    """Write to ``spread`` (p, GROUP) V[c xor t] for t < GROUP, where V is the transform of signs (p,).

    Cost: O(p log p), GROUP times.
    """
    for c in range(signs.size):
        for t in range(GROUP):
            spread[c, t] = signs[c]
    transform_rows(spread, 0, signs.size, GROUP, 1)
    for base in range(0, signs.size, GROUP):  # all columns are V until here
        for t in range(1, GROUP):
            for c in range(GROUP):
                spread[base + c, t] = spread[base + (c ^ t), 0]


@helper
def make_group(spread, turns, lengths, first, d, out):
    """Write rows ``first`` to ``first + GROUP - 1`` of a block, as columns, to the first d rows of ``out`` (p, GROUP).

    ``spread`` is of :func:`spread_signs`, ``lengths`` (GROUP,) are theirs. Cost: O(p + d log d) for each row.
    """
    p = spread.shape[0]
    for c in range(p):
        own, other, one, two = turns.own[c], turns.other[c], spread[c ^ first], spread[c ^ first ^ 1]
        row = out[c]
        for t in range(GROUP):
            row[t] = own * one[t] + other * two[t]
    size = p
    while size >= 2 * d:  # later rows are not asked for: sums alone
        size //= 2
        for c in range(size):
            row, further = out[c], out[c + size]
            for t in range(GROUP):
                row[t] = row[t] + further[t]
    transform_rows(out, 0, size, GROUP, 1)
    for c in range(d):
        row, sign = out[c], turns.signs[c] / _f(p)
        for t in range(GROUP):
            row[t] = (lengths[t] * row[t]) * sign


@compiled
def fill_hadamard(seed, first, turns, out, signs, spread, group, lengths):
    """Fill ``out`` (d, rows) with the rows from number ``first`` on; the last four arguments are room.

    They are (p,), (p, GROUP) twice and (GROUP,). Cost: O(p + d log d) a row, and O(p log p) a block.
    """
    (d, rows), p = out.shape, spread.shape[0]
    row, block = first - first % GROUP, -1
    while row < first + rows:
        if row // p != block:
            block = row // p
            fill_signs(seed, block, signs)
            spread_signs(signs, spread)
        fill_lengths(seed, row, p, lengths)
        make_group(spread, turns, lengths, row % p, d, group)
        begin, end = max(row, first), min(row + GROUP, first + rows)
        for c in range(d):
            for k in range(begin, end):
                out[c, k - first] = group[c, k - row]
        row += GROUP


@compiled
def fill_hadamard_row(seed, row, turns, room, out):
    """Fill ``out`` (d,) with one row; ``room`` (2 or more, p), of float32, is used. Cost: O(p log p)."""
    p, d = turns.signs.size, out.size
    V, v, j = room[0], room[1], row % p
    fill_signs(seed, row // p, V)
    _transform(V, p)
    for c in range(p):
        v[c] = turns.own[c] * V[c ^ j] + turns.other[c] * V[c ^ j ^ 1]
    size = p
    while size >= 2 * d:
        size //= 2
        for c in range(size):
            v[c] = v[c] + v[c + size]
    _transform(v, size)
    words = row_words(seed, LENGTHS, np.uint64(row) >> _TWO, 0)
    length = _length(words[row & 3], p)
    for c in range(d):
        out[c] = (length * v[c]) * (turns.signs[c] / _f(p))


@compiled
def multiply_rows(seed, first, last, tiles, signs, lengths, room, out):
    """Write products of rows ``first`` to ``last - 1`` with inputs to ``out`` (rows, at least padded n).

    ``tiles`` (tiles, p, TILE) are rotated inputs; ``first`` and ``last`` are multiples of GROUP. The arguments between
    are room: (p,) twice, and (p, TILE). All numbers are float32. Cost: O(log p) additions a product.
    """
    p, row = signs.size, first
    while row < last:
        block, end = row // p, min(last, row - row % p + p)
        fill_signs(seed, block, signs)
        fill_lengths(seed, block * p, p, lengths)
        for t in range(tiles.shape[0]):
            transform_tile(tiles[t], signs, lengths, room, row % p, end - block * p, t * TILE, out[row - first :])
        row = end


@compiled
def rotate_tile(tile, own, other, out):
    """Write a tile (p, TILE) of inputs times signs, in rotated coordinates, to ``out``; ``tile`` is used.

    ``own`` and ``other`` (p,) are of ``Turns``. Cost: O(p log p) an input.
    """
    p = own.size
    transform_rows(tile, 0, p, TILE, 1)
    for c in range(p):
        row, beside, one, two = tile[c], tile[c ^ 1], np.float64(own[c]), np.float64(other[c ^ 1])
        for i in range(TILE):
            out[c, i] = one * row[i] + two * beside[i]
    transform_rows(out, 0, p, TILE, 1)
    for c in range(p):
        for i in range(TILE):
            out[c, i] /= p


@helper
def _transform(values, size):
    apart = size // 2
    while apart:
        for begin in range(0, size, 2 * apart):
            for c in range(begin, begin + apart):
                a, b = values[c], values[c + apart]
                values[c], values[c + apart] = a + b, a - b
        apart //= 2
