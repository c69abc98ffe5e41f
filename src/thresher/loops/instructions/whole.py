"""Products of whole numbers of 8 or 16 bits, by the instructions that processors have for them.

Processors multiply several at a time and add up the products in 32 bits: pairs of 16 bits by ``vpmaddwd``, on any x86
processor with AVX2, or by ``vpdpwssd``; fours of 8 bits by ``vpdpbusd``, where there is VNNI. That one multiplies bytes
that have a sign with bytes that have none. Plain loops give the same sums on any machine; they are slow, and there for
tests.
"""

from __future__ import annotations

from typing import NamedTuple

import llvmlite.binding
import numba
import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic

from thresher.loops import compiled, helper
from thresher.loops.instructions import repeat, spread

__all__ = [
    "COLUMNS", "PLAIN", "REGISTER", "ROWS", "WAYS", "Way", "multiply", "multiply_plainly", "multiply_singly",
    "write_tile",
]  # fmt: skip

PLAIN = "plain loops"
_DEPTH = 128  # words of a row and of an input that are multiplied at a time: they stay in the nearest cache


class Way(NamedTuple):
    """How products of whole numbers are made: of how many bits, and by which instructions."""

    bits: int
    instructions: str


def _ways() -> tuple[Way, ...]:
    """Return how this machine can multiply whole numbers, the fastest way first; none where there is none."""
    chosen = numba.config
    if chosen.DISABLE_JIT or chosen.CPU_NAME or chosen.CPU_FEATURES:  # type: ignore[attr-defined]
        return ()  # code is made for another machine, or none is made
    has = llvmlite.binding.get_host_cpu_features()
    wide = has.get("avx512f") and has.get("avx512bw")
    if wide and has.get("avx512vnni"):
        return Way(8, "avx512-vnni"), Way(16, "avx512-vnni")
    if wide:
        return (Way(16, "avx512"),)
    if has.get("avxvnni"):
        return Way(8, "avx-vnni"), Way(16, "avx-vnni")
    return (Way(16, "avx2"),) if has.get("avx2") else ()


WAYS = _ways()
REGISTER, _VECTORS, ROWS = (16, 4, 4) if WAYS and WAYS[0].instructions.startswith("avx512") else (8, 2, 6)
COLUMNS = REGISTER * _VECTORS  # inputs of a tile of sums; a register holds so many numbers of 32 bits


def write_tile(builder, arguments, *, way, adds, lanes, vectors, rows):
    """Write the code of a tile of sums: of ``steps`` words of so many rows, multiplied with lanes x vectors inputs.

    ``arguments`` are addresses, and distances in bytes: inputs, row words, steps, sums, from one row of sums to the
    next, levels of the rows, bits, from one row of bits to the next. The sums are replaced, or if it ``adds`` added to;
    the bits say which of them reach the level of their row.
    """
    inputs, words, steps, sums, across, levels, bits, further = arguments
    long, word = ir.IntType(64), ir.IntType(32)
    kind, size = ir.VectorType(word, lanes), 4 * lanes

    def multiply(total, x, w):
        if way.instructions.endswith("vnni"):
            name = f"llvm.x86.avx512.{'vpdpbusd' if way.bits == 8 else 'vpdpwssd'}.{32 * lanes}"
            fused = builder.module.declare_intrinsic(name, (), ir.FunctionType(kind, [kind, kind, kind]))
            return builder.call(fused, [total, x, w])
        half = ir.VectorType(ir.IntType(16), 2 * lanes)
        name = "llvm.x86.avx2.pmadd.wd" if lanes == 8 else "llvm.x86.avx512.pmaddw.d.512"
        pairs = builder.module.declare_intrinsic(name, (), ir.FunctionType(kind, [half, half]))
        return builder.add(total, builder.call(pairs, [builder.bitcast(x, half), builder.bitcast(w, half)]))

    def at(base, offset, kind):
        return builder.inttoptr(builder.add(base, offset), kind.as_pointer())

    def place(r, c):
        offset = builder.add(builder.mul(across, ir.Constant(long, r)), ir.Constant(long, size * c))
        return at(sums, offset, kind)

    zero = ir.Constant(kind, [0] * lanes)

    def add_products(k, tile):
        here, there = (builder.mul(k, ir.Constant(long, apart)) for apart in (size * vectors, 4 * rows))
        places = [builder.add(here, ir.Constant(long, size * c)) for c in range(vectors)]
        x, made = [builder.load(at(inputs, place, kind), align=1) for place in places], []
        for r in range(rows):
            w = builder.load(at(words, builder.add(there, ir.Constant(long, 4 * r)), word), align=4)
            w = spread(builder, w, lanes)
            made += [multiply(total, x[c], w) for c, total in enumerate(tile[r * vectors : (r + 1) * vectors])]
        return made

    begun = [builder.load(place(r, c), align=4) if adds else zero for r in range(rows) for c in range(vectors)]
    tile = repeat(builder, steps, begun, add_products)
    some, all_of_row = ir.IntType(lanes), ir.IntType(lanes * vectors)
    for r in range(rows):
        level = spread(builder, builder.load(at(levels, ir.Constant(long, 4 * r), word), align=4), lanes)
        reached = ir.Constant(all_of_row, 0)
        for c, new in enumerate(tile[r * vectors : (r + 1) * vectors]):
            builder.store(new, place(r, c), align=4)
            found = builder.zext(builder.bitcast(builder.icmp_signed(">=", new, level), some), all_of_row)
            reached = builder.or_(reached, builder.shl(found, ir.Constant(all_of_row, lanes * c)))
        builder.store(reached, at(bits, builder.mul(further, ir.Constant(long, r)), all_of_row), align=1)


