"""Kernels in Triton: start weights, the screen, exact looks, and loops over the watchlists of a GPU.

Start weights must have the bits that ``loops/philox.py`` gives: the same operations in the same order, none of them
fused (``enable_fp_fusion=False`` at every launch of a kernel that makes them). Numbers in double precision come in
arrays: Triton passes single ones in float32. A watchlist is a row of entries, as in ``loops/certified.py``; here
entries keep their order, and flags tell what they are. Where a kernel has one lane per neuron its loops run over the
longest watchlist of its block.
"""

from __future__ import annotations

import triton
import triton.language as tl

__all__ = ["FIRED", "LINEAR", "SIDE"]

# Flags of an entry: fires now, fires at the point of linearisation, has fired before (and has a coefficient).
SIDE, LINEAR, FIRED = 1, 2, 4
_SIZES = ["count", "first_row", "room", "n", "d", "words", "columns"]  # not compiled again for other values


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
        high0, low0 = tl.umulhi(c0, 0xD2511F53), c0 * 0xD2511F53
        high1, low1 = tl.umulhi(c2, 0xCD9E8D57), c2 * 0xCD9E8D57
        c0 = high1 ^ c1 ^ k0
        c1 = low1
        c2 = high0 ^ c3 ^ k1
        c3 = low0
        k0 = k0 + 0x9E3779B9
        k1 = k1 + 0xBB67AE85
    return c0, c1, c2, c3


@triton.jit
def _quad(row, quad, key):
    """Four normals of start rows: numbers 4 quad to 4 quad + 3."""
    c0, c1, c2, c3 = _words(row, quad, 0, key)
    return _normal(c0), _normal(c1), _normal(c2), _normal(c3)


@triton.jit(do_not_specialize=_SIZES)
def draw_signs(neurons, out, count, key, B: tl.constexpr):
    """Write the signs (count,) of neurons without twins."""
    at = tl.program_id(0).to(tl.int64) * B + tl.arange(0, B)
    neuron = tl.load(neurons + at, mask=at < count, other=0)
    word, _, _, _ = _words(neuron, neuron & 0, 1, key)
    tl.store(out + at, 1 - 2 * (word & 1).to(tl.int8), mask=at < count)


@triton.jit(do_not_specialize=_SIZES)
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


