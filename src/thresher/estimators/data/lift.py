"""From raw rows to the unit sphere, by a map learnt on training rows that can be applied to others."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from thresher.checks import check_number
from thresher.errors import InvalidInput
from thresher.estimators.data.scaling import Scaling
from thresher.estimators.data.single_columns import Angles, Indicators
from thresher.export.arrays import NOTHING

__all__ = ["SphereLift", "check_weights", "lift_rows", "typical_norm"]

Single = NDArray[np.float32]
Matrix = NDArray[np.float64]
_MOST_WEIGHT = _FARTHEST = 1e100  # sums of weights, and penalties divided by them, stay finite


def lift_rows(rows: Matrix, last: float) -> tuple[Matrix, Matrix]:
    """Return rows (k, d) with one more coordinate ``last``, divided by their norms, (k, d + 1), and the norms (k,).

    A zero row has no direction and is refused. Cost: O(kd).
    """
    longer = np.empty((len(rows), rows.shape[1] + 1))
    longer[:, :-1], longer[:, -1] = rows, last
    largest = np.maximum(longer.max(axis=1), -longer.min(axis=1))
    if not np.isfinite(largest).all():
        row = int(np.argmax(~np.isfinite(largest)))
        raise InvalidInput(f"row {row} of X is too large after scaling. Rescale it first.")
    if not largest.all():
        raise InvalidInput("a row of X is zero after scaling and has no direction. Use bias > 0.")
    longer /= largest[:, None]  # so that squares do not overflow
    short = np.sqrt(np.einsum("ij,ij->i", longer, longer))
    longer /= short[:, None]
    return longer, largest * short


class SphereLift(TransformerMixin, BaseEstimator):
    """Scale and weight the columns, apply a metric, append a bias coordinate, divide each row by its norm.

    Parameters
    ----------
    scale : how each column is scaled. ``"standardise"``: mean 0, variance 1; ``"robust"``: the same after pulling in
        values more than six deviations from the median, estimated from the quartiles; ``"quantile"``: ranks, made
        normal; ``"centre"``: mean 0; or ``"none"``
    bias : the bias coordinate, as a multiple of the typical (root mean square) norm of a scaled training row. It
        preserves the lengths of rows, which normalising would lose; 0 discards them.
    weights : factors (d,) of the scaled columns, or None
    metric : (d, r) matrix that rows are then multiplied by, or None
    rest : whether the length lost by the metric becomes one more coordinate. With a metric whose columns are an
        orthonormal basis of the training rows, this keeps all angles between rows and training rows.

    Attributes
    ----------
    scaling_ : the scaling learnt for the columns
    last_ : value of the bias coordinate
    indicators_, angles_ : of an estimator: which whole numbers become indicators, and how single columns are seen; None
        without them
    n_features_in_, feature_names_in_ : as in scikit-learn
    """

    indicators_: Indicators | None
    angles_: Angles | None

    def __init__(
        self,
        *,
        scale: str = "standardise",
        bias: float = 1.0,
        weights: ArrayLike | None = None,
        metric: ArrayLike | None = None,
        rest: bool = False,
    ) -> None:
        self.scale, self.bias, self.weights, self.metric, self.rest = scale, bias, weights, metric, rest

    @classmethod
    def made(
        cls,
        scaling: Scaling,
        *,
        last: float,
        indicators: Indicators | None = None,
        angles: Angles | None = None,
        **parameters: Any,
    ) -> Self:
        """Return a fitted lift from a scaling and the value of the bias coordinate."""
        lift = cls(**parameters)
        lift.scaling_, lift.last_ = scaling, last
        lift.indicators_, lift.angles_ = indicators, angles
        lift.n_features_in_ = len(scaling.mean) if indicators is None else len(np.unique(indicators.sources))
        return lift

    def __getstate__(self) -> dict[str, Any]:
        """Return what is pickled and copied: arrays by name in the place of the scaling."""
        state: dict[str, Any] = super().__getstate__()
        return {**state, "scaling_": state["scaling_"]._asdict()} if "scaling_" in state else state

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        if "scaling_" in state:
            self.scaling_ = Scaling(**state["scaling_"])

    def fit(self, X: ArrayLike, y: object = None, sample_weight: ArrayLike | None = None) -> Self:
        """Learn the scaling and the typical norm from rows (n, d). Cost: O(nd log n)."""
        rows = validate_data(self, X, dtype=np.float64)
        bias = check_number(self.bias, "bias", least=0.0)
        weights = check_weights(sample_weight, rows)
        if weights is not None:
            rows, weights = rows[weights > 0], weights[weights > 0]
        self.indicators_ = self.angles_ = None
        self.scaling_ = Scaling.of(rows, scale=self.scale, weights=weights)
        self.last_ = bias * typical_norm(self._coordinates(rows), weights)
        return self

    def transform(self, X: ArrayLike) -> Matrix:
        """Return unit-norm rows (k, coordinates): r or d, one more with ``rest``, one more with a bias.

        For a kernel of parts an angle or a code of each single column follows.

        Cost: O(kd), O(kdr) with a metric.
        """
        check_is_fitted(self)
        rows = validate_data(self, X, dtype=np.float64, reset=False)
        rows = rows if self.indicators_ is None else self.indicators_.apply(rows)
        lifted, _ = lift_rows(self._coordinates(rows), self.last_)
        lifted = lifted if self.bias else lifted[:, :-1]
        return lifted if self.angles_ is None else np.hstack([lifted, self.angles_.apply(rows)])

    def inverse_transform(self, X: ArrayLike) -> Matrix:
        """Return the raw rows (k, d) of lifted rows; without a bias coordinate their lengths cannot be recovered."""
        check_is_fitted(self)
        if not self.bias:
            raise InvalidInput(
                "rows lifted with bias=0 have lost their lengths and cannot be brought back. Use bias > 0."
            )
        if self.indicators_ is not None or self.angles_ is not None:
            raise InvalidInput("rows with indicators or with angles of single columns cannot be brought back.")
        lifted, d = np.asarray(X, np.float64), self.n_features_in_
        metric = np.eye(d) if self.metric is None else np.asarray(self.metric, np.float64)
        if self.rest or metric.shape != (d, d) or self.scaling_.low is not None:
            raise InvalidInput(
                f"only rows with a square metric and a linear scale can be brought back; got scale={self.scale!r}, "
                f"metric {metric.shape}, rest={self.rest}. Use scale='standardise'."
            )
        if lifted.ndim != 2 or lifted.shape[1] != d + 1:
            raise InvalidInput(f"X must have shape (k, {d + 1}); got {lifted.shape}.")
        rows: Matrix = lifted[:, :-1] * (self.last_ / lifted[:, -1:])
        try:
            rows = np.linalg.solve(metric.T, rows.T).T.astype(np.float64)
        except np.linalg.LinAlgError as error:
            raise InvalidInput("the metric is singular: rows cannot be brought back.") from error
        rows = rows if self.weights is None else rows / np.asarray(self.weights)
        return rows * self.scaling_.unit + self.scaling_.mean

    def get_feature_names_out(self, input_features: ArrayLike | None = None) -> NDArray[np.object_]:
        """Return ``lift0`` ... for the coordinates on the sphere."""
        check_is_fitted(self)
        count = len(self.scaling_.mean) if self.metric is None else np.shape(self.metric)[1]
        count += bool(self.rest) + bool(self.bias) + (0 if self.angles_ is None else len(self.angles_))
        return np.array([f"lift{k}" for k in range(count)], dtype=object)

    def _coordinates(self, rows: Matrix) -> Matrix:
        """Return the coordinates of raw rows (k, d) before the bias is appended."""
        scaled, d = self.scaling_.apply(rows), rows.shape[1]
        if self.weights is not None:
            if np.shape(self.weights) != (d,):
                raise InvalidInput(f"weights must have shape {(d,)}; got {np.shape(self.weights)}.")
            scaled = scaled * np.asarray(self.weights, np.float64)
        if self.metric is None:
            return scaled
        metric = np.asarray(self.metric, np.float64)
        if metric.ndim != 2 or len(metric) != d:
            raise InvalidInput(f"metric must have {d} rows; got shape {metric.shape}.")
        turned = scaled @ metric
        if not self.rest:
            return turned
        largest = np.maximum(np.abs(scaled).max(axis=1, keepdims=True), np.finfo(float).tiny)  # squares stay finite
        whole = ((scaled / largest) ** 2).sum(axis=1, keepdims=True)
        lost = whole - ((turned / largest) ** 2).sum(axis=1, keepdims=True)
        return np.column_stack([turned, largest * np.sqrt(np.where(lost > NOTHING * whole, lost, 0.0))])

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = False
        return tags


def check_weights(sample_weight: ArrayLike | None, rows: Matrix) -> Matrix | None:
    """Return the weights (n,) of rows (n, d), None for equal weights; refuse weights too large or too far apart."""
    if sample_weight is None:
        return None
    weights: Matrix = _check_sample_weight(sample_weight, rows, ensure_non_negative=True)
    if not weights.any():  # newer scikit-learn raises this itself
        raise InvalidInput("sample weights must not all be 0. Give at least one row a weight.")
    least, largest = float(weights[weights > 0].min()), float(weights.max())
    if largest > _MOST_WEIGHT or largest / _FARTHEST > least:
        raise InvalidInput(
            f"sample weights must be at most {_MOST_WEIGHT:g} and, except for 0, within a factor of {_FARTHEST:g};"
            f" got {least:g} to {largest:g}. Rescale them, or give 0 to rows that do not count."
        )
    return weights


def typical_norm(rows: Matrix, weights: Matrix | None = None) -> float:
    """Return the root mean square norm of weighted rows (n, d); 1 if all are zero."""
    return float(np.sqrt(np.average(np.einsum("ij,ij->i", rows, rows), weights=weights))) or 1.0
