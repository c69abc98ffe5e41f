"""A kernel of parts: neurons that see all columns, single columns, pairs of columns, or a layer of column neurons.

Inputs are unit vectors of all columns, followed by an angle or a code for each single column (``loops/parts.py``).
Every part has the same diagonal, and shares add up to 1, so that the sum has the diagonal of the kernel of all columns.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from thresher.loops.parts import APART, add_parts, add_parts_double

__all__ = ["APART", "Parts", "Shares", "column_kernel"]

Matrix = NDArray[np.float64]
_NAMES = ("single columns", "pairs", "a layer of neurons of single columns")


class Shares(NamedTuple):
    """What each part of a kernel contributes to its diagonal; they add up to 1."""

    whole: float = 1.0  # all columns at once, under the metric
    single: float = 0.0  # single columns, each as much
    pairs: float = 0.0  # pairs of columns: products of two kernels of single columns, each as much
    layer: float = 0.0  # neurons on top of a layer of neurons of single columns

    @classmethod
    def of_columns(cls, share: float) -> Self:
        """Return this share for neurons that see columns one by one: half single columns, half a layer of them."""
        return cls(1 - share, share / 2, layer=share / 2)

    @property
    def words(self) -> str:
        """What the kernel is made of, as a reader is told."""
        if self.whole == 1:
            return "all columns at once"
        rest = [(share, name) for share, name in zip(self[1:], _NAMES, strict=True) if share]
        joined = " and ".join(name for _, name in rest)
        if len({share for share, _ in rest}) == 1 and self.whole in (0, 0.5):
            return f"half of the kernel all columns, half {joined}" if self.whole else f"{joined} alone"
        each = [*([(self.whole, "all columns")] if self.whole else []), *rest]
        return "of the kernel " + ", ".join(f"{share:.0%} {name}" for share, name in each)


class Parts(NamedTuple):
    """How the inputs of a kernel of parts are made up, and its shares."""

    columns: int  # the last coordinates of inputs: an angle or a code for each
    shares: Shares

    @classmethod
    def of(cls, columns: int, shares: Shares) -> Self:
        """Return the parts for some number of columns; one column has no pairs, so they count as single."""
        if columns == 1:
            shares = shares._replace(single=shares.single + shares.pairs, pairs=0.0)
        return cls(columns, shares)

    def split(self, inputs: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
        """Return the unit vectors (n, d) of inputs, and their angles (n, columns), both contiguous."""
        return np.ascontiguousarray(inputs[:, : -self.columns]), np.ascontiguousarray(inputs[:, -self.columns :])

    def add(self, tile: NDArray[Any], left: Any, right: Any, diagonal: float) -> None:
        """Turn the kernel of all columns (k, n) in a tile into that of parts.

        ``left`` (k, columns) and ``right`` (columns, n) are the angles; ``diagonal`` is that of the kernel of all
        columns. Cost: O(columns) per entry, on the calling thread.
        """
        add = add_parts if tile.dtype == np.float32 else add_parts_double
        add(tile, left, right, self.factors(diagonal).astype(tile.dtype), *np.empty((2, tile.shape[1]), tile.dtype))

    def factors(self, diagonal: float) -> Matrix:
        """Return what multiplies the kernel of all columns, the sums over columns and ordered pairs, and the layer."""
        u, (whole, single, pairs, layer) = self.columns, self.shares
        return np.array([whole, single / u, pairs / max(1, u * (u - 1)), layer]) * [1.0, diagonal, diagonal, diagonal]


def column_kernel(left: Matrix, right: Matrix) -> Matrix:
    """Return the kernel (k, n) of one column at angles or codes (k,) and (n,), with a diagonal of 1. Cost: O(kn)."""
    angle = np.minimum(np.abs(left[:, None] - right), np.pi)
    return np.cos(angle) * (1 - angle / np.pi)
