"""Kernels in Triton for start rows: their numbers, the screen, exact products with inputs.

Start rows must have the bits that ``loops/numbers/philox.py`` gives: the same operations in the same order, none of
them fused (``enable_fp_fusion=False`` at every launch of a kernel that makes them).
"""

from __future__ import annotations

import triton
import triton.language as tl

__all__ = ["SIZES", "count_bits", "draw_signs", "fill", "list_bits", "look", "screen", "screen_stored"]

SIZES = ["count", "first_row", "room", "n", "d", "words", "columns"]  # arguments: not compiled again for other values


@triton.jit
def _log(x):
    bits = x.to(tl.int32, bitcast=True)
    exponent = (bits - 0x3F3504F3) >> 23
    f = (bits - (exponent << 23)).to(tl.float32, bitcast=True) - 1.0
    y = 7.0376836292e-2 * f + -1.1514610310e-1
    y = y * f + 1.1676998740e-1
    y = y * f + -1.2420140846e-1
    y = y * f + 1.4249322787e-1
    y = y * f + -1.6668057665e-1
    y = y * f + 2.0000714765e-1
    y = y * f + -2.4999993993e-1
    y = y * f + 3.3333331174e-1
    y = (y * f) * (f * f)
    power = exponent.to(tl.float32)
    y = y + power * -2.12194440e-4
    y = y - (f * f) * 0.5
    return (f + y) + power * 0.693359375


@triton.jit
def _normal(word):
    signed = word.to(tl.int32, bitcast=True)
    size = signed ^ (signed >> 31)
    t = (size.to(tl.float32) + 0.5) * 4.656612873077393e-10
    rest = ((0x7FFFFFFF - size).to(tl.float32) + 0.5) * 4.656612873077393e-10
    w = -_log(rest * (t + 1.0))
    c = w - 2.5
    centre = 2.81022636e-08 * c + 3.43273939e-07
    centre = centre * c + -3.5233877e-06
    centre = centre * c + -4.39150654e-06
    centre = centre * c + 0.00021858087
    centre = centre * c + -0.00125372503
    centre = centre * c + -0.00417768164
    centre = centre * c + 0.246640727
    centre = centre * c + 1.50140941
    s = tl.sqrt_rn(tl.maximum(w, 0.0)) - 3.0
    tail = -0.000200214257 * s + 0.000100950558
    tail = tail * s + 0.00134934322
    tail = tail * s + -0.00367342844
    tail = tail * s + 0.00573950773
    tail = tail * s + -0.0076224613
    tail = tail * s + 0.00943887047
    tail = tail * s + 1.00167406
    tail = tail * s + 2.83297682
    value = (tl.where(w < 5.0, centre, tail) * t) * 1.41421356
    return tl.where(signed >= 0, value, -value)


@triton.jit
def _words(row, quad, stream, key):
    c0 = row.to(tl.uint32)
    c1 = (row >> 32).to(tl.uint32)
    c2 = quad.to(tl.uint32)
    c3 = (c0 & 0) | stream
    k0, k1 = tl.load(key).to(tl.uint32), tl.load(key + 1).to(tl.uint32)
    for _ in tl.static_range(10):
        product0, product1 = c0.to(tl.uint64) * 0xD2511F53, c2.to(tl.uint64) * 0xCD9E8D57
        c0 = (product1 >> 32).to(tl.uint32) ^ c1 ^ k0
        c1 = product1.to(tl.uint32)
        c2 = (product0 >> 32).to(tl.uint32) ^ c3 ^ k1
        c3 = product0.to(tl.uint32)
        k0 = k0 + 0x9E3779B9
        k1 = k1 + 0xBB67AE85
    return c0, c1, c2, c3


@triton.jit
def _quad(row, quad, key):
    """Four normals of start rows: numbers 4 quad to 4 quad + 3."""
    c0, c1, c2, c3 = _words(row, quad, 0, key)
    return _normal(c0), _normal(c1), _normal(c2), _normal(c3)


@triton.jit(do_not_specialize=SIZES)
def draw_signs(neurons, out, count, key, B: tl.constexpr):
    """Write the signs (count,) of neurons without twins."""
    at = tl.program_id(0).to(tl.int64) * B + tl.arange(0, B)
    neuron = tl.load(neurons + at, mask=at < count, other=0)
    word, _, _, _ = _words(neuron, neuron & 0, 1, key)
    tl.store(out + at, 1 - 2 * (word & 1).to(tl.int8), mask=at < count)


