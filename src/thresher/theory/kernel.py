"""The limit of infinite width in closed form, and what the bounds need to know of it and of the inputs."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache, partial
from typing import Protocol

import numpy as np
from numpy.polynomial import polynomial
from numpy.typing import NDArray
from scipy import linalg, special

from thresher.loops.limit import differentiate, interpolate, interpolate_slopes
from thresher.model.activations import Pieces
from thresher.parallel import core_count, in_order
from thresher.theory.parts import Parts
from thresher.theory.pieces import bends_sharply, mean_slopes, slopes_by_root

__all__ = [
    "Limit",
    "cofiring_probability",
    "firing_probability",
    "largest_shift",
    "limit_kernel",
    "limit_slopes",
    "probability_cubics",
    "probability_table",
    "separability",
    "smallest_eigenvalue",
    "write_kernel",
]

_NODES = 4096  # intervals of sqrt(1 - |rho|), for each sign of the inner product rho
_SHARP = 0.05  # shifts below which, except 0, the probability bends near opposite inputs within a few intervals
_BLOCK = 64  # rows of the kernel that a thread fills at a time
_SHARED = 1 << 18  # entries of a kernel from which threads share them
_SMALL = 512  # rows of a matrix whose smallest eigenvalue is found directly
_INPUT_BLOCK = 1024  # rows of inner products that are looked at together


class Limit(Protocol):
    """A kernel of inputs of unit norm that is the limit of networks, as what computes it sees it."""

    @property
    def shift(self) -> float:
        """The threshold above which a neuron fires."""

    @property
    def diagonal(self) -> float:
        """The kernel of an input and itself: :func:`firing_probability`."""

    @property
    def parts(self) -> Parts | None:
        """What the kernel is the sum of, if it is not that of all columns alone."""


def firing_probability(shift: float | Pieces) -> float:
    """Return P(Z >= shift) for Z ~ N(0, 1): the share of neurons that fire on an input at the start.

    Of the pieces of another activation it is the mean of the squared slope.
    """
    if isinstance(shift, Pieces):
        return float(mean_slopes(np.ones(1), shift)[0])
    return 0.5 * math.erfc(shift / math.sqrt(2))


def cofiring_probability(rho: NDArray[np.float64], shift: float | Pieces) -> NDArray[np.float64]:
    """Return P(Z1 >= b, Z2 >= b) for N(0, 1) variables of correlations rho, any shape.

    It is Q(b) - 2 T(b, sqrt((1 - rho) / (1 + rho))) with Owen's T function. Of the pieces of another activation it is
    the mean of phi'(Z1) phi'(Z2). Cost: some hundred nanoseconds an entry.
    """
    if isinstance(shift, Pieces):
        return mean_slopes(rho, shift)
    slope = np.sqrt((1 - rho) / np.maximum(1 + rho, np.finfo(float).tiny))
    return np.maximum(firing_probability(shift) - 2 * special.owens_t(shift, slope), 0.0)


def _fill(
    products: NDArray[np.float64], write: Callable[..., None], *outs: NDArray[np.float64], symmetric: bool
) -> None:
    """Fill matrices (n, k) by blocks, with ``write(first, last, until)``; of symmetric ones, a triangle of blocks.

    No block reads what another writes, if one of the matrices is that of the products itself.
    """

    def fill(first: int) -> None:
        last = min(first + _BLOCK, len(products))
        until = last if symmetric else products.shape[1]
        write(first, last, until)
        if symmetric:
            for out in outs:
                out[:first, first:last] = out[first:last, :first].T

    blocks = range(0, len(products), _BLOCK)
    if products.size <= _SHARED:
        for first in blocks:
            fill(first)
    else:
        list(in_order(fill, blocks, threads=core_count()))


@lru_cache(maxsize=32)
def probability_table(shift: float | Pieces) -> NDArray[np.float64] | None:
    """Return the probability as cubics (2, _NODES, 4), see ``loops/limit.py``; None where it bends too sharply.

    In s = sqrt(1 - |rho|) it is smooth at both ends, as it is in the angle. On an interval the cubic agrees with it in
    value and slope at both ends (Hermite).
    """
    if bends_sharply(shift, _SHARP) if isinstance(shift, Pieces) else 0 < shift < _SHARP:
        return None
    s = np.linspace(0.0, 1.0, _NODES + 1)
    cubics = np.empty((2, _NODES, 4))
    for side, sign in enumerate((1, -1)):
        rho = sign * (1 - s**2)
        room = (2 - s**2) if sign == 1 else s**2  # 1 + rho
        values = cofiring_probability(rho, shift)
        # dP/drho = exp(-b² / (1 + rho)) / (2 pi sqrt(1 - rho²)) and drho/ds = -2 s sign; s cancels in the root
        if isinstance(shift, Pieces):
            slopes = slopes_by_root(s, sign, shift) / _NODES
        else:
            slopes = -sign * np.exp(-(shift**2) / np.maximum(room, 1e-300)) / (math.pi * np.sqrt(2 - s**2)) / _NODES
        cubics[side] = _hermite(values, slopes)
    return cubics


def probability_cubics(shift: float, nodes: int = 1024) -> NDArray[np.float64]:
    """Return the probability as cubics (2, nodes, 4) of the fourth root of 1 - |rho|, for exports.

    The root spreads out the bend that small shifts have near opposite inputs, so that any shift will do: errors are
    below 1e-9 of P(Z >= b) for shifts from 1e-4 on, and 0. Cost: O(nodes).
    """
    t = np.linspace(0.0, 1.0, nodes + 1)
    s, cubics = t * t, np.empty((2, nodes, 4))
    for side, sign in enumerate((1, -1)):
        room = (2 - s**2) if sign == 1 else s**2
        slopes = -sign * np.exp(-(shift**2) / np.maximum(room, 1e-300)) / (math.pi * np.sqrt(2 - s**2)) * 2 * t / nodes
        cubics[side] = _hermite(cofiring_probability(sign * (1 - s**2), shift), slopes)
    return cubics


def _hermite(values: NDArray[np.float64], slopes: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return cubics (n, 4) with these values and slopes (n + 1,) at the ends of n intervals of length 1."""
    rise = values[1:] - values[:-1]
    second = 3 * rise - 2 * slopes[:-1] - slopes[1:]
    return np.stack([values[:-1], slopes[:-1], second, slopes[:-1] + slopes[1:] - 2 * rise], axis=1)


