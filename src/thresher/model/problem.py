"""The problem: inputs on the unit sphere, one target each."""

from __future__ import annotations

from contextlib import suppress
from copy import copy

import numpy as np
from numpy.typing import ArrayLike, NDArray

from thresher.checks import check_number, check_values
from thresher.errors import InvalidInput
from thresher.loops.rounding import NORM_TOLERANCE

__all__ = ["Problem", "check_inputs", "to_sphere"]

_SMALLEST_TARGET, _LARGEST_TARGET = 1e-100, 1e20  # squares must not vanish, nor steps overflow float32


class Problem:
    """Unit-norm inputs (n, d) and targets (n,) of a regression.

    Parameters
    ----------
    inputs : (n, d) real, every row of norm 1
    targets : (n,) real

    Raises
    ------
    InvalidInput
        If a value is missing or infinite, a row is not of unit norm, or the shapes do not fit; nothing is repaired.

    Cost: O(nd) time and memory.
    """

    def __init__(self, inputs: ArrayLike, targets: ArrayLike) -> None:
        self.inputs = check_inputs(inputs)
        self.targets = _check_targets(targets, len(self.inputs))

    @property
    def size(self) -> int:
        """Number of inputs, n."""
        return len(self.inputs)

    @property
    def dimension(self) -> int:
        """Number of features of an input, d."""
        return self.inputs.shape[1]

    @property
    def products(self) -> NDArray[np.float64]:
        """Inner products of the inputs, K = X Xᵀ, (n, n). Cost: O(n²d) each time."""
        return self.inputs @ self.inputs.T

    def with_targets(self, targets: ArrayLike) -> Problem:
        """Return the problem with the same inputs, which are not copied, and other targets (n,)."""
        other = copy(self)
        other.targets = _check_targets(targets, self.size)
        return other

    def __repr__(self) -> str:
        return f"Problem({self.size} inputs of dimension {self.dimension})"


def check_inputs(inputs: ArrayLike, *, dimension: int | None = None) -> NDArray[np.float64]:
    """Return inputs as float64 (n, d), or refuse them: every row must have unit norm (and ``dimension`` entries).

    Cost: O(nd).
    """
    values = check_values(inputs, "inputs", shape="(n, d)")
    if dimension is not None and values.shape[1] != dimension:
        raise InvalidInput(
            f"inputs must have the {dimension} columns the network was trained on; they have {values.shape[1]}."
        )
    norms = np.linalg.norm(values, axis=1)
    wrong = np.abs(norms - 1) > NORM_TOLERANCE
    if wrong.any():
        row = int(np.argmax(wrong))
        raise InvalidInput(
            f"inputs must have unit norm; row {row} has norm {norms[row]:.4g}. Use thresher.to_sphere(X)."
        )
    return values


def _check_targets(targets: ArrayLike, count: int) -> NDArray[np.float64]:
    several = False
    with suppress(ValueError):  # rows of different lengths, which are refused below
        several = np.ndim(targets) == 2
    if several:
        raise InvalidInput(
            f"targets must have shape (n,); got shape {np.shape(targets)}. For several outputs use train(X, Y); of one "
            "column use y[:, 0]."
        )
    values = check_values(targets, "targets", shape="(n,)")
    if len(values) != count:
        raise InvalidInput(
            f"targets must have one value per input; there are {count} inputs and {len(values)} targets."
        )
    largest = np.abs(values).max()
    if largest and not _SMALLEST_TARGET <= largest <= _LARGEST_TARGET:
        raise InvalidInput(
            f"the largest target must be between {_SMALLEST_TARGET:g} and {_LARGEST_TARGET:g} in size, or 0; it is "
            f"{largest:.3g}. Rescale the targets."
        )
    return values


def to_sphere(X: ArrayLike, *, centre: bool = False, bias: float = 0.0) -> NDArray[np.float64]:
    """Lift raw rows to the unit sphere: subtract the column means if asked, append a bias coordinate, normalise.

    Parameters
    ----------
    X : (n, d) real
    centre : subtract the mean of each column first. On rows with a large common part the same neurons fire; centring
        spreads them. Not for data that must be lifted later by the same map: keep the means yourself.
    bias : value of one more column, 0 for none. It keeps the lengths of the rows apart, which normalising would lose.

    Returns
    -------
    (n, d) or (n, d + 1) float64 with rows of norm 1

    Raises
    ------
    InvalidInput
        If a row is zero (it has no direction), or values are not finite real numbers.

    Cost: O(nd).
    """
    rows = check_values(X, "X", shape="(n, d)")
    bias = check_number(bias, "bias")
    noise = 0.0
    if centre:
        scale = np.abs(rows).max() or 1.0
        rows, bias = rows / scale, bias / scale  # so that sums do not overflow
        rows = rows - rows.mean(axis=0)
        noise = 64 * np.finfo(float).eps
    if bias:
        rows = np.column_stack([rows, np.full(len(rows), bias)])
    largest = np.abs(rows).max(axis=1, keepdims=True)
    zero = largest[:, 0] <= noise
    if zero.any():
        raise InvalidInput(
            f"row {int(np.argmax(zero))} of X is zero{' after centring' if centre else ''} and has no direction. "
            "Remove it, or pass bias=1."
        )
    rows = rows / largest  # so that squares neither overflow nor vanish
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)
