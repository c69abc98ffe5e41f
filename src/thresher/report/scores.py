"""Score: how well predictions do, and what the best constant answer would get."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from thresher.tables import say_label

__all__ = ["GUESS", "UNKNOWN", "ClassScore", "Confusion", "Test", "Threshold", "average_folds", "find_thresholds",
           "rmse", "score_all", "score_classes", "size_of"]  # fmt: skip

UNKNOWN = "rows of classes that were not trained on"
GUESS = " of the guess"  # ends the name of what the best constant answer gets
_COSTS = (1, 2, 5, 10, 20, 50, 100)  # of a missed row, in false alarms


class Test(NamedTuple):
    """The score that a model is judged by: ``measure`` is "log loss", "accuracy" or "RMSE"."""

    measure: str
    value: float
    rows: int
    guess: float  # what the best constant answer would get: shares of classes, the commonest class, or the mean

    @classmethod
    def of(cls, scores: Mapping[str, Any], rows: int) -> Test:
        """Return the score of ``score_all`` that a model is judged by: RMSE, or log loss; both are lower if better.

        Classes without probabilities are judged by their accuracy.
        """
        measure = next((name for name in ("RMSE", "log loss") if scores.get(name, math.nan) >= 0), "accuracy")
        return cls(measure, scores[measure], rows, scores[f"{measure}{GUESS}"])


@dataclass(frozen=True)
class ClassScore:
    """Of one class: rows that have it, the share of them that was found, and the share of its answers that is right."""

    name: str
    rows: int
    recall: float  # NaN where no row has the class
    precision: float  # NaN where it was never the answer


@dataclass(frozen=True)
class Confusion:
    """How many rows of one class got the answer of another, or of the same."""

    actual: str
    predicted: str
    rows: int


@dataclass(frozen=True)
class Threshold:
    """The rarer class as the answer from a probability on: rows that get this answer, and those it is right for.

    Answers are best from 1 / (1 + cost) on if probabilities are right and a missed row costs ``cost`` false alarms.
    """

    probability: float
    cost: float
    answers: int
    right: int


def score_all(
    predicted: NDArray[Any],
    y: NDArray[Any],
    *,
    task: str,
    known: NDArray[Any] | None = None,
    chances: NDArray[np.float64] | None = None,
    classes: NDArray[Any] | None = None,
) -> dict[str, Any]:
    """Return every score of predictions (k,) of y, and what the best constant answer gets, by its name and GUESS.

    Of numbers these are R2 (NaN where all of y is the same), RMSE and MAE. Of classes they are, with ``chances``
    (k, classes) of ``classes``, AUC (of more than two the mean of each against the rest), the average precision of the
    rarer of two, and the log loss; then accuracy and the recall of each class. The
    constant answer is the mean, the shares of the classes (the base rate), or the commonest class of the targets that
    were ``known`` before; without these, of y. Rows of classes that are not among ``classes`` are wrong, are counted,
    and are left out of the scores of probabilities. Cost: O(k classes log k).
    """
    from sklearn import metrics

    known = y if known is None else known
    if task == "regression":
        unit = size_of(y)
        y, predicted, guess = y / unit, predicted / unit, np.full(len(y), known.mean() / unit)
        return {
            "R2": float(metrics.r2_score(y, predicted)) if np.ptp(y) > 0 else math.nan,
            "RMSE": unit * rmse(y, predicted),
            "MAE": unit * float(metrics.mean_absolute_error(y, predicted)),
            f"RMSE{GUESS}": unit * rmse(y, guess),
            f"MAE{GUESS}": unit * float(metrics.mean_absolute_error(y, guess)),
        }
    found: dict[str, Any] = {}
    if chances is not None and classes is not None:
        found = _score_chances(chances, y, known=known, classes=classes)
    values, counts = np.unique(known, return_counts=True)
    found["accuracy"] = float(metrics.accuracy_score(y, predicted))
    found[f"accuracy{GUESS}"] = float(metrics.accuracy_score(y, np.full(len(y), values[counts.argmax()])))
    labels, counts = np.unique(y, return_counts=True)
    recall = metrics.recall_score(y, predicted, labels=labels, average=None, zero_division=0.0).tolist()
    names = [say_label(one) for one in labels.tolist()]
    found["recall"] = dict(zip(names, recall, strict=True))
    return {**found, "rows of each class": dict(zip(names, counts.tolist(), strict=True))}


def rmse(y: NDArray[np.float64], predicted: NDArray[np.float64]) -> float:
    """Return the root of the mean squared error of predictions (k,) of y (k,), numbers of any size."""
    from sklearn.metrics import root_mean_squared_error

    unit = size_of(y)
    return unit * float(root_mean_squared_error(y / unit, predicted / unit))


def size_of(y: NDArray[np.float64]) -> float:
    """Return the largest size of y: divided by it, squares of huge and tiny numbers are numbers."""
    return float(np.abs(y).max()) or 1.0


def score_classes(
    predicted: NDArray[Any], y: NDArray[Any], labels: NDArray[Any]
) -> tuple[list[ClassScore], list[Confusion]]:
    """Return recall and precision of each of the labels, which include all of y (k,), and what was taken for what."""
    from sklearn.metrics import confusion_matrix, precision_recall_fscore_support

    names = [say_label(one) for one in labels.tolist()]
    precision, recall, _, rows = precision_recall_fscore_support(y, predicted, labels=labels, zero_division=np.nan)
    classes = [ClassScore(*one) for one in zip(names, map(int, rows), recall.tolist(), precision.tolist(), strict=True)]
    table = confusion_matrix(y, predicted, labels=labels)
    return classes, [Confusion(names[i], names[j], int(table[i, j])) for i, j in np.argwhere(table)]


def _score_chances(
    chances: NDArray[np.float64], y: NDArray[Any], *, known: NDArray[Any], classes: NDArray[Any]
) -> dict[str, Any]:
    from sklearn import metrics

    place = np.minimum(np.searchsorted(classes, y), len(classes) - 1)
    met = classes[place] == y
    place, chances = place[met], chances[met]
    shares = np.array([np.mean(known == one) for one in classes])
    there, every = np.unique(place), len(classes) > 1 and len(place) > 0
    found: dict[str, Any] = {"AUC": math.nan}
    if len(there) > 1:
        found["AUC"] = float(np.mean([metrics.roc_auc_score(place == one, chances[:, one]) for one in there]))
    if len(classes) == 2:
        rare = _rarer(shares)
        truth, name = place == rare, "average precision"
        found |= {name: math.nan, f"{name}{GUESS}": math.nan, "rarer class": say_label(classes.tolist()[rare])}
        if truth.any():
            found[name] = float(metrics.average_precision_score(truth, chances[:, rare]))
            found[f"{name}{GUESS}"] = float(truth.mean())
        at = Threshold(float(shares[rare]), math.nan, *_count(chances[:, rare] >= shares[rare], truth))
        found["from the base rate on"] = {
            "probability": at.probability, "recall": at.right / int(truth.sum()) if truth.any() else math.nan,
            "precision": at.right / at.answers if at.answers else math.nan,
        }  # fmt: skip
    labels = np.arange(len(classes))
    for end, ones in (("", chances), (GUESS, np.broadcast_to(shares / (shares.sum() or 1.0), chances.shape))):
        says = every and (not end or np.count_nonzero(shares) > 1)  # of one class alone no share is known
        found[f"log loss{end}"] = float(metrics.log_loss(place, ones, labels=labels)) if says else math.nan
    return found | ({UNKNOWN: int((~met).sum())} if not met.all() else {})


def find_thresholds(
    chances: NDArray[np.float64], y: NDArray[Any], *, known: NDArray[Any], classes: NDArray[Any]
) -> list[Threshold]:
    """Return what the rarer of two classes as the answer gets from several probabilities on, the highest first.

    Thresholds are known beforehand: they follow from costs of mistakes, and one is the share of the class in ``known``
    targets. Nothing is chosen by ``chances`` (k, 2) and y (k,), on which they are only tried. Cost: O(k).
    """
    shares = np.array([np.mean(known == one) for one in classes])
    rare = _rarer(shares)
    costs = sorted({*map(float, _COSTS), float(1 / max(shares[rare], 1e-6) - 1)})
    chance, truth = chances[:, rare], y == classes[rare]
    return [Threshold(1 / (1 + cost), cost, *_count(chance >= 1 / (1 + cost), truth)) for cost in costs]


def _rarer(shares: NDArray[np.float64]) -> int:
    """Return the place of the rarer of two classes; of the second if they have the same shares (2,)."""
    return int(shares[0] >= shares[1])


def _count(answers: NDArray[np.bool_], truth: NDArray[np.bool_]) -> tuple[int, int]:
    return int(answers.sum()), int((answers & truth).sum())


def average_folds(every: Sequence[Mapping[str, Any]]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the mean scores of two or more folds, and the scores of each with the standard errors of these means.

    Recall is that of the rows of all folds. Scores that only some folds have are left out.
    """
    values = {name: [one[name] for one in every] for name in _names_of_all(every)}
    means: dict[str, Any] = {name: float(np.mean(ones)) for name, ones in values.items()}
    errors = {name: float(np.std(ones, ddof=1)) / math.sqrt(len(every)) for name, ones in values.items()}
    return means | _classes_of_all(every), {"scores": values, "standard errors": errors}


