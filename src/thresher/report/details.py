"""What a model does on rows it has never seen, one by one and column by column, in numbers that a report shows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice, pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thresher.errors import InvalidInput
from thresher.interfaces import Progress
from thresher.report.answers import Answers, ask
from thresher.report.importance import Importance, TestedModel, find_importances
from thresher.report.linear import Linear
from thresher.report.scores import (
    ClassScore,
    Confusion,
    Threshold,
    find_thresholds,
    score_all,
    score_classes,
)
from thresher.tables import say_label
from thresher.tables.picking import CellPicker, say_cell

__all__ = ["LEVELS", "MOST_ROWS", "Bin", "Details", "Example", "Level", "Point", "Slice", "Term", "find_details",
           "find_slices", "terms_of"]  # fmt: skip

MOST_ROWS = 10_000  # that are looked at
MOST_POINTS = 1_000  # that are kept for a picture
MOST_EXAMPLES = 10
LEVELS = (0.5, 0.68, 0.8, 0.9, 0.95, 0.99)
_SHOWN = LEVELS.index(0.95)  # of the error bars of single rows
BINS = 10  # of probabilities, of the same width and of as many rows
_LEAST_OF_BIN = 10  # rows
_SHARES = 30  # terms whose shares are kept
MOST_TERMS = 12  # that a report draws
_LEAST_TERM = 0.0005  # share of a term that is worth a line: what is below would be said to be 0.0 %
_SLICED = 8  # columns in whose values errors are looked for
_PARTS = 5  # groups of a column of numbers, of the same size
_NAMES = 12  # commonest values of a column that are groups
_SURE = 3.5  # standard errors by which a group must be worse: many are looked at
_RATIO = 1.15  # to the mean of all rows, that is worth a word
_MOST_SLICES = 4


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
    """Rows with about the same probability of a class: its mean, and the share of them that has the class.

    The class is the rarer of two; of more, each row counts for every class.
    """

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
class Slice:
    """Rows with some values of a column: how many there are, and their mean error beside that of all rows."""

    column: str
    words: str
    rows: int
    error: float
    overall: float


@dataclass(frozen=True)
class Term:
    """A term: where it was looked at, and its values there, in units of what is learnt."""

    name: str
    kind: str  # "number", "date", "cycle" of a date, "category" or "pair"
    share: float  # of what varies in the model
    at: list[float] = field(default_factory=list)  # numbers, or days since 1970; of a pair those of its first column
    words: list[str] = field(default_factory=list)  # names of categories instead
    outputs: list[str] = field(default_factory=list)
    values: list[list[float]] = field(default_factory=list)  # (outputs, at); of a pair (first, second), of one output
    deviations: list[list[float]] = field(default_factory=list)  # standard errors, if there are any
    edges: list[float] = field(default_factory=list)  # of the histogram of a number
    counts: list[float] = field(default_factory=list)  # shares of the rows in it, or with each category
    second: list[float] = field(default_factory=list)  # of a pair: as ``at``, of its second column
    second_words: list[str] = field(default_factory=list)
    kinds: list[str] = field(default_factory=list)  # of the columns of a pair
    columns: list[str] = field(default_factory=list)  # the names of these
    scale: str = "linear"  # of the axis of a number
    part: str = ""  # of a date: "time", or what recurs: "month", "weekday", "hour"; means over the dates in it


@dataclass(frozen=True)
class Details:
    """What a model does on rows it has never seen. Numbers are in units of the target."""

    task: str
    target: str
    columns: list[str]
    rows: int  # looked at
    scores: dict[str, float]
    linear: dict[str, float] = field(default_factory=dict)  # scores of a linear model fitted to the same rows
    linear_rows: int = 0  # that it was fitted to
    points: list[Point] = field(default_factory=list)
    coverage: list[Level] = field(default_factory=list)
    classes: list[ClassScore] = field(default_factory=list)
    confusions: list[Confusion] = field(default_factory=list)  # those with at least one row
    calibration: list[Bin] = field(default_factory=list)
    rarer: str = ""  # of two classes with probabilities
    thresholds: list[Threshold] = field(default_factory=list)  # for it, the highest first
    importances: list[Importance] = field(default_factory=list)  # the largest first
    importance_rows: int = 0  # that importances were found on
    slices: list[Slice] = field(default_factory=list)  # where errors are larger than elsewhere
    examples: list[Example] = field(default_factory=list)
    shares: dict[str, float] = field(default_factory=dict)  # of the terms of a model with parts, the largest first
    terms: list[Term] = field(default_factory=list)  # those that can be drawn


def find_details(
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
    linear: Linear | None = None,
) -> Details:
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
    linear : scores of a linear model to compare with, if there are any

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
    tested = TestedModel(model, task, getattr(model, "classes_", None), rows, y)
    importances, used = find_importances(tested, places, seconds=seconds, progress=progress)
    if task == "regression":
        scored = _of_numbers(answers, wanted, known)
    else:
        scored = _of_classes(answers, wanted, known, tested.classes)
    shown = [one.column for one in importances] or rows.names
    errors = _errors(answers, wanted, task, tested.classes)
    return Details(
        task,
        target,
        rows.names,
        rows=len(places),
        importances=importances,
        importance_rows=used,
        slices=find_slices(rows, shown[:_SLICED], places, errors),
        linear={} if linear is None else linear.scores,
        linear_rows=0 if linear is None else linear.rows,
        examples=_examples(tested, answers, places, numbers, shown[:6]),
        terms=(terms := terms_of(model)),
        shares=dict(islice(model.effect_shares_.items(), _SHARES)) if terms else {},
        **scored,
    )


def _errors(answers: Answers, y: NDArray[Any], task: str, classes: Any) -> NDArray[np.float64]:
    """Return how wrong answers (k,) are: distances, log losses of the right class, or 1 where there is no more."""
    if task == "regression":
        return np.asarray(np.abs(y - answers.predicted), np.float64)
    if answers.chances is None:
        return np.asarray(answers.predicted != y, np.float64)
    right = (answers.chances * (np.asarray(classes) == y[:, None])).sum(axis=1)
    return np.asarray(-np.log(np.clip(right, 1e-9, 1.0)))


def _of_numbers(answers: Answers, y: NDArray[Any], known: NDArray[Any]) -> dict[str, Any]:
    wanted = y.astype(np.float64)
    errors = wanted - answers.predicted
    found = score_all(answers.predicted, wanted, task="regression", known=np.asarray(known, np.float64))
    scores = found | {"median error": float(np.median(np.abs(errors))), "guess": float(np.mean(known))}
    some = np.random.default_rng(0).permutation(len(y))[:MOST_POINTS]
    points = [Point(float(wanted[k]), float(answers.predicted[k]), *_ends(answers, k)) for k in np.sort(some)]
    coverage = []
    if answers.quantiles is not None:
        for place, level in enumerate(LEVELS):
            lower, upper = answers.quantiles[:, 2 * place : 2 * place + 2].T
            coverage.append(Level(level, float(np.mean((lower <= wanted) & (wanted <= upper)))))
    return {"scores": scores, "points": points, "coverage": coverage}


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
        scores["mean probability of the answer"] = float(answers.chances.max(axis=1).mean())
        told["calibration"] = _calibration(answers.chances, y, labels, every.get("rarer class"))
        if "rarer class" in every:
            told["rarer"] = every["rarer class"]
            told["thresholds"] = find_thresholds(answers.chances, y, known=known, classes=np.asarray(classes))
    return told


def _calibration(chances: NDArray[np.float64], y: NDArray[Any], labels: NDArray[Any], rarer: str | None) -> list[Bin]:
    """Return bins of the probabilities of the rarer of two classes, or of every class: tenths of 1, and of the rows."""
    known = labels[: chances.shape[1]]
    shown = [k for k in range(len(known)) if rarer is None or say_label(known.tolist()[k]) == rarer]
    said = chances[:, shown].T.ravel()
    there = np.concatenate([y == known[k] for k in shown])
    ends = np.union1d(np.linspace(0, 1, BINS + 1), np.quantile(said, np.linspace(0, 1, BINS + 1)[1:-1]))[1:-1]
    least = max(_LEAST_OF_BIN, len(said) // 100)
    for place in range(len(ends) - 1, -1, -1):  # a bin of few rows belongs to the one below, the first to that above
        upper = ends[place + 1] if place + 1 < len(ends) else np.inf
        if ((said >= ends[place]) & (said < upper)).sum() < least or (place == 0 and (said < ends[0]).sum() < least):
            ends = np.delete(ends, place)
    bins = np.searchsorted(ends, said, side="right")
    return [
        Bin(float(said[bins == k].mean()), float(there[bins == k].mean()), int((bins == k).sum()))
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
    cells = {name: _as_written(model.rows, name) for name in shown if len(order)}
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


def _as_written(rows: CellPicker, name: str) -> NDArray[Any]:
    """Return a column (n,) as a reader knows it: text as it stands in the file, such as 01067."""
    column = rows.read(name)
    return np.asarray(column.values, np.str_) if column.is_text else rows.cells(name)


def _ends(answers: Answers, row: int) -> tuple[float | None, float | None]:
    """Return the ends of the 95 % error bar of a row."""
    if answers.quantiles is None:
        return None, None
    return float(answers.quantiles[row, 2 * _SHOWN]), float(answers.quantiles[row, 2 * _SHOWN + 1])


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) and not isinstance(value, np.datetime64) else value


def find_slices(
    rows: CellPicker, columns: Sequence[str], places: NDArray[np.int64], errors: NDArray[np.float64]
) -> list[Slice]:
    """Return groups of the rows at some places (k,) whose errors (k,) are surely larger than the others', worst first.

    Groups are values of text, truth values and few whole numbers, and fifths of numbers and dates; one for each of the
    ``columns``. Cost: O(k log k) per column.
    """
    found: list[tuple[float, Slice]] = []
    unit = float(errors.max()) or 1.0  # divided by it, squares of huge and tiny numbers are numbers
    errors = errors / unit
    least, overall = max(_LEAST_OF_BIN, len(errors) // 100), float(errors.mean())
    for name in columns:
        best: tuple[float, Slice] | None = None
        for words, mask in _groups(rows.cells(name)[places]):
            inside, outside = errors[mask], errors[~mask]
            if len(inside) < least or len(outside) < least or inside.mean() < _RATIO * overall:
                continue
            doubt = np.sqrt(inside.var() / len(inside) + outside.var() / len(outside)) or np.inf
            sure = float((inside.mean() - outside.mean()) / doubt)
            if sure > _SURE and (best is None or sure > best[0]):
                best = (sure, Slice(name, words, len(inside), unit * float(inside.mean()), unit * overall))
        found += [] if best is None else [best]
    return [one for _, one in sorted(found, key=lambda pair: -pair[0])[:_MOST_SLICES]]


def _groups(cells: NDArray[Any]) -> Iterator[tuple[str, NDArray[np.bool_]]]:
    """Yield the groups of the cells of a column (k,): in words, and which of the rows are in each."""
    missing = cells == "" if cells.dtype.kind == "U" else ~(cells == cells)  # NaN and NaT are like nothing
    yield "missing", missing
    values, counts = np.unique(cells[~missing], return_counts=True)
    if values.dtype.kind == "U" or (len(values) <= _NAMES and values.dtype.kind == "f" and (values % 1 == 0).all()):
        for place in np.argsort(-counts, kind="stable")[:_NAMES]:
            yield say_cell(_plain(values[place])), cells == values[place]
    elif len(values):
        ends = np.unique(np.quantile(cells[~missing], np.linspace(0, 1, _PARTS + 1), method="nearest"))
        for low, high in pairwise(ends):
            first, last = low == ends[0], high == ends[-1]
            said = [say_cell(_plain(one)) for one in (low, high)]
            words = f"from {said[0]} on" if last else f"below {said[1]}" if first else f"{said[0]} to {said[1]}"
            yield words, (cells >= low) & ((cells <= high) if last else (cells < high))


def terms_of(model: Any, *, most: int = MOST_TERMS, std: bool = True) -> list[Term]:
    """Return the most important terms of a model, the largest share first; none of a model without parts or effects.

    Terms of next to no share are left out, unless all are.
    """
    if not hasattr(model, "effects") or model.model_.lift.angles_ is None or model.model_.leaves is not None:
        return []
    made = [Term(**one) for one in model._model_effects.curves(most=most, deviations=std)]
    return [one for one in made if one.share >= _LEAST_TERM] or made[:1]
