"""Counter-based random numbers: Philox4x32-10 (Salmon et al. 2011), words and normals.

A word is a function of (key, counter) alone, so any row can be made again anywhere. Normals use only multiplications,
additions, square roots and bit operations in one fixed order, all rounded as IEEE 754 says, so every machine and every
block size gives the same float32 numbers.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from thresher.loops import compiled
from thresher.loops.numbers import polynomial

__all__ = ["fill_block", "fill_row", "fill_rows", "normal_of", "row_words", "words_to_normals"]

_MULTIPLIER_0, _MULTIPLIER_1 = np.uint64(0xD2511F53), np.uint64(0xCD9E8D57)
_WEYL_0, _WEYL_1 = np.uint32(0x9E3779B9), np.uint32(0xBB67AE85)
_32 = np.uint64(32)
_f = np.float32
_LOG = (  # of the logarithm, divided by the cube of its argument - 1
    _f(7.0376836292e-2), _f(-1.1514610310e-1), _f(1.1676998740e-1), _f(-1.2420140846e-1), _f(1.4249322787e-1),
    _f(-1.6668057665e-1), _f(2.0000714765e-1), _f(-2.4999993993e-1), _f(3.3333331174e-1),
)  # fmt: skip
_CENTRE = (
    _f(2.81022636e-08), _f(3.43273939e-07), _f(-3.5233877e-06), _f(-4.39150654e-06), _f(0.00021858087),
    _f(-0.00125372503), _f(-0.00417768164), _f(0.246640727), _f(1.50140941),
)  # fmt: skip
_TAIL = (
    _f(-0.000200214257), _f(0.000100950558), _f(0.00134934322), _f(-0.00367342844), _f(0.00573950773),
    _f(-0.0076224613), _f(0.00943887047), _f(1.00167406), _f(2.83297682),
)  # fmt: skip


@njit(inline="always")
def _philox(c0, c1, c2, c3, k0, k1):
    for _ in range(10):
        p0, p1 = _MULTIPLIER_0 * np.uint64(c0), _MULTIPLIER_1 * np.uint64(c2)
        c0, c1, c2, c3 = (
            np.uint32(np.uint32(p1 >> _32) ^ c1 ^ k0),
            np.uint32(p1),
            np.uint32(np.uint32(p0 >> _32) ^ c3 ^ k1),
            np.uint32(p0),
        )
        k0, k1 = np.uint32(k0 + _WEYL_0), np.uint32(k1 + _WEYL_1)
    return c0, c1, c2, c3


@njit(inline="always")
def _log(x):
    # x = mantissa * 2^exponent with mantissa in [1/sqrt2, sqrt2); log(mantissa) by a polynomial (Cephes logf).
    bits = _f(x).view(np.int32)
    exponent = (bits - np.int32(0x3F3504F3)) >> np.int32(23)
    f = np.int32(bits - (exponent << np.int32(23))).view(np.float32) - _f(1)
    y = polynomial(_LOG, f)
    y = y * f * (f * f)
    y = y + _f(exponent) * _f(-2.12194440e-4)
    y = y - _f(0.5) * (f * f)
    return f + y + _f(exponent) * _f(0.693359375)


@njit(inline="always")
def normal_of(word):
    """Return the N(0, 1) number of a random word."""
    # The inverse normal distribution at (word + 1/2) / 2^32, by Giles' two polynomials in w = -log(1 - t^2), where
    # t = |2u - 1| in (0, 1]; accurate to 4e-7 up to 5.5 sigma, to 4e-4 at the last numbers near 6.3. 1 - t comes from
    # the integer itself: no cancellation in the tail.
    signed = np.int32(word)
    size = np.int32(signed ^ (signed >> np.int32(31)))
    t = (_f(size) + _f(0.5)) * _f(2.0**-31)
    rest = (_f(np.int32(np.int32(0x7FFFFFFF) - size)) + _f(0.5)) * _f(2.0**-31)
    w = -_log(rest * (_f(1) + t))
    centre, tail = polynomial(_CENTRE, w - _f(2.5)), polynomial(_TAIL, np.sqrt(w) - _f(3))
    value = (centre if w < _f(5) else tail) * t * _f(1.41421356)
    return value if signed >= 0 else -value


@njit(inline="always")
def row_words(key, stream, row, quad):
    """Return four words: a function of (key, stream, row, quad)."""
    return _philox(
        np.uint32(row), np.uint32(row >> _32), np.uint32(quad), np.uint32(stream), np.uint32(key), np.uint32(key >> _32)
    )


@njit(inline="always")
def _store_words(key, stream, row, quad, j, out):
    a, b, c, d = row_words(key, stream, row, quad)
    k = 4 * quad
    out[k, j] = a
    if k + 1 < out.shape[0]:
        out[k + 1, j] = b
    if k + 2 < out.shape[0]:
        out[k + 2, j] = c
    if k + 3 < out.shape[0]:
        out[k + 3, j] = d


@compiled
def fill_block(key, stream, first, out):
    """Fill ``out`` (words, rows) of uint32 for the rows ``first, first + 1, ...``: see :func:`fill_rows`."""
    for quad in range((out.shape[0] + 3) // 4):
        for j in range(out.shape[1]):
            _store_words(key, stream, first + np.uint64(j), quad, j, out)


@compiled
def fill_rows(key, stream, rows, out):
    """Fill ``out`` (words, rows) of uint32 for listed rows: word q of row r is a function of (key, stream, r, q)."""
    for quad in range((out.shape[0] + 3) // 4):
        for j in range(out.shape[1]):
            _store_words(key, stream, rows[j], quad, j, out)


@compiled
def words_to_normals(values):
    """Turn the bits of each float32 in ``values`` (count,), taken as a random word, into a N(0, 1) number, in place."""
    for j in range(values.size):
        values[j] = normal_of(_f(values[j]).view(np.uint32))


@compiled
def fill_row(key, stream, row, out):
    """Fill ``out`` (d,) with the N(0, 1) numbers of one row: those that the other functions give."""
    for quad in range((out.size + 3) // 4):
        words = row_words(key, stream, row, quad)
        for part in range(min(4, out.size - 4 * quad)):
            out[4 * quad + part] = normal_of(words[part])
