"""The protocols: which rows may be seen when, how parameters are chosen, how a fit is scored.

A model is shown `Part`s only. Test targets are looked at after the predictions stand, and by nothing but the score.
"""

from __future__ import annotations

import inspect
import itertools
import math
import time
import warnings
import zlib
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any, NamedTuple, Protocol

import numpy as np
from sklearn.base import clone, is_classifier

from benchmarks.tabular.models import (
    CLASSIFIERS,
    COORDINATE,
    PUBLISHED_CLASSIFIERS,
    PUBLISHED_REGRESSORS,
    REGRESSORS,
    TABLE_CLASSIFIERS,
    TABLE_REGRESSORS,
    Arguments,
    Model,
    Tuning,
)
from benchmarks.tabular.sets import CLASSIFICATION, REGRESSION, TABLES, Part, Set

Loss = tuple[float, ...]  # compared in order; lower is better
BARS = 1.96  # standard deviations to either side that hold 95 % of a normal variable
MOST = 60_000  # training rows of a published table that are used
FEW = 200  # rows on which an estimator is fitted before its fit is timed


class Suite(Protocol):
    """Which rows are for choosing and which for scoring, and what a score is."""

    name: str
    folder: str | None  # of the published files; None for tables that are made
    models: tuple[Model, ...]
    limit: float | None  # seconds that a fit and its predictions may take

    def splits(self, data: Set) -> range:
        """Return the numbers of the splits that are scored."""

    def choice_key(self, split: int) -> str:
        """Return the name of the choice that a split is fitted with."""

    def choice_parts(self, data: Set, split: int) -> tuple[Part, Part]:
        """Return the rows to fit candidates on and the rows to judge them by."""

    def score_parts(self, data: Set, split: int) -> tuple[Part, Part]:
        """Return the training rows and the test rows."""

    def predict(self, estimator: Any, train: Part, inputs: np.ndarray) -> Any:
        """Fit on ``train`` and return what the estimator says about ``inputs``."""

    def loss(self, told: Any, targets: np.ndarray) -> Loss:
        """Return what a choice makes small."""

    def score(self, told: Any, targets: np.ndarray) -> dict[str, float]:
        """Return the figures of a row."""


class Labels(NamedTuple):
    """What a classifier says: labels (n,), and probabilities (n, classes) with their classes where it has them."""

    labels: np.ndarray
    probabilities: np.ndarray | None
    classes: np.ndarray


class Classification:
    """Choose on hp_train / hp_val, once for a set; fit each kf_train, score kf_test."""

    name, folder, models, limit = "classification", CLASSIFICATION, CLASSIFIERS, None

    def splits(self, data: Set) -> range:
        return range(len(data.splits["kf_train"]))

    def choice_key(self, split: int) -> str:
        return "hp"

    def choice_parts(self, data: Set, split: int) -> tuple[Part, Part]:
        return data.part(data.splits["hp_train"]), data.part(data.splits["hp_val"])

    def score_parts(self, data: Set, split: int) -> tuple[Part, Part]:
        return data.part(data.splits["kf_train"][split]), data.part(data.splits["kf_test"][split])

    def predict(self, estimator: Any, train: Part, inputs: np.ndarray) -> Labels:
        return _labels(estimator.fit(train.inputs, train.targets), inputs)

    def loss(self, told: Labels, targets: np.ndarray) -> Loss:
        """Return the share of wrong labels, then the Brier score, which decides between equals where it is known."""
        wrong = float(np.mean(told.labels != targets))
        return (wrong,) if told.probabilities is None else (wrong, _brier(told, targets))

    def score(self, told: Labels, targets: np.ndarray) -> dict[str, float]:
        return {"accuracy": float(np.mean(told.labels == targets))}


class Gaussian(NamedTuple):
    """What a regressor says, in the units of the targets: means (n,) and standard deviations (n,) where it has them."""

    mean: np.ndarray
    std: np.ndarray | None


class Regression:
    """Standardise on the training part; choose on an inner 80/20 split of the training rows, drawn anew each time."""

    name, folder, models, limit = "regression", REGRESSION, REGRESSORS, None

    def splits(self, data: Set) -> range:
        return range(len(data.splits["train"]))

    def choice_key(self, split: int) -> str:
        return str(split)

    def choice_parts(self, data: Set, split: int) -> tuple[Part, Part]:
        rows = data.splits["train"][split]
        order = np.random.default_rng([split, zlib.crc32(data.name.encode())]).permutation(rows)
        kept = round(0.8 * len(rows))
        return data.part(order[:kept]), data.part(order[kept:])

    def score_parts(self, data: Set, split: int) -> tuple[Part, Part]:
        return data.part(data.splits["train"][split]), data.part(data.splits["test"][split])

    def predict(self, estimator: Any, train: Part, inputs: np.ndarray) -> Gaussian:
        centre, scale = _standard(train.inputs)
        middle, spread = _standard(train.targets)
        estimator.fit((train.inputs - centre) / scale, (train.targets - middle) / spread)
        mean, std = _gaussian(estimator, (inputs - centre) / scale)
        return Gaussian(mean * spread + middle, None if std is None else std * spread)

    def loss(self, told: Gaussian, targets: np.ndarray) -> Loss:
        return (_rmse(told, targets),)

    def score(self, told: Gaussian, targets: np.ndarray) -> dict[str, float]:
        return {"rmse": _rmse(told, targets), **_bars(told, targets)}


