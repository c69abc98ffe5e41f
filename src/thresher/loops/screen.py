"""Upper bounds of pre-activations, for a fraction of what the pre-activations cost: start rows are screened.

Rows and inputs are rounded to whole steps, of one size per row and of one for all inputs, in 8 or in 16 bits. What the
products of whole numbers may miss is known: how far each vector is from its rounded one.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import DTypeLike, NDArray

from thresher.loops import compiled, helper
from thresher.loops.instructions.vectors import LANES
from thresher.loops.instructions.whole import (
    COLUMNS,
    PLAIN,
    REGISTER,
    ROWS,
    WAYS,
    Way,
    multiply,
    multiply_plainly,
    multiply_singly,
)
from thresher.loops.rounding import of_screen
from thresher.loops.structures import RoundedInputs, RoundedRows, Screen, WholeProducts

__all__ = [
    "IN_CACHE", "LONGEST", "OFFSET", "change_nearly", "describe", "guard_of", "level_of", "make_screen",
    "multiply_rows", "padded", "pick_bounds", "room_for", "round_inputs", "round_rows", "squares", "transpose",
    "usual_guard", "way_for",
]  # fmt: skip

OFFSET = 128  # added to inputs of 8 bits, which are multiplied as bytes without a sign
_MOST = (1 << 31) - 1
# The largest whole number, and the largest norm of a row or an input of them: sums of products fit 32 bits.
_LARGEST = {8: (127, 1e9), 16: (32767, 45e3)}
_LARGEST_16 = _LARGEST[16][0]
# Rows that are worth it: so many coordinates at least and at most, and so many inputs at least. Products of shorter
# ones in float32 cost no more; each look at a longer one costs more than 16 bits save; rounding a row costs as much as
# products with some inputs.
_WORTH = {8: (32, 1 << 15, 256), 16: (8 if REGISTER == 8 else 32, 256, 256)}
LONGEST = 1 << 15  # of longer ones sums do not fit 32 bits
IN_CACHE = 24  # rows whose products are in the cache at a time
_NOTHING = 1e-20  # rows without a larger coordinate count as rows of zeros
_ANYTHING = 3e38  # no row of float32 is further from zeros


def way_for(dimension: int, inputs: int) -> Way | None:
    """Return how rows of so many coordinates are to be screened against so many inputs; None if they are not to be."""
    for way in WAYS:
        plain = way.instructions == PLAIN  # never worth it, and taken where it is asked for
        shortest, longest, fewest = (1, LONGEST, 1) if plain else _WORTH[way.bits]
        if shortest <= dimension <= longest and inputs >= fewest:
            return way
    return None


@compiled(relaxed=True, allocates=True)
def _round(columns, largest, longest, bits, words, sums, steps, norms, errors):
    """Round rows, the columns of ``columns`` (d, rows), to steps of their own.

    ``words`` (d/4 or d/2, rows) get a row in each column; the others are arrays of ``RoundedRows``. No whole number is
    above ``largest``, no norm of a row of them above ``longest`` by more than rounding adds.
    """
    (d, rows), per = columns.shape, 32 // bits
    inverse = np.zeros(rows, np.float32)
    for k in range(d):
        for r in range(rows):
            steps[r] = max(steps[r], abs(columns[k, r]))
            norms[r] += columns[k, r] * columns[k, r]
    for r in range(rows):
        if steps[r] < np.float32(_NOTHING):
            steps[r] = 0
        else:
            steps[r] = max(steps[r] / np.float32(largest), np.sqrt(norms[r]) / np.float32(longest))
            inverse[r] = np.float32(1) / steps[r]
        norms[r] = 0
    mask = np.int32((1 << bits) - 1)
    for k in range(d):
        place, up = k // per, np.int32(bits * (k % per))
        for r in range(rows):
            whole = np.rint(columns[k, r] * inverse[r])
            rest = columns[k, r] - whole * steps[r]
            norms[r] += whole * whole
            errors[r] += rest * rest
            number = np.int32(whole)
            sums[r] += number
            words[place, r] |= (number & mask) << up
    for r in range(rows):
        norms[r] = steps[r] * np.sqrt(norms[r])
        errors[r] = np.sqrt(errors[r])


@compiled
def _in_tiles(words, tiled):
    """Write ``words`` (steps, rows) to ``tiled`` (tiles, steps, rows of a tile)."""
    steps, width = words.shape[0], tiled.shape[2]
    for t in range(tiled.shape[0]):
        for k in range(steps):
            for r in range(width):
                tiled[t, k, r] = words[k, t * width + r]


@compiled(relaxed=True, allocates=True)
def squares(columns):
    """Return the squared norms of rows that are given as columns (d, rows)."""
    out = np.zeros(columns.shape[1], columns.dtype)
    for k in range(columns.shape[0]):
        for r in range(columns.shape[1]):
            out[r] += columns[k, r] * columns[k, r]
    return out


def padded(rows: NDArray[np.floating], dtype: DTypeLike) -> NDArray[Any]:
    """Return rows (k, d) in a precision, with zeros at their ends, so that whole registers hold them. Cost: O(kd)."""
    k, d = rows.shape
    out = np.zeros((k, -(-d // LANES) * LANES), dtype)
    out[:, :d] = rows
    return out


@compiled
def _transpose(columns, out):
    d, rows = columns.shape
    for first in range(0, rows, 16):
        last = min(first + 16, rows)
        for k in range(d):
            for r in range(first, last):
                out[r, k] = columns[k, r]
        for r in range(first, last):
            for k in range(d, out.shape[1]):
                out[r, k] = 0


def transpose(columns: NDArray[np.float32], dtype: DTypeLike) -> NDArray[Any]:
    """Return columns (d, rows) as rows (rows, d) in a precision, with zeros at their ends as in :func:`padded`."""
    d, rows = columns.shape
    out = np.empty((rows, -(-d // LANES) * LANES), dtype)
    _transpose(np.ascontiguousarray(columns), out)  # a line of the cache at a time
    return out


def round_rows(columns: NDArray[np.float32], bits: int) -> RoundedRows:
    """Return float32 rows, given as columns (d, rows), rounded to a step each. Cost: O(d) per row."""
    d, rows = columns.shape
    tiles, depth = -(-rows // ROWS), -(-d * bits // 32)
    words, sums = np.zeros((depth, tiles * ROWS), np.int32), np.zeros(rows, np.int32)
    steps, norms, errors = np.zeros((3, rows), np.float32)
    _round(columns, *_LARGEST[bits], bits, words, sums, steps, norms, errors)
    lost = ~np.isfinite(norms + errors)  # squares left the range of float32: such rows may be anything
    steps[lost], norms[lost], errors[lost] = 0.0, 0.0, _ANYTHING
    tiled = np.empty((tiles, depth, ROWS), np.int32)
    _in_tiles(words, tiled)
    return RoundedRows(tiled, sums, steps, norms, errors)


def _whole(inputs: NDArray[np.float64], bits: int) -> tuple[NDArray[np.float64], float, float]:
    """Return inputs (n, d) in whole steps, the size of a step, and the largest norm of what was rounded away."""
    largest, longest = _LARGEST[bits]
    step = float(max(np.abs(inputs).max() / largest, np.linalg.norm(inputs, axis=1).max() / longest))
    whole = np.rint(inputs / step).clip(-largest, largest)
    return whole, step, float(np.linalg.norm(inputs - whole * step, axis=1).max()) * (1 + 1e-9)


def round_inputs(inputs: NDArray[np.float64], way: Way) -> RoundedInputs:
    """Return inputs (n, d) rounded to steps of one size. Cost: O(nd)."""
    (n, d), (whole, step, error) = inputs.shape, _whole(inputs, way.bits)
    per, offset = 32 // way.bits, OFFSET if way.bits == 8 else 0
    panels = np.full((-(-n // COLUMNS), COLUMNS, -(-d // per), per), offset, np.uint8 if offset else np.int16)
    panels.reshape(-1, per * panels.shape[2])[:n, :d] = whole + offset
    words = np.ascontiguousarray(panels.transpose(0, 2, 1, 3)).view(np.int32)[..., 0]
    halves, row_step, row_error = _whole(inputs, 16)
    rows = np.zeros((n, -(-d // 16) * 16), np.int16)
    rows[:, :d] = halves
    plainly = True if way.instructions == PLAIN else None
    return RoundedInputs(np.ascontiguousarray(words), step, error, way.bits, rows, row_step, row_error, plainly)


def describe(inputs: RoundedInputs) -> str:
    """Return in words how rounded inputs are multiplied."""
    return f"{inputs.bits} bits, {PLAIN if inputs.plainly else WAYS[0].instructions}"


def usual_guard(inputs: RoundedInputs, d: int) -> float:
    """Return about how far bounds are above the pre-activations of rows of d normal numbers."""
    largest, longest = _LARGEST[inputs.bits]
    step = max((math.sqrt(2 * math.log(d + 1)) + 0.5) / largest, math.sqrt(d) / longest)
    return math.sqrt(d) * (step / math.sqrt(12) + inputs.error)


def room_for(inputs: RoundedInputs) -> WholeProducts:
    """Return room for the products of IN_CACHE rows with rounded inputs; what exceeds their number is never read."""
    count, _, columns = inputs.panels.shape
    reached = np.zeros((IN_CACHE, -(-count * columns // 64)), np.uint64)
    return WholeProducts(np.empty((IN_CACHE, count * columns), np.int32), np.zeros(IN_CACHE, np.int32), reached)


def make_screen(columns: NDArray[np.float32], inputs: RoundedInputs) -> Screen:
    """Return rows, given as columns (d, rows), to be screened with rounded inputs. Cost: O(d) per row."""
    (n, padded), slack, least = inputs.rows.shape, np.empty(IN_CACHE), np.empty(IN_CACHE, np.int32)
    rows, room = round_rows(columns, inputs.bits), room_for(inputs)
    return Screen(rows, inputs, room, slack, least, np.zeros(padded, np.int16), np.empty(n, np.int32))


@compiled(relaxed=True)
def _round_vector(vector, inverse, out):
    """Write a vector in whole steps to ``out``; ``inverse`` is 1 over their size."""
    for k in range(vector.size):
        out[k] = np.int16(np.int32(np.rint(vector[k] * inverse)))


@compiled
def change_nearly(vector, norm, inputs, d, listed, count, rounded, sums, out):
    """Write the products of a vector with the listed inputs, in 16 bits, to ``out``; return how far they may be off.

    ``norm`` is not less than that of the vector; ``rounded`` (padded d,) of int16 and ``sums`` of int32 are room.
    """
    step = np.float32(max(norm / _LARGEST_16, _NOTHING))
    _round_vector(vector, np.float32(1) / step, rounded)
    multiply_singly(rounded, inputs.rows, listed, count, inputs.plainly, sums)
    unit = out.dtype.type(step * inputs.row_step)
    for c in range(count):
        out[c] = unit * sums[c]
    error = 0.51 * np.sqrt(d) * step
    norm, error = of_screen(norm + error, error, d)
    return norm * inputs.row_error + error


@njit(inline="always")
def guard_of(rows, r, inputs, d):
    """Return by how much a pre-activation of row r may be above what the product of whole numbers says."""
    norm, error = of_screen(rows.norms[r], rows.errors[r], d)
    return norm * inputs.error + error


@njit(inline="always")
def unit_of(rows, r, inputs):
    """Return by how much a pre-activation of row r grows with each unit of the product; 0 if the row is all zeros."""
    return np.float64(rows.steps[r]) * inputs.step


@njit(inline="always")
def level_of(rows, r, inputs, guard, level):
    """Return the product of row r below which no pre-activation can reach the level.

    None reaches that of a row with a step of 0: right for zeros, not for rows beyond float32, see ``round_rows``.
    """
    unit = unit_of(rows, r, inputs)
    if unit == 0.0:
        return np.int32(_MOST)
    least = np.floor((level - guard) / unit) - 1.0 + (OFFSET * rows.sums[r] if inputs.bits == 8 else 0)
    return np.int32(min(max(least, -_MOST), _MOST))


@njit(inline="always")
def pick_bounds(rows, r, inputs, guard, products, listed, count, out):
    """Write upper bounds of the pre-activations of row r with the listed inputs to ``out``."""
    unit, guard = out.dtype.type(unit_of(rows, r, inputs)), out.dtype.type(guard)
    offset = np.int32(OFFSET * rows.sums[r]) if inputs.bits == 8 else np.int32(0)
    for c in range(count):
        out[c] = unit * out.dtype.type(np.int32(products[listed[c]] - offset)) + guard


@compiled
def multiply_rows(rows, first, last, inputs, made):
    """Make the products of whole numbers of rows ``first`` to ``last - 1`` with inputs, in ``room_for`` them.

    Their levels are given. ``first`` is a multiple of IN_CACHE, there are at most so many rows. Cost: O(nd) per row.
    """
    _multiply(inputs, inputs.plainly, rows.words, first, last, made)


@helper
def _multiply(inputs, plainly, words, first, last, made):
    if plainly is None:  # Numba compiles one of the two: which one the types tell
        multiply(inputs, words, first, last, made)
    else:
        multiply_plainly(inputs, words, first, last, made)
