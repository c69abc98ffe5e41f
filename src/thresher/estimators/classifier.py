"""The classifier: one network for each class, or one for two; calibrated probabilities."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import minimize_scalar
from scipy.special import log_softmax, softmax
from sklearn.base import ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import validate_data

from thresher.errors import InvalidInput
from thresher.estimators.base import ThresherEstimator
from thresher.estimators.lift import check_weights

__all__ = ["ThresherClassifier"]

Matrix = NDArray[np.float64]
_MOST_LOG_TEMPERATURE = 8.0


class ThresherClassifier(ClassifierMixin, ThresherEstimator):
    """Classification by very wide two-layer ReLU networks: one for each class against the rest, or one for two classes.

    Parameters and attributes are those of :class:`ThresherRegressor`, less what is said of targets and error bars
    (``target``, ``target_``, ``floor_``, ``noise_``), and

    Attributes
    ----------
    classes_ : the labels, sorted
    temperature_ : what scores are multiplied by before they become probabilities: the value under which the labels are
        likeliest, given scores of rows that were left out

    Each network has its own ``width`` neurons; all come from the same start and share the first Gram matrix. They are
    trained in turn, one a thread: memory does not grow with the classes except for the networks themselves.
    """

    _biases, _rows, _auto_widths = (1.0, 0.5, 2.0), 256, (1 << 12, 1 << 14)

    def fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Fit rows X (n, d) and labels y (n,)."""
        self._check_parameters()
        rows, y = validate_data(self, X, y, dtype=np.float64)
        check_classification_targets(y)
        weights = check_weights(sample_weight, rows)
        present = slice(None) if weights is None else weights > 0
        classes, codes = np.unique(np.asarray(y)[present], return_inverse=True)
        if len(classes) < 2:
            raise InvalidInput(f"y must have at least two classes; got 1 class, {classes[0]}.")
        rows, weights = rows[present], None if weights is None else weights[present]
        wanted = np.eye(len(classes))[codes]
        if len(classes) == 2:
            wanted = 2 * wanted[:, 1:] - 1
        prior = np.average(wanted, axis=0, weights=weights)
        left_out = self._fit(rows, wanted - prior, weights)
        self.classes_, self.prior_ = classes, prior
        self.temperature_ = _calibrate(
            _by_class(left_out.targets + self.prior_), _by_class(left_out.outputs + self.prior_), left_out.weights
        )
        return self

    def decision_function(self, X: ArrayLike) -> Matrix:
        """Return scores (k,) of the second of two classes, or (k, classes). Cost: O(md) a row and network."""
        scores = self._outputs(X) + self.prior_
        return scores[:, 0] if scores.shape[1] == 1 else scores

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Return the likeliest label of each row (k,)."""
        scores = self.decision_function(X)
        return self.classes_[(scores > 0).astype(int) if scores.ndim == 1 else scores.argmax(axis=1)]

    def predict_proba(self, X: ArrayLike) -> Matrix:
        """Return the probability of each class (k, classes)."""
        outputs = self._outputs(X)
        return softmax(self.temperature_ * _by_class(outputs + self.prior_), axis=1)

    def _target_frame(self) -> tuple[Matrix, Matrix]:
        return self.prior_, np.ones_like(self.prior_)


def _by_class(scores: Matrix) -> Matrix:
    """Return scores (k, classes) of outputs (k, outputs): one output is for the second of two classes."""
    return np.column_stack([-scores / 2, scores / 2]) if scores.shape[1] == 1 else scores


def _calibrate(wanted: Matrix, scores: Matrix, weights: Matrix) -> float:
    """Return the temperature under which the labels are likeliest, given scores (n, classes) of rows left out.

    A label is not quite certain (Platt's rule): without a mistake among the rows left out the temperature would
    otherwise have no bound.
    """
    count = scores.shape[1]
    doubt = count / (float(weights.sum()) + count)
    labels = np.eye(count)[wanted.argmax(axis=1)] * (1 - doubt) + doubt / count

    def surprise(log_temperature: float) -> float:
        chances = (labels * log_softmax(np.exp(log_temperature) * scores, axis=1)).sum(axis=1)
        return -float(np.average(chances, weights=weights))

    found = minimize_scalar(surprise, bounds=(-_MOST_LOG_TEMPERATURE, _MOST_LOG_TEMPERATURE), method="bounded")
    return float(np.exp(found.x))
