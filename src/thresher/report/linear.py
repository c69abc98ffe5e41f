"""A linear model of the same columns, fitted to the same rows, to compare with."""

from __future__ import annotations

import math
import warnings
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from thresher.estimators import TableEncoder
from thresher.report.scores import score_all, size_of
from thresher.tables.picking import CellPicker
from thresher.tables.rows_on_disk import Part, on_disk

__all__ = ["Linear", "score_linear"]

_MOST_ROWS, _LEAST_ROWS = 20_000, 1_000
_MOST_NUMBERS = 50_000_000  # rows times columns times outputs of a fit
_TRIED_ROWS = 4_000  # of classes, that the penalty is chosen on
_PENALTIES = (0.001, 0.01, 0.1, 1.0)  # inverse penalties of classes
_RIDGES = np.logspace(-3, 5, 17)


class Linear(NamedTuple):
    """Scores of a linear model, under the names of those of ``score_all``, and the rows that it was fitted to."""

    scores: dict[str, float]
    rows: int


def score_linear(model: Any, known: tuple[Any, NDArray[Any]], X: Any, y: NDArray[Any], *, task: str) -> Linear | None:
    """Return the scores on rows X (k, d), targets y (k,), of a linear model fitted to ``known`` rows and targets.

    It is a ridge regression, or a logistic one, with a penalty chosen by rows left out, of the columns as the model's
    encoder makes numbers of them, standardised. Of very many rows it is fitted to some. None where there are fewer than
    ten rows, or one class.

    Cost: O(n d²) for n ≤ 20,000 rows.
    """
    from sklearn.base import clone
    from sklearn.preprocessing import StandardScaler

    rows, targets = known
    if len(targets) < 10 or (task == "classification" and len(np.unique(targets)) < 2):
        return None
    outputs = 1 if task == "regression" else len(np.unique(targets))
    own = getattr(model, "encoder_", None)
    encoder = TableEncoder(task=task) if own is None else clone(own)
    some = np.sort(np.random.default_rng(0).permutation(len(targets))[:_MOST_ROWS])
    if len(some) < len(targets) or on_disk(rows):
        rows, targets = _take(rows, some), targets[some]
    unit = size_of(targets) if task == "regression" else None
    scaled = targets if unit is None else targets / unit
    numbers = encoder.fit_transform(rows, scaled)
    most = max(_LEAST_ROWS, int(_MOST_NUMBERS / (numbers.shape[1] * outputs)))
    kept = np.random.default_rng(1).permutation(len(targets))[:most]
    units = np.array([size_of(column) for column in numbers[kept].T])
    scaler = StandardScaler().fit(numbers[kept] / units)
    fitted = _fit(scaler.transform(numbers[kept] / units), scaled[kept], task)
    new = scaler.transform(encoder.transform(_take(X, np.arange(len(y))) if on_disk(X) else X) / units)
    predicted = fitted.predict(new) if unit is None else unit * fitted.predict(new)
    chances = fitted.predict_proba(new) if task == "classification" else None
    classes = fitted.classes_ if task == "classification" else None
    found = score_all(predicted, y, task=task, known=targets, chances=chances, classes=classes)
    return Linear({name: value for name, value in found.items() if isinstance(value, float)}, len(kept))


def _take(X: Any, places: NDArray[np.int64]) -> Any:
    return Part(X).take(places) if on_disk(X) else CellPicker.of(X).table(places)


def _fit(numbers: NDArray[np.float64], targets: NDArray[Any], task: str) -> Any:
    """Return a linear model of standardised columns, its penalty chosen by rows left out."""
    from sklearn.linear_model import LogisticRegression, RidgeCV

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a fit that has not converged is close enough to compare with
        if task == "regression":
            return RidgeCV(alphas=_RIDGES).fit(numbers, targets)
        tried = numbers[:_TRIED_ROWS], targets[:_TRIED_ROWS]
        return LogisticRegression(C=_penalty(*tried), max_iter=200).fit(numbers, targets)


def _penalty(numbers: NDArray[np.float64], targets: NDArray[Any]) -> float:
    """Return the inverse penalty with the least log loss on a quarter of the rows."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.metrics import log_loss
    from sklearn.model_selection import train_test_split

    counts = np.unique(targets, return_counts=True)[1]
    labels = targets if counts.min() >= 2 and len(targets) >= 8 * len(counts) else None
    fit, held, y_fit, y_held = train_test_split(numbers, targets, test_size=0.25, random_state=0, stratify=labels)
    known = np.isin(y_held, y_fit)
    if len(np.unique(y_fit)) < 2 or not known.any():
        return _PENALTIES[-1]
    best = (math.inf, _PENALTIES[-1])
    for penalty in _PENALTIES:
        fitted = LogisticRegression(C=penalty, max_iter=200).fit(fit, y_fit)
        loss = log_loss(y_held[known], fitted.predict_proba(held[known]), labels=fitted.classes_)
        best = min(best, (float(loss), penalty))
    return best[1]
