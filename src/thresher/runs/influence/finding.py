"""Which columns a model's answers depend on, and how: cells are exchanged or set, and the model is asked again."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from thresher.interfaces import Progress
from thresher.runs.answers import Answers, ask
from thresher.runs.influence.values import GRID, Effect, Tried, effect_of, values_of
from thresher.runs.scores import rmse
from thresher.tables.picking import CellPicker

__all__ = ["REPEATS", "Importance", "Influence", "TestedModel", "find_influence"]

REPEATS = 3  # permutations of each column
TOP = 6  # columns whose effect is shown
MOST_ROWS, ENOUGH_ROWS, LEAST_ROWS = 1_000, 100, 16
_BATCH = 4_096  # rows of a prediction
_PROBE = 512  # rows that are timed
_SHARE = 0.6  # of the time: for importances
_LEAST_PART = 0.3  # of the largest effect of a date's parts: a part with less is not shown

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


class Influence(NamedTuple):
    """Importances, the largest first, effects of the first few, and the number of rows used."""

    importances: list[Importance]
    effects: list[Effect]
    rows: int


class TestedModel(NamedTuple):
    """A fitted model with rows that it was not fitted to: what it answers if cells of these had other values."""

    model: Any
    task: str
    classes: Any  # (classes,) or None
    rows: CellPicker
    y: NDArray[Any]  # targets (n,)

    def outputs(self, places: Places, changed: Mapping[str, Places] | None = None) -> NDArray[np.float64]:
        """Return predictions (k, 1), or probabilities (k, classes); ones and zeros if the model has none.

        Cells come from the rows at some places (k,), those of ``changed`` columns from other places (k,).
        """
        return self.outputs_of(ask(self.model, self.rows.table(places, changed), task=self.task))

    def outputs_of(self, answers: Answers) -> NDArray[np.float64]:
        """Return the same of answers that are known."""
        if answers.chances is not None:
            return np.asarray(answers.chances, np.float64)
        predicted = answers.predicted[:, None]
        if self.task == "regression":
            return np.asarray(predicted, np.float64)
        return np.asarray(predicted == (np.unique(self.y) if self.classes is None else self.classes), np.float64)

    def each_variant(
        self, places: Places, variants: Sequence[tuple[str, Places]], tell: Callable[[int], None]
    ) -> Iterator[NDArray[np.float64]]:
        """Yield the outputs of rows for each variant: a column, and the places (k,) that its cells come from."""
        size = max(1, _BATCH // len(places))
        for first in range(0, len(variants), size):
            batch = variants[first : first + size]
            together = np.tile(places, len(batch))
            changed: dict[str, Places] = {}
            for k, (name, other) in enumerate(batch):
                mine = changed.setdefault(name, together.copy())
                mine[k * len(places) : (k + 1) * len(places)] = other
            outputs = self.outputs(together, changed)
            tell(len(batch))
            yield from outputs.reshape(len(batch), len(places), -1)

    def error(self, outputs: NDArray[np.float64], places: Places) -> float:
        """Return the root of the mean squared error of outputs, or 1 less the mean probability of the right answers."""
        y = self.y[places]
        if self.task == "regression":
            return rmse(y, outputs[:, 0])
        return float(1 - np.mean((outputs * (np.asarray(self.classes) == y[:, None])).sum(axis=1)))


def find_influence(
    model: TestedModel,
    places: Places,
    outputs: NDArray[np.float64],
    *,
    seconds: float,
    progress: Progress | None = None,
) -> Influence:
    """Return which columns matter, on some of the rows at ``places`` (k,), and how answers change with the first few.

    ``outputs`` (k, outputs) are those of these rows.

    The number of rows is a power of two, or all, such that it takes about ``seconds``. Cost: that, at least 16 rows.
    """
    names = model.rows.names
    if (model.task == "classification" and model.classes is None) or len(places) < 2:
        return Influence([], [], 0)
    began = time.perf_counter()
    model.outputs(np.resize(places, _PROBE))
    a_row = (time.perf_counter() - began) / _PROBE
    count, repeats = min(len(places), MOST_ROWS), REPEATS
    affordable = _SHARE * seconds / a_row / (len(names) * repeats)
    if affordable < min(count, ENOUGH_ROWS):  # rather more rows than more permutations
        affordable, repeats = repeats * affordable, 1
    if affordable < 0.8 * count:
        count = min(count, max(LEAST_ROWS, 2 ** int(np.log2(max(affordable, 1.0)))))
    some = np.random.default_rng(0).permutation(places)[:count]
    tell = _Steps(progress, len(names) * repeats, later=min(TOP, len(names)) * GRID)
    importances = _importances(model, some, repeats, tell)
    chosen = [one.column for one in importances[:TOP] if one.mean > 0]
    tried = [(name, one) for name in chosen for one in values_of(model.model, model.rows, name, places, outputs)]
    fewer = max(LEAST_ROWS, int((1 - _SHARE) * seconds / a_row / max(sum(len(one.cells) for _, one in tried), 1)))
    effects = list(_worth_showing(_effects(model, tried, some[:fewer], tell)))
    return Influence(importances, effects, count)


def _importances(model: TestedModel, some: Places, repeats: int, tell: Callable[[int], None]) -> list[Importance]:
    names, base = model.rows.names, model.error(model.outputs(some), some)
    orders = [np.random.default_rng(repeat).permutation(some) for repeat in range(repeats)]
    variants = [(name, order) for name in names for order in orders]
    errors = [model.error(outputs, some) for outputs in model.each_variant(some, variants, tell)]
    grown = np.reshape(errors, (len(names), repeats)) - base
    found = [
        Importance(name, float(np.mean(ones)), rmse(ones, np.full(repeats, np.mean(ones))))
        for name, ones in zip(names, grown, strict=True)
    ]
    return sorted(found, key=lambda one: -one.mean)


def _effects(model: TestedModel, tried: list[tuple[str, Tried]], some: Places, tell: _Steps) -> list[Effect]:
    """Return the effect of every column, or part of one, whose values are tried on some rows."""
    tell.more(sum(len(one.cells) for _, one in tried))
    shares = np.random.default_rng(1).random(len(some))
    found = []
    for name, one in tried:
        changes = [(name, one.pick(k, shares)) for k in range(len(one.cells))]
        means = np.array([outputs.mean(axis=0) for outputs in model.each_variant(some, changes, tell)])
        found.append(effect_of(name, one, means, task=model.task, classes=model.classes))
    return found


def _worth_showing(effects: list[Effect]) -> Iterator[Effect]:
    """Yield effects, of dates the parts that change answers at least by some share of what their largest does."""
    spans = [max(max(one) - min(one) for one in effect.values) for effect in effects]
    for effect, span in zip(effects, spans, strict=True):
        most = max(own for other, own in zip(effects, spans, strict=True) if other.column == effect.column)
        if effect.part in ("", "time") or span >= _LEAST_PART * most:
            yield effect


class _Steps:
    """Counts what is done and tells of it; what comes later is guessed until it is known."""

    def __init__(self, progress: Progress | None, total: int, *, later: int) -> None:
        self._progress, self._known, self._total, self._done = progress, total, total + later, 0

    def more(self, count: int) -> None:
        """Set what is to be done besides."""
        self._total = self._known + count

    def __call__(self, done: int) -> None:
        self._done = min(self._done + done, self._total)
        if self._progress is not None:
            self._progress(self._done, self._total)
