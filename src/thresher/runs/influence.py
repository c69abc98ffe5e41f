"""Which columns a model's answers depend on, and how: cells are exchanged or set, and the model is asked again."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from thresher.interfaces import Progress
from thresher.runs.answers import ask
from thresher.runs.scores import rmse
from thresher.tables import say_label
from thresher.tables.picking import CellPicker, say_cell

__all__ = ["Effect", "Importance", "Influence", "TestedModel", "find_influence"]

REPEATS = 3  # permutations of each column
GRID = 12  # values of a column that are tried
TOP = 6  # columns whose effect is shown
CURVES = 4  # classes whose probabilities are shown
MOST_ROWS, ENOUGH_ROWS, LEAST_ROWS = 1_000, 100, 16
_BATCH = 4_096  # rows of a prediction
_PROBE = 512  # rows that are timed
_SHARE = 0.6  # of the time: for importances

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


@dataclass(frozen=True)
class Effect:
    """The mean answer if all rows had one value in a column: predictions, or probabilities of some classes.

    ``kind`` is "number", "date" (``at`` is in days since 1970) or "category" (``words`` are the values).
    """

    column: str
    kind: str
    at: list[float]
    words: list[str]
    names: list[str]  # of the outputs
    values: list[list[float]]  # by output, then by value
    rows: list[int] = field(default_factory=list)  # of a category: how many have it


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
        answers = ask(self.model, self.rows.table(places, changed), task=self.task)
        if answers.chances is not None:
            return np.asarray(answers.chances, np.float64)
        predicted = answers.predicted[:, None]
        return predicted if self.task == "regression" else np.asarray(predicted == self.classes, np.float64)

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
    model: TestedModel, places: Places, *, seconds: float, progress: Progress | None = None
) -> Influence:
    """Return which columns matter, on some of the rows at ``places``, and how answers change with the first few.

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
    tell = _Steps(progress, len(names) * repeats + min(TOP, len(names)) * GRID)
    importances = _importances(model, some, repeats, tell)
    chosen = [one.column for one in importances[:TOP] if one.mean > 0]
    fewer = max(LEAST_ROWS, int((1 - _SHARE) * seconds / a_row / max(len(chosen) * GRID, 1)))
    return Influence(importances, [_effect(model, name, some[:fewer], places, tell) for name in chosen], count)


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


def _effect(model: TestedModel, name: str, some: Places, places: Places, tell: Callable[[int], None]) -> Effect:
    cells = model.rows.cells(name)[places]
    kind, chosen, counts = _grid(cells)
    variants = [(name, np.full(len(some), places[k])) for k in chosen]
    means = np.array([outputs.mean(axis=0) for outputs in model.each_variant(some, variants, tell)])  # (grid, outputs)
    labels = ["prediction"] if model.task == "regression" else list(map(say_label, np.asarray(model.classes).tolist()))
    keep = [1] if len(labels) == 2 else np.argsort(-np.ptp(means, axis=0), kind="stable")[:CURVES].tolist()
    tried = cells[chosen]
    at = [] if kind == "category" else (_days(tried) if kind == "date" else tried).tolist()
    words = [say_cell(one if kind == "date" else one.item()) for one in tried]
    return Effect(name, kind, at, words, [labels[k] for k in keep], means[:, keep].T.tolist(), counts)


def _grid(cells: NDArray[Any]) -> tuple[str, list[int], list[int]]:
    """Return the kind of a column, places of the cells to try, in order, and how often each category is there."""
    if cells.dtype.kind in "fM":
        present = np.flatnonzero(~np.isnat(cells) if cells.dtype.kind == "M" else np.isfinite(cells))
        if len(present):
            values, firsts = np.unique(cells[present], return_index=True)
            wanted = np.quantile(np.arange(len(present)), np.linspace(0, 1, GRID), method="nearest").astype(int)
            ranked = np.searchsorted(values, np.sort(cells[present])[wanted])
            return "date" if cells.dtype.kind == "M" else "number", present[firsts[np.unique(ranked)]].tolist(), []
    values, firsts, counts = np.unique(cells, return_index=True, return_counts=True)
    order = np.argsort(-counts, kind="stable")[:GRID]
    return "category", firsts[order].tolist(), counts[order].tolist()


def _days(dates: NDArray[Any]) -> NDArray[np.float64]:
    days: NDArray[np.float64] = dates.astype("datetime64[s]").astype(np.int64) / 86_400.0
    return days


class _Steps:
    """Counts what is done and tells of it."""

    def __init__(self, progress: Progress | None, total: int) -> None:
        self._progress, self._total, self._done = progress, total, 0

    def __call__(self, more: int) -> None:
        self._done = min(self._done + more, self._total)
        if self._progress is not None:
            self._progress(self._done, self._total)
