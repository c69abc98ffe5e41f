"""Kernels in Triton for watchlists, which are rows of entries, as in ``loops/certified/watchlists.py``.

Those that have fired stand first in a watchlist; flags tell what an entry is. A kernel has one lane per neuron, and its
loops run over the longest watchlist of its block. Numbers in double precision come in arrays: Triton passes single ones
in float32. ``constants`` are: shift, units of corrections, stretch, roundings of a product of inputs, guard of start
pre-activations.

Drifts and margins are stored in float32: they are rounded up or down by 2.4e-7, four of its roundoffs, so that no
certificate is too long. 1.2e-16 and 4.5e-16 are one and four roundoffs of float64, with room for that of the bound
itself (``of_change`` and ``of_look`` in ``loops/rounding.py``).
"""

from __future__ import annotations

import triton
import triton.language as tl

from thresher.gpu.kernels.rows import SIZES

__all__ = [
    "FARTHEST", "FIRED", "LINEAR", "advance", "commit", "count_pairs", "judge", "sum_up", "travel", "write_lists",
]  # fmt: skip

# Flags of an entry: 1 if it fires now, 2 if it fires at the point of linearisation, 4 if it has ever fired.
LINEAR, FIRED = 2, 4
FARTHEST = 1024.0  # that a pair may lie from the threshold when it flips: corrections are integers of 64 bits


@triton.jit(do_not_specialize=SIZES)
def sum_up(begin, length, values, fires, shift, fired, margin, count, B: tl.constexpr):
    """Write for rows (count,) of pairs how many of them fire, and the least margin, both from ``shift``."""
    at = tl.program_id(0).to(tl.int64) * B + tl.arange(0, B)
    there = at < count
    first, size = tl.load(begin + at, mask=there, other=0), tl.load(length + at, mask=there, other=0)
    b = tl.load(shift)
    total, least = tl.zeros((B,), tl.int32), tl.zeros((B,), tl.float64) + 1e30
    for p in range(tl.max(size, axis=0)):
        mine = there & (p < size)
        total += tl.load(fires + first + p, mask=mine, other=0).to(tl.int32)
        z = tl.load(values + first + p, mask=mine, other=0.0).to(tl.float64)
        least = tl.where(mine, tl.minimum(least, tl.abs(z - b)), least)
    tl.store(fired + at, total, mask=there)
    tl.store(margin + at, least.to(tl.float32), mask=there)


@triton.jit(do_not_specialize=SIZES)
def write_lists(places, begin, length, fired, values, fires, inputs, to, out_inputs, out_start, out_flags, count,
                B: tl.constexpr):  # fmt: skip
    """Write the watchlists of listed rows, from ``to`` (count,) on: the inputs that fire first, then the others."""
    at = tl.program_id(0).to(tl.int64) * B + tl.arange(0, B)
    there = at < count
    r = tl.load(places + at, mask=there, other=0)
    first, size = tl.load(begin + r, mask=there, other=0), tl.load(length + r, mask=there, other=0)
    front = tl.load(to + at, mask=there, other=0)
    back = front + tl.load(fired + r, mask=there, other=0)
    for p in range(tl.max(tl.where(there, size, 0), axis=0)):
        mine = there & (p < size)
        fire = tl.load(fires + first + p, mask=mine, other=0) != 0
        place = tl.where(fire, front, back)
        tl.store(out_inputs + place, tl.load(inputs + first + p, mask=mine, other=0), mask=mine)
        tl.store(out_start + place, tl.load(values + first + p, mask=mine, other=0.0), mask=mine)
        tl.store(out_flags + place, tl.where(fire, 7, 0).to(tl.uint8), mask=mine)
        front += (mine & fire).to(tl.int64)
        back += (mine & ~fire).to(tl.int64)


@triton.jit(do_not_specialize=SIZES)
def advance(
    begin, fired, sign, inputs, flags, coefficients, delta, drift, soonest, pending, due, moved, constants, count,
    B: tl.constexpr,
):  # fmt: skip
    """Move neurons (count,) by ``delta`` (n,) along the inputs they fire on, against their sign; mark those due."""
    r = tl.program_id(0).to(tl.int64) * B + tl.arange(0, B)
    there = r < count
    first, size = tl.load(begin + r, mask=there, other=0), tl.load(fired + r, mask=there, other=0)
    a = tl.load(sign + r, mask=there, other=0).to(tl.float64)
    total, terms = tl.zeros((B,), tl.float64), tl.zeros((B,), tl.int32)
    for q in range(tl.max(size, axis=0)):
        mine = there & (q < size)
        linear = mine & ((tl.load(flags + first + q, mask=mine, other=0) & 2) != 0)
        step = tl.load(delta + tl.load(inputs + first + q, mask=linear, other=0), mask=linear, other=0.0)
        old = tl.load(coefficients + first + q, mask=linear, other=0.0)
        tl.store(coefficients + first + q, old - a * step, mask=linear)
        total += tl.abs(step)
        terms += linear.to(tl.int32)
    new = tl.load(drift + r, mask=there, other=0.0) + tl.load(constants + 2) * total
    new = (new * (1.0 + 2.4e-7)).to(tl.float32)
    is_due = (new >= tl.load(soonest + r, mask=there, other=0.0)) | (tl.load(pending + r, mask=there, other=0) != 0)
    is_due = is_due & (terms > 0)
    tl.store(drift + r, new, mask=there & ~is_due & (terms > 0))
    tl.store(due + r, is_due.to(tl.int8), mask=there)
    tl.atomic_add(moved, tl.sum((there & (terms > 0)).to(tl.int64), axis=0))


