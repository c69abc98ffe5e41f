"""Kernels of single columns less their means over training rows, summed by column: what effects are made of."""

from __future__ import annotations

import math

from thresher.loops import compiled, helper
from thresher.loops.parts import SINE_DOUBLE

__all__ = ["centre_columns"]

_TERMS = len(SINE_DOUBLE)


@helper(relaxed=True)
def _add_unit(angle, others, means, sums, single, pair, total, main, squares):
    """Add the centred kernel of a unit at an angle and at others (n,) to the sums (n,) of its column."""
    for i in range(others.shape[0]):
        u = min(abs(others[i] - angle), math.pi) - math.pi / 2
        v = u * u
        sine = SINE_DOUBLE[0]
        for power in range(1, _TERMS):
            sine = sine * v + SINE_DOUBLE[power]
        centred = (u * (1.0 / math.pi) - 0.5) * u * sine - means[i]
        total[i] += centred
        squares[i] += centred * centred
        main[i] += centred * (single + pair * (sums[i] - means[i]))


@compiled
def centre_columns(angles, others, means, sums, first, factors, totals, mains, squares):
    """Fill ``totals`` and ``mains`` (k, c, n), for rows with angles (k, u) against points with angles (u, n).

    Units first[a] to first[a + 1] are those of column a. With c_j the kernel of unit j less its mean ``means`` (u, n)
    at each point, and ``sums`` (n,) the sums of these means, ``totals`` are the sums of c_j over the units of a column,
    and ``mains`` the sums of c_j (single + pair (sums - means)) and, for each two units of the column, of pair c_j c_k.
    ``factors`` are single and pair; ``squares`` (n,) is room.
    """
    single, pair = factors[0], factors[1]
    for row in range(totals.shape[0]):
        for column in range(totals.shape[1]):
            total, main = totals[row, column], mains[row, column]
            total[:] = 0.0
            main[:] = 0.0
            squares[:] = 0.0
            for unit in range(first[column], first[column + 1]):
                _add_unit(angles[row, unit], others[unit], means[unit], sums, single, pair, total, main, squares)
            if first[column + 1] - first[column] > 1:
                for i in range(total.shape[0]):
                    main[i] += 0.5 * pair * (total[i] * total[i] - squares[i])
