"""What a model says of rows: predictions, with probabilities or quantiles where it has them."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from thresher.errors import InvalidInput

__all__ = ["Answers", "ask"]


class Answers(NamedTuple):
    """Answers (k,) or (k, outputs), and what was asked for besides.

    Probabilities are (k, classes), quantiles (k, q) or (k, outputs, q).
    """

    predicted: NDArray[Any]
    chances: NDArray[np.float64] | None = None
    quantiles: NDArray[np.float64] | None = None


def ask(
    model: Any,
    X: Any,
    *,
    task: str,
    chances: bool = True,
    quantiles: Sequence[float] | NDArray[np.float64] = (),
) -> Answers:
    """Return what a model says of rows X; probabilities of a classification, and quantiles, if it has them.

    A class is the one with the largest probability. Of a model that has deviations alone, quantiles are those of a
    normal distribution. Cost: one prediction, and one more for quantiles.
    """
    if task == "classification" and chances and hasattr(model, "predict_proba"):
        found = np.asarray(model.predict_proba(X))
        return Answers(np.asarray(model.classes_)[found.argmax(axis=1)], chances=found)
    values = places = None
    try:
        if task == "regression" and len(quantiles):
            if hasattr(model, "predict_quantiles"):
                places = np.asarray(model.predict_quantiles(X, quantiles), np.float64)
            elif "return_std" in inspect.signature(model.predict).parameters:
                values, spread = (np.asarray(part, np.float64) for part in model.predict(X, return_std=True))
                places = values[..., None] + spread[..., None] * ndtri(np.asarray(quantiles))
    except InvalidInput:  # there are no error bars, or none this far out
        pass
    if values is None:
        values = np.asarray(model.predict(X), np.float64 if task == "regression" else None)
    if values.ndim == 2 and values.shape[1] == 1:  # as many estimators answer where targets had a column of their own
        values, places = values[:, 0], None if places is None else places[:, 0]
    return Answers(values, quantiles=places)
