"""Estimators with scikit-learn's interface."""

from __future__ import annotations

from thresher.estimators.base import FarOutside, TooNarrow
from thresher.estimators.classifier import ThresherClassifier
from thresher.estimators.encoder import TableEncoder
from thresher.estimators.lift import SphereLift
from thresher.estimators.regressor import ThresherRegressor
from thresher.estimators.scaling import Scaling

__all__ = [
    "FarOutside",
    "Scaling",
    "SphereLift",
    "TableEncoder",
    "ThresherClassifier",
    "ThresherRegressor",
    "TooNarrow",
]