@triton.jit(do_not_specialize=SIZES)
def travel(places, begin, fired, inputs, flags, K, delta, drift, constants, count, n, B: tl.constexpr):
    """Let listed neurons drift by a bound on the norm of their last step, whose part along input j is ``delta[j]``."""
    at = tl.program_id(0).to(tl.int64) * B + tl.arange(0, B)
    there = at < count
    r = tl.load(places + at, mask=there, other=0)
    first, size = tl.load(begin + r, mask=there, other=0), tl.load(fired + r, mask=there, other=0)
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
    lost = total * (terms + tl.load(constants + 3)) * 1.2e-16 * total
    norm = tl.load(constants + 2) * tl.sqrt(tl.maximum(square, 0.0) + lost)
    new = (tl.load(drift + r, mask=there, other=0.0) + norm) * (1.0 + 2.4e-7)
    tl.store(drift + r, new.to(tl.float32), mask=there)


@triton.jit(do_not_specialize=SIZES)
def judge(
    places, begin, length, fired, sign, inputs, start, coefficients, flags, K, drift, band, soonest, pending,
    corrections, found, doubtful, changes, constants, room, count, n, B: tl.constexpr,
):  # fmt: skip
    """Find on which side of the threshold the watched inputs of listed neurons lie.

    Corrections of pairs that flipped are added to ``corrections`` (n,), in units of 1 / fixed, so that their sum does
    not depend on an order. ``found`` gains: pairs that began and ceased to fire, looks, pairs in doubt, corrections
    that are too large. A pair in doubt is listed in ``doubtful`` (room, 2), with the change of its pre-activation and
    the rounding of that in ``changes`` (room, 2).
    """
    at = tl.program_id(0).to(tl.int64) * B + tl.arange(0, B)
    there = at < count
    r = tl.load(places + at, mask=there, other=0)
    first, size = tl.load(begin + r, mask=there, other=0), tl.load(length + r, mask=there, other=0)
    a = tl.load(sign + r, mask=there, other=0).to(tl.float64)
    shift, fixed = tl.load(constants), tl.load(constants + 1)
    terms = tl.load(fired + r, mask=there, other=0)
    longest = tl.max(tl.where(there, size, 0), axis=0)
    most = tl.max(tl.where(there, terms, 0), axis=0)
    total = tl.zeros((B,), tl.float64)
    for q in range(most):
        total += tl.abs(tl.load(coefficients + first + q, mask=there & (q < terms), other=0.0))
    lost = (terms + tl.load(constants + 3)) * 4.5e-16 * (3.0 * total + shift)
    doubt_here = tl.load(constants + 4) + lost
    level = tl.load(drift + r, mask=there, other=0.0).to(tl.float64)
    next_ = tl.load(band + r, mask=there, other=0.0).to(tl.float64)
    flipped, on = tl.zeros((B,), tl.int32), tl.zeros((B,), tl.int64)
    off, large, looks = tl.zeros((B,), tl.int64), tl.zeros((B,), tl.int64), tl.zeros((B,), tl.int64)
    for p in range(longest):
        mine = there & (p < size)
        then = tl.load(start + first + p, mask=mine, other=0.0).to(tl.float64) - shift
        # The drift counts from the start: pairs that were farther from the threshold have never reached it.
        far = mine & (tl.abs(then) > level * (1.0 + 4.8e-7) + doubt_here)
        next_ = tl.where(far, tl.minimum(next_, (tl.abs(then) - doubt_here) * (1.0 - 2.4e-7)), next_)
        mine = mine & ~far
        looks += mine.to(tl.int64)
        i = tl.load(inputs + first + p, mask=mine, other=0).to(tl.int64)
        change = tl.zeros((B,), tl.float64)
        for q in range(most):
            other = mine & (q < terms)
            j = tl.load(inputs + first + q, mask=other, other=0)
            c = tl.load(coefficients + first + q, mask=other, other=0.0)
            change += c * tl.load(K + i * n + j, mask=other, other=0.0)
        margin = then + change
        near = mine & (tl.abs(margin) <= doubt_here)
        sure = mine & ~near
        flag = tl.load(flags + first + p, mask=mine, other=0)
        now = margin >= 0.0
        tl.store(flags + first + p, ((flag & 6) | now.to(tl.uint8)).to(tl.uint8), mask=sure)
        next_ = tl.where(sure, tl.minimum(next_, level + (tl.abs(margin) - doubt_here) * (1.0 - 2.4e-7)), next_)
        flips = sure & (now != ((flag & 2) != 0))
        flipped = flipped | flips.to(tl.int32)
        on += (flips & now).to(tl.int64)
        off += (flips & ~now).to(tl.int64)
        value = a * tl.abs(margin)
        large += (flips & (tl.abs(value) > 1024.0)).to(tl.int64)  # FARTHEST
        tl.atomic_add(corrections + i, tl.floor(value * fixed + 0.5).to(tl.int64), mask=flips)
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
    tl.atomic_add(found + 2, tl.sum(looks, axis=0))
    tl.atomic_add(found + 4, tl.sum(large, axis=0))


