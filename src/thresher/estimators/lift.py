"""From raw rows to the unit sphere, by a map that is learnt on training rows and can be applied to others."""

from __future__ import annotations

from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from thresher.checks import check_number
from thresher.errors import InvalidInput

__all__ = ["Scaling", "SphereLift", "check_weights", "lift_rows", "typical_norm"]

Matrix = NDArray[np.float64]
SCALES = ("standardise", "centre", "none")
_MOST_WEIGHT = _FARTHEST = 1e300  # sums of weights, and penalties divided by them, stay finite


class Scaling(NamedTuple):
    """Centre and unit of each column: rows (X - mean) / unit."""

    mean: Matrix  # (d,)
    unit: Matrix  # (d,)

    @classmethod
    def of(cls, X: Matrix, *, scale: str, weights: Matrix | None = None) -> Scaling:
        """Return the scaling of weighted rows (n, d); columns that do not vary keep the unit 1. Cost: O(nd)."""
        largest = np.maximum(np.abs(X).max(axis=0), np.finfo(float).tiny)
        constant = X.max(axis=0) == X.min(axis=0)
        mean = np.average(X / largest, axis=0, weights=weights) * largest  # so that sums do not overflow
        mean = np.zeros_like(mean) if scale == "none" else np.where(constant, X[0], mean)
        unit = np.ones_like(mean)
        if scale == "standardise":
            size = np.where(constant, 1.0, np.abs(X - mean).max(axis=0))
            spread = size * np.sqrt(np.average(((X - mean) / size) ** 2, axis=0, weights=weights))
            unit = np.where(constant, 1.0, spread)
        for column in np.flatnonzero(~np.isfinite(mean) | ~np.isfinite(unit) | (unit <= 0)):
            raise InvalidInput(f"column {column} has values too far apart to be scaled. Rescale it first.")
        return cls(mean, unit)

    def apply(self, X: Matrix) -> Matrix:
        """Return the scaled rows (k, d)."""
        return (X - self.mean) / self.unit


def lift_rows(rows: Matrix, last: float) -> tuple[Matrix, Matrix]:
    """Return rows (k, d) with one more coordinate ``last``, divided by their norms, (k, d + 1), and the norms (k,).

    A row without length has no direction: it is refused. Cost: O(kd).
    """
    longer = np.column_stack([rows, np.full(len(rows), last)])
    largest = np.abs(longer).max(axis=1)
    if not np.isfinite(largest).all():
        row = int(np.argmax(~np.isfinite(largest)))
        raise InvalidInput(f"row {row} of X is too large after scaling. Rescale it first.")
    if not largest.all():
        raise InvalidInput(
            f"row {int(np.argmin(largest))} of X is zero after scaling and has no direction. Use bias > 0."
        )
    norms = largest * np.linalg.norm(longer / largest[:, None], axis=1)
    return longer / norms[:, None], norms


