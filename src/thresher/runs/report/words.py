"""Words: an evaluation as sentences, numbers with units, bars and tables, for the page."""

from __future__ import annotations

import math
import re
from typing import Any, NamedTuple

from thresher.pages import say_like, say_number
from thresher.runs.evaluation import Evaluation
from thresher.runs.influence import Effect
from thresher.runs.record import Record
from thresher.runs.scores import GUESS

__all__ = [
    "Bar",
    "Measure",
    "bars_of_effect",
    "bars_of_importance",
    "bars_of_shares",
    "classes_of",
    "examples_of",

    "heading_of",
    "lead",
    "matrix_of",
    "say_percent",
    "say_rows",
    "say_unseen",
    "thresholds_of",
    "title",
    "validated",
]  # fmt: skip

MOST_CLASSES = 12  # that a matrix shows
_WRONG = 15  # confusions that are listed
_LEAST_SHARE = 5e-4  # of a term that has a bar


class Bar(NamedTuple):
    """A bar between two places of its track, in per cent, with its name and its number in words."""

    name: str
    left: float
    width: float
    words: str


class Measure(NamedTuple):
    """How numbers of the target are written: what it is called, its unit, and the size of a typical error."""

    name: str
    unit: str
    error: float

    @classmethod
    def of(cls, evaluation: Evaluation) -> Measure:
        """Return the measure of an evaluation; a unit stands in brackets at the end of the name, or nowhere."""
        if evaluation.task == "classification":
            return cls(evaluation.target, "%", 100.0)
        match = re.fullmatch(r"(.*\S)\s*[\[(]([^\[\]()]{1,12})[\])]", evaluation.target)
        error = evaluation.scores["RMSE"] or evaluation.scores["RMSE of the guess"] / 100
        return cls(match[1], match[2], error) if match else cls(evaluation.target, "", error)

    def say(self, value: float, *, size: float | None = None) -> str:
        """Return a number of the target with its unit, and as many digits as its error makes sensible."""
        return say_like(value, self.error if size is None else size, self.unit)


def heading_of(one: Any) -> str:
    """Return what an effect or a term is of: a column, and the part of its dates, if there is one."""
    how = {"": "", "time": "", "month": ", by month", "weekday": ", by weekday", "hour": ", by hour of the day"}
    return f"{one.column if isinstance(one, Effect) else one.name}{how[one.part]}"


def title(run: Record) -> str:
    """Return what was predicted from what."""
    target = run.model.get("target")
    if not isinstance(target, str):
        return "A run of thresher"
    columns = run.model.get("columns")
    count = len(run.evaluation.columns) if run.evaluation else len(columns) if isinstance(columns, list) else 0
    name = re.split(r"[/\\]", str(run.data.get("file", "")))[-1]
    of_file = f" of {name}" if name else ""
    return f"Predicting {target} from {count} column{'s' if count != 1 else ''}{of_file}"


def lead(evaluation: Evaluation) -> str:
    """Return how far off answers are, beside those of a constant guess, in plain words."""
    scores, measure = evaluation.scores, Measure.of(evaluation)
    if evaluation.task == "classification":
        commonest = f"always giving the commonest answer would get {say_percent(scores['accuracy of the guess'])}"
        right = f"{say_percent(scores['accuracy'])} of its answers are right; {commonest}."
        if "log loss of the guess" in scores and not math.isnan(scores["log loss"]):
            return f"{_of_chances(evaluation)}{right}"
        verdict = "" if scores["accuracy"] > scores["accuracy of the guess"] else " It is no better than that."
        return f"On {say_unseen(evaluation)}, {right}{verdict}"
    off, guess = scores["mean error"], scores["mean error of the guess"]
    size = min([one for one in (off, guess, measure.error) if one > 0], default=1.0) / 2
    half = f", half of them by less than {measure.say(scores['median error'], size=size)}"
    middle = half if evaluation.rows > 1 else ""
    return (
        f"Predictions are off by {measure.say(off, size=size)} on average{middle}; a constant guess, "
        f"{measure.say(scores['guess'])}, by {measure.say(guess, size=size)}."
    )


