"""Figures that others published, or that were run outside this project, with where they come from."""

from __future__ import annotations

from typing import NamedTuple

README = "README of the data"


class Mean(NamedTuple):
    """A mean accuracy in percent over the 45 classification sets."""

    label: str
    accuracy: float
    source: str


class Errors(NamedTuple):
    """RMSE by set."""

    label: str
    rmse: dict[str, float]
    source: str


SETS = 45
PUBLISHED_TABLES = 24
REGRESSION_SETS = ("concrete", "yacht", "wine-quality-red", "kin8nm", "bostonHousing")  # Boston last: no headline
BOSTON = "bostonHousing"
MEANS = (
    Mean("NTK, depth up to 5, SVM, tuned", 83.40, f"own re-run with the protocol of Arora et al. 2019; {README}"),
    Mean("random forest, rf_caret", 82.78, f"published per set; {README}"),
    Mean("Gaussian SVM", 82.27, README),
)


def _errors(label: str, source: str, *rmse: float) -> Errors:
    order = ("bostonHousing", "concrete", "yacht", "wine-quality-red", "kin8nm")
    return Errors(label, dict(zip(order, rmse, strict=False)), source)


DROPOUT = _errors("MC-dropout, clean tuning", f"published 2018; {README}", 2.90, 4.82, 0.67, 0.62, 0.08)
LIGHTGBM = _errors("LightGBM, untuned", f"own earlier run; {README}", 2.92, 4.32, 0.58)
ERRORS = (
    _errors("PBP", f"published; {README}", 3.01, 5.67, 1.02, 0.64, 0.10),
    _errors("Deep Ensembles", f"published; {README}", 3.28, 6.03, 1.58, 0.64, 0.09),
    DROPOUT,
    _errors("MC-dropout, two hidden layers", f"published; {README}", 2.80, 4.50, 0.66, 0.60, 0.08),
    LIGHTGBM,
    _errors("Gaussian kernel ridge", f"own earlier run; {README}", 2.96, 5.58, 0.51),
)