@triton.jit(do_not_specialize=SIZES)
def commit(
    places, begin, length, fired, inputs, start, flags, counts, count, n,
    COUNTING: tl.constexpr, B: tl.constexpr,
):  # fmt: skip
    """Make the sides of listed neurons the point of linearisation; change ``counts`` (n, n), lower triangle.

    Entries that fire for the first time join those that have, which stand first.
    """
    at = tl.program_id(0).to(tl.int64) * B + tl.arange(0, B)
    there = at < count
    r = tl.load(places + at, mask=there, other=0)
    first, size = tl.load(begin + r, mask=there, other=0), tl.load(length + r, mask=there, other=0)
    terms = tl.load(fired + r, mask=there, other=0)
    for p in range(tl.max(tl.where(there, size, 0), axis=0)):
        mine = there & (p >= terms) & (p < size)
        joins = mine & ((tl.load(flags + first + p, mask=mine, other=0) & 1) != 0)
        here, other = first + p, first + terms
        input_, mate = tl.load(inputs + here, mask=joins, other=0), tl.load(inputs + other, mask=joins, other=0)
        z, z_mate = tl.load(start + here, mask=joins, other=0.0), tl.load(start + other, mask=joins, other=0.0)
        flag_mate = tl.load(flags + other, mask=joins, other=0)
        tl.store(inputs + here, mate, mask=joins)
        tl.store(start + here, z_mate, mask=joins)
        tl.store(flags + here, flag_mate, mask=joins)
        tl.store(inputs + other, input_, mask=joins)
        tl.store(start + other, z, mask=joins)
        tl.store(flags + other, tl.full((B,), 1, tl.uint8), mask=joins)
        terms += joins.to(tl.int32)
    tl.store(fired + r, terms, mask=there)
    most = tl.max(tl.where(there, terms, 0), axis=0)
    if COUNTING:
        for p in range(most):
            mine = there & (p < terms)
            flag, i = tl.load(flags + first + p, mask=mine, other=0), tl.load(inputs + first + p, mask=mine, other=0)
            for q in range(p + 1):
                mate_flag = tl.load(flags + first + q, mask=mine, other=0)
                j = tl.load(inputs + first + q, mask=mine, other=0)
                change = (flag & mate_flag & 1).to(tl.int32) - ((flag & mate_flag & 2) != 0).to(tl.int32)
                place = tl.maximum(i, j).to(tl.int64) * n + tl.minimum(i, j)
                tl.atomic_add(counts + place, change, mask=mine & (change != 0))
    for p in range(most):
        mine = there & (p < terms)
        now = (tl.load(flags + first + p, mask=mine, other=0) & 1) != 0
        tl.store(flags + first + p, tl.where(now, 7, 4).to(tl.uint8), mask=mine)


@triton.jit(do_not_specialize=SIZES)
def count_pairs(begin, fired, inputs, flags, counts, count, n, B: tl.constexpr):
    """Add to ``counts`` (n, n), lower triangle, how many neurons fire on both of two inputs."""
    r = tl.program_id(0).to(tl.int64) * B + tl.arange(0, B)
    there = r < count
    first, size = tl.load(begin + r, mask=there, other=0), tl.load(fired + r, mask=there, other=0)
    for p in range(tl.max(size, axis=0)):
        mine = there & (p < size)
        mine = mine & ((tl.load(flags + first + p, mask=mine, other=0) & 2) != 0)
        i = tl.load(inputs + first + p, mask=mine, other=0)
        for q in range(p + 1):
            both = mine & ((tl.load(flags + first + q, mask=mine, other=0) & 2) != 0)
            j = tl.load(inputs + first + q, mask=both, other=0)
            place = tl.maximum(i, j).to(tl.int64) * n + tl.minimum(i, j)
            tl.atomic_add(counts + place, tl.full((B,), 1, tl.int32), mask=both)
