"""Tables as people have them, made from a seed: categories, repeated rows, damaged cells, many columns, raw pixels.

A case draws a training part and a test part for each split. The truth behind a case is the same in all its splits; the
rows are drawn anew. Damage is done to training rows alone.
"""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Callable
from functools import partial
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from scipy.special import expit
from scipy.stats import norm
from sklearn.datasets import load_digits, make_friedman1

from benchmarks.tabular.sets import Part, Set

SPLITS = 5
CATEGORICAL, DAMAGED, OTHER = "categories and repeated rows", "damaged training rows", "other"
LABELS, VALUES = ("accuracy", "log_loss"), ("r2",)
Parts = tuple[Part, Part]  # for training and for testing
Damage = Callable[[np.random.Generator, np.ndarray, np.ndarray], None]  # changes training inputs and targets in place
Map = Callable[[np.random.Generator, np.ndarray], np.ndarray]  # of the inputs of both parts


class Case(NamedTuple):
    """How the parts of a split are made, what is shown of it (the first measure decides), and what it is in words."""

    make: Callable[[int], Parts]
    group: str
    measures: tuple[str, ...]
    about: str


def case_set(name: str) -> Set:
    """Return all splits of a case as one set: rows of a split are its own.

    Cost: makes every split; at most some hundred megabytes.
    """
    parts = [part for split in range(SPLITS) for part in CASES[name].make(split)]
    inputs, targets = (np.concatenate(columns) for columns in zip(*parts, strict=True))
    ends = np.cumsum([0, *(len(part.targets) for part in parts)])
    rows = [np.arange(first, last) for first, last in pairwise(ends)]
    splits = {"train": np.array(rows[::2]), "test": np.array(rows[1::2])}
    digest = hashlib.sha256(np.ascontiguousarray(inputs).tobytes() + targets.tobytes()).hexdigest()[:12]
    return Set(name, inputs, targets, splits, digest)


def one_column(split: int, *, train: int = 1000, test: int = 2000) -> Parts:
    """One column of 12 levels; 9 of them lean to one class, 3 to the other."""
    chances = np.array([0.04, 0.06, 0.08, 0.10, 0.12, 0.14, 0.16, 0.18, 0.20, 0.66, 0.76, 0.86])
    rng = _rng("one-column", split)
    level = rng.integers(len(chances), size=train + test)
    return _cut(_one_hot(level, len(chances)), _drawn(rng, chances[level]), train)


def five_columns(split: int, *, train: int = 1000, test: int = 2000) -> Parts:
    """Five columns of 4 levels: three have an effect of their own, the first two one together."""
    truth, rng = _rng("five-columns"), _rng("five-columns", split)
    alone, together = truth.normal(scale=0.6, size=(3, 4)), truth.normal(scale=1.3, size=(4, 4))
    levels = rng.integers(4, size=(train + test, 5))
    odds = alone[np.arange(3), levels[:, :3]].sum(axis=1) + together[levels[:, 0], levels[:, 1]]
    return _cut(np.hstack([_one_hot(column, 4) for column in levels.T]), _drawn(rng, expit(odds)), train)


def exclusive_or(split: int, *, train: int = 400, test: int = 2000) -> Parts:
    """Two binary columns; one label in ten is wrong, in the test part as well."""
    rng = _rng("exclusive-or", split)
    bits = rng.integers(2, size=(train + test, 2))
    chances = np.where(bits[:, 0] != bits[:, 1], 0.9, 0.1)
    return _cut(bits.astype(float), _drawn(rng, chances), train)


# Class (the crew is 4), adult, male, how many, how many of them survived: the table of the Titanic (Dawson, 1995).
_PASSENGERS = np.array(
    [
        (1, 1, 1, 175, 57),
        (1, 1, 0, 144, 140),
        (1, 0, 1, 5, 5),
        (1, 0, 0, 1, 1),
        (2, 1, 1, 168, 14),
        (2, 1, 0, 93, 80),
        (2, 0, 1, 11, 11),
        (2, 0, 0, 13, 13),
        (3, 1, 1, 462, 75),
        (3, 1, 0, 165, 76),
        (3, 0, 1, 48, 13),
        (3, 0, 0, 31, 14),
        (4, 1, 1, 862, 192),
        (4, 1, 0, 23, 20),
    ]
)


def passengers(split: int, *, values: bool = False) -> Parts:
    """2201 rows of 14 kinds; who survives is drawn by the chances of the kind. ``values``: -1 and 1 as numbers."""
    rng = _rng("passengers", split)
    chances = (_PASSENGERS[:, 4] + 1) / (_PASSENGERS[:, 3] + 2)  # no kind is certain
    parts = []
    for _ in range(2):
        kind = rng.permutation(np.repeat(np.arange(len(chances)), _PASSENGERS[:, 3]))
        survived = _drawn(rng, chances[kind])
        parts.append(Part(_PASSENGERS[kind, :3].astype(float), 2.0 * survived - 1 if values else survived))
    return parts[0], parts[1]