def say_unseen(evaluation: Evaluation) -> str:
    """Return how many rows were not seen."""
    return f"{say_rows(evaluation.rows)} that it had not seen"


def _of_chances(evaluation: Evaluation) -> str:
    """Return how good probabilities are, in sentences."""
    scores = evaluation.scores
    loss, guess = scores["log loss"], scores["log loss of the guess"]
    if loss >= guess:
        said = (say_like(one, guess / 10) for one in (loss, guess))
        return "Its probabilities are no better than the base rate: log loss {}, instead of {}. ".format(*said)
    if math.isnan(scores["AUC"]):
        return ""
    what = f"a row of {evaluation.rarer}" if evaluation.rarer else "a row of one class"
    return f"In {say_percent(scores['AUC'])} of pairs {what} has a higher probability of it than another row (AUC). "


def validated(run: Record) -> str:
    """Return the result of a cross-validation in a sentence, with standard errors; empty if there was none."""
    folds, errors = run.folds.get("scores"), run.folds.get("standard errors")
    if not isinstance(folds, dict) or not isinstance(errors, dict) or not folds:
        return ""
    measure = Measure.of(run.evaluation) if run.evaluation else Measure("", "", 0.0)
    said = []
    for name, values in folds.items():
        if name.endswith(GUESS):
            continue
        mean, error = sum(values) / len(values), float(errors.get(name, math.nan))
        if name == "accuracy":
            said.append(f"{say_percent(mean)} ± {100 * error:.1f} right")
        elif name in ("RMSE", "MAE"):
            word = "typical error (RMSE)" if name == "RMSE" else "off on average"
            said.append(f"{word} {say_like(mean, error or mean)} ± {measure.say(error, size=error or mean)}")
        elif not math.isnan(mean):
            said.append(
                f"{name.replace('R2', 'R²')} {say_like(mean, error or mean)} ± {say_like(error, error or mean)}"
            )
    count = len(next(iter(folds.values())))
    return (
        f"Cross-validation, {count} folds, each row tested once: {', '.join(said)} (means and their standard errors)."
    )


def thresholds_of(evaluation: Evaluation) -> list[list[str]]:
    """Return the rows of the table of thresholds: probability, cost, answers, recall, precision."""
    rows = {one.name: one.rows for one in evaluation.classes}.get(evaluation.rarer, 0)
    return [
        [
            say_percent(one.probability), f"{say_number(float(f'{one.cost:.2g}'))}", f"{one.answers:,}",
            say_percent(one.right / rows if rows else math.nan),
            say_percent(one.right / one.answers if one.answers else math.nan),
        ]
        for one in evaluation.thresholds
    ]  # fmt: skip


def bars_of_importance(evaluation: Evaluation) -> list[Bar]:
    """Return a bar for each column: by how much the error grows without what it says."""
    scale = 100.0 if evaluation.task == "classification" else 1.0
    measure, most = Measure.of(evaluation), max([one.mean for one in evaluation.importances], default=0.0)
    bars = []
    for one in evaluation.importances:
        size = max(scale * most / 10, scale * one.deviation) or 1.0
        unit = "points" if evaluation.task == "classification" else measure.unit
        spread = f" ± {say_like(scale * one.deviation, size)}" if one.deviation else ""
        words = f"{say_like(scale * one.mean, size)}{spread}{f' {unit}' if unit else ''}"
        bars.append(Bar(one.column, 0.0, 100 * max(one.mean, 0.0) / most if most > 0 else 0.0, words))
    return bars


def bars_of_shares(evaluation: Evaluation) -> list[Bar]:
    """Return a bar for each term of a model with parts that has a share worth a line."""
    most = max(evaluation.shares.values(), default=0.0)
    shown = [(name, share) for name, share in evaluation.shares.items() if share >= _LEAST_SHARE]
    return [Bar(name, 0.0, 100 * share / most, say_percent(share)) for name, share in shown]