def _tile_of(bits, *, adds):
    """Return a function that multiplies a tile in whole numbers of so many bits; see ``write_tile``."""
    way = next((way for way in WAYS if way.bits == bits), None)

    @intrinsic
    def tile(typing, inputs, words, steps, sums, across, levels, bits, further):
        def generate(context, builder, signature, arguments):
            if way:  # otherwise nothing calls it
                write_tile(builder, arguments, way=way, adds=adds, lanes=REGISTER, vectors=_VECTORS, rows=ROWS)
            return context.get_dummy_value()

        return types.void(*[types.int64] * 8), generate

    return tile


_first_8, _more_8 = _tile_of(8, adds=False), _tile_of(8, adds=True)
_first_16, _more_16 = _tile_of(16, adds=False), _tile_of(16, adds=True)


@njit(inline="always")
def _multiply_tile(bits, adds, inputs, words, steps, sums, across, levels, reached, further):
    if bits == 8:
        if adds:
            _more_8(inputs, words, steps, sums, across, levels, reached, further)
        else:
            _first_8(inputs, words, steps, sums, across, levels, reached, further)
    elif adds:
        _more_16(inputs, words, steps, sums, across, levels, reached, further)
    else:
        _first_16(inputs, words, steps, sums, across, levels, reached, further)


