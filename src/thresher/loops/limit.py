"""The limit kernel, entry by entry, from a table of the probability that two neurons fire together."""

from __future__ import annotations

import math

import numpy as np

from thresher.loops import compiled, helper

__all__ = [
    "FAR", "NEAR", "differentiate", "evaluate_slope", "interpolate", "interpolate_slopes",
    "multiply_both", "multiply_kernel",
]  # fmt: skip

NEAR, FAR = 9, 20  # degrees of the polynomials for rho from 0 to 1, and from -1 to 0


@compiled
def interpolate(products, table, kernel, first, last, until, within, place):
    """Write rho P(rho) to ``kernel`` (k, n) for inner products rho (k, n), whose place it may take.

    Rows from ``first`` to ``last`` are made, columns up to ``until``: loops over whole arrays are made of vectors.

    ``table`` (2, N, 4) has coefficients of the cubics that P is on N intervals of sqrt(1 - |rho|), from 0 to 1:
    first for rho of at least 0, then for the others. No angle is computed. ``within`` (n,), and ``place`` (n,) of
    int32, are room for a row: where in the intervals its numbers are is found in a loop that whole vectors go through.
    """
    size, flat = table.shape[1], table.reshape(table.size)
    for i in range(first, last):
        for j in range(until):
            rho = min(max(products[i, j], -1.0), 1.0)
            far = math.sqrt(1.0 - abs(rho)) * size
            node = min(int(far), size - 1)
            within[j] = far - node
            place[j] = 4 * (node if rho >= 0.0 else node + size)
        for j in range(until):
            rho = min(max(products[i, j], -1.0), 1.0)
            t, at = within[j], place[j]
            cubic = flat[at] + t * (flat[at + 1] + t * (flat[at + 2] + t * flat[at + 3]))
            kernel[i, j] = rho * max(cubic, 0.0)


@compiled
def interpolate_slopes(products, table, kernel, slopes, first, last, until, within, place):
    """Do as ``interpolate``, and write the derivative by rho to ``slopes`` (k, n); 0 where rho is 1 or -1."""
    size, flat = table.shape[1], table.reshape(table.size)
    for i in range(first, last):
        for j in range(until):
            rho = min(max(products[i, j], -1.0), 1.0)
            slopes[i, j] = root = math.sqrt(1.0 - abs(rho))
            node = min(int(root * size), size - 1)
            within[j] = root * size - node
            place[j] = 4 * (node if rho >= 0.0 else node + size)
        for j in range(until):
            rho = min(max(products[i, j], -1.0), 1.0)
            root, t, at = slopes[i, j], within[j], place[j]
            second, third, fourth = flat[at + 1], flat[at + 2], flat[at + 3]
            both = max(flat[at] + t * (second + t * (third + t * fourth)), 0.0)
            kernel[i, j] = rho * both
            change = second + t * (2.0 * third + t * 3.0 * fourth)
            slope = both - abs(rho) * change * size / (2.0 * max(root, 1e-5))
            slopes[i, j] = slope if root > 1e-5 else 0.0


@compiled
def differentiate(products, shift, kernel, least=1e-10):
    """Replace rho P(rho) in ``kernel`` (k, n) by its derivative by rho (k, n).

    0 where 1 - rho² is at most ``least``: at 1 and -1 there is none.

    P'(rho) = exp(-b² / (1 + rho)) / (2 pi sqrt(1 - rho²)); where rho is 0 the derivative is P(0) = P(Z >= b)².
    """
    alone = 0.5 * math.erfc(shift / math.sqrt(2.0))
    for i in range(products.shape[0]):
        for j in range(products.shape[1]):
            rho = min(max(products[i, j], -1.0), 1.0)
            room = 1.0 - rho * rho
            if room <= least:
                kernel[i, j] = 0.0
                continue
            both = kernel[i, j] / rho if rho != 0.0 else alone * alone
            kernel[i, j] = both + rho * math.exp(-shift * shift / (1.0 + rho)) / (2.0 * math.pi * math.sqrt(room))


@helper(relaxed=True)
def _evaluate_row(row, near, far, edge):
    """Replace inner products rho (n,) by rho P(rho); return whether one was above ``edge``. See multiply_kernel."""
    one, found = np.float32(1.0), False
    for j in range(row.shape[0]):
        rho = min(max(row[j], -one), one)
        root = np.sqrt(one - abs(rho))
        x = root + root - one
        above = near[0]
        for power in range(1, NEAR + 1):  # of a length that is known, so that whole vectors go through
            above = above * x + near[power]
        below = far[0]
        for power in range(1, FAR + 1):
            below = below * x + far[power]
        found |= rho > edge
        row[j] = rho * (above if rho >= 0 else below)
    return found


@helper
def _apart(square, near):
    """Return rho P(rho) of two inputs whose distance has this square, 2 (1 - rho)."""
    root = np.sqrt(square * np.float32(0.5))
    x, value = root + root - np.float32(1.0), near[0]
    for power in range(1, NEAR + 1):
        value = value * x + near[power]
    return (np.float32(1.0) - root * root) * value


