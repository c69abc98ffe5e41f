"""Probabilities of classes: labels as a loss sees them, and what outputs say of them.

No label is taken as quite certain: if none of n observations left out is misclassified, the next may be, with a chance
of 1 / (n + 2) (Laplace's rule of succession). Otherwise outputs of separable classes had no bound.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar
from scipy.special import log_softmax

__all__ = ["by_class", "find_temperature", "log_loss", "uncertain_labels"]

Matrix = NDArray[np.float64]
_MOST_LOG_TEMPERATURE = 8.0


def by_class(scores: Matrix) -> Matrix:
    """Return scores (k, classes) from outputs (k, outputs); a single output is for the second of two classes."""
    return np.column_stack([-scores / 2, scores / 2]) if scores.shape[1] == 1 else scores


def uncertain_labels(wanted: Matrix, weights: Matrix) -> Matrix:
    """Return labels (c, classes), not quite certain, from wanted scores (c, outputs) and weights (c,)."""
    scores = by_class(wanted)
    count = scores.shape[1]
    doubt = count / (count - 1) / (float(weights.sum()) + 2)
    return np.eye(count)[scores.argmax(axis=1)] * (1 - doubt) + doubt / count


def log_loss(labels: Matrix, scores: Matrix, weights: Matrix) -> float:
    """Return the weighted mean log loss of labels (c, classes) under scores (c, classes)."""
    return -float(np.average((labels * log_softmax(scores, axis=1)).sum(axis=1), weights=weights))


def find_temperature(wanted: Matrix, scores: Matrix, weights: Matrix) -> float:
    """Return the factor under which labels are most likely, given scores (c, outputs) of observations left out."""
    labels, given = uncertain_labels(wanted, weights), by_class(scores)
    found = minimize_scalar(
        lambda log_factor: log_loss(labels, np.exp(log_factor) * given, weights),
        bounds=(-_MOST_LOG_TEMPERATURE, _MOST_LOG_TEMPERATURE),
        method="bounded",
    )
    return float(np.exp(found.x))
