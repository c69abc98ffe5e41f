"""Kernels in Triton for Hadamard rows: their signs and lengths, the screen by additions, products with inputs.

See ``loops/numbers/hadamard.py`` for what a row is. A screen takes 256 rows at a time, which follow each other. Of the
levels of their transform the two of the largest distances within 256 are additions in half precision; the other six are
a product with the Hadamard matrix of 64 rows, on tensor cores. Where rows have more than 256 numbers, what further
levels add up is added up by the same product.
"""

from __future__ import annotations

import triton
import triton.language as tl

from thresher.gpu.kernels.rows import _normal, _words

__all__ = [
    "count_rows",
    "draw_blocks",
    "draw_lengths",
    "draw_levels",
    "list_rows",
    "look_by_signs",
    "screen_by_additions",
]

_SIZES = ["count", "first", "groups", "n", "run"]  # arguments: not compiled again for other values


@triton.jit
def _parity(x):
    """Return 1 where an odd number of the bits of x are set: of the lowest sixteen."""
    x = x ^ (x >> 8)
    x = x ^ (x >> 4)
    return (0x6996 >> (x & 15)) & 1


@triton.jit(do_not_specialize=_SIZES)
def draw_blocks(blocks, words, signs, count, key, P: tl.constexpr, B: tl.constexpr):
    """Write the signs of listed blocks of P rows: bits (count, P / 32), 1 for -1; and numbers (count, P), 1 or -1."""
    at = tl.program_id(0).to(tl.int64) * B + tl.arange(0, B)
    block, quad = at // (P // 128), at % (P // 128)
    there = block < count
    w0, w1, w2, w3 = _words(tl.load(blocks + block, mask=there, other=0), quad, 6, key)
    word = tl.reshape(tl.join(tl.join(w0, w2), tl.join(w1, w3)), (4 * B,)).to(tl.int32, bitcast=True)
    place = tl.program_id(0).to(tl.int64) * (4 * B) + tl.arange(0, 4 * B)
    here = place < count * (P // 32)
    tl.store(words + place, word, mask=here)
    bit = tl.arange(0, 32)[None, :]
    sign = (1 - 2 * ((word[:, None] >> bit) & 1)).to(signs.dtype.element_ty)
    tl.store(signs + place[:, None] * 32 + bit, sign, mask=here[:, None])


@triton.jit
def _length(row, key, share, root):
    w0, w1, w2, w3 = _words(row >> 2, row & 0, 7, key)
    one = row & 3
    word = tl.where(one < 2, tl.where(one == 0, w0, w1), tl.where(one == 2, w2, w3))
    cube = (1.0 - share) + _normal(word) * root
    length = tl.sqrt_rn((cube * cube) * cube)
    return tl.where((word & 1) != 0, -length, length)


@triton.jit(do_not_specialize=_SIZES)
def draw_lengths(rows, lengths, count, key, share, root, B: tl.constexpr):
    """Write the lengths (count,) of listed rows, with their signs; ``share`` is 2 / (9 p), ``root`` its square root."""
    at = tl.program_id(0).to(tl.int64) * B + tl.arange(0, B)
    row = tl.load(rows + at, mask=at < count, other=0)
    tl.store(lengths + at, _length(row, key, share, root), mask=at < count)


@triton.jit(do_not_specialize=[*_SIZES, "begin", "end", "low", "guard"])
def draw_levels(levels, flips, first, count, begin, end, key, share, root, low, guard, B: tl.constexpr):
    """Write for rows (count,) from ``first`` on what a sum of signed numbers must reach for the pre-activation ``low``.

    Nothing reaches the levels of rows before ``begin`` or from ``end`` on.
    A row with a negative length reaches it where the sum is *below* the negative level: its bit of ``flips``, words of
    sixteen rows, is set. Levels are ``guard`` lower, and two steps of half precision: a number that is at least as
    large as the level remains so when both are rounded.
    """
    at = tl.program_id(0).to(tl.int64) * B + tl.arange(0, B)
    length = _length(first + at, key, share, root)
    level = low / tl.abs(length) - guard
    level = level - (tl.abs(level) * 0.001953125 + 1.2e-7)
    level = tl.where((first + at >= begin) & (first + at < end), level, float("inf"))
    below = length < 0.0
    tl.store(levels + at, tl.where(below, -level, level).to(tl.float16), mask=at < count)
    word = tl.sum(tl.reshape(below.to(tl.int32) << (at % 16).to(tl.int32), (B // 16, 16)), axis=1)
    place = tl.program_id(0).to(tl.int64) * (B // 16) + tl.arange(0, B // 16)
    tl.store(flips + place, word.to(tl.int16), mask=place * 16 < count)


@triton.jit
def _reaches(value, level, PAIRS: tl.constexpr):
    """Return 1 where values reach levels, else 0, in half precision; with PAIRS two at a time in one instruction."""
    if PAIRS:
        compare: tl.constexpr = "set.ge.f16x2.f16x2 $0, $1, $2;"
        found = tl.inline_asm_elementwise(compare, "=r,r,r", [value, level], dtype=tl.float16, is_pure=True, pack=2)
    else:
        found = (value >= level).to(tl.float16)
    return found


@triton.jit
def _two_levels(z0, z1, z2, z3, signs):
    """Return the sums of four quarters (M, 64) times their signs, after two levels of a transform."""
    c = tl.arange(0, 64)
    a0, a1 = z0 * tl.load(signs + c)[None, :], z1 * tl.load(signs + 64 + c)[None, :]
    a2, a3 = z2 * tl.load(signs + 128 + c)[None, :], z3 * tl.load(signs + 192 + c)[None, :]
    t0, t1, t2, t3 = a0 + a2, a1 + a3, a0 - a2, a1 - a3
    return t0 + t1, t0 - t1, t2 + t3, t2 - t3


@triton.jit
def _quarters(place, unit):
    """Load four quarters (M, 64). Products with the unit matrix are exact, and leave them where sums are needed."""
    return (
        tl.dot(tl.load(place), unit).to(tl.float16),
        tl.dot(tl.load(place + 64), unit).to(tl.float16),
        tl.dot(tl.load(place + 128), unit).to(tl.float16),
        tl.dot(tl.load(place + 192), unit).to(tl.float16),
    )


@triton.jit(do_not_specialize=_SIZES)
def screen_by_additions(
    Z, matrix, powers, signs, levels, flips, masks, first, groups, n, run,
    P: tl.constexpr, M: tl.constexpr, PAIRS: tl.constexpr,
):  # fmt: skip
    """Write to ``masks`` which inputs may reach the levels of which rows, of ``groups`` of 256 from ``first`` on.

    Z (M's multiple, P) are rotated inputs in half precision, ``matrix`` (64, 64) is Hadamard's, ``signs`` (blocks, P)
    those of the blocks of P rows from that of group ``first`` on. A bit is set where the sum of signed numbers is at
    least the row's level, in half precision; bits of words with ``flips`` are turned. Words of 16 rows: ``masks`` are
    (groups, 4, n, 4), so that 64 rows of an input make a number of 64 bits. A program takes M inputs and ``run``
    groups. A product with ``powers`` of two (256, 16) packs sixteen comparisons into a word, exactly.
    """
    c, col = tl.arange(0, 64), tl.arange(0, 16)
    tiles = tl.cdiv(n, M)
    i = tl.program_id(0) % tiles * M + tl.arange(0, M)
    begin = tl.program_id(0) // tiles * run
    h = tl.load(matrix + c[:, None] * 64 + c[None, :])
    unit = (c[:, None] == c[None, :]).to(tl.float16)
    power = powers + c[:, None] * 16 + col[None, :]
    p0, p1, p2, p3 = tl.load(power), tl.load(power + 1024), tl.load(power + 2048), tl.load(power + 3072)
    place = Z + i.to(tl.int64)[:, None] * P + c[None, :]
    if P == 256:
        z0, z1, z2, z3 = _quarters(place, unit)
    for g in range(begin, tl.minimum(begin + run, groups)):
        at = (first % (P // 256) + g) // (P // 256)
        level = levels + g * 256 + c
        l0, l1 = tl.load(level)[None, :], tl.load(level + 64)[None, :]
        l2, l3 = tl.load(level + 128)[None, :], tl.load(level + 192)[None, :]
        words = tl.zeros((M, 16), tl.float32)
        if P == 256:
            b0, b1, b2, b3 = _two_levels(z0, z1, z2, z3, signs + at * P)
            words = tl.dot(_reaches(tl.dot(b0, h).to(tl.float16), tl.broadcast_to(l0, (M, 64)), PAIRS), p0, words)
            words = tl.dot(_reaches(tl.dot(b1, h).to(tl.float16), tl.broadcast_to(l1, (M, 64)), PAIRS), p1, words)
            words = tl.dot(_reaches(tl.dot(b2, h).to(tl.float16), tl.broadcast_to(l2, (M, 64)), PAIRS), p2, words)
            words = tl.dot(_reaches(tl.dot(b3, h).to(tl.float16), tl.broadcast_to(l3, (M, 64)), PAIRS), p3, words)
        else:
            own = (first + g) % (P // 256)
            v0, v1 = tl.zeros((M, 64), tl.float32), tl.zeros((M, 64), tl.float32)
            v2, v3 = tl.zeros((M, 64), tl.float32), tl.zeros((M, 64), tl.float32)
            for part in range(P // 256):
                z0, z1, z2, z3 = _quarters(place + part * 256, unit)
                b0, b1, b2, b3 = _two_levels(z0, z1, z2, z3, signs + at * P + part * 256)
                turned = h * (1 - 2 * _parity(own & part)).to(tl.float16)
                v0, v1 = tl.dot(b0, turned, v0), tl.dot(b1, turned, v1)
                v2, v3 = tl.dot(b2, turned, v2), tl.dot(b3, turned, v3)
            words = tl.dot(_reaches(v0.to(tl.float16), tl.broadcast_to(l0, (M, 64)), PAIRS), p0, words)
            words = tl.dot(_reaches(v1.to(tl.float16), tl.broadcast_to(l1, (M, 64)), PAIRS), p1, words)
            words = tl.dot(_reaches(v2.to(tl.float16), tl.broadcast_to(l2, (M, 64)), PAIRS), p2, words)
            words = tl.dot(_reaches(v3.to(tl.float16), tl.broadcast_to(l3, (M, 64)), PAIRS), p3, words)
        word = words.to(tl.int32).to(tl.int16) ^ tl.load(flips + g * 16 + col)[None, :]
        chunk = (g * 4 + col // 4).to(tl.int64)[None, :]
        tl.store(masks + (chunk * n + i[:, None]) * 4 + (col % 4)[None, :], word, mask=(i < n)[:, None])


@triton.jit
def count_rows(edges, bits, counts):
    """Write how many pairs rows have: 64 of them share the numbers of ``bits`` from edges[chunk] to the next edge."""
    chunk, r = tl.program_id(0).to(tl.int64), tl.arange(0, 64)
    total = tl.zeros((64,), tl.int32)
    for entry in range(tl.load(edges + chunk), tl.load(edges + chunk + 1)):
        total += ((tl.load(bits + entry) >> r) & 1).to(tl.int32)
    tl.store(counts + chunk * 64 + r, total)


@triton.jit(do_not_specialize=_SIZES)
def list_rows(edges, bits, index, ends, counts, inputs, n):
    """Write the inputs of the pairs of rows, up to number ``ends``; they stand at ``index`` in (chunks, n)."""
    chunk, r = tl.program_id(0).to(tl.int64), tl.arange(0, 64)
    place = tl.load(ends + chunk * 64 + r) - tl.load(counts + chunk * 64 + r)
    for entry in range(tl.load(edges + chunk), tl.load(edges + chunk + 1)):
        hit = ((tl.load(bits + entry) >> r) & 1) != 0
        i = (tl.load(index + entry) - chunk * n).to(tl.int32)
        tl.store(inputs + place, i + tl.zeros((64,), tl.int32), mask=hit)
        place += hit.to(tl.int64)


@triton.jit(do_not_specialize=_SIZES)
def look_by_signs(
    Z, words, blocks, rows, lengths, begin, length, inputs, out, count,
    P: tl.constexpr, B: tl.constexpr, C: tl.constexpr,
):  # fmt: skip
    """Write pre-activations of rows (count,) on inputs: sums of rotated inputs Z (n, P) with signs, times lengths.

    ``words`` (., P / 32) hold signs of blocks of rows, ``blocks`` (count,) where those of a row stand. Row k takes part
    in ``length[k]`` pairs, from number ``begin[k]`` on; their inputs stand in ``inputs``.
    """
    at = tl.program_id(0).to(tl.int64) * B + tl.arange(0, B)
    there = at < count
    row = tl.load(rows + at, mask=there, other=0)
    rho = tl.load(lengths + at, mask=there, other=0.0)
    pair, size = tl.load(begin + at, mask=there, other=0), tl.load(length + at, mask=there, other=0)
    j, block = (row % P).to(tl.int32), tl.load(blocks + at, mask=there, other=0)
    for start in range(0, P, C):
        c = start + tl.arange(0, C)
        word = tl.load(words + block[:, None] * (P // 32) + (c // 32)[None, :], mask=there[:, None], other=0)
        odd = ((word >> (c % 32)[None, :]) ^ _parity(j[:, None] & c[None, :])) & 1
        factor = rho[:, None] * (1 - 2 * odd).to(tl.float32)
        for p in range(tl.max(size, axis=0)):
            mine = there & (p < size)
            i = tl.load(inputs + pair + p, mask=mine, other=0).to(tl.int64)
            z = tl.load(Z + i[:, None] * P + c[None, :], mask=mine[:, None], other=0.0)
            # Sums of four, and their sum: of 256 numbers a term goes through 66 sums, in whatever order they are taken.
            value = tl.sum(tl.sum(tl.reshape(factor * z, (B, C // 4, 4)), axis=2), axis=1)
            if start > 0:
                value += tl.load(out + pair + p, mask=mine, other=0.0)
            tl.store(out + pair + p, value, mask=mine)
