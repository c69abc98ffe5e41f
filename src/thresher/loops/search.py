"""A row is searched for values that reach a level; products of the inputs found with vectors."""

from __future__ import annotations

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic

from thresher.loops import compiled
from thresher.loops.whole import REGISTER

__all__ = ["NONE", "ONE", "dots", "fast_dot", "pick", "places_at_least", "sum_up", "trailing_zeros"]

NONE, ONE = np.uint64(0), np.uint64(1)  # places in arrays that have no sign: a place below 0 would count from the end


@intrinsic
def trailing_zeros(typing, word):
    """Return the number of zero bits below the lowest one bit of a 64-bit word that is not zero."""

    def generate(context, builder, signature, arguments):
        return builder.cttz(arguments[0], context.get_constant(types.boolean, True))

    return types.uint64(types.uint64), generate


@intrinsic
def _at_least(typing, values, first, low):
    """Return 64 bits: which of ``values[first : first + 64]`` are >= low. Comparisons of whole registers, no branch."""

    def generate(context, builder, signature, arguments):
        array, dtype = context.make_array(signature.args[0])(context, builder, arguments[0]), signature.args[0].dtype
        lanes, long, word = REGISTER, ir.IntType(64), ir.Constant(ir.IntType(64), 0)
        kind = ir.VectorType(context.get_data_type(dtype), lanes)
        compare = builder.icmp_signed if isinstance(dtype, types.Integer) else builder.fcmp_ordered
        one = builder.insert_element(ir.Constant(kind, ir.Undefined), arguments[2], ir.Constant(ir.IntType(32), 0))
        lows = builder.shuffle_vector(one, one, ir.Constant(ir.VectorType(ir.IntType(32), lanes), [0] * lanes))
        for lane in range(0, 64, lanes):
            place = builder.gep(array.data, [builder.add(arguments[1], ir.Constant(long, lane))])
            loaded = builder.load(builder.bitcast(place, kind.as_pointer()), align=dtype.bitwidth // 8)
            bits = builder.zext(builder.bitcast(compare(">=", loaded, lows), ir.IntType(lanes)), long)
            word = builder.or_(word, builder.shl(bits, ir.Constant(long, lane)))
        return word

    return types.uint64(values, types.int64, values.dtype), generate


@njit(inline="always")
def places_at_least(values, count, low, found):
    """Write the places of values >= low among the first ``count`` to ``found``, ascending; return their number."""
    listed, whole = NONE, count - count % 64
    for first in range(0, whole, 64):
        word = _at_least(values, first, low)
        while word:
            found[listed] = first + np.int64(trailing_zeros(word))
            listed += ONE
            word &= word - ONE
    for i in range(whole, count):
        found[listed] = i
        listed += np.uint64(values[i] >= low)
    return np.int64(listed)


@compiled(sums=True)
def sum_up(coefficients, listed, count, X, vector):
    """Set ``vector`` (d,) to the sum of coefficients times listed inputs; return the square of its norm."""
    for k in range(vector.size):
        vector[k] = 0
    for q in range(count):
        coefficient, x = vector.dtype.type(coefficients[q]), X[listed[q]]
        for k in range(vector.size):
            vector[k] += coefficient * x[k]
    square = vector.dtype.type(0)
    for k in range(vector.size):
        square += vector[k] * vector[k]
    return np.float64(square)


@compiled(sums=True)
def fast_dot(vector, x):
    """Return the inner product of two vectors, in their own precision."""
    total = vector.dtype.type(0)
    for k in range(vector.size):
        total += vector[k] * x[k]
    return total


@compiled(sums=True)
def dots(vector, X, listed, count, out):
    """Write the inner products of a vector with the listed inputs to ``out``, four at a time: they share its loads."""
    whole = count - count % 4
    for c in range(0, whole, 4):
        a, b, e, f = X[listed[c]], X[listed[c + 1]], X[listed[c + 2]], X[listed[c + 3]]
        sum_a = sum_b = sum_e = sum_f = out.dtype.type(0)
        for k in range(vector.size):
            sum_a += vector[k] * a[k]
            sum_b += vector[k] * b[k]
            sum_e += vector[k] * e[k]
            sum_f += vector[k] * f[k]
        out[c], out[c + 1], out[c + 2], out[c + 3] = sum_a, sum_b, sum_e, sum_f
    for c in range(whole, count):
        a, sum_a = X[listed[c]], out.dtype.type(0)
        for k in range(vector.size):
            sum_a += vector[k] * a[k]
        out[c] = sum_a


@njit(inline="always")
def pick(values, listed, count, out):
    """Write the listed values to ``out``."""
    for c in range(count):
        out[c] = values[listed[c]]
