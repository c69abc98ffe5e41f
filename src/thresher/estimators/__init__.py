"""Estimators in scikit-learn's manner."""

from thresher.estimators.classifier import ThresherClassifier
from thresher.estimators.lift import SphereLift
from thresher.estimators.regressor import ThresherRegressor

__all__ = ["SphereLift", "ThresherClassifier", "ThresherRegressor"]