def largest_shift(width: int, inputs: int) -> float:
    """Return the largest shift at which some neuron fires on each of n inputs at the start, in 99 of 100 cases.

    Zero if the network is too narrow for that at any shift. Cost: O(1).
    """
    needed = math.log(100 * inputs) / width  # firing probability p with n (1 - p)^m <= 1/100
    return max(-float(special.ndtri(needed)), 0.0) if needed < 0.5 else 0.0


def limit_kernel(
    products: NDArray[np.float64], shift: float | Pieces, *, symmetric: bool = True, overwrite: bool = False
) -> NDArray[np.float64]:
    """Return what the Gram matrix tends to as the width grows (``eq:kernel``), from inner products rho (n, n).

    H = rho P(Z1 >= b, Z2 >= b) for N(0, 1) variables of correlation rho; see :func:`cofiring_probability`. The
    probability is interpolated, to an error below 1e-12 of P(Z >= b).

    Of the pieces of another activation, ``NetworkSettings.limit``, it is rho E phi'(Z1) phi'(Z2).

    With ``symmetric=False`` the inner products (k, n) are those of other inputs with the training inputs. With
    ``overwrite`` the kernel takes their place.

    Cost: O(n²), some nanoseconds an entry; of a symmetric matrix half of them are computed.
    """
    kernel = products if overwrite else np.empty_like(products)
    _fill(products, partial(_write, products, shift, kernel), kernel, symmetric=symmetric)
    return kernel


def write_kernel(products: NDArray[np.float64], shift: float | Pieces, out: NDArray[np.float64]) -> None:
    """Write the limit kernel (k, n) to ``out``, on the calling thread; ``out`` may be the inner products themselves."""
    _write(products, shift, out, 0, *products.shape)


def _write(
    products: NDArray[np.float64],
    shift: float | Pieces,
    out: NDArray[np.float64],
    first: int,
    last: int,
    until: int,
) -> None:
    table = probability_table(shift)
    if table is None:
        rho = np.clip(products[first:last, :until], -1.0, 1.0)
        out[first:last, :until] = rho * cofiring_probability(rho, shift)
    elif isinstance(shift, Pieces):  # it may be negative, which a probability is not
        rho = np.clip(products[first:last, :until], -1.0, 1.0)
        out[first:last, :until] = rho * _on_table(rho, table)
    else:
        interpolate(products, table, out, first, last, until, *_room(until))


