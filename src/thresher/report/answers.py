"""What a model says of rows: predictions, with probabilities or error bars where it has them."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from thresher.errors import InvalidInput

__all__ = ["Answers", "ask", "classes_of"]


class Answers(NamedTuple):
    """Answers (k,) or (k, outputs), and what was asked for besides.

    Probabilities are (k, classes), deviations like the answers, quantiles (k, q) or (k, outputs, q).
    """

    predicted: NDArray[Any]
    chances: NDArray[np.float64] | None = None
    deviations: NDArray[np.float64] | None = None
    quantiles: NDArray[np.float64] | None = None


def ask(
    model: Any,
    X: Any,
    *,
    task: str,
    chances: bool = True,
    deviations: bool = False,
    quantiles: Sequence[float] | NDArray[np.float64] = (),
) -> Answers:
    """Return what a model says of rows X; probabilities of a classification, deviations or quantiles, if it has them.

    A class is the one with the largest probability. Of a model that has deviations alone, quantiles are those of a
    normal distribution. Cost: one prediction, and one more for quantiles.
    """
    if task == "classification" and chances and hasattr(model, "predict_proba"):
        found = np.asarray(model.predict_proba(X))
        return Answers(np.asarray(model.classes_)[found.argmax(axis=1)], chances=found)
    asked = len(quantiles) > 0
    own, bars = hasattr(model, "predict_quantiles"), "return_std" in inspect.signature(model.predict).parameters
    spread = values = places = None
    try:
        if task == "regression" and bars and (deviations or (asked and not own)):
            values, spread = (np.asarray(part, np.float64) for part in model.predict(X, return_std=True))
        if task == "regression" and asked and own:
            places = np.asarray(model.predict_quantiles(X, quantiles), np.float64)
        elif asked and values is not None and spread is not None:
            places = values[..., None] + spread[..., None] * ndtri(np.asarray(quantiles))
    except InvalidInput:  # trained to zero loss: nothing was left out, and there are no error bars
        pass
    if values is None:
        values = np.asarray(model.predict(X), np.float64 if task == "regression" else None)
    if values.ndim == 2 and values.shape[1] == 1:  # as many estimators answer where targets had a column of their own
        values = values[:, 0]
        spread, places = (None if one is None else one[:, 0] for one in (spread, places))
    return Answers(values, deviations=spread if deviations else None, quantiles=places)


def classes_of(model: Any) -> Any:
    """Return the labels of a fitted classifier of any library (classes,); None for a model that tells of none."""
    return getattr(model, "classes_", None)
