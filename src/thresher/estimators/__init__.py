"""Estimators with scikit-learn's interface."""

from __future__ import annotations

from pathlib import Path

from thresher.estimators.base import FarOutside
from thresher.estimators.classifier import ThresherClassifier
from thresher.estimators.lift import SphereLift
from thresher.estimators.model_files import load_model
from thresher.estimators.regressor import ThresherRegressor
from thresher.estimators.scaling import Scaling

__all__ = ["FarOutside", "Scaling", "SphereLift", "ThresherClassifier", "ThresherRegressor", "load"]


def load(path: str | Path, *, threads: int | None = None) -> ThresherClassifier | ThresherRegressor:
    """Return the fitted estimator that ``save`` wrote to a file; nothing in the file is executed.

    Cost: O(bytes); for a recipe also the passes of training, O(mnd) per step and output.
    """
    estimator: ThresherClassifier | ThresherRegressor = load_model(
        path, (ThresherClassifier, ThresherRegressor), threads=threads
    )
    return estimator
