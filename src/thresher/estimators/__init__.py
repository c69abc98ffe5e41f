"""Estimators with scikit-learn's interface."""

from __future__ import annotations

from pathlib import Path

from thresher.estimators.base import FarOutside, TooNarrow
from thresher.estimators.classifier import ThresherClassifier
from thresher.estimators.lift import SphereLift
from thresher.estimators.model_files import load_model
from thresher.estimators.regressor import ThresherRegressor
from thresher.estimators.scaling import Scaling
from thresher.training import Result

__all__ = ["FarOutside", "Scaling", "SphereLift", "ThresherClassifier", "ThresherRegressor", "TooNarrow", "load"]


def load(path: str | Path, *, threads: int | None = None) -> ThresherClassifier | ThresherRegressor | Result:
    """Return what ``save`` of an estimator, or of a :class:`Result`, wrote to a file; nothing in it is executed.

    Cost: O(bytes); for a recipe also the passes of training, O(mnd) per step and output.
    """
    loaded: ThresherClassifier | ThresherRegressor | Result = load_model(
        path, (ThresherClassifier, ThresherRegressor), threads=threads
    )
    return loaded
