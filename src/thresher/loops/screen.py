"""Products in 8 bits: upper bounds of pre-activations, for a fraction of what the pre-activations cost.

Rows and inputs are rounded to whole steps from -127 to 127, a step per row and a step per input. Inputs are stored plus
128, as bytes without a sign, since that is what processors multiply with bytes that have one: ``vpdpbusd`` takes four
products at a time into each of 8 or 16 sums of 32 bits. Plain loops give the same whole numbers on any machine; they
are slow, and there for tests.
"""

from __future__ import annotations

import llvmlite.binding
import numba
import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic
from numpy.typing import NDArray

from thresher.loops import compiled
from thresher.loops.rounding import of_screen
from thresher.loops.structures import RoundedInputs, RoundedRows

__all__ = [
    "CHUNK", "INSTRUCTIONS", "NO_INPUTS", "NO_ROWS", "PLAIN", "STEPS", "bound_rows", "instructions_for", "room_for",
    "round_inputs", "round_rows", "squares", "transpose", "write_tile",
]  # fmt: skip

STEPS, OFFSET = 127, 128
# Coordinates of a row: of shorter ones products in float32 cost no more, of longer ones sums, of up to 255 x 127 each,
# do not fit 32 bits.
SHORTEST, LONGEST = 96, 1 << 15
CHUNK, _TILE_ROWS = 16, 4  # rows whose products are in the cache at a time, and rows of a tile
PLAIN = "plain loops"
_NOTHING = 1e-20  # rows without a larger coordinate count as rows of zeros


def _instructions() -> str:
    """Return which instructions of this machine multiply bytes: "avx512-vnni", "avx-vnni", or "" for none."""
    chosen = numba.config
    if chosen.DISABLE_JIT or chosen.CPU_NAME or chosen.CPU_FEATURES:  # type: ignore[attr-defined]
        return ""  # code is made for another machine, or none is made
    has = llvmlite.binding.get_host_cpu_features()
    return "avx512-vnni" if has.get("avx512vnni") and has.get("avx512f") else "avx-vnni" if has.get("avxvnni") else ""


def instructions_for(dimension: int) -> str:
    """Return which instructions are to screen rows of so many coordinates; "" if they are not to be screened."""
    shortest = 1 if INSTRUCTIONS == PLAIN else SHORTEST  # plain loops are never worth while, and there for tests
    return INSTRUCTIONS if shortest <= dimension <= LONGEST else ""


INSTRUCTIONS = _instructions()
_LANES, _VECTORS = (8, 2) if INSTRUCTIONS == "avx-vnni" else (16, 4)  # sums in a register, registers across a tile
_COLUMNS = _LANES * _VECTORS


def write_tile(builder, arguments, *, lanes, vectors):
    """Write the code of a tile: ``steps`` times 4 products for each of 4 rows and lanes x vectors inputs.

    ``arguments`` are addresses and distances in bytes: inputs, row words, from one word of a row to the next, steps,
    sums, from one row of sums to the next.
    """
    inputs, rows, apart, steps, sums, across = arguments
    long, word = ir.IntType(64), ir.IntType(32)
    kind, size = ir.VectorType(word, lanes), 4 * lanes
    name = f"llvm.x86.avx512.vpdpbusd.{32 * lanes}"
    add = builder.module.declare_intrinsic(name, (), ir.FunctionType(kind, [kind, kind, kind]))

    def at(base, offset, kind):
        return builder.inttoptr(builder.add(base, offset), kind.as_pointer())

    def spread(value):
        one = builder.insert_element(ir.Constant(kind, ir.Undefined), value, ir.Constant(word, 0))
        return builder.shuffle_vector(one, one, ir.Constant(kind, [0] * lanes))

    before = builder.block
    loop, done = builder.append_basic_block("loop"), builder.append_basic_block("done")
    builder.branch(loop)
    builder.position_at_end(loop)
    k = builder.phi(long)
    k.add_incoming(ir.Constant(long, 0), before)
    tile = [[builder.phi(kind) for _ in range(vectors)] for _ in range(_TILE_ROWS)]
    here, words = builder.mul(k, ir.Constant(long, size * vectors)), builder.add(rows, builder.mul(k, apart))
    places = [builder.add(here, ir.Constant(long, size * c)) for c in range(vectors)]
    x = [builder.load(at(inputs, place, kind), align=1) for place in places]
    for r, row in enumerate(tile):
        w = spread(builder.load(at(words, ir.Constant(long, 4 * r), word), align=4))
        for c, old in enumerate(row):
            old.add_incoming(ir.Constant(kind, [0] * lanes), before)
            row[c] = builder.call(add, [old, x[c], w])
            old.add_incoming(row[c], loop)
    following = builder.add(k, ir.Constant(long, 1))
    k.add_incoming(following, loop)
    builder.cbranch(builder.icmp_unsigned("<", following, steps), loop, done)
    builder.position_at_end(done)
    for r, row in enumerate(tile):
        for c, new in enumerate(row):
            place = builder.add(builder.mul(across, ir.Constant(long, r)), ir.Constant(long, size * c))
            builder.store(new, at(sums, place, kind), align=4)