class Tables(Regression):
    """Tables that are made: shown to models as they are, without a scaling. Choices are made as in `Regression`."""

    name, folder, models, limit = "tables", None, TABLE_CLASSIFIERS + TABLE_REGRESSORS, None

    def predict(self, estimator: Any, train: Part, inputs: np.ndarray) -> Labels | Gaussian:
        estimator.fit(train.inputs, train.targets)
        return _labels(estimator, inputs) if is_classifier(estimator) else _gaussian(estimator, inputs)

    def loss(self, told: Labels | Gaussian, targets: np.ndarray) -> Loss:
        return SUITES["classification"].loss(told, targets) if isinstance(told, Labels) else super().loss(told, targets)

    def score(self, told: Labels | Gaussian, targets: np.ndarray) -> dict[str, float]:
        if isinstance(told, Gaussian):
            explained = 1 - float(_rmse(told, targets) ** 2 / np.var(targets))
            return {"r2": explained, **_bars(told, targets)}
        figures = {"accuracy": float(np.mean(told.labels == targets))}
        return figures if told.probabilities is None else {**figures, "log_loss": _log_loss(told, targets)}


class Timed(NamedTuple):
    """What an estimator says, and the seconds of its fit alone."""

    told: Labels | Gaussian
    seconds: float


class PublishedTables(Tables):
    """Real tables with one split each, shown to models as they are; at most `MOST` training rows, the same for all."""

    name, folder, models = "published-tables", TABLES, PUBLISHED_CLASSIFIERS + PUBLISHED_REGRESSORS
    limit: float | None = 900.0

    def splits(self, data: Set) -> range:
        return range(1)

    def score_parts(self, data: Set, split: int) -> tuple[Part, Part]:
        rows = data.splits["train"]
        if len(rows) > MOST:
            rows = np.random.default_rng(0).choice(rows, MOST, replace=False)
        return data.part(rows), data.part(data.splits["test"])

    def predict(self, estimator: Any, train: Part, inputs: np.ndarray) -> Timed:
        """Fit a copy on `FEW` rows first: compiling and loading are no part of a fit. Classes are told as 0, 1, ..."""
        classes, targets = None, train.targets
        if is_classifier(estimator):
            classes, targets = np.unique(targets, return_inverse=True)
        with suppress(Exception):  # whatever is wrong shows in the fit itself
            clone(estimator).fit(train.inputs[:FEW], targets[:FEW])
        began = time.perf_counter()
        estimator.fit(train.inputs, targets)
        seconds = time.perf_counter() - began
        if classes is None:
            return Timed(_gaussian(estimator, inputs), seconds)
        said = _labels(estimator, inputs)
        return Timed(Labels(classes[said.labels.ravel().astype(int)], said.probabilities, classes), seconds)

    def score(self, told: Timed, targets: np.ndarray) -> dict[str, float]:
        errors = {"rmse": _rmse(told.told, targets)} if isinstance(told.told, Gaussian) else {}
        return {**super().score(told.told, targets), **errors, "seconds": told.seconds}


SUITES: dict[str, Suite] = {
    suite.name: suite for suite in (Classification(), Regression(), Tables(), PublishedTables())
}
PUBLISHED = ["classification", "regression"]  # what runs if no suite is named


def choose(suite: Suite, model: Model, fit: Part, judge: Part, *, seed: int, threads: int) -> dict[str, Any]:
    """Return the arguments with the smallest loss on ``judge`` after fitting ``fit``, and all that was tried.

    Cost: a fit for each candidate.
    """
    tuning, tried = model.tuning, []
    assert tuning is not None

    def judged(arguments: Arguments) -> Loss:
        try:
            told, _ = _fitted(suite, model, arguments, fit, judge.inputs, seed=seed, threads=threads)
            loss = suite.loss(told, judge.targets)
        except Exception as error:  # a candidate that fails loses; it is kept with its reason
            tried.append([arguments, reason_of(error)])
            return (math.inf,)
        tried.append([arguments, list(loss)])
        return loss if all(map(math.isfinite, loss)) else (math.inf,)

    best, loss = search(tuning, judged)
    if loss == (math.inf,):
        raise RuntimeError(f"all {len(tried)} candidates failed, the last one with {tried[-1][1]}")
    return {"chosen": best, "loss": list(loss), "tried": tried}