@compiled
def multiply_plainly(inputs, words, first, last, made):
    """Make the products of rows ``first`` to ``last - 1`` with all inputs, ``WholeProducts``, in plain loops."""
    panels, bits, sums = inputs.panels, np.int32(inputs.bits), made.sums
    (count, steps, columns), rows, left = panels.shape, words.shape[2], np.int32(32 - bits)
    for r in range(first, last):
        for c in range(count * columns):
            sums[r - first, c] = 0
        for p in range(count):
            for k in range(steps):
                for part in range(32 // bits):
                    up = left - bits * np.int32(part)  # shifted up and down again a part of a word keeps its sign
                    w = np.int32(words[r // rows, k, r % rows] << up) >> left
                    for c in range(columns):
                        x = np.int32(panels[p, k, c] << up) >> left
                        if bits == 8:
                            x &= np.int32(255)
                        sums[r - first, p * columns + c] += w * x
        for w in range(made.reached.shape[1]):
            made.reached[r - first, w] = 0
        for c in range(count * columns):
            reached = np.uint64(sums[r - first, c] >= made.levels[r - first])
            made.reached[r - first, c // 64] |= reached << np.uint64(c % 64)


@helper
def _multiply_in_tiles(inputs, words, first, last, made):
    """Do the same, by the instructions of this machine; ``first`` is that of a tile."""
    panels = inputs.panels
    (count, steps, columns), rows = panels.shape, words.shape[2]
    x, w, out, bits = panels.ctypes.data, words.ctypes.data, made.sums.ctypes.data, made.reached.ctypes.data
    across, further = 4 * made.sums.shape[1], 8 * made.reached.shape[1]
    for p in range(count):
        for k in range(0, steps, _DEPTH):
            for r in range(first, last, rows):
                here, there = x + 4 * (p * steps + k) * columns, w + 4 * (r // rows * steps + k) * rows
                target, found = (r - first) * across + 4 * p * columns, (r - first) * further + p * columns // 8
                levels = made.levels.ctypes.data + 4 * (r - first)
                _multiply_tile(
                    inputs.bits, k > 0, here, there, min(_DEPTH, steps - k), out + target, across, levels,
                    bits + found, further,
                )  # fmt: skip


multiply = _multiply_in_tiles if WAYS else multiply_plainly


@intrinsic
def _four_products(typing, vector, first, second, third, fourth, steps, sums):
    """Multiply a vector of 16 bits with four others, 16 coordinates ``steps`` times; all arguments are addresses."""

    def generate(context, builder, signature, arguments):
        if not WAYS:  # nothing calls it
            return context.get_dummy_value()
        vector, *others, steps, sums = arguments
        half = ir.VectorType(ir.IntType(16), 16)
        kind, zero = ir.VectorType(ir.IntType(32), 8), ir.Constant(ir.VectorType(ir.IntType(32), 8), [0] * 8)
        module = builder.module
        pairs = module.declare_intrinsic("llvm.x86.avx2.pmadd.wd", (), ir.FunctionType(kind, [half, half]))
        beside = module.declare_intrinsic("llvm.x86.avx2.phadd.d", (), ir.FunctionType(kind, [kind, kind]))

        def add_products(k, totals):
            here = builder.mul(k, ir.Constant(ir.IntType(64), 32))
            places = [builder.inttoptr(builder.add(base, here), half.as_pointer()) for base in (vector, *others)]
            one, *rows = (builder.load(place, align=2) for place in places)
            return [
                builder.add(total, builder.call(pairs, [one, row])) for total, row in zip(totals, rows, strict=True)
            ]

        made = repeat(builder, steps, [zero] * 4, add_products)
        low, high = (builder.call(beside, made[two : two + 2]) for two in (0, 2))
        both, four = builder.call(beside, [low, high]), ir.VectorType(ir.IntType(32), 4)
        halves = [
            builder.shuffle_vector(both, both, ir.Constant(four, list(range(first, first + 4)))) for first in (0, 4)
        ]
        builder.store(builder.add(*halves), builder.inttoptr(sums, four.as_pointer()), align=4)
        return context.get_dummy_value()

    return types.void(*[types.int64] * 7), generate


@helper
def _product(vector, other):
    total = np.int32(0)
    for k in range(vector.size):
        total = np.int32(total + np.int32(vector[k]) * np.int32(other[k]))
    return total


@compiled
def multiply_singly(vector, rows, listed, count, plainly, sums):
    """Write the products of a vector (16 k,) of 16 bits with the listed rows (n, 16 k) of others to ``sums``."""
    whole = 0
    if plainly is None:
        whole, apart, base = count - count % 4, 2 * rows.shape[1], rows.ctypes.data
        for c in range(0, whole, 4):
            _four_products(
                vector.ctypes.data, base + apart * np.int64(listed[c]), base + apart * np.int64(listed[c + 1]),
                base + apart * np.int64(listed[c + 2]), base + apart * np.int64(listed[c + 3]), rows.shape[1] // 16,
                sums.ctypes.data + 4 * c,
            )  # fmt: skip
    for c in range(whole, count):
        sums[c] = _product(vector, rows[listed[c]])
