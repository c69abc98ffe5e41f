"""Kernels of single columns and of pairs of them, added to that of all columns, entry by entry.

A column of numbers is an angle, a category a multiple of ``APART``: so one loop serves both. Neurons that see a number
x alone, beside a constant, have in the limit the kernel cos(a) (1 - a / pi) of the angle a between (x, 1) and (x', 1),
at a shift of 0 and divided by its diagonal. It is 0 for an angle of pi, as it is for categories that differ. With
u = a - pi/2 it is u (u / pi - 1/2) times sin(u) / u, which is a polynomial of u². As a function of any real a that is 0
beyond pi it is positive, the product of a cosine and a triangle.
"""

from __future__ import annotations

import math

import numpy as np

from thresher.loops import compiled, helper

__all__ = ["APART", "SINE", "SINE_DOUBLE", "add_parts", "add_parts_double"]

APART = 4.0  # between the codes of two categories: more than pi, so that they have nothing in common
# sin(u) / u for |u| up to pi/2 as a polynomial of u², from the highest power down: in single precision to 5e-9, and its
# series, of which the next term is below 1e-15.
SINE = np.array(
    [2.605107634382171e-06, -0.00019809017408218147, 0.008333050170664661, -0.16666657947845623, 0.9999999956988086],
    np.float32,
)
SINE_DOUBLE = np.array([(-1.0) ** power / math.factorial(2 * power + 1) for power in range(9, -1, -1)])
# arccos(x) / (pi sqrt(1 - x)) for x from 0 to 1, to 1e-8: Abramowitz and Stegun, 4.4.46.
_ARCCOS = np.array(
    [-0.0012624911, 0.0066700901, -0.0170881256, 0.0308918810, -0.0501743046, 0.0889789874, -0.2145988016, 1.5707963050]
)
_ARCCOS = (_ARCCOS / math.pi).astype(np.float32)
_TERMS, _DOUBLE_TERMS, _ARCCOS_TERMS = len(SINE), len(SINE_DOUBLE), len(_ARCCOS)


@helper(relaxed=True)
def _add_column(angle, others, sums, squares):
    """Add the kernel of a column at an angle and at others (n,) to ``sums`` (n,), and its square to ``squares``."""
    most, middle = np.float32(math.pi), np.float32(math.pi / 2)
    share, half = np.float32(1 / math.pi), np.float32(0.5)
    for j in range(others.shape[0]):
        u = min(abs(others[j] - angle), most) - middle
        v = u * u
        sine = SINE[0]
        for power in range(1, _TERMS):
            sine = sine * v + SINE[power]
        k = (u * share - half) * u * sine
        sums[j] += k
        squares[j] += k * k


@helper(relaxed=True)
def _combine(row, sums, squares, columns, whole, single, pairs, layer):
    """Replace the kernel of all columns (n,) by the sum of all parts; see ``add_parts``."""
    one, zero = np.float32(1.0), np.float32(0.0)
    for j in range(row.shape[0]):
        row[j] = whole * row[j] + single * sums[j] + pairs * (sums[j] * sums[j] - squares[j])
    if layer > zero:
        for j in range(row.shape[0]):
            mean = min(max(sums[j] / columns, -one), one)  # not times 1 / columns, which is 1 - 6e-8 for equal rows
            size = abs(mean)
            angle = _ARCCOS[0]
            for power in range(1, _ARCCOS_TERMS):
                angle = angle * size + _ARCCOS[power]
            angle = angle * np.sqrt(one - size)
            row[j] += layer * mean * (one - angle if mean >= zero else angle)


@compiled
def add_parts(tile, left, right, factors, sums, squares):
    """Replace the kernel of all columns (k, n) in ``tile`` by a sum of parts, with these ``factors`` (4,).

    ``left`` (k, u) and ``right`` (u, n) are angles and codes of u columns. With s the sum over columns of their kernels
    and q that of their squares, the parts are the kernel of all columns, s, s² - q, which is twice the sum over pairs
    of columns, and the kernel at shift 0, divided by its diagonal, of the mean s / u: neurons on top of those of
    columns. ``sums`` and ``squares`` (n,) are room for a row. All are float32.
    """
    columns = np.float32(right.shape[0])
    for i in range(tile.shape[0]):
        sums[:] = np.float32(0.0)
        squares[:] = np.float32(0.0)
        for k in range(right.shape[0]):
            _add_column(left[i, k], right[k], sums, squares)
        _combine(tile[i], sums, squares, columns, factors[0], factors[1], factors[2], factors[3])


@helper(relaxed=True)
def _add_column_double(angle, others, sums, squares):
    for j in range(others.shape[0]):
        u = min(abs(others[j] - angle), math.pi) - math.pi / 2
        v = u * u
        sine = SINE_DOUBLE[0]
        for power in range(1, _DOUBLE_TERMS):
            sine = sine * v + SINE_DOUBLE[power]
        k = (u * (1.0 / math.pi) - 0.5) * u * sine
        sums[j] += k
        squares[j] += k * k


@helper(relaxed=True)
def _combine_double(row, sums, squares, columns, whole, single, pairs, layer):
    for j in range(row.shape[0]):
        row[j] = whole * row[j] + single * sums[j] + pairs * (sums[j] * sums[j] - squares[j])
    if layer > 0.0:
        for j in range(row.shape[0]):
            mean = min(max(sums[j] / columns, -1.0), 1.0)
            row[j] += layer * mean * (1.0 - math.acos(mean) / math.pi)


@compiled
def add_parts_double(tile, left, right, factors, sums, squares):
    """Do as ``add_parts``, in double precision."""
    columns = float(right.shape[0])
    for i in range(tile.shape[0]):
        sums[:] = 0.0
        squares[:] = 0.0
        for k in range(right.shape[0]):
            _add_column_double(left[i, k], right[k], sums, squares)
        _combine_double(tile[i], sums, squares, columns, factors[0], factors[1], factors[2], factors[3])
