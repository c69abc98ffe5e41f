"""What a model says of rows: predictions, with probabilities or error bars where it has them."""

from __future__ import annotations

import inspect
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from thresher.errors import InvalidInput

__all__ = ["Answers", "ask"]


class Answers(NamedTuple):
    """Answers (k,) or (k, outputs), and probabilities (k, classes) or deviations like the answers, if asked for."""

    predicted: NDArray[Any]
    chances: NDArray[np.float64] | None = None
    deviations: NDArray[np.float64] | None = None


def ask(model: Any, X: Any, *, task: str, chances: bool = True, deviations: bool = True) -> Answers:
    """Return what a model says of rows X; probabilities of a classification, or deviations, unless it has none.

    A class is the one with the largest probability. Cost: one prediction.
    """
    if task == "classification" and chances and hasattr(model, "predict_proba"):
        found = np.asarray(model.predict_proba(X))
        return Answers(np.asarray(model.classes_)[found.argmax(axis=1)], chances=found)
    if task == "regression" and deviations and "return_std" in inspect.signature(model.predict).parameters:
        try:
            values, spread = (np.asarray(part, np.float64) for part in model.predict(X, return_std=True))
            return Answers(values, deviations=spread)
        except InvalidInput:  # trained to zero loss: nothing was left out, and there are no error bars
            pass
    return Answers(np.asarray(model.predict(X), np.float64 if task == "regression" else None))
