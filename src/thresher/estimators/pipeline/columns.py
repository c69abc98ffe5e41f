"""Learning how much each column matters: column weights, by the marginal likelihood of the limit.

Ridge regression on a kernel is the mean of a Gaussian process, which gives the likelihood of the targets. Column
weights, bias and ridge are optimised together to maximise it. A column that only adds noise makes the targets less
likely and is switched off. No rows are held out: the likelihood itself penalises flexibility.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from thresher.estimators.data.lift import typical_norm
from thresher.estimators.data.observations import Observations
from thresher.estimators.interfaces import Backend
from thresher.estimators.judging.ridges import RIDGES
from thresher.estimators.kernels.kernel import SphereKernel

__all__ = ["FEWER_STEPS", "ColumnWeights", "learn_columns", "likelihood"]

Matrix = NDArray[np.float64]
_STEPS = 8  # of L-BFGS; with more, held-out rows are predicted no better
FEWER_STEPS = 5  # enough to see whether column weights help
_LEAST, _MOST = -7.0, 3.0  # logarithms of weights
_LEAST_BIAS, _MOST_BIAS = 0.1, 10.0  # divided by the typical norm of a row
_LEAST_RIDGE, _MOST_RIDGE = np.log(RIDGES[0]), np.log(RIDGES[-1])


class ColumnWeights(NamedTuple):
    """The weights of the columns (d,), and the most likely bias and ridge with them."""

    weights: Matrix
    bias: float
    ridge: float

    def shrunk(self) -> ColumnWeights:
        """Return the square roots of the weights, of mean square 1: few rows tell less than the likelihood says."""
        return self._replace(weights=np.sqrt(self.weights / self.weights.mean()))


def likelihood(values: Matrix, data: Observations, kernel: SphereKernel, backend: Backend) -> tuple[float, Matrix]:
    """Return the negative logarithm of the marginal likelihood per observation, and its gradient (d + 2,).

    ``values`` are logarithms of the column weights (d,), of the bias coordinate, and of the ridge; the scale of the
    process is the most likely one. Observations at equal inputs differ only by their noise, whose variance is the ridge
    times the diagonal of the kernel. Cost: O(n³ + n²d) for n distinct rows.
    """
    rows, (n, d) = data.X, data.X.shape
    noise = np.exp(values[-1]) * kernel.diagonal
    lifted = np.column_stack([rows * np.exp(values[:d]), np.full(n, np.exp(values[d]))])
    inputs = lifted / np.linalg.norm(lifted, axis=1, keepdims=True)
    made = backend.dense(kernel, inputs, gradients=True).evidence(noise / data.weights, data.targets)
    if made is None:
        return np.inf, np.zeros_like(values)
    outputs, count = data.targets.shape[1], float(data.count.sum())
    within = float((data.weight @ (data.target - data.targets[data.row]) ** 2).sum()) / noise
    scale = max((float((data.targets * made.alpha).sum()) + within) / (count * outputs), np.finfo(float).tiny)
    repeated = count - n
    value = outputs * (0.5 * count * np.log(scale) + made.half + 0.5 * repeated * np.log(noise))
    scaled = np.ascontiguousarray(made.alpha) / np.sqrt(outputs * scale)
    by_diagonal = 0.5 * outputs * (made.diagonal - (scaled**2).sum(axis=1))  # gradient by entries of the matrix
    by_noise = float((by_diagonal / data.weights).sum() * noise)
    by_noise += 0.5 * outputs * repeated - 0.5 * within / scale
    return value / count, np.append(2 * made.pull(scaled, 0.5 * outputs), by_noise) / count


def learn_columns(
    data: Observations, kernel: SphereKernel, *, ridge: float, backend: Backend, steps: int = _STEPS
) -> ColumnWeights:
    """Return the column weights that make the targets most likely, starting from equal weights and this bias and ridge.

    The mean square of the weights is 1. ``steps`` is how many L-BFGS takes at most.

    Cost: O(n³ + n²d) for each of about ten likelihoods.
    """
    d = data.X.shape[1]
    last = np.log(max(kernel.bias, 1e-3) * typical_norm(data.X, data.weights))
    start = np.concatenate([np.zeros(d), [last, np.clip(np.log(ridge), _LEAST_RIDGE, _MOST_RIDGE)]])
    bounds = [(_LEAST, _MOST)] * d + [(last - 3, last + 4), (_LEAST_RIDGE, _MOST_RIDGE)]
    found = minimize(
        lambda values: likelihood(values, data, kernel, backend),
        start,
        jac=True,
        method="L-BFGS-B",
        bounds=bounds,
        options={"maxiter": steps, "maxfun": 2 * steps},
    )
    values = found.x if np.isfinite(found.fun) else start
    weights = np.exp(values[:d])
    last = float(np.exp(values[d])) / typical_norm(data.X * weights, data.weights)
    bias = min(max(last, _LEAST_BIAS), _MOST_BIAS)
    return ColumnWeights(weights / np.sqrt(np.mean(weights**2)), bias, float(np.exp(values[-1])))
