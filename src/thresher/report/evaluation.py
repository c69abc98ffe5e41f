"""How well a model does, and how it was made: all that a page tells of, as a value and as JSON; and that page."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from thresher.checks import restore
from thresher.errors import NotAvailable
from thresher.figures import Drawn, draw
from thresher.output import write_text
from thresher.report import words
from thresher.report.details import MOST_ROWS, Details
from thresher.report.page import find_jinja, render_page
from thresher.report.pictures import TRAINING, Course, model_pictures, term_pictures
from thresher.report.scores import Test
from thresher.training import History, Iteration, Result, Status

__all__ = ["CATEGORIES", "LEFT_OUT", "OF_TEST", "PARTS", "Choice", "Evaluation", "Training"]

PARTS = "what the kernel sees"  # in ``network``
CATEGORIES = "whole numbers taken as categories"  # in ``network``
LEFT_OUT = "error on rows left out, as a share of a constant guess's"  # in ``network``
OF_TEST = "constant guess from rows of the test"  # in ``data``
_PACKAGES = {"thresher": "thresher-ml"} | {name: name for name in ("numpy", "scipy", "numba", "scikit-learn")}  # to pip
_MEANINGS = {  # of what an estimator has chosen, and what it is
    "whole numbers": "numbers, categories or both",
    "target": "what is learnt: targets as they are, or logarithms of their distance from a floor",
    "bias": "bias coordinate of a row; smaller lets directions matter more",
    "rounds of the metric": "rounds in which directions of the inputs were learnt",
    "share of single columns": "share of the kernel that sees columns one by one; parts= (--parts) overrules it",
    "ridge": "penalty on the distance from the start weights, relative to the kernel; larger is smoother",
    "ridge of log loss": "the same of the fit by log loss",
    "solve": "a coefficient for each row (exact), or for centres, or for the rows of leaves",
    "loss": "what is made small; loss= (--loss)",
    "inputs": "rows, or centres, that it keeps",
    PARTS: "all columns at once, single ones, a layer of these; parts= (--parts) overrules it",
    CATEGORIES: "by rows left out, if not named; categorical_features= (--categorical) overrules it",
    LEFT_OUT: "both squared, on rows left out of the training; the guess is their mean, so it is 1 less their R²",
}


@dataclass(frozen=True)
class Choice:
    """A choice of an estimator: what was tried, with its error on observations left out, and what was taken."""

    name: str
    tried: dict[str, float]
    taken: str
    measure: str


@dataclass(frozen=True)
class Training:
    """The training of one output: its iterations, and how it ended."""

    name: str
    status: str
    message: str
    history: list[Iteration]

    @classmethod
    def of(cls, name: str, result: Result) -> Training:
        """Return what a page tells of a training."""
        return cls(name, result.status.value, result.message, list(result.history))


@dataclass(frozen=True)
class Evaluation:
    """How well a model does on rows that it was not fitted to, and how it was made; :func:`evaluate` returns one.

    ``scores`` are all scores by their names, ``test`` is the one to judge by beside that of a constant guess, and
    ``details`` is what the model does row by row and column by column. Without a test all three are empty.
    """

    what: str  # was fitted to what, in one sentence
    task: str
    target: str
    columns: list[str]
    rows: int = 0  # tested on
    scores: dict[str, Any] = field(default_factory=dict)  # of a cross-validation, means over its folds
    folds: dict[str, Any] = field(default_factory=dict)  # scores of each, and the standard errors of their means
    details: Details | None = None
    network: dict[str, Any] = field(default_factory=dict)  # what was fitted: inputs, ridge, width, ...
    choices: list[Choice] = field(default_factory=list)  # of an estimator, in the order in which they were made
    trainings: list[Training] = field(default_factory=list)  # of networks, one for each output
    exact: bool = False  # whether training went to zero loss
    data: dict[str, Any] = field(default_factory=dict)  # in words, where the numbers came from
    seconds: dict[str, float] = field(default_factory=dict)  # reading, fitting, testing, ...
    command: str = ""  # that made it
    when: str = field(default_factory=lambda: datetime.now(UTC).isoformat(timespec="seconds"))
    environment: dict[str, str] = field(default_factory=lambda: _environment())

    @property
    def test(self) -> Test | None:
        """The score that the model is judged by; None if it was not tested."""
        return Test.of(self.scores, self.rows) if self.rows else None

    @property
    def pairs(self) -> int:
        """Number of pairs of a neuron and an input: the looks of a dense pass."""
        return int(self.network["width"]) * int(self.network["inputs"])

    def summary(self) -> str:
        """Return how well the model does, in a sentence, beside the best constant guess; "" if it was not tested."""
        test = self.test
        if test is None:
            return ""
        scores, verdict = words.say_scores(self.scores, self.folds.get("standard errors")), ""
        if test.measure == "RMSE":
            scores += f" (the mean as a guess: {words.say_scores({'RMSE': test.guess})})"
        elif test.measure == "log loss" and test.value < test.guess:
            verdict = f" The log loss is {100 * (1 - test.value / test.guess):.2g}% below the base rate's."
        elif test.measure == "log loss" or test.value <= test.guess:
            verdict = " That is no better than a constant guess."
        count = len(next(iter(self.folds["scores"].values()))) if self.folds else 0
        how = f"Cross-validated in {count} folds, on" if count else "Test on"
        return f"{how} {test.rows:,} unseen row{'' if test.rows == 1 else 's'}: {scores}.{verdict}"

    def __str__(self) -> str:
        return f"{self.what} {self.summary()}".strip()

    def report(self, path: str | Path) -> Path:
        """Write one HTML page that stands alone, as ``thresher train --report`` does; return its path.

        A page that is there is replaced. Needs Jinja2, and matplotlib for figures: ``pip install 'thresher-ml[plot]'``.
        Cost: seconds for the figures.
        """
        find_jinja()
        remarks, found = list(_remarks(self)), self.details
        drawn: dict[str, list[Drawn]] = {"figures": [], "terms": [], "training": []}
        try:
            if found is not None:
                drawn["figures"] = draw(model_pictures(found), found)
                drawn["terms"] = draw(term_pictures(found.terms), found)
            if self.trainings:
                histories, names = [one.history for one in self.trainings], [one.name for one in self.trainings]
                drawn["training"] = draw(TRAINING, Course(histories, names, self.pairs, self.exact))
        except NotAvailable as error:
            remarks.append(str(error))
        page = render_page(
            "report.html",
            evaluation=self,
            title=words.title(self.target, self.columns, str(self.data.get("file", ""))),
            verdict=words.verdict(found) if found else "",
            validated=words.validated(self.folds, found),
            remarks=remarks,
            iterations=[(one.name, History(one.history)._repr_html_()) for one in self.trainings],
            settings=_settings(self),
            choices=_choices(self),
            of_test=OF_TEST in self.data,
            **drawn,
            **words.details_of(found),
        )
        return write_text(Path(path), page, remedy="Choose another file for the report.")

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON, with words for numbers that JSON does not know."""
        told: dict[str, Any] = _plain(asdict(self))
        return told

    @classmethod
    def from_json(cls, told: Any) -> Evaluation:
        """Return what :meth:`to_json` told; TypeError or ValueError if it is something else."""
        found: Evaluation = restore(cls, told | {name: _float(told[name]) for name in ("scores", "folds")})
        if found.rows and (found.details is None or found.test is None):
            raise ValueError("its test is not whole")
        if found.trainings and min(restore(int, found.network[name], name) for name in ("width", "inputs")) < 1:
            raise ValueError("its sizes are not valid")
        if not all(one.history for one in found.trainings):
            raise ValueError("its history is empty")
        return found


