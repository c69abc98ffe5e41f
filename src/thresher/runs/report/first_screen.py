"""Tell: is the model any good, what does it use, where does it fail, how sure is it; what a page says first."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from thresher.pages import say_like
from thresher.runs.evaluation import Evaluation
from thresher.runs.report.words import (
    Bar,
    Measure,
    bars_of_importance,
    bars_of_shares,
    lead,
    say_percent,
    say_rows,
    say_unseen,
)
from thresher.runs.scores import GUESS

__all__ = ["compared", "fails", "sure", "used", "verdict"]

_SHOWN = 6  # columns
_FEW = 50  # rows of a test that tell little
_NUMBERS = {"R2": "share explained", "RMSE": "RMSE", "mean error": "off on average"}
_OF_LINEAR = {"mean error": "MAE"}  # where scores have another name


def verdict(found: Evaluation) -> str:
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


def _explained(found: Evaluation) -> tuple[float, float | None, str] | None:
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


def compared(found: Evaluation) -> tuple[list[str], list[list[str]], str]:
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


def _of_numbers(found: Evaluation) -> Iterator[list[str]]:
    measure = Measure.of(found)
    for name, meaning in _NUMBERS.items():
        own, other = found.scores[name], found.linear.get(_OF_LINEAR.get(name, name), math.nan)
        if math.isnan(own):
            continue
        guess = 0.0 if name == "R2" else found.scores[f"{name}{GUESS}"]
        size = min(x for x in (own, guess, measure.error) if x > 0) / 2 if name != "R2" else 1.0
        said = [_share(one) if name == "R2" else measure.say(one, size=size) for one in (own, other, guess)]
        yield [meaning, said[0], *([said[1]] if found.linear else []), said[2]]


def _of_classes(found: Evaluation) -> Iterator[list[str]]:
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


def _row(found: Evaluation, name: str, said: list[str]) -> list[str]:
    return [name, said[0], *([said[1]] if found.linear else []), said[2]]


def used(found: Evaluation) -> tuple[list[Bar], str]:
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


def _terms(found: Evaluation) -> set[str]:
    """Return the names of columns and of pairs of them, which the rest is not among."""
    return {*found.columns, *(one.name for one in found.terms)}


def fails(found: Evaluation) -> list[str]:
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


def sure(found: Evaluation) -> list[str]:
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


def _sure_of_classes(found: Evaluation) -> Iterator[str]:
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
