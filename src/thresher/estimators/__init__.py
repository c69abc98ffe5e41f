"""Estimators with scikit-learn's interface."""

from __future__ import annotations

from thresher.errors import FarOutside
from thresher.estimators.classifier import ThresherClassifier
from thresher.estimators.data.encoder import TableEncoder
from thresher.estimators.data.lift import SphereLift
from thresher.estimators.data.scaling import Scaling
from thresher.estimators.effects.values import Effects, Explanation
from thresher.estimators.files.model_files import load_model
from thresher.estimators.networks import NetworkClassifier, NetworkRegressor
from thresher.estimators.regressor import ThresherRegressor
from thresher.estimators.settings import Sizes

__all__ = [
    "TRUSTED_TYPES",
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
    "load_model",
]

# What skops, and MLflow by it, has to trust to read our estimators: they are pickled as arrays, numbers and words.
TRUSTED_TYPES = tuple(
    f"{one.__module__}.{one.__name__}"
    for one in (
        NetworkClassifier,
        NetworkRegressor,
        SphereLift,
        TableEncoder,
        ThresherClassifier,
        ThresherRegressor,
    )
)