def _environment() -> dict[str, str]:
    found = {"Python": platform.python_version()}
    for name, package in _PACKAGES.items():
        try:
            found[name] = version(package)
        except PackageNotFoundError:
            continue
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return {**found, "machine": f"{platform.system()} {platform.machine()}, {cores} cores"}


def _remarks(found: Evaluation) -> Iterator[str]:
    """Yield what a reader should know before the details."""
    if found.exact:
        for message in sorted({one.message for one in found.trainings if one.status != Status.CONVERGED}):
            yield f"Training did not reach zero loss. {message}"
    if found.folds:
        yield "What follows is of the last fold: its model, on the rows that it had not seen."
    elif str(found.data.get("tested", "")).startswith("before"):
        yield (
            "The numbers are of a model fitted without these rows. The saved model was then fitted to all rows, which "
            "should make it a little better."
        )
    if OF_TEST in found.data:
        yield "The constant guess is the best one for these very rows, since targets of training rows were not given."
    if found.details is None:
        yield "No rows were kept for testing, so it is not known how good this model is on new ones."
    elif MOST_ROWS <= found.details.rows < found.rows:
        yield f"{found.details.rows:,} of the {found.rows:,} rows that were kept for testing are looked at here."


def _choices(found: Evaluation) -> list[tuple[str, str, str]]:
    """Return what an estimator has chosen, and what it means; nothing for exact training, which chooses nothing."""
    if found.exact:
        return []
    rows = [(one.name, one.taken, f"{_MEANINGS.get(one.name, '')}{_tried(one)}") for one in found.choices]
    chosen = {name for name, _, _ in rows}
    known = [name for name in _MEANINGS if name in found.network and name not in chosen]
    return rows + [(name, _say(found.network[name]), _MEANINGS[name]) for name in known]


def _tried(choice: Choice) -> str:
    errors = ", ".join(f"{name} {words.say_number(error)}" for name, error in choice.tried.items())
    return f". {choice.measure[0].upper()}{choice.measure[1:]} on rows left out: {errors}" if errors else ""


def _settings(found: Evaluation) -> list[tuple[str, str]]:
    told = found.network | {f"data: {key}": value for key, value in found.data.items()} | found.environment
    told |= {f"seconds: {part}": round(spent, 1) for part, spent in found.seconds.items()}
    return [(key, _say(value)) for key, value in told.items()]


def _say(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return words.say_number(value) if isinstance(value, int | float) and abs(value) < 2**53 else f"{value}"


def _float(value: Any) -> Any:
    """Return the number that JSON has no way to write, also inside others, or the value as it is."""
    if isinstance(value, dict):
        return {key: _float(one) for key, one in value.items()}
    if isinstance(value, list):
        return [_float(one) for one in value]
    return float(value) if value in ("nan", "inf", "-inf") else value


def _plain(value: Any) -> Any:
    """Return a value with words for numbers that JSON does not know, and plain numbers for NumPy's."""
    if isinstance(value, Mapping):
        return {str(key): _plain(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    value = value.item() if hasattr(value, "item") else value
    if isinstance(value, float) and not abs(value) < float("inf"):
        return str(value)
    return value if isinstance(value, str | int | float | None) else repr(value)
