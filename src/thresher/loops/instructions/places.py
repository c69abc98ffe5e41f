"""A row is searched for values that reach a level."""

from __future__ import annotations

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic

from thresher.loops.instructions import REGISTER, spread

__all__ = ["EXTRA", "ONE", "ZERO", "ones", "pick", "places_at_least", "places_in_rows", "trailing_zeros"]

ZERO, ONE = np.uint64(0), np.uint64(1)  # places in arrays that have no sign: a place below 0 would count from the end
HALF = 32  # bits of half a word
EXTRA = 4  # places that are written at a time, whether there are so many or not


@intrinsic
def trailing_zeros(typing, word):
    """Return the number of zero bits below the lowest one bit of a 64-bit word."""

    def generate(context, builder, signature, arguments):
        return builder.cttz(arguments[0], context.get_constant(types.boolean, False))

    return types.uint64(types.uint64), generate


@intrinsic
def ones(typing, word):
    """Return the number of one bits of a 64-bit word."""

    def generate(context, builder, signature, arguments):
        return builder.ctpop(arguments[0])

    return types.uint64(types.uint64), generate


@intrinsic
def _at_least(typing, values, first, low, further):
    """Return 64 bits: which of ``values[first : first + 64]`` are >= low, the last 32 of them >= ``further``.

    Comparisons of whole registers, no branch.
    """

    def generate(context, builder, signature, arguments):
        array, dtype = context.make_array(signature.args[0])(context, builder, arguments[0]), signature.args[0].dtype
        lanes, long, word = REGISTER, ir.IntType(64), ir.Constant(ir.IntType(64), 0)
        kind = ir.VectorType(context.get_data_type(dtype), lanes)
        lows = [spread(builder, low, lanes) for low in arguments[2:]]
        for lane in range(0, 64, lanes):
            place = builder.gep(array.data, [builder.add(arguments[1], ir.Constant(long, lane))])
            loaded = builder.load(builder.bitcast(place, kind.as_pointer()), align=dtype.bitwidth // 8)
            reached = builder.fcmp_ordered(">=", loaded, lows[lane // HALF])
            bits = builder.zext(builder.bitcast(reached, ir.IntType(lanes)), long)
            word = builder.or_(word, builder.shl(bits, ir.Constant(long, lane)))
        return word

    return types.uint64(values, types.int64, values.dtype, values.dtype), generate


@njit(inline="always")
def _write_places(word, first, listed, found):
    """Write the places of the one bits of a word, counted from ``first``, to ``found[listed:]``; return where they end.

    The first EXTRA are written whether they are there or not: branches would be hard to predict.
    """
    last = listed + ones(word)
    for _ in range(EXTRA):
        found[listed] = first + np.int64(trailing_zeros(word))
        listed += ONE
        word &= word - ONE
    while word:
        found[listed] = first + np.int64(trailing_zeros(word))
        listed += ONE
        word &= word - ONE
    return last


@njit(inline="always")
def places_at_least(values, count, low, found):
    """Write the places of values >= low among the first ``count`` to ``found``, ascending; return their number.

    ``found`` has room for EXTRA more.
    """
    listed, whole = ZERO, count - count % 64
    for first in range(0, whole, 64):
        listed = _write_places(_at_least(values, first, low, low), first, listed, found)
    for i in range(whole, count):
        found[listed] = i
        listed += np.uint64(values[i] >= low)
    return np.int64(listed)


@njit(inline="always")
def places_in_rows(values, lows, base, rows, found):
    """Write the places in ``values`` of those that are >= that of their row among ``lows``; as above.

    An even number of ``rows`` of 32 values; ``lows[base]`` is that of the first. ``found`` has room for EXTRA more.
    """
    listed = ZERO
    for row in range(0, rows, 2):
        word = _at_least(values, HALF * row, lows[base + row], lows[base + row + 1])
        listed = _write_places(word, HALF * row, listed, found)
    return np.int64(listed)


@njit(inline="always")
def pick(values, listed, count, out):
    """Write the listed values to ``out``."""
    for c in range(count):
        out[c] = values[listed[c]]