def search(tuning: Tuning, judged: Callable[[Arguments], Loss]) -> tuple[Arguments, Loss]:
    """Return the best candidate and its loss; the one tried first keeps its place on a tie."""
    best, known = tuning.start, {}

    def better(candidates: Iterator[Arguments]) -> bool:
        nonlocal best
        before = best
        for candidate in candidates:
            key = tuple(sorted(candidate.items()))
            if key not in known:
                known[key] = judged(candidate)
            if known[key] < known[tuple(sorted(best.items()))]:
                best = candidate
        return best is not before

    better(iter([tuning.start]))
    if tuning.search == COORDINATE:
        changed = True
        while changed:
            changed = False
            for name in tuning.values:
                changed |= better({**best, name: one} for one in tuning.values[name])
    else:
        better(dict(zip(tuning.values, one, strict=True)) for one in itertools.product(*tuning.values.values()))
    return best, known[tuple(sorted(best.items()))]


def evaluate(
    suite: Suite, model: Model, arguments: Arguments, train: Part, test: Part, *, seed: int, threads: int
) -> dict[str, Any]:
    """Fit on ``train`` and return the score on ``test``, the seconds, warnings and what the estimator chose."""
    told, spent = _fitted(suite, model, arguments, train, test.inputs, seed=seed, threads=threads)
    score = suite.score(told, test.targets)
    if not all(map(math.isfinite, score.values())):
        raise FloatingPointError(f"the score is not finite: {score}")
    return {**spent, **score}


def reason_of(error: Exception) -> str:
    """Return an error in one line."""
    return f"{type(error).__name__}: {str(error).strip()}".splitlines()[0][:300]


def _fitted(
    suite: Suite, model: Model, arguments: Arguments, train: Part, inputs: np.ndarray, *, seed: int, threads: int
) -> tuple[Any, dict[str, Any]]:
    """Return what a new estimator says about inputs (n, d), and what that took."""
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        estimator = model.make(arguments, seed=seed, threads=threads)
        began = time.perf_counter()
        told = suite.predict(estimator, train, inputs)
        seconds = time.perf_counter() - began
    spent = {"seconds": seconds, "warnings": sorted({warning.category.__name__ for warning in heard})}
    return told, {**spent, "fitted": _fitted_numbers(estimator)}


def _fitted_numbers(estimator: Any) -> dict[str, Any]:
    """Return what the estimator says it has chosen by itself: public fitted attributes that are numbers or names."""
    known = {name: value for name, value in vars(estimator).items() if name.endswith("_") and not name.startswith("_")}
    plain = {name: value.item() if isinstance(value, np.generic) else value for name, value in known.items()}
    return {name: value for name, value in plain.items() if isinstance(value, bool | int | float | str)}


def _labels(estimator: Any, inputs: np.ndarray) -> Labels:
    """Return what a fitted classifier says about inputs (n, d)."""
    probabilities = estimator.predict_proba(inputs) if hasattr(estimator, "predict_proba") else None
    return Labels(np.asarray(estimator.predict(inputs)), probabilities, np.asarray(estimator.classes_))


def _gaussian(estimator: Any, inputs: np.ndarray) -> Gaussian:
    """Return what a fitted regressor says about inputs (n, d), with error bars where it has them."""
    if "return_std" in inspect.signature(estimator.predict).parameters:
        mean, std = estimator.predict(inputs, return_std=True)
        return Gaussian(np.asarray(mean), np.asarray(std))
    return Gaussian(np.asarray(estimator.predict(inputs)), None)


def _standard(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return mean and standard deviation along the rows; 1 in place of a deviation that is zero."""
    spread = values.std(axis=0)
    return values.mean(axis=0), np.where(spread > 0, spread, 1.0)


def _rmse(told: Gaussian, targets: np.ndarray) -> float:
    return float(np.sqrt(np.mean((told.mean - targets) ** 2)))


def _bars(told: Gaussian, targets: np.ndarray) -> dict[str, float]:
    """Return the mean negative log likelihood, and the share of targets inside 95 % error bars, where there are any."""
    if told.std is None:
        return {}
    away = (targets - told.mean) / told.std
    surprise = np.log(told.std) + 0.5 * away**2
    inside = np.abs(away) <= BARS
    return {"nll": float(np.mean(surprise)) + 0.5 * math.log(2 * math.pi), "coverage": float(np.mean(inside))}


def _log_loss(told: Labels, targets: np.ndarray) -> float:
    """Return the mean of -log of the probability of the true class.

    A probability counts as 2e-16 at least, as in scikit-learn, and so does a class never seen: a sure mistake in n rows
    costs 36 / n.
    """
    assert told.probabilities is not None
    truth = targets[:, None] == told.classes[None, :]
    right = np.where(truth, told.probabilities, 0.0).sum(axis=1)
    return float(-np.mean(np.log(np.maximum(right, np.finfo(np.float64).eps))))


def _brier(told: Labels, targets: np.ndarray) -> float:
    """Return the mean squared distance of probabilities from the truth; a class never seen counts as missed in full."""
    assert told.probabilities is not None
    truth = targets[:, None] == told.classes[None, :]
    unseen = ~truth.any(axis=1)
    return float(np.mean(((told.probabilities - truth) ** 2).sum(axis=1) + unseen))