def _on_table(rho: NDArray[np.float64], table: NDArray[np.float64]) -> NDArray[np.float64]:
    far = np.sqrt(1.0 - np.abs(rho)) * _NODES
    node = np.minimum(far.astype(np.int32), _NODES - 1)
    cubics = table.reshape(-1, 4)[node + _NODES * (rho < 0)]
    return np.asarray(polynomial.polyval(far - node, np.moveaxis(cubics, -1, 0), tensor=False))


def limit_slopes(
    products: NDArray[np.float64], shift: float, *, symmetric: bool = True
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the limit kernel rho P(rho), and its derivative by rho, of inner products rho: all are (n, n), or (k, n).

    The derivative is 0 where rho is 1 or -1 and it has none. ``symmetric`` is that of :func:`limit_kernel`.

    Cost: that of :func:`limit_kernel`, and little more.
    """
    table = probability_table(shift)
    if table is None:
        kernel = limit_kernel(products, shift, symmetric=symmetric)
        slopes = kernel.copy()
        differentiate(products, shift, slopes)
        return kernel, slopes
    kernel, slopes = np.empty_like(products), np.empty_like(products)

    def write(first: int, last: int, until: int) -> None:
        interpolate_slopes(products, table, kernel, slopes, first, last, until, *_room(until))

    _fill(products, write, kernel, slopes, symmetric=symmetric)
    return kernel, slopes


def _room(columns: int) -> tuple[NDArray[np.float64], NDArray[np.int32]]:
    return np.empty(columns), np.empty(columns, np.int32)


def smallest_eigenvalue(matrix: NDArray[np.float64]) -> float:
    """Return the smallest eigenvalue of a positive semi-definite matrix (n, n); 0 if it is singular to rounding.

    Cost: O(n³/3) for a Cholesky factor and O(n²) for each of some dozens of Lanczos steps on the inverse; memory for
    one more matrix.
    """
    from scipy.sparse.linalg import ArpackNoConvergence, LinearOperator, eigsh  # training does not need it

    n = len(matrix)
    rounding = n * float(np.finfo(float).eps) * float(np.abs(matrix).sum(axis=0).max())
    if n <= _SMALL:
        least = float(linalg.eigh(matrix, eigvals_only=True, subset_by_index=[0, 0])[0])
        return least if least > rounding else 0.0
    factor, failed = linalg.lapack.dpotrf(matrix.T, lower=1)  # symmetric; the transpose is in LAPACK's order
    if failed:
        return 0.0
    inverse = LinearOperator((n, n), lambda vector: linalg.lapack.dpotrs(factor, vector.ravel(), lower=1)[0])
    try:
        largest = eigsh(inverse, k=1, v0=np.ones(n), tol=1e-8, return_eigenvectors=False)[0]
    except ArpackNoConvergence as error:  # a cluster of eigenvalues: what it has is close
        largest = max(error.eigenvalues, default=math.inf)
    return 1 / largest if 1 / largest > rounding else 0.0


def separability(inputs: NDArray[np.float64]) -> float:
    """Return how far apart the two closest of unit-norm inputs (n, d) are, as vectors or as lines; n is at least 2.

    It is the paper's delta (``def:separability``), the least ||x_i - x_j|| or ||x_i + x_j||.

    Cost: O(n²d) time, memory for 1024 rows of inner products.
    """
    best = math.inf
    for first in range(0, len(inputs), _INPUT_BLOCK):
        block = inputs[first : first + _INPUT_BLOCK]
        products = block @ inputs.T
        rows = np.arange(len(block))
        sizes = np.abs(products)
        sizes[rows, first + rows] = -1.0  # an input is no neighbour of itself
        nearest = sizes.argmax(axis=1)  # on the sphere large products are short distances
        signs = np.where(products[rows, nearest] < 0, -1.0, 1.0)
        lengths = np.linalg.norm(block - signs[:, None] * inputs[nearest], axis=1)  # no cancellation as in 2 - 2 rho
        best = min(best, float(lengths.min()))
    return best
