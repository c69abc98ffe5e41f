"""The regressor: scikit-learn's interface, no learning rate, error bars."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import solve_triangular
from sklearn.base import MultiOutputMixin, RegressorMixin
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from thresher.errors import InvalidInput
from thresher.estimators.base import LeftOut, ThresherEstimator
from thresher.estimators.choose import leave_one_out
from thresher.estimators.lift import Scaling
from thresher.theory import firing_probability
from thresher.training.ridge import Smoother

__all__ = ["ThresherRegressor"]

Matrix = NDArray[np.float64]


class ThresherRegressor(MultiOutputMixin, RegressorMixin, ThresherEstimator):
    """Regression by a very wide two-layer ReLU network, trained by Gauss-Newton steps with a penalty.

    Columns are standardised and rows lifted to the unit sphere. What is ``"auto"`` is chosen on the training rows
    before training: on the limit of infinite width and on the kernel of the network at its start, where leaving one row
    out is exact and cheap.

    Parameters
    ----------
    width : neurons of each output (made even); ``"auto"`` for 65536 (a classifier: 16384), fewer if outputs are
        many; ``float("inf")`` for the limit of infinite width itself, in closed form
    shift : threshold above which a neuron fires; ``"auto"`` by leave-one-out
    ridge : penalty on the distance from the start weights, relative to the diagonal of the limit kernel; ``"auto"`` by
        leave-one-out
    bias : bias coordinate of the lift, see :class:`SphereLift`; ``"auto"`` by leave-one-out
    feature_learning : rounds that re-weigh the inputs by the gradients of the trained network; ``"auto"`` by
        cross-validation that repeats the learning
    scale : ``"standardise"``, ``"centre"`` or ``"none"``: what is done to the columns
    tol : training stops when the gap to a minimum of the penalised loss is at most this share of the targets
    max_iterations : steps at the most
    random_state : fixes the start weights
    n_jobs : threads; None or -1 for all cores. Results do not depend on it.
    verbose : 1 for a line an iteration

    Attributes
    ----------
    bias_, shift_, ridge_, feature_learning_ : what was chosen
    loo_error_ : mean squared leave-one-out error of the linearised network, in units of the targets' variance
    tried_ : (bias, shift, ridge, error) of every kernel tried
    feature_learning_errors_ : cross-validated error after 0, 1, ... rounds
    lift_ : the fitted :class:`SphereLift`
    networks_, results_ : the trained networks, one an output, with their histories
    n_iter_ : steps taken
    n_features_in_, feature_names_in_ : as in scikit-learn

    Cost: O(n³) for the choice, O(mn²) for the Gram matrix, then O(mnd) an iteration and output; memory O(n² + md).
    Prediction O(md) a row and output.
    """

    _biases, _auto_width = (1.0, 0.5, 2.0, 4.0), 1 << 16

    def fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Fit rows X (n, d) and targets y (n,) or (n, k)."""
        self._check_parameters()
        rows, y = validate_data(self, X, y, dtype=np.float64, multi_output=True, y_numeric=True)
        weights = None if sample_weight is None else _check_sample_weight(sample_weight, rows, ensure_non_negative=True)
        targets = np.asarray(y, np.float64)
        columns = targets.reshape(len(targets), -1)
        scaling = Scaling.of(columns, scale="standardise", weights=weights)
        left_out = self._fit(rows, scaling.apply(columns), weights)
        self.noise_ = self._noise(left_out)
        self.single_target_, self.target_scaling_ = targets.ndim == 1, scaling
        return self

    def predict(self, X: ArrayLike, *, return_std: bool = False) -> Any:
        """Return predictions (k,) or (k, outputs), and their standard deviations of the same shape if asked.

        The deviation is that of a new target: the variance of the Gaussian process that the linearised network is in
        the limit of infinite width, plus noise; both are scaled so that leave-one-out residuals have the size they say.

        Cost: O(md) a row and output; deviations O(n³/3) and O(n²) a row.
        """
        check_is_fitted(self, "results_")
        inputs = self.lift_.transform(validate_data(self, X, dtype=np.float64, reset=False))
        values = self._outputs_of(inputs) * self.target_scaling_.unit + self.target_scaling_.mean
        if not return_std:
            return values[:, 0] if self.single_target_ else values
        deviations = self._deviations(inputs) * self.target_scaling_.unit
        return (values[:, 0], deviations[:, 0]) if self.single_target_ else (values, deviations)

    def _target_frame(self) -> tuple[Matrix, Matrix]:
        return self.target_scaling_.mean, self.target_scaling_.unit

    def _noise(self, left_out: LeftOut) -> Matrix:
        """Return by what variances of the limit must be multiplied to be those of rows left out (outputs,)."""
        kernel = self._cross_kernel(self.inputs_)
        limit = leave_one_out(
            kernel, left_out.targets, left_out.weights, ridge=self.ridge_, diagonal=firing_probability(self.shift_)
        )
        if limit is None:
            raise InvalidInput(f"the kernel of these rows is not positive: ridge={self.ridge!r} is too small.")
        squares = (left_out.targets - left_out.outputs) ** 2
        return np.average(squares * limit.precisions[:, None], axis=0, weights=left_out.weights)

    def _deviations(self, inputs: Matrix) -> Matrix:
        factor = Smoother(self._cross_kernel(self.inputs_), self.penalty_).factor
        prior = firing_probability(self.shift_)
        noise = self.ridge_ * prior  # of a row of median weight
        explained = [
            (solve_triangular(factor, self._cross_kernel(block).T, lower=True) ** 2).sum(axis=0)
            for block in np.array_split(inputs, max(1, len(inputs) // 1024))
        ]
        variance = np.maximum(prior - np.concatenate(explained), 0.0) + noise
        return np.sqrt(variance[:, None] * self.noise_)
