"""Small tables with splits: those that scikit-learn ships, and the published ones of a folder."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
from sklearn import datasets

from benchmarks.tabular.sets import CLASSIFICATION, TABLES, load_set, set_names

SPLITS = 5  # random ones of a table that has none of its own
SHIPPED = {
    "diabetes": datasets.load_diabetes,
    "wine": datasets.load_wine,
    "breast cancer": datasets.load_breast_cancer,
    "digits": datasets.load_digits,
}
FRIEDMAN = {"Friedman, 10 columns": 10, "Friedman, 40 columns": 40}  # five of them matter
_FRIEDMAN_ROWS = 400


class Split(NamedTuple):
    """Rows to fit and rows to judge."""

    inputs: np.ndarray  # (n, d)
    targets: np.ndarray  # (n,), whole numbers if they are classes
    new: np.ndarray  # (k, d)
    answers: np.ndarray  # (k,)


class Table(NamedTuple):
    """A table and its splits."""

    name: str
    inputs: np.ndarray
    targets: np.ndarray
    rows: list[tuple[np.ndarray, np.ndarray]]  # to fit, to judge

    @property
    def labelled(self) -> bool:
        """Whether targets are classes."""
        return bool(self.targets.dtype.kind == "i")

    @property
    def size(self) -> int:
        """How many rows are fitted."""
        return len(self.rows[0][0])

    def splits(self) -> Iterator[Split]:
        for fitted, judged in self.rows:
            yield Split(self.inputs[fitted], self.targets[fitted], self.inputs[judged], self.targets[judged])


def small_tables(folder: Path | None, *, most: int, tiny: bool = False) -> list[Table]:
    """Return the tables that scikit-learn ships or makes, then the published ones of at most ``most`` rows to fit."""
    shipped = [_drawn(name, *load(return_X_y=True)) for name, load in SHIPPED.items()]
    made = [_drawn(name, *friedman(columns=columns, rows=_FRIEDMAN_ROWS)) for name, columns in FRIEDMAN.items()]
    if tiny:
        return [shipped[1]._replace(rows=shipped[1].rows[:2]), made[0]._replace(rows=made[0].rows[:1])]
    return [*shipped, *made, *(_published(folder / TABLES, most) if folder else [])]


def published_sets(folder: Path, *, most: int) -> list[Table]:
    """Return the sets of classes with four splits each, of at most ``most`` rows to fit."""
    return _published(folder / CLASSIFICATION, most)


def friedman(*, columns: int, rows: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Return Friedman's function of five columns, others beside them, with noise."""
    return datasets.make_friedman1(n_samples=rows, n_features=columns, noise=0.5, random_state=seed)


def _drawn(name: str, inputs: np.ndarray, targets: np.ndarray) -> Table:
    """Return a table with random splits of three quarters and a quarter."""
    labelled = len(np.unique(targets)) <= 10
    orders = [np.random.default_rng(seed).permutation(len(targets)) for seed in range(SPLITS)]
    cut = 3 * len(targets) // 4
    rows = [(order[:cut], order[cut:]) for order in orders]
    return Table(name, inputs.astype(float), targets.astype(np.int64 if labelled else float), rows)


def _published(folder: Path, most: int) -> list[Table]:
    found = []
    for name in set_names(folder):
        one = load_set(folder, name)
        fitted, judged = list(one.splits.values())[-2:]
        rows = list(zip(np.atleast_2d(fitted), np.atleast_2d(judged), strict=True))
        table = Table(name, one.inputs, one.targets, rows)
        if table.size <= most:
            found.append(table)
    return sorted(found, key=lambda table: table.size)