def mixed(split: int, *, train: int = 1500, test: int = 2000) -> Parts:
    """8 numbers and 4 columns of 3, 5, 8 and 10 levels; the slope of the first number depends on the first level."""
    truth, rng, levels = _rng("mixed"), _rng("mixed", split), (3, 5, 8, 10)
    slopes, effects = np.array([-2.0, 0.5, 2.0]), [truth.normal(scale=0.8, size=size) for size in levels]
    numbers = rng.standard_normal((train + test, 8))
    columns = [rng.integers(size, size=train + test) for size in levels]
    odds = sum(effect[column] for effect, column in zip(effects, columns, strict=True))
    odds += slopes[columns[0]] * numbers[:, 0] + numbers[:, 1] + np.abs(numbers[:, 2]) - np.sin(2 * numbers[:, 3])
    hot = [_one_hot(column, size) for column, size in zip(columns, levels, strict=True)]
    return _cut(np.hstack([numbers, *hot]), _drawn(rng, expit(odds)), train)


def friedman(
    split: int,
    *,
    name: str = "friedman",
    damage: Damage | None = None,
    change: Map | None = None,
    train: int = 600,
    test: int = 1000,
) -> Parts:
    """Friedman's first problem, 10 columns; the same rows whatever the damage.

    Targets have a noise of deviation 1 in training and none in the test part, so that 1 is the best R².
    """
    rng, more = _rng("friedman", split), _rng(name, split)
    inputs, targets = make_friedman1(train + test, n_features=10, noise=0.0, random_state=int(rng.integers(2**31)))
    targets[:train] += rng.standard_normal(train)
    if change is not None:
        inputs = change(more, inputs)
    shown, held = _cut(inputs, targets, train)
    if damage is not None:
        damage(more, shown.inputs, shown.targets)
    return shown, held


def one_cell(rng: np.random.Generator, inputs: np.ndarray, targets: np.ndarray) -> None:
    """Set a cell of one of the five columns that matter to -999, as tables say "missing"."""
    inputs[rng.integers(len(inputs)), rng.integers(5)] = -999.0


def one_row(rng: np.random.Generator, inputs: np.ndarray, targets: np.ndarray) -> None:
    inputs[rng.integers(len(inputs))] = 1e6