class SphereLift(TransformerMixin, BaseEstimator):
    """Scale the columns, turn or weigh them by a metric, append a bias coordinate, divide each row by its norm.

    Parameters
    ----------
    scale : ``"standardise"`` (mean 0, variance 1), ``"centre"`` (mean 0) or ``"none"``
    bias : the bias coordinate, as a multiple of the typical (root mean square) norm of a scaled training row. It keeps
        the lengths of rows apart, which normalising would lose; 0 loses them on purpose.
    metric : (d, d) matrix that scaled rows are multiplied by, or None

    Attributes
    ----------
    scaling_ : means and units of the columns
    last_ : value of the bias coordinate
    n_features_in_, feature_names_in_ : as in scikit-learn
    """

    def __init__(self, *, scale: str = "standardise", bias: float = 1.0, metric: ArrayLike | None = None) -> None:
        self.scale, self.bias, self.metric = scale, bias, metric

    def fit(self, X: ArrayLike, y: object = None, sample_weight: ArrayLike | None = None) -> Self:
        """Learn means, units and the typical norm from rows (n, d). Cost: O(nd)."""
        rows = validate_data(self, X, dtype=np.float64)
        if self.scale not in SCALES:
            raise InvalidInput(f"scale must be one of {', '.join(map(repr, SCALES))}; got {self.scale!r}.")
        bias = check_number(self.bias, "bias", least=0.0)
        weights = check_weights(sample_weight, rows)
        if weights is not None:
            rows, weights = rows[weights > 0], weights[weights > 0]
        self.scaling_ = Scaling.of(rows, scale=self.scale, weights=weights)
        self.last_ = bias * typical_norm(self._scaled(rows), weights)
        return self

    def transform(self, X: ArrayLike) -> Matrix:
        """Return unit-norm rows (k, d + 1), or (k, d) without bias. Cost: O(kd), O(kd²) with a metric."""
        check_is_fitted(self)
        rows = validate_data(self, X, dtype=np.float64, reset=False)
        lifted, _ = lift_rows(self._scaled(rows), self.last_)
        return lifted if self.bias else lifted[:, :-1]

    def inverse_transform(self, X: ArrayLike) -> Matrix:
        """Return the raw rows (k, d) of lifted ones; without a bias coordinate their lengths are lost for good."""
        check_is_fitted(self)
        if not self.bias:
            raise InvalidInput(
                "rows lifted with bias=0 have lost their lengths and cannot be brought back. Use bias > 0."
            )
        lifted = np.asarray(X, np.float64)
        if lifted.ndim != 2 or lifted.shape[1] != self.n_features_in_ + 1:
            raise InvalidInput(f"X must have shape (k, {self.n_features_in_ + 1}); got {lifted.shape}.")
        rows: Matrix = lifted[:, :-1] * (self.last_ / lifted[:, -1:])
        if self.metric is not None:
            try:
                rows = np.linalg.solve(np.asarray(self.metric, np.float64).T, rows.T).T.astype(np.float64)
            except np.linalg.LinAlgError as error:
                raise InvalidInput("the metric is singular: rows cannot be brought back.") from error
        return rows * self.scaling_.unit + self.scaling_.mean

    def get_feature_names_out(self, input_features: ArrayLike | None = None) -> NDArray[np.object_]:
        """Return ``lift0`` ... for the coordinates on the sphere."""
        check_is_fitted(self)
        count = self.n_features_in_ + bool(self.bias)
        return np.array([f"lift{k}" for k in range(count)], dtype=object)

    def _scaled(self, rows: Matrix) -> Matrix:
        scaled = self.scaling_.apply(rows)
        if self.metric is None:
            return scaled
        metric = np.asarray(self.metric, np.float64)
        if metric.shape != (rows.shape[1],) * 2:
            raise InvalidInput(f"metric must have shape {(rows.shape[1],) * 2}; got {metric.shape}.")
        return scaled @ metric

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = False
        return tags


def check_weights(sample_weight: ArrayLike | None, rows: Matrix) -> Matrix | None:
    """Return the weights (n,) of rows (n, d), None for equal ones; refuse those that cannot be added or compared."""
    if sample_weight is None:
        return None
    weights: Matrix = _check_sample_weight(sample_weight, rows, ensure_non_negative=True)
    if not weights.any():  # newer scikit-learn has said so
        raise InvalidInput("sample weights must not all be 0. Give at least one row a weight.")
    least, largest = float(weights[weights > 0].min()), float(weights.max())
    if largest > _MOST_WEIGHT or largest / _FARTHEST > least:
        raise InvalidInput(
            f"sample weights must be at most {_MOST_WEIGHT:g} and, but for 0, within a factor of {_FARTHEST:g};"
            f" got {least:g} to {largest:g}. Rescale them, or give 0 to rows that do not count."
        )
    return weights


def typical_norm(rows: Matrix, weights: Matrix | None = None) -> float:
    """Return the root mean square norm of weighted rows (n, d); 1 if all are zero."""
    return float(np.sqrt(np.average((rows**2).sum(axis=1), weights=weights))) or 1.0
