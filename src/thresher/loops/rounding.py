"""Bounds on rounding: every one that the package relies on, with its derivation. Plain Python calls them as well.

u is the unit roundoff of the precision at hand. A number that went through k roundings is off by a factor of at most
(1 + u)^k <= 1 + k u / (1 - k u). Where a bound counts a few roundings more than there are, it covers that of the bound
itself, and norms of inputs that are a little above 1.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba.extending import register_jitable
from numpy.typing import DTypeLike

__all__ = [
    "FINE", "NORM_TOLERANCE", "STRETCH", "expiry_at", "guards", "longest_hadamard", "norm_at_most", "norm_of_sum",
    "of_change", "of_coefficients", "of_half_product", "of_half_transform", "of_look", "of_margin", "of_outputs",
    "of_product", "of_transform", "reach_of", "rounded_down", "rounded_up", "safely_below", "size_of_product",
    "unit_roundoff", "wake_up_at",
]  # fmt: skip

FINE = 2.0**-53  # unit roundoff of float64
NORM_TOLERANCE = 1e-5  # of the norms of inputs: float32 rows that were normalised in float32 pass
# A step moves a pre-activation by at most |delta| |x_j| |x_i|, and norms may exceed 1 by their tolerance: both of them.
STRETCH = (1.0 + 1.1 * NORM_TOLERANCE) ** 2


def unit_roundoff(dtype: DTypeLike) -> float:
    """Return half the distance from 1 to the next number."""
    return float(np.finfo(dtype).eps) / 2


@register_jitable
def of_product(d: int, unit: float) -> float:
    """Return a bound on the error of an inner product of d terms, per unit of |w| |x|, summed in any order.

    Each term goes through d + 2 roundings at most: of both factors, of their product, of d - 1 sums. The sum of their
    sizes is at most |w| |x|.
    """
    return (d + 3) * unit / (1.0 - (d + 3) * unit)


def of_half_product(d: int) -> float:
    """Return a bound on the error of an inner product of d terms in half precision, per unit of |w| |x|.

    Both vectors are rounded to float16, whose unit roundoff is 2^-11: twice that, by Cauchy and Schwarz, and 2% cover
    the product of both. Below its smallest normal number float16 is off by up to 2^-25 instead, for each of d terms.
    Products are exact in float32; accumulators of tensor cores need not round to nearest, so a sum may lose 2^-22 of
    its terms, d + 32 times at most.
    """
    return 1.02 * (1.0 + NORM_TOLERANCE) * (2.0 * 2.0**-11 + np.sqrt(d) * 2.0**-24 + (d + 32) * 2.0**-22)


def longest_hadamard(p: int) -> float:
    """Return a bound on the norm of a Hadamard row: its length rho is at most that of the largest normal number, 6.4.

    See ``loops/numbers/hadamard.py``; rho times sqrt(p), and a thousandth for rounding, that of the turns included.
    """
    return 1.001 * (1.0 + 6.4 * np.sqrt(2.0 / (9.0 * p))) ** 1.5 * np.sqrt(p)


def of_transform(p: int) -> float:
    """Return a bound on the error of products of Hadamard rows with an input of norm 1, by a transform in float32.

    Each of q = log2(p) levels rounds each of p numbers once, and so do signs, lengths and the conversion of rotated
    inputs. A level is a rotation, up to a factor: it changes the norm of the errors so far as it changes that of the
    numbers. So the norm of all errors, and each of them, is at most (q + 3) u times the norm of all p products, which
    is that of a row. The row itself went through q levels and 5 roundings more; by Cauchy and Schwarz what they took
    from it counts in full.
    """
    return 1.01 * (1.0 + NORM_TOLERANCE) * longest_hadamard(p) * (2 * np.log2(p) + 9) * 2.0**-24


def of_half_transform(p: int) -> float:
    """Return a bound on the error of a sum of p signed numbers of a rotated input, mostly in half precision.

    They are those of an input of norm 1, rounded to float16 with its unit roundoff 2^-11, or by up to 2^-25 below its
    smallest normal number. Two levels of a transform are additions in float16: each rounds each sum by 2^-11, and
    changes norms of numbers and of their errors by the same factor. So the errors of the p numbers that are left have a
    norm of at most 3 times 2^-11, and 1% for their product, times that of those numbers, which is 2. The other levels
    add p / 4 of them with signs: by Cauchy and Schwarz sqrt(p) / 2 times their norm. Accumulators of tensor cores need
    not round to nearest: a sum may lose 2^-22 of its terms, p / 4 + 32 times at most.
    """
    lost = 3.03 * 2.0**-11 + np.sqrt(p) * 2.0**-24 + (p / 4 + 32) * 2.0**-22
    return 1.002 * (1.0 + NORM_TOLERANCE) * np.sqrt(p) * lost


@register_jitable
def size_of_product(norms: Any) -> Any:
    """Return upper bounds of |w| |x| for an input x, from norms |w| that may come from float32."""
    return 1.01 * (1.0 + NORM_TOLERANCE) * norms


def reach_of(lengths: Any) -> Any:
    """Return how far pre-activations move at most if vectors move by these lengths, which are sums in float64.

    The vectors may have been rounded to float32 since: a thousandth is more than that.
    """
    return 1.001 * (1.0 + NORM_TOLERANCE) * lengths


@register_jitable
def guards(longest: float, d: int, unit: float) -> tuple[float, float]:
    """Return bounds on the rounding of products of inputs with vectors of at most that norm.

    The first is for the working precision and includes the second, which is for float64. The norm may come from
    float32.
    """
    size = size_of_product(longest)
    exact = of_product(d, FINE) * size
    return of_product(d, unit) * size + exact, exact


def of_offset(longest: float, offset: float, unit: float) -> float:
    """Return a bound on what subtracting an offset of at most that size takes from products with such vectors.

    The offset is rounded, and so is the difference; 0 without offsets.
    """
    return 2.0 * unit * (size_of_product(longest) + 2.0 * offset) if offset else 0.0


@register_jitable
def of_change(count: int, d: int, unit: float, total: float) -> float:
    """Return a bound on the error of a sum of ``count`` inner products of inputs with coefficients, added to a number.

    ``total`` is the sum of |coefficients|. By products: those are rounded, coefficients too, and each term goes through
    ``count`` sums. By the vector, also as a row of a matrix: coefficients and inputs are rounded, each coordinate goes
    through ``count`` sums, the inner product adds d + 2 roundings. The number itself has its own bound.
    """
    return (count + d + 8) * unit * total


@register_jitable
def of_look(count: int, d: int, total: float, near: float) -> float:
    """Return what float64 loses in a sum of a number and ``count`` terms c <x_i, x_j>, if it is about ``near``.

    Before the last terms were added the sum was at most |near| + ``total``, the sum of |c|; each of ``count`` sums
    rounds as much as that, and each term went through d + 3 roundings. It bounds the error of a coordinate of the
    materialised vector as well.
    """
    return (count + d + 3) * FINE * (3.0 * total + abs(near))


@register_jitable
def of_coefficients(count: int, peak: float) -> float:
    """Return what float64 loses in ``count`` coefficients that are differences of numbers up to ``peak``.

    Both numbers are rounded, one of them is the product of two that are, and so is the difference.
    """
    return 4.0 * count * FINE * peak


@register_jitable
def of_margin(d: int, unit: float, norms: Any, shift: float) -> Any:
    """Return a bound on the error of <w, x> - shift for |x| <= 1, compared with 0 in a coarse precision.

    The product loses at most (d + 3) u |w|, the shift is rounded to that precision, and so is the difference: less
    than half of this bound, whose own rounding the other half covers.
    """
    return 2.0 * (d + 4) * unit * (norms + abs(shift))


def of_outputs(margins: Any, norms: Any, d: int, shift: float) -> Any:
    """Return squares (n,) of what outputs may lose, in units of u, as sums over k neurons in a coarse precision.

    ``margins`` (k, n) are theirs, ``norms`` (k,) those of their vectors. A margin loses up to (d + 4) u (|w| + shift),
    see :func:`of_margin`; each of k sums rounds a number up to the sum of all that fire. Roundings of different pairs
    are independent, so their squares add up: the worst case, all of one sign, would hide errors of whole neurons in a
    wide network. Most are well below their bounds, so the root is several deviations; callers take it twice.
    """
    active = np.maximum(margins, 0.0)
    return (active > 0).T @ np.square((d + 4) * (norms + abs(shift))) + len(active) * np.square(active.sum(axis=0))


@register_jitable
def norm_at_most(square: float, count: int, d: int, unit: float, total: float) -> float:
    """Return an upper bound of a norm whose computed square is the sum of c_q <x_q, v>, v the sum of c_q x_q.

    <x_q, v> is a change of a pre-activation, and has its bound; cancellation may leave nothing but that.
    """
    return STRETCH * np.sqrt(max(square, 0.0) + total * of_change(count, d, unit, total))


@register_jitable
def norm_of_sum(square: float, count: int, d: int, unit: float, total: float) -> float:
    """Return an upper bound of the norm of the sum of ``count`` inputs with coefficients, from its computed square.

    ``total`` is the sum of |coefficients|. The vector was summed in working precision: it is off by at most
    (count + 2) u ``total``, so the square of its norm by twice that times ``total``; the d squares and their sum add
    d + 2 roundings. Squares that may have left the range of float32, or most of whose terms may have, say nothing:
    the norm is at most ``total`` times that of an input.
    """
    if 1e-26 < square < 1e36:
        return norm_at_most(square, 2 * count + 4, d, unit, total)
    return STRETCH * total


@register_jitable
def rounded_up(length: float, unit: float) -> float:
    """Return a length that is not too short, after it went through a few roundings and is stored."""
    return length * (1.0 + 4.0 * unit)


@register_jitable
def rounded_down(length: float, unit: float) -> float:
    """Return a length that is not too long, after it went through a few roundings and is stored."""
    return length * (1.0 - 4.0 * unit)


@register_jitable
def expiry_at(drift: float, margin: float, unit: float) -> float:
    """Return the drift at which a pair with that margin may flip, not too late after the sum is rounded and stored.

    The margin may be negative: its size counts.
    """
    return drift + margin - 4.0 * unit * (drift + abs(margin))


@register_jitable
def wake_up_at(clock: float) -> float:
    """Return a time that is not too late when it is stored in float32, whose unit roundoff is 6e-8."""
    return clock * (1.0 - 1e-6)


@register_jitable
def safely_below(level: float, doubt: float) -> float:
    """Return a level in which no value is missed that may reach ``level`` up to ``doubt``.

    It is rounded to the precision of the values: less than a hundredth of the doubt, and one of the roundings that
    :func:`of_product` counts in excess.
    """
    return level - 1.01 * doubt