def cells(rng: np.random.Generator, inputs: np.ndarray, targets: np.ndarray) -> None:
    """Multiply one cell in a hundred by 1000."""
    flat = rng.choice(inputs.size, size=inputs.size // 100, replace=False)
    inputs.flat[flat] *= 1000.0


def some_targets(rng: np.random.Generator, inputs: np.ndarray, targets: np.ndarray) -> None:
    targets[rng.choice(len(targets), size=3, replace=False)] *= 100.0


def log_normal(rng: np.random.Generator, inputs: np.ndarray) -> np.ndarray:
    return np.exp(2 * norm.ppf(np.clip(inputs, 1e-6, 1 - 1e-6)))


def with_normal(rng: np.random.Generator, inputs: np.ndarray) -> np.ndarray:
    return np.hstack([inputs, rng.standard_normal((len(inputs), 60))])


def with_student(rng: np.random.Generator, inputs: np.ndarray) -> np.ndarray:
    return np.hstack([inputs, rng.standard_t(2, size=(len(inputs), 10))])


def houses(split: int, *, train: int = 800, test: int = 1000) -> Parts:
    """A price is a product of what each column contributes, give or take 10 %, in the test part as well."""
    rng, size = _rng("houses", split), train + test
    area = np.exp(rng.normal(4.6, 0.4, size))
    rooms = np.maximum(1, np.rint(area / 25 + rng.standard_normal(size)))
    age, distance = rng.uniform(0, 100, size), rng.exponential(8, size)
    quality, place = rng.integers(1, 11, size), rng.integers(6, size=size)
    logs = 8 + 0.9 * np.log(area) + 0.03 * rooms - 0.004 * age - 0.03 * distance + 0.08 * quality
    logs += np.array([-0.3, -0.15, 0.0, 0.1, 0.25, 0.5])[place] + 0.1 * rng.standard_normal(size)
    inputs = np.column_stack([area, rooms, age, distance, quality, _one_hot(place, 6)])
    return _cut(inputs, np.exp(logs), train)


def wide_values(split: int, *, train: int = 100, test: int = 200, columns: int = 5000) -> Parts:
    """20 hidden directions, some of which the targets depend on, spread over all columns, and noise on each."""
    truth, rng = _rng("wide"), _rng("wide", split)
    spread, weights = truth.normal(scale=0.2, size=(20, columns)), truth.standard_normal(20)
    hidden = rng.standard_normal((train + test, 20))
    targets = hidden @ weights + np.abs(hidden[:, 0]) + rng.standard_normal(train + test)
    return _cut(hidden @ spread + rng.standard_normal((train + test, columns)), targets, train)


def wide_labels(split: int, *, train: int = 120, test: int = 500, columns: int = 2000) -> Parts:
    """Like gene expression: columns vary together in 10 directions, and 40 of them differ between two classes."""
    truth, rng = _rng("genes"), _rng("genes", split)
    spread, shift = truth.normal(scale=0.3, size=(10, columns)), np.zeros(columns)
    shift[:40] = truth.choice([-0.7, 0.7], 40)
    labels = rng.integers(2, size=train + test)
    noise = rng.standard_normal((train + test, 10)) @ spread + rng.standard_normal((train + test, columns))
    return _cut(noise + labels[:, None] * shift, labels, train)


def digits(split: int, *, train: int = 900) -> Parts:
    """Raw pixels, 0 to 16, of the digits that scikit-learn ships; all rows, in an order drawn for the split."""
    inputs, targets = load_digits(return_X_y=True)
    order = _rng("digits", split).permutation(len(targets))
    return _cut(inputs[order].astype(float), targets[order].astype(np.int64), train)


def _rng(name: str, *split: int) -> np.random.Generator:
    """Return the numbers of a case, or of one of its splits."""
    return np.random.default_rng([zlib.crc32(name.encode()), *split])


def _cut(inputs: np.ndarray, targets: np.ndarray, train: int) -> Parts:
    return Part(inputs[:train], targets[:train]), Part(inputs[train:], targets[train:])


def _one_hot(level: np.ndarray, count: int) -> np.ndarray:
    return np.eye(count)[level]


def _drawn(rng: np.random.Generator, chances: np.ndarray) -> np.ndarray:
    return (rng.random(len(chances)) < chances).astype(np.int64)


def _friedman(name: str, about: str, *, damage: Damage | None = None, change: Map | None = None) -> tuple[str, Case]:
    return name, Case(partial(friedman, name=name, damage=damage, change=change), DAMAGED, VALUES, about)


CLEAN, CELL, ROW, SKEWED, NOISY = "friedman", "cell-999", "row-1e6", "log-normal", "noise-columns"
CASES = {
    "one-column": Case(one_column, CATEGORICAL, LABELS, "one column of 12 levels, one-hot"),
    "five-columns": Case(five_columns, CATEGORICAL, LABELS, "5 columns of 4 levels, one-hot, two of which interact"),
    "exclusive-or": Case(exclusive_or, CATEGORICAL, LABELS, "two binary columns; one label in ten is wrong"),
    "passengers": Case(passengers, CATEGORICAL, LABELS, "2201 rows of 14 kinds: class, adult, sex; predict survival"),
    "passengers-values": Case(
        partial(passengers, values=True), CATEGORICAL, VALUES, "the same as a regression on -1 and 1"
    ),
    "mixed": Case(mixed, CATEGORICAL, LABELS, "8 numeric columns and 4 of 3 to 10 levels, one-hot; an interaction"),
    **dict(
        [
            _friedman(CLEAN, "Friedman's first problem, clean"),
            _friedman(CELL, "one training cell is -999", damage=one_cell),
            _friedman(ROW, "all cells of one training row are 1e6", damage=one_row),
            _friedman("cells-1000", "1 % of training cells multiplied by 1000", damage=cells),
            _friedman("targets-100", "3 training targets multiplied by 100", damage=some_targets),
            _friedman(SKEWED, "columns made log-normal, in both parts", change=log_normal),
            _friedman(NOISY, "60 more normal columns, in both parts", change=with_normal),
            _friedman("heavy-tails", "10 more columns of Student's t, 2 degrees, in both parts", change=with_student),
        ]
    ),
    "houses": Case(houses, OTHER, (*VALUES, "coverage", "nll"), "house prices: products, with 10 % noise"),
    "wide-values": Case(wide_values, OTHER, (*VALUES, "seconds"), "100 rows of 5000 columns, 20 hidden directions"),
    "wide-labels": Case(wide_labels, OTHER, (*LABELS, "seconds"), "120 rows of 2000 columns, two classes"),
    "digits": Case(digits, OTHER, LABELS, "900 images of 8 x 8 pixels as they are, 10 classes"),
}
