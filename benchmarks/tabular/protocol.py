"""The published protocols: which rows may be seen when, how parameters are chosen, how a fit is scored.

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
from typing import Any, NamedTuple, Protocol

import numpy as np

from benchmarks.tabular.models import CLASSIFIERS, COORDINATE, REGRESSORS, Arguments, Model, Tuning
from benchmarks.tabular.sets import CLASSIFICATION, REGRESSION, Part, Set

Loss = tuple[float, ...]  # compared in order; lower is better


class Suite(Protocol):
    """Which rows are for choosing and which for scoring, and what a score is."""

    name: str
    folder: str
    models: tuple[Model, ...]

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

    name, folder, models = "classification", CLASSIFICATION, CLASSIFIERS

    def splits(self, data: Set) -> range:
        return range(len(data.splits["kf_train"]))

    def choice_key(self, split: int) -> str:
        return "hp"

    def choice_parts(self, data: Set, split: int) -> tuple[Part, Part]:
        return data.part(data.splits["hp_train"]), data.part(data.splits["hp_val"])

    def score_parts(self, data: Set, split: int) -> tuple[Part, Part]:
        return data.part(data.splits["kf_train"][split]), data.part(data.splits["kf_test"][split])

    def predict(self, estimator: Any, train: Part, inputs: np.ndarray) -> Labels:
        estimator.fit(train.inputs, train.targets)
        probabilities = estimator.predict_proba(inputs) if hasattr(estimator, "predict_proba") else None
        return Labels(np.asarray(estimator.predict(inputs)), probabilities, np.asarray(estimator.classes_))

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

    name, folder, models = "regression", REGRESSION, REGRESSORS

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
        asked = (inputs - centre) / scale
        if "return_std" in inspect.signature(estimator.predict).parameters:
            mean, std = estimator.predict(asked, return_std=True)
            return Gaussian(np.asarray(mean) * spread + middle, np.asarray(std) * spread)
        return Gaussian(np.asarray(estimator.predict(asked)) * spread + middle, None)

    def loss(self, told: Gaussian, targets: np.ndarray) -> Loss:
        return (_rmse(told, targets),)

    def score(self, told: Gaussian, targets: np.ndarray) -> dict[str, float]:
        figures = {"rmse": _rmse(told, targets)}
        if told.std is not None:
            surprise = np.log(told.std) + 0.5 * ((targets - told.mean) / told.std) ** 2
            figures["nll"] = float(np.mean(surprise)) + 0.5 * math.log(2 * math.pi)
        return figures


SUITES: dict[str, Suite] = {suite.name: suite for suite in (Classification(), Regression())}


def choose(suite: Suite, model: Model, fit: Part, judge: Part, *, seed: int, threads: int) -> dict[str, Any]:
    """Return the arguments with the smallest loss on ``judge`` after fitting ``fit``, and all that was tried.

    Cost: a fit for each candidate.
    """
    tuning, tried = model.tuning, []
    assert tuning is not None

    def judged(arguments: Arguments) -> Loss:
        try:
            told, _ = _fitted(suite, model, {**arguments, **tuning.at}, fit, judge.inputs, seed=seed, threads=threads)
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
    return {**score, **spent}


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


def _standard(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return mean and standard deviation along the rows; 1 in place of a deviation that is zero."""
    spread = values.std(axis=0)
    return values.mean(axis=0), np.where(spread > 0, spread, 1.0)


def _rmse(told: Gaussian, targets: np.ndarray) -> float:
    return float(np.sqrt(np.mean((told.mean - targets) ** 2)))


def _brier(told: Labels, targets: np.ndarray) -> float:
    """Return the mean squared distance of probabilities from the truth; a class never seen counts as missed in full."""
    assert told.probabilities is not None
    truth = targets[:, None] == told.classes[None, :]
    unseen = ~truth.any(axis=1)
    return float(np.mean(((told.probabilities - truth) ** 2).sum(axis=1) + unseen))
