"""Gradients of the limit at its own inputs, and the sums of their outer products (AGOP) that metrics are made of."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from thresher.estimators.data.observations import Observations
from thresher.estimators.interfaces import Backend, Kernel

__all__ = [
    "MIXED",
    "fit_outer_products",
    "limit_gradients",
    "mix_outputs",
    "next_metric",
    "outer_product",
    "row_gradients",
    "sum_outer_products",
]

Matrix = NDArray[np.float64]
MIXED = 16  # outputs whose gradients are taken one by one
_SINGLE = 512  # rows from which on gradients are made in single precision: three times as fast


def fit_outer_products(kernel: Kernel, data: Observations, alpha: Matrix, backend: Backend) -> Matrix:
    """Return the weighted sum (r, r) of outer products of gradients of a fit, by coordinates after the metric.

    Cost: O(n²d) for each of at most 16 outputs, or O(n²(n + d)) where that is less.
    """
    inputs, norms, _ = kernel.lift(data.X, data.weights)
    (n, d), columns = inputs.shape, data.X.shape[1]
    if n > _SINGLE and min(alpha.shape[1], MIXED) * d <= n + 2 * d:
        fast = inputs.astype(np.float32)
        found = backend.gradients(kernel, fast, fast, mix_outputs(alpha))
        by_row = row_gradients(iter(found), inputs=inputs, norms=norms, columns=columns)
        return outer_product(by_row, weights=data.weights)
    matrix = backend.dense(kernel, inputs, gradients=True)
    return matrix.outer_products(alpha, scale=data.weights / norms**2, columns=columns)


def limit_gradients(inputs: Matrix, alpha: Matrix, slopes: Matrix) -> Matrix:
    """Return for each output the gradients (k, n, d) of h(x) alpha at the inputs (n, d) themselves, alpha (n, k).

    ``slopes`` (n, n) are those of the kernel by inner products of the inputs; see ``limit_slopes``. The kernel has a
    kink at x = x_i, where its gradient is undefined: such a pair contributes nothing.

    Cost: O(n²d) per output, in single precision: what is learnt from gradients needs no more.
    """
    tiny = np.finfo(float).tiny
    size, sizes = max(float(np.abs(slopes).max()), tiny), np.maximum(np.abs(alpha).max(axis=0), tiny)  # within range
    pushes = ((alpha / sizes)[:, :, None] * inputs[:, None]).astype(np.float32)
    found = (slopes / size).astype(np.float32) @ pushes.reshape(len(inputs), -1)
    return (found.reshape(pushes.shape) * (size * sizes)[:, None]).transpose(1, 0, 2)


def sum_outer_products(
    inputs: Matrix, alpha: Matrix, *, products: Matrix, slopes: Matrix, scale: Matrix, columns: int
) -> Matrix:
    """Return the sum over rows and outputs of outer products (columns, columns) of gradients by rows.

    ``products`` and ``slopes`` (n, n) are those of the inputs (n, d), alpha is (n, k); ``scale`` (n,) multiplies the
    outer product at each row: its weight over the squared norm that it was divided by when it was lifted.

    With the slopes S of the kernel, the gradient at input i along the sphere is sum_j (S_ij alpha_j - delta_ij c_i) x_j
    with c = (S * products) alpha. So the sum is X' B X with an n x n matrix B, in which outputs are summed first.

    Cost: O(n²(n + d)) for any number of outputs, or O(n²d) for each, in single precision, where that is less.
    """
    n, d = inputs.shape
    if alpha.shape[1] * d <= n + 2 * d:
        together = iter([limit_gradients(inputs, alpha, slopes)])
        along = row_gradients(together, inputs=inputs, norms=1 / np.sqrt(scale), columns=columns)
        return outer_product(along, weights=np.ones(n))
    radial = (slopes * products) @ alpha
    scaled = np.sqrt(scale)[:, None] * slopes
    matrix = scaled.T @ scaled  # of a product with itself BLAS makes one triangle
    matrix *= alpha @ alpha.T.copy()  # and copies it, which of this one would take longer
    both = alpha @ (scale[:, None] * radial).T
    both *= slopes
    matrix -= both
    matrix -= both.T
    np.einsum("ii->i", matrix)[:] += scale * (radial**2).sum(axis=1)
    some = inputs[:, :columns]
    return some.T @ (matrix @ some)


def mix_outputs(alpha: Matrix) -> Matrix:
    """Return alpha (n, k) of at most MIXED outputs: random sums of all, with the same mean outer product.

    Otherwise a hundred classes would make a round a hundred times as expensive. The sums are always the same.
    """
    outputs = alpha.shape[1]
    if outputs <= MIXED:
        return alpha
    return alpha @ np.random.default_rng(0).normal(size=(outputs, MIXED)) / np.sqrt(MIXED)


def row_gradients(gradients: Iterator[Matrix], *, inputs: Matrix, norms: Matrix, columns: int) -> Iterator[Matrix]:
    """Yield for each output, or all of some, the gradients (..., n, columns) by rows, from those by inputs (..., n, d).

    ``norms`` (n,) are the norms that rows were divided by when they were lifted. Cost: O(nd) per output.
    """
    for one in gradients:
        along = one - (one * inputs).sum(axis=-1, keepdims=True) * inputs  # on the sphere only directions matter
        yield (along / norms[:, None])[..., :columns]


def outer_product(gradients: Iterator[Matrix], *, weights: Matrix) -> Matrix:
    """Return the sum (r, r) of outer products of gradients (..., n, r) over rows, with weights (n,), and outputs.

    Cost: O(nr²) per output.
    """
    scaled = ((np.sqrt(weights)[:, None] * one).reshape(-1, one.shape[-1]) for one in gradients)
    return sum((one.T @ one for one in scaled), np.zeros(()))  # of a product with itself BLAS makes one triangle


def next_metric(outer: Matrix, *, metric: Matrix, power: float) -> Matrix:
    """Return the next metric (d, d): a power of the outer products (d, d), scaled so that its squares sum to d.

    If nothing depends on the inputs, the metric does not change. Cost: O(d³).
    """
    values, vectors = np.linalg.eigh(outer)
    if not values[-1] > 0:
        return metric
    powers = np.maximum(values / values[-1], 0.0) ** power
    found = (vectors * powers) @ vectors.T
    return found * np.sqrt(len(metric) / (found**2).sum())