# For loops that may screen, where they do not.
_NONE = np.zeros(0, np.float32)
NO_INPUTS = RoundedInputs(np.zeros((0, 1, 1, 4), np.uint8), _NONE, _NONE, True)
NO_ROWS = RoundedRows(np.zeros((1, 0), np.int32), np.zeros(0, np.int32), _NONE, _NONE, _NONE)


@intrinsic
def _tile(typing, inputs, rows, apart, steps, sums, across):
    """Multiply 4 rows with the inputs of a panel; see ``write_tile``."""

    def generate(context, builder, signature, arguments):
        write_tile(builder, arguments, lanes=_LANES, vectors=_VECTORS)
        return context.get_dummy_value()

    return types.void(*[types.int64] * 6), generate


@compiled
def _multiply_plainly(panels, words, first, last, sums):
    """Set ``sums`` (rows, inputs) to the products of rows ``first`` to ``last - 1`` with all inputs, in plain loops."""
    count, steps, columns, _ = panels.shape
    for r in range(first, last):
        for c in range(count * columns):
            sums[r - first, c] = 0
    for p in range(count):
        for k in range(steps):
            for r in range(first, last):
                for byte in range(4):
                    signed = np.int32(np.int8((words[k, r] >> np.int32(8 * byte)) & np.int32(255)))
                    for c in range(columns):
                        sums[r - first, p * columns + c] += signed * np.int32(panels[p, k, c, byte])


@compiled
def _multiply_in_tiles(panels, words, first, last, sums):
    """Do the same, by the instructions of this machine."""
    count, steps, columns, _ = panels.shape
    x, w, out = panels.ctypes.data, words.ctypes.data, sums.ctypes.data
    for p in range(count):
        for r in range(first, last, _TILE_ROWS):
            _tile(
                x + p * steps * columns * 4, w + 4 * r, 4 * words.shape[1], steps,
                out + 4 * ((r - first) * sums.shape[1] + p * columns), 4 * sums.shape[1],
            )  # fmt: skip


_multiply = _multiply_in_tiles if INSTRUCTIONS else _multiply_plainly


@compiled(relaxed=True)
def _round(columns, words, sums, steps, norms, errors):
    """Round rows, the columns of ``columns`` (d, rows), to steps of their own; the rest are arrays of RoundedRows."""
    rows = columns.shape[1]
    inverse = np.empty(rows, np.float32)
    for k in range(columns.shape[0]):
        for r in range(rows):
            steps[r] = max(steps[r], abs(columns[k, r]))
    for r in range(rows):
        if steps[r] < np.float32(_NOTHING):
            steps[r] = inverse[r] = 0
        else:
            inverse[r] = np.float32(STEPS) / steps[r]
            steps[r] = steps[r] / np.float32(STEPS)
    for k in range(columns.shape[0]):
        place, byte = k // 4, np.int32(8 * (k % 4))
        for r in range(rows):
            whole = np.rint(columns[k, r] * inverse[r])
            rest = columns[k, r] - whole * steps[r]
            norms[r] += whole * whole
            errors[r] += rest * rest
            number = np.int32(whole)
            sums[r] += number
            words[place, r] |= (number & np.int32(255)) << byte
    for r in range(rows):
        norms[r] = steps[r] * np.sqrt(norms[r])
        errors[r] = np.sqrt(errors[r])


