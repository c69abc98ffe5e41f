"""Estimators with scikit-learn's interface."""

from __future__ import annotations

from thresher.errors import FarOutside, TooNarrow
from thresher.estimators.classifier import ThresherClassifier
from thresher.estimators.data.encoder import TableEncoder
from thresher.estimators.data.lift import SphereLift
from thresher.estimators.data.scaling import Scaling
from thresher.estimators.effects.values import Effects, Explanation
from thresher.estimators.files.model_files import load_model
from thresher.estimators.models.interpolation import WIDTH
from thresher.estimators.networks import NetworkClassifier, NetworkRegressor
from thresher.estimators.regressor import ThresherRegressor
from thresher.estimators.sizes import Sizes

__all__ = [
    "WIDTH",
    "Effects",
    "Explanation",
    "FarOutside",
    "NetworkClassifier",
    "NetworkRegressor",
    "Scaling",
    "Sizes",
    "SphereLift",
    "TableEncoder",
    "ThresherClassifier",
    "ThresherRegressor",
    "TooNarrow",
    "load_model",
]