def _names_of_all(scores: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the names of the numbers that the scores of all folds have, of one rarer class only."""
    one_class = len({one.get("rarer class") for one in scores}) == 1
    names = [name for name, value in scores[0].items() if isinstance(value, float)]
    return [
        name
        for name in names
        if all(name in one for one in scores) and (one_class or not name.startswith("average precision"))
    ]


def _classes_of_all(scores: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return what is known of classes over the rows of all folds, above all their recall; nothing for numbers."""
    rows: dict[str, int] = {}
    right: dict[str, float] = {}
    for one in scores:
        for name, count in one.get("rows of each class", {}).items():
            rows[name] = rows.get(name, 0) + count
            right[name] = right.get(name, 0.0) + count * one["recall"][name]
    if not rows:
        return {}
    names = sorted(rows)
    told: dict[str, Any] = {
        "recall": {name: right[name] / rows[name] for name in names},
        "rows of each class": {name: rows[name] for name in names},
    }
    if "rarer class" in scores[0] and len({one.get("rarer class") for one in scores}) == 1:
        low = [one["from the base rate on"] for one in scores]
        told["rarer class"] = scores[0]["rarer class"]
        told["from the base rate on"] = {name: float(np.mean([one[name] for one in low])) for name in low[0]}
    if unknown := sum(one.get(UNKNOWN, 0) for one in scores):
        told[UNKNOWN] = unknown
    return told