@helper
def _correct(row, near, edge, one, others):
    """Replace the kernel (n,) of an input (d,) and others (n, d), where it is that of a product above ``edge``.

    There 1 - rho is lost in the rounding of the product, and not in that of the distance.
    """
    two = np.float32(2.0)
    least = np.float32(0.999999) * _apart(two - two * edge, near)
    for j in range(row.shape[0]):
        if row[j] >= least:
            square = np.float32(0.0)
            for k in range(one.shape[0]):
                away = one[k] - others[j, k]
                square += away * away
            row[j] = _apart(square, near)


@helper(sums=True)
def _dot(row, vector):
    product = 0.0
    for j in range(row.shape[0]):
        product += row[j] * vector[j]
    return product


@compiled
def multiply_kernel(tile, near, far, edge, inputs, others, vectors, total):
    """Replace the inner products rho (k, n) of inputs (k, d) and others (n, d) by the kernel rho P(rho).

    P is a polynomial of 2 sqrt(1 - |rho|) - 1, whose coefficients from the highest power down are ``near`` (NEAR + 1,)
    for rho >= 0 and ``far`` (FAR + 1,) for rho < 0. Products above ``edge`` are replaced by the distance of the inputs.
    Add the kernel times ``vectors`` (c, n), transposed, to ``total`` (k, c): all are float32 but that.
    """
    for i in range(tile.shape[0]):
        if _evaluate_row(tile[i], near, far, edge):
            _correct(tile[i], near, edge, inputs[i], others)
        for c in range(vectors.shape[0]):
            total[i, c] += _dot(tile[i], vectors[c])


@compiled(relaxed=True)
def evaluate_slope(products, near, far, near_slope, far_slope, least):
    """Replace inner products rho (k, n), float32, by the derivative of rho P(rho) by rho; 0 where 1 - |rho| is tiny.

    The polynomials are those of ``multiply_kernel`` and their derivatives, one shorter; P changes with rho as they do
    divided by sqrt(1 - |rho|), up to the sign. Tiny is at most ``least``: there the derivative is lost in rounding.
    """
    one, zero = np.float32(1.0), np.float32(0.0)
    for i in range(products.shape[0]):
        for j in range(products.shape[1]):
            rho = min(max(products[i, j], -one), one)
            room = one - abs(rho)
            root = np.sqrt(room)
            x = root + root - one
            above, above_slope = near[0], near_slope[0]
            for power in range(1, NEAR + 1):
                above = above * x + near[power]
            for power in range(1, NEAR):
                above_slope = above_slope * x + near_slope[power]
            below, below_slope = far[0], far_slope[0]
            for power in range(1, FAR + 1):
                below = below * x + far[power]
            for power in range(1, FAR):
                below_slope = below_slope * x + far_slope[power]
            value = above if rho >= 0 else below
            slope = above_slope if rho >= 0 else -below_slope
            found = value - rho * slope / max(root, np.float32(1e-6))
            products[i, j] = found if room > least else zero


@helper(sums=True)
def _four(first, second, third, fourth, vector, one, two, three, four, total):
    """Return four rows (n,) times a vector (n,), and add them to ``total`` (n,), each times a number of its own.

    The rows are read once, for both; a loop with a single array to write to is made of whole vectors.
    """
    zero = np.float32(0.0)
    by_first, by_second, by_third, by_fourth = zero, zero, zero, zero
    for j in range(first.shape[0]):
        a, b, c, d, value = first[j], second[j], third[j], fourth[j], vector[j]
        by_first += a * value
        by_second += b * value
        by_third += c * value
        by_fourth += d * value
        total[j] += a * one + b * two + c * three + d * four
    return by_first, by_second, by_third, by_fourth


@helper(sums=True)
def _one(row, vector, number, total):
    """Do the same with one row."""
    product = np.float32(0.0)
    for j in range(row.shape[0]):
        product += row[j] * vector[j]
        total[j] += row[j] * number
    return product


@compiled(sums=True)
def multiply_both(panel, until, width, there, here, own, total):
    """Add P ``there``ᵀ to ``own`` (c, k) and Pᵀ ``here``ᵀ to ``total`` (c, until), P the first columns of a panel.

    The panel is (k, n), P (k, until), ``there`` (c, n' >= until), ``here`` (c, k): all float32 but ``own``. Each number
    of P is read from memory once for both products and all c vectors: ``width`` columns of four rows at a time stay in
    the cache.
    """
    rows = panel.shape[0]
    whole = rows - rows % 4
    for first in range(0, until, width):
        last = min(first + width, until)
        for i in range(0, whole, 4):
            for c in range(there.shape[0]):
                one, two, three, four = _four(
                    panel[i, first:last], panel[i + 1, first:last], panel[i + 2, first:last], panel[i + 3, first:last],
                    there[c, first:last], here[c, i], here[c, i + 1], here[c, i + 2], here[c, i + 3],
                    total[c, first:last],
                )  # fmt: skip
                own[c, i] += one
                own[c, i + 1] += two
                own[c, i + 2] += three
                own[c, i + 3] += four
        for i in range(whole, rows):
            for c in range(there.shape[0]):
                own[c, i] += _one(panel[i, first:last], there[c, first:last], here[c, i], total[c, first:last])