def bars_of_effect(evaluation: Evaluation, effect: Effect) -> list[tuple[str, list[Bar]]]:
    """Return the bars of each output of a category or of words, by their values."""
    scale, measure = 100.0 if evaluation.task == "classification" else 1.0, Measure.of(evaluation)
    told = []
    for name, values in zip(effect.names, effect.values, strict=True):
        shown = [scale * value for value in values]
        low, high = min(0.0, *shown), max(0.0, *shown)
        gap = max(shown) - min(shown)
        span, size = (high - low) or 1.0, min(10.0 if scale > 1 else measure.error, gap or math.inf)
        size = max(size, 1e-3 * max(map(abs, shown)))
        both = zip(effect.words, shown, effect.rows, strict=True)
        bars = [
            Bar(f"{word or 'missing'} ({say_rows(rows)})", 100 * (min(value, 0.0) - low) / span,
                100 * abs(value) / span, say_like(value, size, measure.unit))
            for word, value, rows in both
        ]  # fmt: skip
        told.append((name if evaluation.task == "classification" else "", bars))
    return told


def say_rows(count: int) -> str:
    """Return a number of rows."""
    return f"{count:,} row{'s' if count != 1 else ''}"


def classes_of(evaluation: Evaluation) -> list[dict[str, Any]]:
    """Return the classes with recall and precision in words; where there are many, those found least come first."""
    ordered = list(evaluation.classes)
    if len(ordered) > MOST_CLASSES:
        ordered.sort(key=lambda one: (math.isnan(one.recall), one.recall))
    return [
        {
            "name": one.name, "rows": f"{one.rows:,}", "recall": say_percent(one.recall),
            "width": 0.0 if math.isnan(one.recall) else 100 * one.recall, "precision": say_percent(one.precision),
        }
        for one in ordered
    ]  # fmt: skip


def matrix_of(evaluation: Evaluation) -> dict[str, Any]:
    """Return the confusion matrix of a few classes, or the largest confusions of many."""
    names = [one.name for one in evaluation.classes]
    totals = {one.name: one.rows for one in evaluation.classes}
    if len(names) <= MOST_CLASSES:
        counted = {(one.actual, one.predicted): one.rows for one in evaluation.confusions}
        table = [
            (name, [(counted.get((name, other), 0), counted.get((name, other), 0) / max(totals[name], 1), name == other)
                    for other in names])
            for name in names
        ]  # fmt: skip
        return {"names": names, "table": table, "wrong": []}
    wrong = sorted((one for one in evaluation.confusions if one.actual != one.predicted), key=lambda one: -one.rows)
    rows = [
        (one.actual, one.predicted, f"{one.rows:,}", say_percent(one.rows / totals[one.actual]))
        for one in wrong[:_WRONG]
    ]
    return {"names": [], "table": [], "wrong": rows}


def examples_of(evaluation: Evaluation) -> tuple[list[str], list[list[str]]]:
    """Return the head and the rows of the table of examples."""
    measure = Measure.of(evaluation)
    columns = list(evaluation.examples[0].cells) if evaluation.examples else []
    rows = []
    for one in evaluation.examples:
        if evaluation.task == "classification":
            answers = [one.actual, one.predicted, "" if one.probability is None else say_percent(one.probability)]
        else:
            actual, predicted = float(one.actual), float(one.predicted)
            ends = [say_like(end, measure.error) for end in (one.lower, one.upper) if end is not None]
            bar = f" ({' to '.join(ends)})" if ends else ""
            answers = [
                *(say_like(value, measure.error) + after for value, after in ((actual, ""), (predicted, bar))),
                measure.say(actual - predicted),
            ]
        rows.append([f"{one.row:,}", *answers, *one.cells.values()])
    last = "how sure it was" if evaluation.task == "classification" else "actual less predicted"
    return ["row", "actual", "predicted", last, *columns], rows


def say_percent(share: float) -> str:
    """Return a share in per cent, with a digit more where it is close to none or all."""
    if math.isnan(share):
        return "none"
    places = 0 if share >= 2 else 1 if 0.001 <= share <= 0.999 or share in (0.0, 1.0) else 2
    said = f"{100 * share:.{places}f}"
    return f"{said.removesuffix('.0') if share in (0.0, 1.0) else said}\u202f%"
