"""Score: how well predictions do, and what the best constant answer would get."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thresher.pages import say_number
from thresher.runs.run import Test
from thresher.tables import say_label

__all__ = ["UNKNOWN", "digits_for", "round_shares", "say_recall", "say_scores", "score", "score_all"]

UNKNOWN = "rows of classes that were not trained on"
_MOST_CLASSES = 6  # whose recall is said; of more, the lowest


def score(predicted: NDArray[Any], y: NDArray[Any], *, task: str, known: NDArray[Any]) -> Test:
    """Return how well predictions (k,) of y do: accuracy, or root mean squared error in the target's own units.

    The best constant answer is the commonest, or the mean, of the targets that were ``known`` before.
    """
    if task == "classification":
        values, counts = np.unique(known, return_counts=True)
        guess = np.mean(y == values[counts.argmax()])
        return Test("accuracy", float(np.mean(predicted == y)), len(y), float(guess))
    error, guess = (np.sqrt(np.mean((one - y) ** 2)) for one in (predicted, known.mean()))
    return Test("RMSE", float(error), len(y), float(guess))


def score_all(
    predicted: NDArray[Any],
    y: NDArray[Any],
    *,
    task: str,
    chances: NDArray[np.float64] | None = None,
    classes: NDArray[Any] | None = None,
) -> dict[str, Any]:
    """Return every score of predictions (k,) of y: R2, RMSE, MAE; or accuracy, log loss and the recall of each class.

    ``chances`` (k, classes) are probabilities of ``classes``. Rows of other classes are wrong, are counted, and are
    left out of the log loss. R2 is NaN where all of y is the same. Cost: O(k), and O(k classes) for the recalls.
    """
    if task == "regression":
        error, spread = y - predicted, float(np.sum((y - y.mean()) ** 2))
        squares = float(np.sum(error**2))
        return {
            "R2": 1 - squares / spread if spread > 0 else math.nan,
            "RMSE": math.sqrt(squares / len(y)),
            "MAE": float(np.mean(np.abs(error))),
        }
    found: dict[str, Any] = {"accuracy": float(np.mean(predicted == y))}
    if chances is not None and classes is not None:
        place = np.minimum(np.searchsorted(classes, y), len(classes) - 1)
        met = classes[place] == y
        given = chances[np.arange(len(y)), place][met]
        found["log loss"] = float(-np.mean(np.log(np.maximum(given, 1e-300)))) if met.any() else math.nan
        found |= {UNKNOWN: int((~met).sum())} if not met.all() else {}
    labels, counts = np.unique(y, return_counts=True)
    recall = {say_label(one.item()): float(np.mean(predicted[y == one] == one)) for one in labels}
    return {**found, "recall": recall, "rows of each class": dict(zip(recall, counts.tolist(), strict=True))}


def say_scores(scores: Mapping[str, Any], errors: Mapping[str, float] | None = None) -> str:
    """Return scores in a line, with standard errors if there are any: R2 0.93 ± 0.01, RMSE 1.2 ± 0.1."""
    said = []
    for name, value in scores.items():
        if isinstance(value, float) and not math.isnan(value):
            shown = f"{value:.1%}" if name == "accuracy" else f"{value:.3f}" if name == "R2" else say_number(value)
            error = (errors or {}).get(name, math.nan)
            if not math.isnan(error):
                shown += f" ± {error:.1%}" if name == "accuracy" else f" ± {say_number(float(f'{error:.1g}'))}"
            said.append(f"{name} {shown}")
        elif name == UNKNOWN:
            said.append(f"{name}: {value:,} (wrong, and left out of the log loss)")
    return ", ".join(said)


def say_recall(scores: Mapping[str, Any]) -> str:
    """Return the recall of each class in a line, or of those with the lowest; empty for numbers."""
    recall: Mapping[str, float] = scores.get("recall", {})
    shown: Sequence[str] = list(recall)
    if not shown:
        return ""
    what = "Recall of each class"
    if len(shown) > _MOST_CLASSES:
        shown = sorted(recall, key=lambda name: recall[name])[:_MOST_CLASSES]
        what = f"Recall, lowest of {len(recall)} classes"
    rows = scores["rows of each class"]
    return f"{what}: " + ", ".join(f"{name[:40]} {recall[name]:.0%} of {rows[name]:,}" for name in shown) + "."


def round_shares(shares: NDArray[np.float64], decimals: int) -> NDArray[np.float64]:
    """Return shares (k, parts) rounded so that each row still adds up to 1: those cut most are rounded up.

    Cost: O(k parts log parts).
    """
    scaled = shares / shares.sum(axis=1, keepdims=True) * 10**decimals
    whole = np.floor(scaled)
    left = np.rint(10**decimals - whole.sum(axis=1, keepdims=True))
    order = np.argsort(whole - scaled, axis=1, kind="stable")
    return np.asarray((whole + (np.argsort(order, axis=1) < left)) / 10**decimals)


def digits_for(error: float) -> int | None:
    """Return the decimals that a number with this error deserves: one digit below that of the error; None for all."""
    return max(1 - math.floor(math.log10(error)), 0) if 0 < error < math.inf else None
