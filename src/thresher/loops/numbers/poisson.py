"""Start rows drawn at inputs: N(0, I) given that the row fires on the input.

Row ``number`` of input i is g + (t - <x_i, g>) x_i with g ~ N(0, I) and t ~ N(0, 1) given t >= shift, rounded to
float32. Sums run over coordinates in order; logarithms and quantiles are made of additions, multiplications, divisions
and square roots alone, as IEEE 754 rounds them: every machine, block and loop gives the same numbers.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from thresher.loops import compiled
from thresher.loops.numbers import polynomial
from thresher.loops.numbers.philox import fill_row, row_words
from thresher.loops.pairs.by_neuron import dot
from thresher.loops.rounding import safely_below

__all__ = ["DIRECTIONS", "HEIGHTS", "draw_row", "fill_heights", "fill_uniforms", "keep_first", "lift_rows"]

DIRECTIONS, HEIGHTS = np.uint64(3), np.uint64(4)  # streams of the generator
_INPUT = np.uint64(40)  # bits of the number of a row; those above hold its input
_11, _21 = np.uint64(11), np.uint64(21)
_LOG = (
    1.479819860511658591e-01, 1.531383769920937332e-01, 1.818357216161805012e-01, 2.222219843214978396e-01,
    2.857142874366239149e-01, 3.999999999940941908e-01, 6.666666666666735130e-01,
)  # fmt: skip
# Numerators and denominators of the normal quantile: near 1/2, in the tail, and far out.
_CENTRE = (
    (2.5090809287301226727e3, 3.3430575583588128105e4, 6.7265770927008700853e4, 4.5921953931549871457e4,
     1.3731693765509461125e4, 1.9715909503065514427e3, 1.3314166789178437745e2, 3.3871328727963666080),
    (5.2264952788528545610e3, 2.8729085735721942674e4, 3.9307895800092710610e4, 2.1213794301586595867e4,
     5.3941960214247511077e3, 6.8718700749205790830e2, 4.2313330701600911252e1, 1.0),
)  # fmt: skip
_TAIL = (
    (7.74545014278341407640e-4, 2.27238449892691845833e-2, 2.41780725177450611770e-1, 1.27045825245236838258,
     3.64784832476320460504, 5.76949722146069140550, 4.63033784615654529590, 1.42343711074968357734),
    (1.05075007164441684324e-9, 5.47593808499534494600e-4, 1.51986665636164571966e-2, 1.48103976427480074590e-1,
     6.89767334985100004550e-1, 1.67638483018380384940, 2.05319162663775882187, 1.0),
)  # fmt: skip
_FAR = (
    (2.01033439929228813265e-7, 2.71155556874348757815e-5, 1.24266094738807843860e-3, 2.65321895265761230930e-2,
     2.96560571828504891230e-1, 1.78482653991729133580, 5.46378491116411436990, 6.65790464350110377720),
    (2.04426310338993978564e-15, 1.42151175831644588870e-7, 1.84631831751005468180e-5, 7.86869131145613259100e-4,
     1.48753612908506148525e-2, 1.36929880922735805310e-1, 5.99832206555887937690e-1, 1.0),
)  # fmt: skip


@njit(inline="always")
def _log(x):
    # x = mantissa * 2^exponent with mantissa in [1/sqrt2, sqrt2); log(mantissa) by s = f / (2 + f) (fdlibm).
    bits = np.float64(x).view(np.int64)
    exponent = (bits - np.int64(0x3FE6A09E667F3BCD)) >> np.int64(52)
    f = np.int64(bits - (exponent << np.int64(52))).view(np.float64) - 1.0
    s = f / (2.0 + f)
    z = s * s
    y = polynomial(_LOG, z)
    half = 0.5 * f * f
    low = s * (half + y * z) + exponent * 1.90821492927058770002e-10
    return exponent * 6.93147180369123816490e-01 - ((half - low) - f)


@njit(inline="always")
def _upper(p):
    # The number that N(0, 1) exceeds with probability p, for p in (0, 1/2]: Wichura's AS 241, to 1e-15.
    if p >= 0.075:
        q = 0.5 - p
        r = 0.180625 - q * q
        return q * polynomial(_CENTRE[0], r) / polynomial(_CENTRE[1], r)
    r = np.sqrt(-_log(p))
    if r <= 5.0:
        return polynomial(_TAIL[0], r - 1.6) / polynomial(_TAIL[1], r - 1.6)
    return polynomial(_FAR[0], r - 5.0) / polynomial(_FAR[1], r - 5.0)


@njit(inline="always")
def _uniform(high, low):
    # 53 bits and a half, in (0, 1].
    return (np.float64((np.uint64(high) << _21) | (np.uint64(low) >> _11)) + 0.5) * 2.0**-53


@compiled
def fill_uniforms(words, shares):
    """Write to ``shares`` (k,) the numbers in (0, 1] that random words (2, k) make."""
    for j in range(shares.size):
        shares[j] = _uniform(words[0, j], words[1, j])


@compiled
def fill_heights(shares, tail):
    """Turn shares (k,) in (0, 1] into the numbers that N(0, 1) exceeds with probability share times ``tail``."""
    for j in range(shares.size):
        shares[j] = _upper(shares[j] * tail)


@compiled(allocates=True)
def lift_rows(columns, firsts, owners, heights, X):
    """Turn normals ``columns`` (d, k) into rows of inputs: those from ``firsts[r]`` on belong to input ``owners[r]``.

    ``firsts`` (runs + 1,) ends with k.
    """
    sums = np.empty(columns.shape[1])
    for run in range(owners.size):
        first, last, x = firsts[run], firsts[run + 1], X[owners[run]]
        for j in range(first, last):
            sums[j] = 0.0
        for k in range(x.size):
            for j in range(first, last):
                sums[j] += np.float64(columns[k, j]) * x[k]
        for j in range(first, last):
            sums[j] = heights[j] - sums[j]
        for k in range(x.size):
            for j in range(first, last):
                columns[k, j] = np.float32(np.float64(columns[k, j]) + sums[j] * x[k])


@compiled(allocates=True)
def keep_first(columns, products, firsts, owners, shift, guard, X):
    """Set to zero the rows, ``columns`` (d, k), that fire on an input before their own, or not on their own.

    ``products`` (k, any) with the inputs up to the last owner are within ``guard`` of those that decide, which are
    made where that leaves a doubt.
    """
    d, low = columns.shape[0], safely_below(shift, guard)
    weights = np.empty(d)
    for run in range(owners.size):
        own = owners[run]
        for j in range(firsts[run], firsts[run + 1]):
            kept, loaded = True, False
            for i in range(own + 1):
                z = np.float64(products[j, i])
                fires = z > shift + guard
                if not fires and z >= low:
                    if not loaded:
                        for k in range(d):
                            weights[k] = columns[k, j]
                        loaded = True
                    fires = dot(weights, X[i]) >= shift
                if fires != (i == own):
                    kept = False
                    break
            if not kept:
                for k in range(d):
                    columns[k, j] = 0.0


@compiled
def draw_row(seed, row, bounds, tail, X, out):
    """Fill ``out`` (d,) with one row, which is not zero: row ``bounds[i]`` is the first of input i."""
    own, after = 0, X.shape[0]
    while after - own > 1:
        middle = (own + after) // 2
        own, after = (middle, after) if bounds[middle] <= row else (own, middle)
    name = (np.uint64(own) << _INPUT) | np.uint64(row - bounds[own])
    high, low, _, _ = row_words(seed, HEIGHTS, name, 0)
    fill_row(seed, DIRECTIONS, name, out)
    total = 0.0
    for k in range(out.size):
        total += out[k] * X[own, k]
    total = _upper(_uniform(high, low) * tail) - total
    for k in range(out.size):
        out[k] = np.float32(out[k] + total * X[own, k])
