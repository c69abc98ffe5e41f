"""Estimators with scikit-learn's interface."""

from __future__ import annotations

from thresher.estimators.base import FarOutside, TooNarrow
from thresher.estimators.classifier import ThresherClassifier
from thresher.estimators.encoder import TableEncoder
from thresher.estimators.interpolation import WIDTH
from thresher.estimators.lift import SphereLift
from thresher.estimators.many import EXACT, MANY
from thresher.estimators.model_files import load_model
from thresher.estimators.regressor import ThresherRegressor
from thresher.estimators.rows import hash_rows_of
from thresher.estimators.scaling import Scaling

__all__ = [
    "EXACT",
    "MANY",
    "WIDTH",
    "FarOutside",
    "Scaling",
    "SphereLift",
    "TableEncoder",
    "ThresherClassifier",
    "ThresherRegressor",
    "TooNarrow",
    "hash_rows_of",
    "load_model",
]
