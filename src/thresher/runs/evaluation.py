"""Evaluate: what a model does on rows it has never seen, in numbers that a report shows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thresher.errors import InvalidInput
from thresher.interfaces import Progress
from thresher.runs.answers import Answers, ask, classes_of
from thresher.runs.influence import Effect, Importance, TestedModel, find_influence
from thresher.runs.scores import (
    GUESS,
    ClassScore,
    Confusion,
    Threshold,
    find_thresholds,
    score_all,
    score_classes,
)
from thresher.runs.terms import Term, terms_of
from thresher.tables import say_label
from thresher.tables.picking import CellPicker, say_cell

__all__ = ["Bin", "Evaluation", "Example", "Level", "Point", "evaluate_rows"]

MOST_ROWS = 10_000  # that are looked at
MOST_POINTS = 1_000  # that are kept for a picture
MOST_EXAMPLES = 10
LEVELS = (0.5, 0.68, 0.8, 0.9, 0.95, 0.99)
_SHOWN = LEVELS.index(0.95)  # of the error bars of single rows
BINS = 10  # of confidence
_SHARES = 30  # terms whose shares are kept


@dataclass(frozen=True)
class Point:
    """One row: what it is, what was predicted, and the ends of its 95 % error bar, if there is one."""

    actual: float
    predicted: float
    lower: float | None = None
    upper: float | None = None


@dataclass(frozen=True)
class Level:
    """Error bars that should hold a share of the rows, and the share that they hold."""

    nominal: float
    observed: float


@dataclass(frozen=True)
class Bin:
    """Rows whose answers have about the same probability: its mean, and the share of them that is right."""

    confidence: float
    right: float
    rows: int


@dataclass(frozen=True)
class Example:
    """A row that the model is most wrong about; ``cells`` are those of the columns that matter most."""

    row: int  # in the file, from 1
    cells: dict[str, str]
    actual: str  # of a number all digits
    predicted: str
    lower: float | None = None  # end of the 95 % error bar of a number
    upper: float | None = None
    probability: float | None = None  # that the answer had


@dataclass(frozen=True)
class Evaluation:
    """What a model does on rows it has never seen. Numbers are in units of the target."""

    task: str
    target: str
    columns: list[str]
    rows: int  # looked at
    scores: dict[str, float]
    points: list[Point] = field(default_factory=list)
    edges: list[float] = field(default_factory=list)  # of the histogram of actual minus predicted
    counts: list[int] = field(default_factory=list)
    coverage: list[Level] = field(default_factory=list)
    classes: list[ClassScore] = field(default_factory=list)
    confusions: list[Confusion] = field(default_factory=list)  # those with at least one row
    calibration: list[Bin] = field(default_factory=list)
    rarer: str = ""  # of two classes with probabilities
    thresholds: list[Threshold] = field(default_factory=list)  # for it, the highest first
    importances: list[Importance] = field(default_factory=list)  # the largest first
    effects: list[Effect] = field(default_factory=list)
    influence_rows: int = 0  # that importances and effects were found on
    examples: list[Example] = field(default_factory=list)
    shares: dict[str, float] = field(default_factory=dict)  # of the terms of a model with parts, the largest first
    terms: list[Term] = field(default_factory=list)  # those that can be drawn


def evaluate_rows(
    model: Any,
    X: Any,
    y: NDArray[Any],
    *,
    task: str,
    known: NDArray[Any],
    target: str = "y",
    numbers: NDArray[np.int64] | None = None,
    encode: Callable[[dict[str, Any]], Any] | None = None,
    seconds: float = 5.0,
    progress: Progress | None = None,
) -> Evaluation:
    """Return what a fitted model does on rows that it was not fitted to, X with targets y (k,), k ≥ 1.

    Parameters
    ----------
    model : what has ``predict``, for error bars ``predict_quantiles`` or ``return_std``, and for classes
        ``predict_proba`` and ``classes_``
    X : the original columns: arrays by name, a pandas or polars frame, or a matrix (k, d)
    task : ``"regression"`` or ``"classification"``
    known : targets of the rows fitted to: the best constant guess is their mean, or the commonest
    target : what the target is called
    numbers : of the rows in their file (k,), from 1
    encode : makes what the model takes from columns by name, see :class:`CellPicker`
    seconds : about how long it may take to find which columns matter; fewer rows are used for it if they must
    progress : told how much of that is done

    Cost: one prediction of at most 10,000 rows, then about ``seconds``.
    """
    rows, y = CellPicker.of(X, encode=encode), np.asarray(y)
    if not len(y) or len(y) != len(rows):
        raise InvalidInput(f"there must be at least one row, and a target for each; got {len(rows)} and {len(y)}.")
    numbers = np.arange(1, len(y) + 1) if numbers is None else np.asarray(numbers)
    places = np.arange(len(y))
    if len(y) > MOST_ROWS:
        places = np.sort(np.random.default_rng(0).permutation(len(y))[:MOST_ROWS])
    ends = [(1 + sign * level) / 2 for level in LEVELS for sign in (-1, 1)]
    answers, wanted = ask(model, rows.table(places), task=task, quantiles=ends), y[places]
    tested = TestedModel(model, task, classes_of(model), rows, y)
    influence = find_influence(tested, places, seconds=seconds, progress=progress)
    if task == "regression":
        scored = _of_numbers(answers, wanted, known)
    else:
        scored = _of_classes(answers, wanted, known, tested.classes)
    shown = [one.column for one in influence.importances] or rows.names
    return Evaluation(
        task,
        target,
        rows.names,
        rows=len(places),
        importances=influence.importances,
        effects=influence.effects,
        influence_rows=influence.rows,
        examples=_examples(tested, answers, places, numbers, shown[:6]),
        terms=(terms := terms_of(model)),
        shares=dict(islice(model.effect_shares_.items(), _SHARES)) if terms else {},
        **scored,
    )


def _of_numbers(answers: Answers, y: NDArray[Any], known: NDArray[Any]) -> dict[str, Any]:
    wanted = y.astype(np.float64)
    errors = wanted - answers.predicted
    found = score_all(answers.predicted, wanted, task="regression", known=np.asarray(known, np.float64))
    scores = {
        "RMSE": found["RMSE"], "RMSE of the guess": found[f"RMSE{GUESS}"],
        "mean error": found["MAE"], "mean error of the guess": found[f"MAE{GUESS}"],
        "median error": float(np.median(np.abs(errors))), "guess": float(np.mean(known)), "R2": found["R2"],
    }  # fmt: skip
    some = np.random.default_rng(0).permutation(len(y))[:MOST_POINTS]
    points = [Point(float(wanted[k]), float(answers.predicted[k]), *_ends(answers, k)) for k in np.sort(some)]
    far = float(np.abs(errors).max()) or 1.0
    counts, edges = np.histogram(errors, bins=min(41, 2 * int(np.sqrt(len(y))) + 1), range=(-far, far))
    coverage = []
    if answers.quantiles is not None:
        for place, level in enumerate(LEVELS):
            lower, upper = answers.quantiles[:, 2 * place : 2 * place + 2].T
            coverage.append(Level(level, float(np.mean((lower <= wanted) & (wanted <= upper)))))
    return {"scores": scores, "points": points, "edges": edges.tolist(), "counts": counts.tolist(),
            "coverage": coverage}  # fmt: skip


def _of_classes(answers: Answers, y: NDArray[Any], known: NDArray[Any], classes: Any) -> dict[str, Any]:
    labels = np.unique(np.concatenate([known, y])) if classes is None else np.asarray(classes)
    labels = np.concatenate([labels, np.setdiff1d(y, labels)])  # some may be new
    each, confusions = score_classes(answers.predicted, y, labels)
    every = score_all(
        answers.predicted, y, task="classification", known=known, chances=answers.chances, classes=classes
    )
    scores = {name: value for name, value in every.items() if isinstance(value, float)}
    scores["mean recall"] = float(np.nanmean([one.recall for one in each]))
    told: dict[str, Any] = {"classes": each, "confusions": confusions, "scores": scores}
    if answers.chances is not None:
        confidence = answers.chances.max(axis=1)
        scores["mean probability of the answer"] = float(confidence.mean())
        told["calibration"] = _calibration(confidence, y == answers.predicted)
        if "rarer class" in every:
            told["rarer"] = every["rarer class"]
            told["thresholds"] = find_thresholds(answers.chances, y, known=known, classes=np.asarray(classes))
    return told


def _calibration(confidence: NDArray[np.float64], right: NDArray[np.bool_]) -> list[Bin]:
    bins = np.minimum((confidence * BINS).astype(int), BINS - 1)
    return [
        Bin(float(confidence[bins == k].mean()), float(right[bins == k].mean()), int((bins == k).sum()))
        for k in np.unique(bins)
    ]


def _examples(
    model: TestedModel, answers: Answers, places: NDArray[np.int64], numbers: NDArray[np.int64], shown: list[str]
) -> list[Example]:
    """Return the rows with the largest errors, or those whose wrong answers have the highest probability."""
    wanted, probability = model.y[places], None
    if model.task == "regression":
        badness = np.abs(wanted - answers.predicted)
    else:
        probability = None if answers.chances is None else answers.chances.max(axis=1)
        badness = np.where(answers.predicted != wanted, 1.0 if probability is None else probability, 0.0)
    order = np.argsort(-badness, kind="stable")[:MOST_EXAMPLES]
    order = order[badness[order] > 0]
    say = repr if model.task == "regression" else say_label
    cells = {name: model.rows.cells(name) for name in shown if len(order)}
    return [
        Example(
            int(numbers[places[k]]),
            {name: say_cell(_plain(column[places[k]])) for name, column in cells.items()},
            say(_plain(wanted[k])),
            say(_plain(answers.predicted[k])),
            *_ends(answers, k),
            None if probability is None else float(probability[k]),
        )
        for k in order
    ]


def _ends(answers: Answers, row: int) -> tuple[float | None, float | None]:
    """Return the ends of the 95 % error bar of a row."""
    if answers.quantiles is None:
        return None, None
    return float(answers.quantiles[row, 2 * _SHOWN]), float(answers.quantiles[row, 2 * _SHOWN + 1])


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) and not isinstance(value, np.datetime64) else value
