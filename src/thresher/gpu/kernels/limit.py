"""The limit kernel and its slope, entry by entry, in place: those of ``loops/limit.py`` for tensors."""

from __future__ import annotations

from typing import Any

import triton
import triton.language as tl

from thresher.devices import interpreted

__all__ = ["evaluate", "evaluate_slope", "interpolate"]

_BLOCK = 1 << 16 if interpreted() else 2048  # entries that a program takes; the interpreter is slow to begin one


def evaluate(values: Any, near: Any, far: Any) -> None:
    """Replace inner products, a contiguous float32 tensor, by the kernel; see ``loops.limit.evaluate``."""
    total = values.numel()
    if total:
        degrees = {"NEAR": len(near) - 1, "FAR": len(far) - 1}
        _evaluate[(triton.cdiv(total, _BLOCK),)](values, near, far, total, **degrees, BLOCK=_BLOCK)


def evaluate_slope(values: Any, near: Any, far: Any, least: float) -> None:
    """Replace inner products by the kernel's derivative; see ``loops.limit.evaluate_slope``."""
    total = values.numel()
    if total:
        degrees = {"NEAR": len(near) - 1, "FAR": len(far) - 1}
        _evaluate_slope[(triton.cdiv(total, _BLOCK),)](values, near, far, least, total, **degrees, BLOCK=_BLOCK)


def interpolate(products: Any, table: Any, kernel: Any, slopes: Any = None) -> None:
    """Write the kernel of inner products, contiguous float64 tensors, and its derivative if there is room for it.

    See ``loops.limit.interpolate``; ``table`` (2, N, 4) is that of ``theory.probability_table``.
    """
    total = products.numel()
    if total:
        sizes = {"NODES": table.shape[1], "SLOPES": slopes is not None, "BLOCK": _BLOCK}
        room = kernel if slopes is None else slopes
        _interpolate[(triton.cdiv(total, _BLOCK),)](products, table, kernel, room, total, **sizes)


@triton.jit(do_not_specialize=["total"])
def _interpolate(
    products, table, kernel, slopes, total, NODES: tl.constexpr, SLOPES: tl.constexpr, BLOCK: tl.constexpr
):
    places = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = places < total
    rho = tl.minimum(tl.maximum(tl.load(products + places, mask=inside, other=0.0), -1.0), 1.0)
    root = tl.sqrt(1.0 - tl.abs(rho))
    node = tl.minimum((root * NODES).to(tl.int32), NODES - 1)
    t = root * NODES - node.to(tl.float64)
    cubic = table + 4 * (node + tl.where(rho >= 0, 0, NODES))
    first, second, third, fourth = tl.load(cubic), tl.load(cubic + 1), tl.load(cubic + 2), tl.load(cubic + 3)
    both = tl.maximum(first + t * (second + t * (third + t * fourth)), 0.0)
    tl.store(kernel + places, rho * both, mask=inside)
    if SLOPES:
        change = second + t * (2.0 * third + t * 3.0 * fourth)
        found = both - tl.abs(rho) * change * NODES / (2.0 * tl.maximum(root, 1e-6))
        tl.store(slopes + places, tl.where(root > 1e-5, found, 0.0), mask=inside)


@triton.jit(do_not_specialize=["total"])
def _evaluate(values, near, far, total, NEAR: tl.constexpr, FAR: tl.constexpr, BLOCK: tl.constexpr):
    places = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = places < total
    rho = tl.minimum(tl.maximum(tl.load(values + places, mask=inside, other=0.0), -1.0), 1.0)
    root = tl.sqrt(1.0 - tl.abs(rho))
    x = root + root - 1.0
    above, below = x * 0.0 + tl.load(near), x * 0.0 + tl.load(far)
    for power in tl.static_range(1, NEAR + 1):
        above = above * x + tl.load(near + power)
    for power in tl.static_range(1, FAR + 1):
        below = below * x + tl.load(far + power)
    tl.store(values + places, rho * tl.where(rho >= 0, above, below), mask=inside)


@triton.jit(do_not_specialize=["total"])
def _evaluate_slope(values, near, far, least, total, NEAR: tl.constexpr, FAR: tl.constexpr, BLOCK: tl.constexpr):
    places = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = places < total
    rho = tl.minimum(tl.maximum(tl.load(values + places, mask=inside, other=0.0), -1.0), 1.0)
    room = 1.0 - tl.abs(rho)
    root = tl.sqrt(room)
    x = root + root - 1.0
    above, below = x * 0.0 + tl.load(near), x * 0.0 + tl.load(far)
    rise, fall = x * 0.0, x * 0.0  # derivatives of the two polynomials
    for power in tl.static_range(1, NEAR + 1):
        rise = rise * x + above
        above = above * x + tl.load(near + power)
    for power in tl.static_range(1, FAR + 1):
        fall = fall * x + below
        below = below * x + tl.load(far + power)
    value, slope = tl.where(rho >= 0, above, below), tl.where(rho >= 0, rise, -fall)
    found = value - rho * slope / tl.maximum(root, 1e-6)
    tl.store(values + places, tl.where(room > least, found, 0.0), mask=inside)
