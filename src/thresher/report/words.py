"""An evaluation in words: sentences, numbers with units, bars and tables, for the page and the terminal."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from thresher.report.details import Details, Term
from thresher.report.scores import GUESS, UNKNOWN

__all__ = ["Bar", "Measure", "compared", "details_of", "fails", "heading_of", "lead", "say_between", "say_like",
           "say_number", "say_percent", "say_recall", "say_rows", "say_scores", "say_threshold", "sure", "title",
           "used", "validated", "verdict"]  # fmt: skip

# What the constant answer of each score is called.
_GUESS_NAMES = {"average precision": "base rate", "log loss": "base rate", "accuracy": "commonest class"}
_SAID_CLASSES = 6  # whose recall is said; of more, the lowest
_FEW_FOUND = 0.5  # recall of the rarer class below which another threshold is proposed
_MOST_CLASSES = 12  # that a matrix shows
_WRONG = 15  # confusions that are listed
_LEAST_SHARE = 5e-4  # of a term that has a bar
_SHOWN = 6  # columns
_FEW = 50  # rows of a test that tell little
_NUMBERS = {"R2": "share explained", "RMSE": "RMSE", "MAE": "off on average"}
_RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def say_number(value: float) -> str:
    """Return a number as people write it: three figures, or thousands with commas."""
    if math.isinf(value):
        return "∞" if value > 0 else "-∞"
    if math.isnan(value):
        return "none"
    if abs(value) >= 1000 or value == round(value):
        return f"{value:,.0f}" if abs(value) < 1e7 else f"{value:.1e}"
    return f"{value:.3g}"


def say_like(value: float, size: float, unit: str = "") -> str:
    """Return a number with as many digits as two of ``size`` leave it, such as its error, and its unit."""
    after = f"\u202f{unit}" if unit == "%" else f" {unit}" if unit else ""
    if not (math.isfinite(value) and 0 < size < math.inf):
        return say_number(value) + after
    place = math.floor(math.log10(size)) - 1
    top = math.floor(math.log10(abs(value))) if value else place
    if top >= 9 or place < -6:
        digits, power = f"{value:.{min(max(top - place, 0), 15)}e}".split("e")
        said = f"{digits} × 10{str(int(power)).translate(_RAISED)}"
    else:
        said = f"{round(value, -place) + 0.0:,.{max(-place, 0)}f}"
    return said + after


def say_between(low: float, high: float, size: float, unit: str = "") -> str:
    """Return "between low and high" with digits enough to tell them apart; one number where they hardly differ.

    They hardly differ if a hundredth of ``size`` is more than their difference.
    """
    gap = high - low
    if not gap > max(0.01 * size, 1e-6 * max(abs(low), abs(high))):
        return f"about {say_like((low + high) / 2, size, unit)}"
    ends = [say_like(one, min(size, gap), unit) for one in (low, high)]
    return f"between {ends[0]} and {ends[1]}"


def say_scores(scores: Mapping[str, Any], errors: Mapping[str, float] | None = None) -> str:
    """Return scores in a line, with standard errors if there are any: R2 0.93 ± 0.01, RMSE 1.2 ± 0.1.

    Those of classes stand beside what the best constant answer gets: log loss 0.16 (base rate 0.19).
    """
    said = []
    for name, value in scores.items():
        if isinstance(value, float) and not math.isnan(value) and not name.endswith(GUESS):
            shown = _say_score(name, value)
            error = (errors or {}).get(name, math.nan)
            if not math.isnan(error):
                shown += f" ± {error:.1%}" if name == "accuracy" else f" ± {say_number(float(f'{error:.1g}'))}"
            if name in _GUESS_NAMES and not math.isnan(guess := scores.get(f"{name}{GUESS}", math.nan)):
                shown += f" ({_GUESS_NAMES[name]} {_say_score(name, guess)})"
            of = f" of {scores['rarer class'][:40]}" if name == "average precision" and "rarer class" in scores else ""
            said.append(f"{name}{of} {shown}")
        elif name == UNKNOWN:
            said.append(f"{name}: {value:,} (wrong, and left out of the log loss)")
    return ", ".join(said)


def _say_score(name: str, value: float) -> str:
    return f"{value:.1%}" if name == "accuracy" else f"{value:.3f}" if name in ("R2", "AUC") else say_number(value)


def say_threshold(scores: Mapping[str, Any]) -> str:
    """Return advice where the largest probability finds few rows of the rarer of two classes; else nothing."""
    at, name = scores.get("from the base rate on"), scores.get("rarer class", "")
    if at is None or math.isnan(at["recall"]) or scores["recall"].get(name, 1.0) >= _FEW_FOUND:
        return ""
    right = "none" if math.isnan(at["precision"]) else f"{at['precision']:.0%}"
    return (
        f"To find more of {name[:40]}, take it as the answer from a lower probability on: from {at['probability']:.1%} "
        f"on, its share of the rows trained on, it finds {at['recall']:.0%}, and {right} of these answers are right. "
        "If a missed row costs as much as c false alarms, take 1 / (1 + c)."
    )


def say_recall(scores: Mapping[str, Any]) -> str:
    """Return the recall of each class in a line, or of those with the lowest; empty for numbers."""
    recall: Mapping[str, float] = scores.get("recall", {})
    shown: Sequence[str] = list(recall)
    if not shown:
        return ""
    what = "Recall of each class"
    if len(shown) > _SAID_CLASSES:
        shown = sorted(recall, key=lambda name: recall[name])[:_SAID_CLASSES]
        what = f"Recall, lowest of {len(recall)} classes"
    rows = scores["rows of each class"]
    return f"{what}: " + ", ".join(f"{name[:40]} {recall[name]:.0%} of {rows[name]:,}" for name in shown) + "."


class Bar(NamedTuple):
    """A bar over a share of its track, in per cent, with its name and its number in words."""

    name: str
    width: float
    words: str


class Measure(NamedTuple):
    """How numbers of the target are written: what it is called, its unit, and the size of a typical error."""

    name: str
    unit: str
    error: float

    @classmethod
    def of(cls, found: Details) -> Measure:
        """Return the measure of an found; a unit stands in brackets at the end of the name, or nowhere."""
        if found.task == "classification":
            return cls(found.target, "%", 100.0)
        match = re.fullmatch(r"(.*\S)\s*[\[(]([^\[\]()]{1,12})[\])]", found.target)
        error = found.scores["RMSE"] or found.scores["RMSE of the guess"] / 100
        return cls(match[1], match[2], error) if match else cls(found.target, "", error)

    def say(self, value: float, *, size: float | None = None) -> str:
        """Return a number of the target with its unit, and as many digits as its error makes sensible."""
        return say_like(value, self.error if size is None else size, self.unit)


def heading_of(one: Term) -> str:
    """Return what a term is of: a column and the part of its dates, if there is one, or a pair."""
    how = {"": "", "time": "", "month": ", by month", "weekday": ", by weekday", "hour": ", by hour of the day"}
    return f"{one.name}{how[one.part]}"


def title(target: str, columns: Sequence[str], file: str) -> str:
    """Return what was predicted from what."""
    name, count = re.split(r"[/\\]", file)[-1], len(columns)
    of_file = f" of {name}" if name else ""
    return f"Predicting {target} from {count} column{'s' if count != 1 else ''}{of_file}"


def lead(found: Details) -> str:
    """Return how far off answers are, beside those of a constant guess, in plain words."""
    scores, measure = found.scores, Measure.of(found)
    if found.task == "classification":
        commonest = f"always giving the commonest answer would get {say_percent(scores['accuracy of the guess'])}"
        right = f"{say_percent(scores['accuracy'])} of its answers are right; {commonest}."
        if "log loss of the guess" in scores and not math.isnan(scores["log loss"]):
            return f"{_of_chances(found)}{right}"
        verdict = "" if scores["accuracy"] > scores["accuracy of the guess"] else " It is no better than that."
        return f"On {say_unseen(found)}, {right}{verdict}"
    off, guess = scores["MAE"], scores[f"MAE{GUESS}"]
    size = min([one for one in (off, guess, measure.error) if one > 0], default=1.0) / 2
    half = f", half of them by less than {measure.say(scores['median error'], size=size)}"
    middle = half if found.rows > 1 else ""
    return (
        f"Predictions are off by {measure.say(off, size=size)} on average{middle}; a constant guess, "
        f"{measure.say(scores['guess'])}, by {measure.say(guess, size=size)}."
    )


def say_unseen(found: Details) -> str:
    """Return how many rows were not seen."""
    return f"{say_rows(found.rows)} that it had not seen"


def _of_chances(found: Details) -> str:
    """Return how good probabilities are, in sentences."""
    scores = found.scores
    loss, guess = scores["log loss"], scores["log loss of the guess"]
    if loss >= guess:
        said = (say_like(one, guess / 10) for one in (loss, guess))
        return "Its probabilities are no better than the base rate: log loss {}, instead of {}. ".format(*said)
    if math.isnan(scores["AUC"]):
        return ""
    what = f"a row of {found.rarer}" if found.rarer else "a row of one class"
    return f"In {say_percent(scores['AUC'])} of pairs {what} has a higher probability of it than another row (AUC). "


def validated(told: Mapping[str, Any], found: Details | None) -> str:
    """Return the result of a cross-validation in a sentence, with standard errors; empty if there was none."""
    folds, errors = told.get("scores"), told.get("standard errors")
    if not isinstance(folds, dict) or not isinstance(errors, dict) or not folds:
        return ""
    measure = Measure.of(found) if found else Measure("", "", 0.0)
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


def thresholds_of(found: Details) -> list[list[str]]:
    """Return the rows of the table of thresholds: probability, cost, answers, recall, precision."""
    rows = {one.name: one.rows for one in found.classes}.get(found.rarer, 0)
    return [
        [
            say_percent(one.probability), f"{say_number(float(f'{one.cost:.2g}'))}", f"{one.answers:,}",
            say_percent(one.right / rows if rows else math.nan),
            say_percent(one.right / one.answers if one.answers else math.nan),
        ]
        for one in found.thresholds
    ]  # fmt: skip


def bars_of_importance(found: Details) -> list[Bar]:
    """Return a bar for each column: by how much the error grows without what it says."""
    scale = 100.0 if found.task == "classification" else 1.0
    measure, most = Measure.of(found), max([one.mean for one in found.importances], default=0.0)
    bars = []
    for one in found.importances:
        size = max(scale * most / 10, scale * one.deviation) or 1.0
        unit = "points" if found.task == "classification" else measure.unit
        spread = f" ± {say_like(scale * one.deviation, size)}" if one.deviation else ""
        words = f"{say_like(scale * one.mean, size)}{spread}{f' {unit}' if unit else ''}"
        bars.append(Bar(one.column, 100 * max(one.mean, 0.0) / most if most > 0 else 0.0, words))
    return bars


def bars_of_shares(found: Details) -> list[Bar]:
    """Return a bar for each term of a model with parts that has a share worth a line."""
    most = max(found.shares.values(), default=0.0)
    shown = [(name, share) for name, share in found.shares.items() if share >= _LEAST_SHARE]
    return [Bar(name, 100 * share / most, say_percent(share)) for name, share in shown]


def say_rows(count: int) -> str:
    """Return a number of rows."""
    return f"{count:,} row{'s' if count != 1 else ''}"


def classes_of(found: Details) -> list[dict[str, Any]]:
    """Return the classes with recall and precision in words; where there are many, those found least come first."""
    ordered = list(found.classes)
    if len(ordered) > _MOST_CLASSES:
        ordered.sort(key=lambda one: (math.isnan(one.recall), one.recall))
    return [
        {
            "name": one.name, "rows": f"{one.rows:,}", "recall": say_percent(one.recall),
            "width": 0.0 if math.isnan(one.recall) else 100 * one.recall, "precision": say_percent(one.precision),
        }
        for one in ordered
    ]  # fmt: skip


def matrix_of(found: Details) -> dict[str, Any]:
    """Return the confusion matrix of a few classes, or the largest confusions of many."""
    names = [one.name for one in found.classes]
    totals = {one.name: one.rows for one in found.classes}
    if len(names) <= _MOST_CLASSES:
        counted = {(one.actual, one.predicted): one.rows for one in found.confusions}
        table = [
            (name, [(counted.get((name, other), 0), counted.get((name, other), 0) / max(totals[name], 1), name == other)
                    for other in names])
            for name in names
        ]  # fmt: skip
        return {"names": names, "table": table, "wrong": []}
    wrong = sorted((one for one in found.confusions if one.actual != one.predicted), key=lambda one: -one.rows)
    rows = [
        (one.actual, one.predicted, f"{one.rows:,}", say_percent(one.rows / totals[one.actual]))
        for one in wrong[:_WRONG]
    ]
    return {"names": [], "table": [], "wrong": rows}


def examples_of(found: Details) -> tuple[list[str], list[list[str]]]:
    """Return the head and the rows of the table of examples."""
    measure = Measure.of(found)
    columns = list(found.examples[0].cells) if found.examples else []
    rows = []
    for one in found.examples:
        if found.task == "classification":
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
    last = "how sure it was" if found.task == "classification" else "actual less predicted"
    return ["row", "actual", "predicted", last, *columns], rows


def say_percent(share: float) -> str:
    """Return a share in per cent, with a digit more where it is close to none or all."""
    if math.isnan(share):
        return "none"
    places = 0 if share >= 2 else 1 if 0.001 <= share <= 0.999 or share in (0.0, 1.0) else 2
    said = f"{100 * share:.{places}f}"
    return f"{said.removesuffix('.0') if share in (0.0, 1.0) else said}\u202f%"


def details_of(found: Details | None) -> dict[str, Any]:
    """Return what the page shows of single rows and columns, besides figures, under the names that it has there."""
    if found is None:
        return {"details": None}
    return {
        "details": found,
        "compared": compared(found),
        "used": used(found),
        "fails": fails(found),
        "sure": sure(found),
        "matrix": matrix_of(found),
        "classes": classes_of(found),
        "thresholds": thresholds_of(found),
        "importances": bars_of_importance(found),
        "shares": bars_of_shares(found),
        "examples": examples_of(found),
    }


def verdict(found: Details) -> str:
    """Return how good the model is, compared with a linear model and a constant guess, in sentences."""
    what = _explained(found)
    if what is None:
        return lead(found) if found.task == "classification" else f"On {say_unseen(found)}: {lead(found)}"
    own, linear, subject = what
    unseen = f"On {say_unseen(found)}, the model"
    others = [*([] if linear is None else [f"a linear model {_share(linear)}"]), f"a constant guess {_share(0.0)}"]
    if own <= 0:
        return f"{unseen} is no better than a constant guess. {lead(found)}"
    worth = "" if linear is None or linear < own else " A linear model of the same columns does at least as well."
    few = " So few rows tell little; a cross-validation (--cv) tests on all." if found.rows < _FEW else ""
    return f"{unseen} explains {_share(own)} of {subject}; {', '.join(others)}.{worth} {lead(found)}{few}"


def _explained(found: Details) -> tuple[float, float | None, str] | None:
    """Return which share of what a constant guess gets wrong the model explains, and a linear one; and what that is.

    It is R², or of classes the share of the base rate's log loss. None if that is not known.
    """
    if found.task == "regression":
        own, linear, subject = (
            _known(found.scores["R2"]),
            _known(found.linear.get("R2", math.nan)),
            f"the variance of {Measure.of(found).name}",
        )
    else:
        own, linear = (_less_loss(scores) for scores in (found.scores, found.linear))
        subject = f"what is uncertain about {found.target} (log loss)"
    return None if own is None else (own, linear, subject)


def _known(value: float) -> float | None:
    return None if math.isnan(value) else value


def _less_loss(scores: dict[str, float]) -> float | None:
    loss, guess = scores.get("log loss", math.nan), scores.get(f"log loss{GUESS}", math.nan)
    return 1 - loss / guess if guess > 0 and not math.isnan(loss) else None


def _share(value: float) -> str:
    return f"{100 * value:.0f}\u202f%" if abs(value) >= 0.0095 or value == 0 else f"{100 * value:.1f}\u202f%"


def compared(found: Details) -> tuple[list[str], list[list[str]], str]:
    """Return the table of scores, of the model, a linear one and a constant guess: head and rows; and a note."""
    rows = list(_of_numbers(found) if found.task == "regression" else _of_classes(found))
    head = ["", "this model", *(["linear"] if found.linear else []), "guess"]
    if not found.linear:
        return head, rows, "A linear model was not compared: the rows that the model was fitted to are not known here."
    kind = "ridge" if found.task == "regression" else "logistic"
    note = (
        f"Linear: a {kind} regression of the same columns, fitted to {say_rows(found.linear_rows)}. Guess: the same "
        f"{'number' if found.task == 'regression' else 'shares of classes'} for every row."
    )
    return head, rows, note


def _of_numbers(found: Details) -> Iterator[list[str]]:
    measure = Measure.of(found)
    for name, meaning in _NUMBERS.items():
        own, other = found.scores[name], found.linear.get(name, math.nan)
        if math.isnan(own):
            continue
        guess = 0.0 if name == "R2" else found.scores[f"{name}{GUESS}"]
        size = min(x for x in (own, guess, measure.error) if x > 0) / 2 if name != "R2" else 1.0
        said = [_share(one) if name == "R2" else measure.say(one, size=size) for one in (own, other, guess)]
        yield [meaning, said[0], *([said[1]] if found.linear else []), said[2]]


def _of_classes(found: Details) -> Iterator[list[str]]:
    if (own := _less_loss(found.scores)) is not None:
        other = _less_loss(found.linear)
        yield _row(found, "share explained", [_share(own), "none" if other is None else _share(other), _share(0.0)])
    of = "average precision"
    for name, meaning in (
        ("log loss", "log loss"),
        ("AUC", "AUC (order of rows)"),
        ("average precision", of),
    ):
        own, other = (scores.get(name, math.nan) for scores in (found.scores, found.linear))
        if math.isnan(own):
            continue
        guess = 0.5 if name == "AUC" else found.scores[f"{name}{GUESS}"]
        size = guess / 10 if name == "log loss" else 0.01
        yield _row(found, meaning, [say_like(one, size) for one in (own, other, guess)])
    shares = [scores.get("accuracy", math.nan) for scores in (found.scores, found.linear)]
    yield _row(found, "accuracy", [*map(say_percent, shares), say_percent(found.scores[f"accuracy{GUESS}"])])


def _row(found: Details, name: str, said: list[str]) -> list[str]:
    return [name, said[0], *([said[1]] if found.linear else []), said[2]]


def used(found: Details) -> tuple[list[Bar], str]:
    """Return bars of what the model uses, and what they say: exact shares of its terms, or what errors grow by.

    Where most of what varies depends on all columns together, shares of single ones say little.
    """
    if found.shares and max(found.shares, key=lambda name: found.shares[name]) in _terms(found):
        return bars_of_shares(found)[:_SHOWN], "Share of what varies in the model; exact, over the training rows."
    shown = [one for one in bars_of_importance(found) if one.width > 0][:_SHOWN]
    grows = "typical error (RMSE) grows" if found.task == "regression" else "probability of the right answer falls"
    if not shown:
        return [], "No column matters: exchanging its cells between rows does not make answers worse."
    return shown, f"By how much the {grows} when a column's cells are exchanged between rows."


def _terms(found: Details) -> set[str]:
    """Return the names of columns and of pairs of them, which the rest is not among."""
    return {*found.columns, *(one.name for one in found.terms)}


def fails(found: Details) -> list[str]:
    """Return sentences about where errors are larger than elsewhere."""
    measure, told = Measure.of(found), []
    if found.rarer:
        rows = next((one for one in found.classes if one.name == found.rarer), None)
        if rows is not None and not math.isnan(rows.recall):
            told.append(
                f"Of {rows.rows:,} rows of {found.rarer}, {round(rows.recall * rows.rows):,} get this answer from a "
                "probability of one half on; other thresholds are below."
            )
    elif found.task == "classification":
        worst = [one for one in found.classes if one.recall < 1]
        told += [
            f"Of {one.rows:,} rows of class {one.name}, {say_percent(one.recall)} are found."
            for one in sorted(worst, key=lambda one: one.recall)[:2]
        ]
    for one in found.slices:
        where = f"{one.column}: {one.words} ({say_rows(one.rows)})"
        if found.task == "regression":
            told.append(f"{where}: off by {measure.say(one.error)} on average; all rows, {measure.say(one.overall)}.")
        elif found.calibration:
            said = [say_like(value, one.overall / 2) for value in (one.error, one.overall)]
            told.append(f"{where}: log loss {said[0]}; all rows, {said[1]}.")
        else:
            told.append(f"{where}: {say_percent(one.error)} wrong; all rows, {say_percent(one.overall)}.")
    if found.rows < _FEW:
        told.append(f"{say_rows(found.rows)} are too few to tell groups apart.")
    elif not found.slices:
        told.append("No group of rows, by the values of one column, is surely worse than the others.")
    return told


def sure(found: Details) -> list[str]:
    """Return sentences about how sure the model is, and whether it is right to be."""
    if found.task == "classification":
        return list(_sure_of_classes(found))
    if not found.coverage:
        return ["It has no error bars."]
    told = [
        f"{say_percent(one.observed)} of the rows lie within the {100 * one.nominal:.0f}\u202f% error bars."
        for one in found.coverage
        if one.nominal in (0.95, 0.5)
    ]
    measure = Measure.of(found)
    widths = [one.upper - one.lower for one in found.points if one.lower is not None and one.upper is not None]
    if widths:
        told.append(
            f"Half of the 95\u202f% error bars are wider than {measure.say(float(np.median(widths)))} from end to end."
        )
    return told


def _sure_of_classes(found: Details) -> Iterator[str]:
    if not found.calibration:
        yield "It gives answers without probabilities."
        return
    bins = found.calibration
    rows = sum(one.rows for one in bins)
    off = sum(abs(one.confidence - one.right) * one.rows for one in bins) / rows
    of = f"of {found.rarer}" if found.rarer else "of a class"
    yield f"Probabilities {of} are off by {100 * off:.1f} points on average, over {len(bins)} groups of rows."
    most = max(bins, key=lambda one: one.confidence)
    yield (
        f"In the highest group it says {say_percent(most.confidence)}; {say_percent(most.right)} of these "
        f"{say_rows(most.rows)} have it."
    )
    if "mean probability of the answer" in found.scores:
        mean, right = (say_percent(found.scores[name]) for name in ("mean probability of the answer", "accuracy"))
        yield f"The mean probability of its answers is {mean}, and {right} of them are right."