@compiled(relaxed=True)
def squares(columns):
    """Return the squared norms of rows that are given as columns (d, rows)."""
    out = np.zeros(columns.shape[1], columns.dtype)
    for k in range(columns.shape[0]):
        for r in range(columns.shape[1]):
            out[r] += columns[k, r] * columns[k, r]
    return out


@compiled
def transpose(columns):
    """Return columns (d, rows) as rows (rows, d), a line of the cache at a time."""
    d, rows = columns.shape
    out = np.empty((rows, d), columns.dtype)
    for first in range(0, rows, 16):
        for k in range(d):
            for r in range(first, min(first + 16, rows)):
                out[r, k] = columns[k, r]
    return out


def round_rows(columns: NDArray[np.float32]) -> RoundedRows:
    """Return float32 rows, given as columns (d, rows), rounded to a step each. Cost: O(d) per row."""
    d, rows = columns.shape
    words, sums = np.zeros((-(-d // 4), rows + _TILE_ROWS), np.int32), np.zeros(rows, np.int32)
    steps, norms, errors = np.zeros((3, rows), np.float32)
    _round(columns, words, sums, steps, norms, errors)
    return RoundedRows(words, sums, steps, norms, errors)


def round_inputs(inputs: NDArray[np.float64], *, plainly: bool) -> RoundedInputs:
    """Return inputs (n, d) rounded to a step each. Cost: O(nd)."""
    n, d = inputs.shape
    steps = (np.abs(inputs).max(axis=1) / STEPS).astype(np.float32)
    step = steps.astype(np.float64)[:, None]
    whole = np.rint(inputs / step).clip(-STEPS, STEPS)
    errors = np.linalg.norm(inputs - whole * step, axis=1) * (1 + 1e-6)  # float32 may round down
    panels = np.full((-(-n // _COLUMNS), _COLUMNS, -(-d // 4), 4), OFFSET, np.uint8)
    panels.reshape(-1, 4 * panels.shape[2])[:n, :d] = whole + OFFSET
    return RoundedInputs(np.ascontiguousarray(panels.transpose(0, 2, 1, 3)), steps, errors.astype(np.float32), plainly)


@compiled
def room_for(inputs):
    """Return room for the products of CHUNK rows with rounded inputs."""
    count, _, columns, _ = inputs.panels.shape
    return np.empty((CHUNK, count * columns), np.int32)


@compiled(relaxed=True)
def _write_bounds(products, total, step, norm, error, inputs, out):
    """Write upper bounds of the pre-activations of a row to ``out`` (n,), from its products with bytes."""
    offset = np.int32(OFFSET) * total
    for i in range(out.size):
        near = step * (inputs.steps[i] * np.float32(np.int32(products[i] - offset)))
        out[i] = near + (norm * inputs.errors[i] + error)


@compiled
def bound_rows(rows, first, last, inputs, d, products, out):
    """Write upper bounds of pre-activations of rows ``first`` to ``last - 1`` to ``out`` (CHUNK, n).

    ``rows`` and ``inputs`` are rounded, ``products`` is ``room_for`` them. Rows of zeros fire on nothing:
    their bounds are -inf. Cost: n d products of bytes per row.
    """
    if inputs.plainly:
        _multiply_plainly(inputs.panels, rows.words, first, last, products)
    else:
        _multiply(inputs.panels, rows.words, first, last, products)
    for r in range(first, last):
        if rows.steps[r] == 0:
            for i in range(out.shape[1]):
                out[r - first, i] = -np.inf
            continue
        norm, error = of_screen(rows.norms[r], rows.errors[r], d)
        _write_bounds(
            products[r - first], rows.sums[r], rows.steps[r], np.float32(norm), np.float32(error), inputs,
            out[r - first],
        )  # fmt: skip
