"""Parts of a kernel, added in one pass to that of all columns: ``loops/parts.py`` for tensors."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import triton
import triton.language as tl
from numpy.polynomial import chebyshev

from thresher.devices import interpreted
from thresher.loops.parts import SINE, SINE_DOUBLE

__all__ = ["add_parts"]

_TILE = (128, 256) if interpreted() else (16, 64)  # rows and columns that a program takes: they share what it loads
_PI = tl.constexpr(math.pi)


def _arccos(degree: int) -> tuple[float, ...]:
    """Return the coefficients of arccos(x) / (pi sqrt(1 - x)) for x from 0 to 1, as a polynomial of 2x - 1."""
    places = np.cos(np.pi * (np.arange(degree + 1) + 0.5) / (degree + 1))
    x = (places + 1) / 2
    fitted = chebyshev.chebfit(places, np.arccos(x) / (np.pi * np.sqrt(1 - x)), degree)
    return tuple(chebyshev.cheb2poly(fitted)[::-1].tolist())


_SINGLE = tuple(map(float, SINE)), _arccos(7)  # to 1e-8
_DOUBLE = tuple(map(float, SINE_DOUBLE)), _arccos(16)  # to 1e-15


def add_parts(block: Any, left: Any, right: Any, factors: Any, *, layer: bool) -> None:
    """Replace the kernel of all columns (k, n) in a block by a sum of parts; see ``loops.parts.add_parts``.

    ``left`` (u, k) and ``right`` (u, n) are angles and codes of u columns. All are contiguous, and float32 or float64;
    without ``layer`` the last of the factors (4,) is not used.
    """
    (height, width), (rows, columns) = block.shape, _TILE
    sine, arccos = _SINGLE if block.element_size() == 4 else _DOUBLE
    tiles = triton.cdiv(height, rows) * triton.cdiv(width, columns)
    if tiles:
        constants = {"LAYER": layer, "SINE": sine, "ARCCOS": arccos, "ROWS": rows, "COLUMNS": columns}
        _add_parts[(tiles,)](block, left, right, factors, height, width, len(right), **constants)


@triton.jit
def _polynomial(x, TERMS: tl.constexpr):
    found = x * TERMS[0] + TERMS[1]
    for power in tl.static_range(2, len(TERMS)):
        found = found * x + TERMS[power]
    return found


@triton.jit(do_not_specialize=["height", "width", "columns"])
def _add_parts(
    block,
    left,
    right,
    factors,
    height,
    width,
    columns,
    LAYER: tl.constexpr,
    SINE: tl.constexpr,
    ARCCOS: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
):
    across, program = tl.cdiv(width, COLUMNS), tl.program_id(0)
    i = (program // across).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    j = (program % across).to(tl.int64) * COLUMNS + tl.arange(0, COLUMNS)
    sums = tl.zeros((ROWS, COLUMNS), block.dtype.element_ty)
    squares = tl.zeros((ROWS, COLUMNS), block.dtype.element_ty)
    here, there = left + i, right + j
    for _ in range(columns):
        mine, other = tl.load(here, mask=i < height, other=0.0), tl.load(there, mask=j < width, other=0.0)
        angle = tl.abs(other[None, :] - mine[:, None])
        u = angle - _PI / 2
        k = tl.where(angle < _PI, (u * (1 / _PI) - 0.5) * u * _polynomial(u * u, SINE), 0.0)
        sums += k
        squares += k * k
        here += height
        there += width
    places = block + i[:, None] * width + j[None, :]
    inside = (i < height)[:, None] & (j < width)[None, :]
    whole = tl.load(places, mask=inside, other=0.0)
    pairs = sums * sums - squares
    found = tl.load(factors) * whole + tl.load(factors + 1) * sums + tl.load(factors + 2) * pairs
    if LAYER:
        mean = tl.minimum(tl.maximum(sums / columns, -1.0), 1.0)
        size = tl.abs(mean)
        away = _polynomial(2.0 * size - 1.0, ARCCOS) * tl.sqrt(1.0 - size)
        found += tl.load(factors + 3) * mean * tl.where(mean >= 0, 1.0 - away, away)
    tl.store(places, found, mask=inside)