@triton.jit(do_not_specialize=SIZES)
def fill(rows, out, norms, count, d, columns, key, R: tl.constexpr, Q: tl.constexpr):
    """Write the start rows of numbers ``rows`` (count,) to ``out`` (count, columns), in its precision, and norms."""
    at = tl.program_id(0).to(tl.int64) * R + tl.arange(0, R)
    there = at < count
    row = tl.load(rows + at, mask=there, other=0)[:, None] + tl.zeros((R, Q), tl.int64)
    square = tl.zeros((R,), tl.float32)
    for first in range(0, d, 4 * Q):
        k = first + 4 * tl.arange(0, Q)
        w0, w1, w2, w3 = _quad(row, tl.zeros((R, Q), tl.int64) + (k // 4)[None, :], key)
        place = out + at[:, None] * columns + k[None, :]
        kind = out.dtype.element_ty
        in0, in1, in2, in3 = (k < d)[None, :], (k + 1 < d)[None, :], (k + 2 < d)[None, :], (k + 3 < d)[None, :]
        tl.store(place, w0.to(kind), mask=there[:, None] & in0)
        tl.store(place + 1, w1.to(kind), mask=there[:, None] & in1)
        tl.store(place + 2, w2.to(kind), mask=there[:, None] & in2)
        tl.store(place + 3, w3.to(kind), mask=there[:, None] & in3)
        squares = tl.where(in0, w0 * w0, 0.0) + tl.where(in1, w1 * w1, 0.0)
        squares += tl.where(in2, w2 * w2, 0.0) + tl.where(in3, w3 * w3, 0.0)
        square += tl.sum(squares, axis=1)
    tl.store(norms + at, tl.sqrt_rn(square), mask=there)


@triton.jit
def _half_rows(row, d, key, M: tl.constexpr, D: tl.constexpr):
    """Start rows (M, D) in half precision, and their norms (M,)."""
    Q: tl.constexpr = D // 4
    quad = tl.zeros((M, Q), tl.int64) + tl.arange(0, Q)[None, :]
    w0, w1, w2, w3 = _quad(row[:, None] + tl.zeros((M, Q), tl.int64), quad, key)
    w = tl.reshape(tl.join(tl.join(w0, w2), tl.join(w1, w3)), (M, D))
    w = tl.where((tl.arange(0, D) < d)[None, :], w, 0.0)
    return w.to(tl.float16), tl.sqrt(tl.sum(w * w, axis=1))


@triton.jit
def _pack(value, level, at, count, first, n, power, masks, words, N: tl.constexpr):
    """Write the bits of values (M, N) that reach their level; return words and, in the last column, their number."""
    hit = (value >= level[:, None]) & ((first + tl.arange(0, N)) < n)[None, :]
    packed = tl.dot(hit.to(tl.float16), power)  # words of sixteen bits: exact
    place = first // 16 + tl.arange(0, 16)
    mine = (at < count)[:, None] & ((tl.arange(0, 16) < N // 16) & (place < words))[None, :]
    tl.store(masks + at[:, None] * words + place[None, :], packed.to(tl.int32).to(tl.int16), mask=mine)
    return packed


@triton.jit
def _store_counts(total, at, count, counts):
    bits = tl.sum(tl.where((tl.arange(0, 16) == 15)[None, :], total, 0.0), axis=1)
    tl.store(counts + at, bits.to(tl.int32), mask=at < count)


@triton.jit(do_not_specialize=SIZES)
def screen(
    X, powers, masks, counts, longest, first_row, count, n, d, words, low, slope, key,
    D: tl.constexpr, M: tl.constexpr, N: tl.constexpr,
):  # fmt: skip
    """Write to ``masks`` (count, words) which inputs of X (N's multiple, D), float16, may reach a level with which row.

    A bit is set where the product in half precision is at least low - slope |w|. Rows are made in registers.
    ``longest`` gets the largest norm. A product with ``powers`` of two (N, 16) packs sixteen comparisons into a word;
    its last column, of ones, counts the bits of each row.
    """
    at = tl.program_id(0).to(tl.int64) * M + tl.arange(0, M)
    half, norm = _half_rows(first_row + at, d, key, M, D)
    tl.atomic_max(longest, tl.max(norm, axis=0))
    level = low - slope * norm
    power = tl.load(powers + tl.arange(0, N)[:, None] * 16 + tl.arange(0, 16)[None, :])
    total = tl.zeros((M, 16), tl.float32)
    for first in range(0, n, N):
        x = tl.load(X + (first + tl.arange(0, N))[None, :] * D + tl.arange(0, D)[:, None])
        total += _pack(tl.dot(half, x), level, at, count, first, n, power, masks, words, N)
    _store_counts(total, at, count, counts)


@triton.jit(do_not_specialize=SIZES)
def screen_stored(
    X, powers, rows, norms, masks, counts, count, n, words, low, slope,
    D: tl.constexpr, M: tl.constexpr, N: tl.constexpr,
):  # fmt: skip
    """The same for ``rows`` (count, D) in half precision that were made before, with their norms (count,)."""
    K: tl.constexpr = 64
    at = tl.program_id(0).to(tl.int64) * M + tl.arange(0, M)
    level = low - slope * tl.load(norms + at, mask=at < count, other=0.0)
    power = tl.load(powers + tl.arange(0, N)[:, None] * 16 + tl.arange(0, 16)[None, :])
    total = tl.zeros((M, 16), tl.float32)
    for first in range(0, n, N):
        value = tl.zeros((M, N), tl.float32)
        for k in range(0, D, K):
            part = k + tl.arange(0, K)
            left = tl.load(rows + at[:, None] * D + part[None, :], mask=(at < count)[:, None], other=0.0)
            value = tl.dot(left, tl.load(X + (first + tl.arange(0, N))[None, :] * D + part[:, None]), value)
        total += _pack(value, level, at, count, first, n, power, masks, words, N)
    _store_counts(total, at, count, counts)


@triton.jit(do_not_specialize=SIZES)
def count_bits(word, bits, count, B: tl.constexpr):
    """Write to ``bits`` (count,) how many bits of each word are set."""
    at = tl.program_id(0).to(tl.int64) * B + tl.arange(0, B)
    value = tl.load(word + at, mask=at < count, other=0)
    total = tl.zeros((B,), tl.int32)
    for bit in range(16):
        total += ((value >> bit) & 1).to(tl.int32)
    tl.store(bits + at, total, mask=at < count)


@triton.jit(do_not_specialize=SIZES)
def list_bits(index, word, end, bits, inputs, count, words, B: tl.constexpr):
    """Write for each bit that is set its input, row by row."""
    at = tl.program_id(0).to(tl.int64) * B + tl.arange(0, B)
    there = at < count
    value, where = tl.load(word + at, mask=there, other=0), tl.load(index + at, mask=there, other=0)
    place = tl.load(end + at, mask=there, other=0) - tl.load(bits + at, mask=there, other=0)
    first = (where % words * 16).to(tl.int32)
    for bit in range(16):
        hit = there & (((value >> bit) & 1) != 0)
        tl.store(inputs + place, first + bit, mask=hit)
        place += hit.to(tl.int64)


@triton.jit(do_not_specialize=SIZES)
def look(X, rows, begin, length, inputs, out, count, columns, key, B: tl.constexpr, Q: tl.constexpr):
    """Write the pre-activations of start rows (count,) on inputs, in the precision of X (n, columns).

    Row k takes part in ``length[k]`` pairs, from number ``begin[k]`` on; their inputs stand in ``inputs``. The columns
    of X are filled up with zeros to a multiple of 4 Q, and ordered as a program makes numbers: in each 4 Q of them the
    first of every four, then the second, and so on.
    """
    at = tl.program_id(0).to(tl.int64) * B + tl.arange(0, B)
    there = at < count
    row = tl.load(rows + at, mask=there, other=0)[:, None] + tl.zeros((B, Q), tl.int64)
    pair, size = tl.load(begin + at, mask=there, other=0), tl.load(length + at, mask=there, other=0)
    kind = X.dtype.element_ty
    for first in range(0, columns, 4 * Q):
        k = (first + tl.arange(0, Q))[None, :]
        w0, w1, w2, w3 = _quad(row, tl.zeros((B, Q), tl.int64) + (first // 4 + tl.arange(0, Q))[None, :], key)
        for p in range(tl.max(size, axis=0)):
            mine = there & (p < size)
            base = X + tl.load(inputs + pair + p, mask=mine, other=0).to(tl.int64)[:, None] * columns
            ok = mine[:, None]
            total = w0.to(kind) * tl.load(base + k, mask=ok, other=0.0)
            total += w1.to(kind) * tl.load(base + k + Q, mask=ok, other=0.0)
            total += w2.to(kind) * tl.load(base + k + 2 * Q, mask=ok, other=0.0)
            total += w3.to(kind) * tl.load(base + k + 3 * Q, mask=ok, other=0.0)
            value = tl.sum(total, axis=1)
            if first > 0:
                value += tl.load(out + pair + p, mask=mine, other=0.0)
            tl.store(out + pair + p, value, mask=mine)
