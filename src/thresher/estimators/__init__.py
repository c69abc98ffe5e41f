"""Estimators with scikit-learn's interface."""

from __future__ import annotations

from thresher.estimators.base import FarOutside, TooNarrow
from thresher.estimators.classifier import ThresherClassifier
from thresher.estimators.data.encoder import TableEncoder
from thresher.estimators.data.lift import SphereLift
from thresher.estimators.data.rows import hash_rows_of
from thresher.estimators.data.scaling import Scaling
from thresher.estimators.files.model_files import load_model
from thresher.estimators.fits.interpolation import WIDTH
from thresher.estimators.fits.many import EXACT, MANY
from thresher.estimators.regressor import ThresherRegressor

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
