"""Which columns a model's answers depend on: cells are exchanged between rows, and the model is asked again."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from thresher.interfaces import Progress
from thresher.report.answers import Answers, ask
from thresher.report.scores import rmse
from thresher.tables.picking import CellPicker

__all__ = ["REPEATS", "Importance", "TestedModel", "find_importances"]

REPEATS = 3  # permutations of each column
MOST_ROWS, ENOUGH_ROWS, LEAST_ROWS = 1_000, 100, 16
_PROBE = 512  # rows that are timed

Places = NDArray[np.int64]


@dataclass(frozen=True)
class Importance:
    """How much the error grows when the cells of a column are exchanged between rows: mean and deviation of repeats.

    The error is the root of the mean squared error, in units of the target; of classes it is what the mean probability
    of the right answer lacks to 1.
    """

    column: str
    mean: float
    deviation: float


class TestedModel(NamedTuple):
    """A fitted model with rows that it was not fitted to: how wrong it is if cells of a column had other places."""

    model: Any
    task: str
    classes: Any  # (classes,) or None
    rows: CellPicker
    y: NDArray[Any]  # targets (n,)

    def outputs_of(self, answers: Answers) -> NDArray[np.float64]:
        """Return predictions (k, 1), or probabilities (k, classes); ones and zeros if the model has none."""
        if answers.chances is not None:
            return np.asarray(answers.chances, np.float64)
        predicted = answers.predicted[:, None]
        if self.task == "regression":
            return np.asarray(predicted, np.float64)
        return np.asarray(predicted == (np.unique(self.y) if self.classes is None else self.classes), np.float64)

    def error(self, places: Places, changed: dict[str, Places] | None = None) -> float:
        """Return the root of the mean squared error at places (k,), or 1 less the mean probability of what is right.

        The cells of ``changed`` columns come from other places (k,). Cost: one prediction of k rows.
        """
        outputs = self.outputs_of(ask(self.model, self.rows.table(places, changed), task=self.task))
        y = self.y[places]
        if self.task == "regression":
            return rmse(y, outputs[:, 0])
        return float(1 - np.mean((outputs * (np.asarray(self.classes) == y[:, None])).sum(axis=1)))


def find_importances(
    model: TestedModel, places: Places, *, seconds: float, progress: Progress | None = None
) -> tuple[list[Importance], int]:
    """Return which columns matter, the largest first, and the number of the rows at ``places`` (k,) that were used.

    That is a power of two, or all, such that it takes about ``seconds``: scikit-learn's ``permutation_importance``
    for rows of any kind, and no longer than one cares to wait. Cost: that, at least 16 rows.
    """
    names = model.rows.names
    if (model.task == "classification" and model.classes is None) or len(places) < 2:
        return [], 0
    began = time.perf_counter()
    model.error(np.resize(places, _PROBE))
    affordable = seconds * _PROBE / (time.perf_counter() - began) / (len(names) * REPEATS)
    count, repeats = min(len(places), MOST_ROWS), REPEATS
    if affordable < min(count, ENOUGH_ROWS):  # rather more rows than more permutations
        affordable, repeats = repeats * affordable, 1
    if affordable < 0.8 * count:
        count = min(count, max(LEAST_ROWS, 2 ** int(np.log2(max(affordable, 1.0)))))
    some = np.random.default_rng(0).permutation(places)[:count]
    orders = [np.random.default_rng(repeat).permutation(some) for repeat in range(repeats)]
    base, found = model.error(some), []
    for done, name in enumerate(names, start=1):
        grown = np.array([model.error(some, {name: order}) - base for order in orders])
        found.append(Importance(name, float(grown.mean()), rmse(grown, np.full(repeats, grown.mean()))))
        if progress is not None:
            progress(done, len(names))
    return sorted(found, key=lambda one: -one.mean), count