@triton.jit(do_not_specialize=_SIZES)
def screen(
    X, stored, norms, masks, longest, first_row, count, n, d, words, low, slope, key,
    D: tl.constexpr, M: tl.constexpr, N: tl.constexpr, STORED: tl.constexpr,
):  # fmt: skip
    """Write to ``masks`` (count, words) which inputs of X (N's multiple, D), float16, may reach a level with which row.

    A bit is set where the product in half precision is at least low - slope |w|. Rows are made in registers, or read
    from ``stored`` (count, D) with their ``norms``. ``longest`` gets the largest norm.
    """
    at = tl.program_id(0).to(tl.int64) * M + tl.arange(0, M)
    there = at < count
    if STORED:
        norm = tl.load(norms + at, mask=there, other=0.0)
    else:
        Q: tl.constexpr = D // 4
        row = (first_row + at)[:, None] + tl.zeros((M, Q), tl.int64)
        w0, w1, w2, w3 = _quad(row, tl.zeros((M, Q), tl.int64) + tl.arange(0, Q)[None, :], key)
        w = tl.reshape(tl.join(tl.join(w0, w2), tl.join(w1, w3)), (M, D))
        w = tl.where((tl.arange(0, D) < d)[None, :], w, 0.0)
        norm = tl.sqrt(tl.sum(w * w, axis=1))
        half = w.to(tl.float16)
    tl.atomic_max(longest, tl.max(tl.where(there, norm, 0.0), axis=0))
    level = low - slope * norm
    for first in range(0, n, N):
        column = first + tl.arange(0, N)
        if STORED:
            K: tl.constexpr = 64
            value = tl.zeros((M, N), tl.float32)
            for k in range(0, D, K):
                part = k + tl.arange(0, K)
                left = tl.load(stored + at[:, None] * D + part[None, :], mask=there[:, None], other=0.0)
                value = tl.dot(left, tl.load(X + column[None, :] * D + part[:, None]), value)
        else:
            value = tl.dot(half, tl.load(X + column[None, :] * D + tl.arange(0, D)[:, None]))
        hit = ((value >= level[:, None]) & (column < n)[None, :] & there[:, None]).to(tl.int32)
        word = tl.sum(tl.reshape(hit, (M, N // 32, 32)) << tl.arange(0, 32)[None, None, :], axis=2)
        place = first // 32 + tl.arange(0, N // 32)
        tl.store(masks + at[:, None] * words + place[None, :], word, mask=there[:, None] & (place < words)[None, :])


@triton.jit(do_not_specialize=_SIZES)
def count_bits(word, bits, count, B: tl.constexpr):
    """Write to ``bits`` (count,) how many bits of each word are set."""
    at = tl.program_id(0).to(tl.int64) * B + tl.arange(0, B)
    value = tl.load(word + at, mask=at < count, other=0)
    total = value & 0
    for bit in range(32):
        total += (value >> bit) & 1
    tl.store(bits + at, total, mask=at < count)


@triton.jit(do_not_specialize=_SIZES)
def list_bits(index, word, end, bits, rows, inputs, first_row, count, words, B: tl.constexpr):
    """Write for each bit that is set its row and its input, row by row."""
    at = tl.program_id(0).to(tl.int64) * B + tl.arange(0, B)
    there = at < count
    value, where = tl.load(word + at, mask=there, other=0), tl.load(index + at, mask=there, other=0)
    place = tl.load(end + at, mask=there, other=0) - tl.load(bits + at, mask=there, other=0)
    row, first = first_row + where // words, (where % words * 32).to(tl.int32)
    for bit in range(32):
        hit = there & (((value >> bit) & 1) != 0)
        tl.store(rows + place, row, mask=hit)
        tl.store(inputs + place, first + bit, mask=hit)
        place += hit.to(tl.int64)


@triton.jit(do_not_specialize=_SIZES)
def look(X, rows, inputs, out, count, d, key, B: tl.constexpr, Q: tl.constexpr):
    """Write the pre-activations (count,) of pairs of a start row and an input of X (n, d), in the precision of X."""
    at = tl.program_id(0).to(tl.int64) * B + tl.arange(0, B)
    there = at < count
    row = tl.load(rows + at, mask=there, other=0)[:, None] + tl.zeros((B, Q), tl.int64)
    base = X + tl.load(inputs + at, mask=there, other=0).to(tl.int64)[:, None] * d
    kind = X.dtype.element_ty
    total = tl.zeros((B, Q), kind)
    for first in range(0, d, 4 * Q):
        k = (first + 4 * tl.arange(0, Q))[None, :]
        w0, w1, w2, w3 = _quad(row, tl.zeros((B, Q), tl.int64) + k // 4, key)
        ok = there[:, None]
        total += w0.to(kind) * tl.load(base + k, mask=ok & (k < d), other=0.0)
        total += w1.to(kind) * tl.load(base + k + 1, mask=ok & (k + 1 < d), other=0.0)
        total += w2.to(kind) * tl.load(base + k + 2, mask=ok & (k + 2 < d), other=0.0)
        total += w3.to(kind) * tl.load(base + k + 3, mask=ok & (k + 3 < d), other=0.0)
    tl.store(out + at, tl.sum(total, axis=1), mask=there)


@triton.jit(do_not_specialize=_SIZES)
def advance(
    begin, length, inputs, flags, delta, drift, soonest, pending, due, moved, constants, count, B: tl.constexpr
):
    """Let neurons (count,) drift by the sum of ``delta`` (n,) over their firing inputs; mark those that are due."""
    r = tl.program_id(0).to(tl.int64) * B + tl.arange(0, B)
    there = r < count
    first, size = tl.load(begin + r, mask=there, other=0), tl.load(length + r, mask=there, other=0)
    total, terms = tl.zeros((B,), tl.float64), tl.zeros((B,), tl.int32)
    for q in range(tl.max(size, axis=0)):
        mine = there & (q < size)
        linear = mine & ((tl.load(flags + first + q, mask=mine, other=0) & 2) != 0)
        total += tl.load(delta + tl.load(inputs + first + q, mask=linear, other=0), mask=linear, other=0.0)
        terms += linear.to(tl.int32)
    new = ((tl.load(drift + r, mask=there, other=0.0) + tl.load(constants + 3) * total) * (1.0 + 2.4e-7)).to(tl.float32)
    is_due = (new >= tl.load(soonest + r, mask=there, other=0.0)) | (tl.load(pending + r, mask=there, other=0) != 0)
    is_due = is_due & (terms > 0)
    tl.store(drift + r, new, mask=there & ~is_due & (terms > 0))
    tl.store(due + r, is_due.to(tl.int8), mask=there)
    tl.atomic_add(moved, tl.sum((there & (terms > 0)).to(tl.int64), axis=0))


@triton.jit(do_not_specialize=_SIZES)
def travel(places, begin, length, inputs, flags, K, delta, drift, constants, count, n, B: tl.constexpr):
    """Let listed neurons drift by a bound on the norm of their last step, whose part along input j is ``delta[j]``."""
    at = tl.program_id(0).to(tl.int64) * B + tl.arange(0, B)
    there = at < count
    r = tl.load(places + at, mask=there, other=0)
    first, size = tl.load(begin + r, mask=there, other=0), tl.load(length + r, mask=there, other=0)
    longest = tl.max(tl.where(there, size, 0), axis=0)
    square, total, terms = tl.zeros((B,), tl.float64), tl.zeros((B,), tl.float64), tl.zeros((B,), tl.float64)
    for p in range(longest):
        mine = there & (p < size)
        mine = mine & ((tl.load(flags + first + p, mask=mine, other=0) & 2) != 0)
        i = tl.load(inputs + first + p, mask=mine, other=0).to(tl.int64)
        own = tl.load(delta + i, mask=mine, other=0.0)
        along = tl.zeros((B,), tl.float64)
        for q in range(longest):
            other = mine & (q < size)
            other = other & ((tl.load(flags + first + q, mask=other, other=0) & 2) != 0)
            j = tl.load(inputs + first + q, mask=other, other=0)
            along += tl.load(delta + j, mask=other, other=0.0) * tl.load(K + i * n + j, mask=other, other=0.0)
        square += own * along
        total += tl.abs(own)
        terms += mine.to(tl.float64)
    lost = total * (terms + tl.load(constants + 4)) * 1.2e-16 * total
    norm = tl.load(constants + 3) * tl.sqrt(tl.maximum(square, 0.0) + lost)
    new = (tl.load(drift + r, mask=there, other=0.0) + norm) * (1.0 + 2.4e-7)
    tl.store(drift + r, new.to(tl.float32), mask=there)


@triton.jit(do_not_specialize=_SIZES)
def judge(
    places, begin, length, sign, inputs, start, base, flags, K, sums, drift, band, soonest, pending,
    corrections, found, doubtful, changes, constants, room, count, n, B: tl.constexpr,
):  # fmt: skip
    """Find on which side of the threshold the watched inputs of listed neurons lie.

    Corrections of pairs that flipped are added to ``corrections`` (n,), in units of 1 / fixed, so that their sum does
    not depend on an order. ``found`` gains: pairs that began and ceased to fire, looks, pairs in doubt, corrections that
    are too large. A pair in doubt is listed in ``doubtful`` (room, 2), with the change of its pre-activation and the
    rounding of that in ``changes`` (room, 2). ``constants``: shift, scale, fixed, stretch, roundings of a product of
    inputs, guard of start pre-activations.
    """
    at = tl.program_id(0).to(tl.int64) * B + tl.arange(0, B)
    there = at < count
    r = tl.load(places + at, mask=there, other=0)
    first, size = tl.load(begin + r, mask=there, other=0), tl.load(length + r, mask=there, other=0)
    a = tl.load(sign + r, mask=there, other=0).to(tl.float64)
    shift, scale, fixed = tl.load(constants), tl.load(constants + 1), tl.load(constants + 2)
    longest = tl.max(tl.where(there, size, 0), axis=0)
    total, terms = tl.zeros((B,), tl.float64), tl.zeros((B,), tl.float64)
    for q in range(longest):
        mine = there & (q < size)
        flag = tl.load(flags + first + q, mask=mine, other=0)
        fired = mine & ((flag & 4) != 0)
        c = tl.load(base + first + q, mask=fired, other=0.0)
        j = tl.load(inputs + first + q, mask=fired, other=0)
        c -= tl.where((flag & 2) != 0, scale * a * tl.load(sums + j, mask=fired, other=0.0), 0.0)
        total += tl.abs(c)
        terms += fired.to(tl.float64)
    lost = (terms + tl.load(constants + 4)) * 4.5e-16 * (3.0 * total + shift)
    doubt_here = tl.load(constants + 5) + lost
    level = tl.load(drift + r, mask=there, other=0.0).to(tl.float64)
    next_ = tl.load(band + r, mask=there, other=0.0).to(tl.float64)
    flipped, on = tl.zeros((B,), tl.int32), tl.zeros((B,), tl.int64)
    off, large = tl.zeros((B,), tl.int64), tl.zeros((B,), tl.int64)
    for p in range(longest):
        mine = there & (p < size)
        i = tl.load(inputs + first + p, mask=mine, other=0).to(tl.int64)
        change = tl.zeros((B,), tl.float64)
        for q in range(longest):
            other = mine & (q < size)
            flag = tl.load(flags + first + q, mask=other, other=0)
            fired = other & ((flag & 4) != 0)
            c = tl.load(base + first + q, mask=fired, other=0.0)
            j = tl.load(inputs + first + q, mask=fired, other=0)
            c -= tl.where((flag & 2) != 0, scale * a * tl.load(sums + j, mask=fired, other=0.0), 0.0)
            change += c * tl.load(K + i * n + j, mask=fired, other=0.0)
        margin = tl.load(start + first + p, mask=mine, other=0.0).to(tl.float64) + change - shift
        near = mine & (tl.abs(margin) <= doubt_here)
        sure = mine & ~near
        flag = tl.load(flags + first + p, mask=mine, other=0)
        then, now = (flag & 2) != 0, margin >= 0.0
        tl.store(flags + first + p, ((flag & 6) | now.to(tl.uint8)).to(tl.uint8), mask=sure)
        next_ = tl.where(sure, tl.minimum(next_, level + (tl.abs(margin) - doubt_here) * (1.0 - 2.4e-7)), next_)
        flips = sure & (now != then)
        flipped = flipped | flips.to(tl.int32)
        on += (flips & now).to(tl.int64)
        off += (flips & ~now).to(tl.int64)
        value = a * tl.abs(margin)
        large += (flips & (tl.abs(value) > 1024.0)).to(tl.int64)
        tl.atomic_add(corrections + i, (value * fixed).to(tl.int64), mask=flips)
        slot = tl.atomic_add(found + 3 + tl.zeros((B,), tl.int64), tl.full((B,), 1, tl.int64), mask=near)
        kept = near & (slot < room)
        tl.store(doubtful + 2 * slot, r, mask=kept)
        tl.store(doubtful + 2 * slot + 1, first + p, mask=kept)
        tl.store(changes + 2 * slot, change, mask=kept)
        tl.store(changes + 2 * slot + 1, lost, mask=kept)
    tl.store(soonest + r, (next_ * (1.0 - 2.4e-7)).to(tl.float32), mask=there)
    tl.store(pending + r, flipped.to(tl.int8), mask=there)
    tl.atomic_add(found, tl.sum(on, axis=0))
    tl.atomic_add(found + 1, tl.sum(off, axis=0))
    tl.atomic_add(found + 2, tl.sum(tl.where(there, size, 0).to(tl.int64), axis=0))
    tl.atomic_add(found + 4, tl.sum(large, axis=0))


@triton.jit(do_not_specialize=_SIZES)
def commit(
    places, begin, length, sign, inputs, base, flags, sums, counts, constants, count, n,
    COUNTING: tl.constexpr, B: tl.constexpr,
):  # fmt: skip
    """Make the sides of listed neurons the point of linearisation; change ``counts`` (n, n), lower triangle."""
    at = tl.program_id(0).to(tl.int64) * B + tl.arange(0, B)
    there = at < count
    r = tl.load(places + at, mask=there, other=0)
    first, size = tl.load(begin + r, mask=there, other=0), tl.load(length + r, mask=there, other=0)
    push = tl.load(constants + 1) * tl.load(sign + r, mask=there, other=0).to(tl.float64)
    longest = tl.max(tl.where(there, size, 0), axis=0)
    if COUNTING:
        for p in range(longest):
            mine = there & (p < size)
            flag, i = tl.load(flags + first + p, mask=mine, other=0), tl.load(inputs + first + p, mask=mine, other=0)
            for q in range(p + 1):
                mate = tl.load(flags + first + q, mask=mine, other=0)
                j = tl.load(inputs + first + q, mask=mine, other=0)
                change = (flag & mate & 1).to(tl.int32) - ((flag & mate & 2) != 0).to(tl.int32)
                place = tl.maximum(i, j).to(tl.int64) * n + tl.minimum(i, j)
                tl.atomic_add(counts + place, change, mask=mine & (change != 0))
    for p in range(longest):
        mine = there & (p < size)
        flag, i = tl.load(flags + first + p, mask=mine, other=0), tl.load(inputs + first + p, mask=mine, other=0)
        then, now = (flag & 2) != 0, (flag & 1) != 0
        turned = mine & (then != now)
        pushed = push * tl.load(sums + i, mask=turned, other=0.0)
        old = tl.load(base + first + p, mask=turned, other=0.0)
        tl.store(base + first + p, tl.where(now, old + pushed, old - pushed), mask=turned)
        tl.store(flags + first + p, tl.where(now, 7, flag & 4).to(tl.uint8), mask=mine)


@triton.jit(do_not_specialize=_SIZES)
def count_pairs(begin, length, inputs, flags, counts, count, n, B: tl.constexpr):
    """Add to ``counts`` (n, n), lower triangle, how many neurons fire on both of two inputs."""
    r = tl.program_id(0).to(tl.int64) * B + tl.arange(0, B)
    there = r < count
    first, size = tl.load(begin + r, mask=there, other=0), tl.load(length + r, mask=there, other=0)
    for p in range(tl.max(size, axis=0)):
        mine = there & (p < size)
        mine = mine & ((tl.load(flags + first + p, mask=mine, other=0) & 2) != 0)
        i = tl.load(inputs + first + p, mask=mine, other=0)
        for q in range(p + 1):
            both = mine & ((tl.load(flags + first + q, mask=mine, other=0) & 2) != 0)
            j = tl.load(inputs + first + q, mask=both, other=0)
            place = tl.maximum(i, j).to(tl.int64) * n + tl.minimum(i, j)
            tl.atomic_add(counts + place, tl.full((B,), 1, tl.int32), mask=both)
