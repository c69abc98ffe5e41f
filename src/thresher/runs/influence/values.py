"""Values of a column that a report tries: numbers, categories, words of a text, and parts of a date."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from thresher.figures import calendar, scale_of
from thresher.tables import say_label
from thresher.tables.picking import CellPicker, say_cell

__all__ = ["GRID", "Effect", "Tried", "cells_shown", "effect_of", "values_of"]

GRID = 12  # values of a column that are tried
_CURVES = 4  # classes whose probabilities are shown
_WORDS = 3  # in the mean cell of a text, from which on it is one
_FEW_TEXTS = 20  # different cells, up to which a text is a category
_CANDIDATES = 60  # words that are looked at
_WORD = re.compile(r"[^\W\d_]{2,}")
_ZEROS = re.compile(r"0\d+")

Places = NDArray[np.int64]


@dataclass(frozen=True)
class Effect:
    """The mean answer if all rows had one value in a column: predictions, or probabilities of some classes.

    ``kind`` is "number", "date" (``at`` is in days since 1970), "cycle" (months, weekdays or hours), "category" or
    "words" (those that the text has; ``words`` are the values). Of a date there is an effect for each ``part``, over
    the dates that occur in it.
    """

    column: str
    kind: str
    at: list[float]
    words: list[str]
    names: list[str]  # of the outputs
    values: list[list[float]]  # by output, then by value
    rows: list[int] = field(default_factory=list)  # of a category, a word or a part: how many have it
    scale: str = "linear"  # of the axis of a number
    part: str = ""  # of a date: "time", "month", "weekday" or "hour"


class Tried(NamedTuple):
    """Values that are tried: their kind and names, and for each the places of the cells that have it, in order."""

    kind: str
    at: list[float]
    words: list[str]
    cells: list[Places]
    scale: str = "linear"
    part: str = ""

    def pick(self, value: int, shares: NDArray[np.float64]) -> Places:
        """Return the place of a cell with this value for each row, by numbers (n,) in [0, 1) that the rows have."""
        own = self.cells[value]
        return own[(shares * len(own)).astype(np.int64)]


def values_of(model: Any, rows: CellPicker, name: str, places: Places, outputs: NDArray[np.float64]) -> list[Tried]:
    """Return the values of a column to try, for each part of a date, among the cells of rows at some places (k,).

    ``outputs`` (k, outputs) are the model's of these rows: words are tried that go with them most. Cost: O(k log k).
    """
    cells = rows.cells(name)[places]
    if cells.dtype.kind == "M" and not np.isnat(cells).all():
        return list(_of_dates(cells, places))
    if cells.dtype.kind == "U":
        texts = cells.tolist()
        if _is_text(model, name, texts) and (found := _of_words(texts, places, outputs)).cells:
            return [found]
        return [_of_names(cells, places, ranked=False)]
    present = np.flatnonzero(np.isfinite(cells)) if cells.dtype.kind == "f" else np.zeros(0, np.int64)
    if not len(present):
        return [_of_names(cells, places, ranked=False)]
    values = np.unique(cells[present])
    if _are_names(model, rows, name):
        return [_of_names(cells_shown(model, rows, name)[places], places, ranked=False)]
    if len(values) <= GRID and (values == np.rint(values)).all():
        return [_of_names(cells, places, ranked=True)]
    return [_of_numbers(cells, present, places)]


def cells_shown(model: Any, rows: CellPicker, name: str) -> NDArray[Any]:
    """Return a column (n,) as a reader should see it: numbers that are names, such as 01067, as they are written."""
    column = rows.read(name)
    if column.is_text and column.values.dtype.kind != "M" and _are_names(model, rows, name):
        return np.asarray(column.values, np.str_)
    return rows.cells(name)


def effect_of(name: str, tried: Tried, means: NDArray[np.float64], *, task: str, classes: Any) -> Effect:
    """Return the effect of the values of a column whose mean answers are ``means`` (values, outputs)."""
    labels = ["prediction"] if task == "regression" else list(map(say_label, np.asarray(classes).tolist()))
    keep = [1] if len(labels) == 2 else np.argsort(-np.ptp(means, axis=0), kind="stable")[:_CURVES].tolist()
    counts = [] if tried.kind == "number" else [len(one) for one in tried.cells]
    names = [labels[k] for k in keep]
    return Effect(
        name, tried.kind, tried.at, tried.words, names, means[:, keep].T.tolist(), counts, tried.scale, tried.part
    )


def _is_text(model: Any, name: str, texts: list[str]) -> bool:
    """Return whether cells are sentences rather than names."""
    if _kind(model, name) == "text":
        return True
    different = set(texts)
    if len(different) <= _FEW_TEXTS:
        return False
    return sum(len(one.split()) for one in different) >= _WORDS * len(different)


def _kind(model: Any, name: str) -> str:
    kinds = getattr(getattr(model, "encoder_", None), "kinds_", None) or {}
    return str(getattr(kinds.get(name), "kind", ""))


def _are_names(model: Any, rows: CellPicker, name: str) -> bool:
    """Return whether numbers are names: the model takes them as such, or they are written with leading zeros."""
    chosen = {str(key): what for key, what in (getattr(model, "categories_", None) or {}).items()}
    if name in chosen or _kind(model, name) in ("category", "levels"):
        return True
    column = rows.read(name)
    written = [one for one in column.values.tolist() if one] if column.is_text else []
    return bool(written) and all(one.isdigit() for one in written) and any(map(_ZEROS.fullmatch, written))


def _of_numbers(cells: NDArray[Any], present: Places, places: Places) -> Tried:
    values, firsts = np.unique(cells[present], return_index=True)
    wanted = np.quantile(np.arange(len(present)), np.linspace(0, 1, GRID), method="nearest").astype(int)
    ranked = np.unique(np.searchsorted(values, np.sort(cells[present])[wanted]))
    at = values[ranked].tolist()
    return Tried("number", at, list(map(say_cell, at)), [places[[present[firsts[k]]]] for k in ranked],
                 scale_of(cells[present]))  # fmt: skip


def _of_names(cells: NDArray[Any], places: Places, *, ranked: bool) -> Tried:
    """Return the commonest values, those first, or in their order if they are ``ranked``."""
    values, codes, counts = np.unique(cells, return_inverse=True, return_counts=True)
    order = np.argsort(-counts, kind="stable")[:GRID]
    order = np.sort(order) if ranked else order
    words = [say_cell(values[k].item() if values.dtype.kind != "M" else values[k]) for k in order]
    return Tried("category", [], words, [places[codes == k] for k in order])


def _of_words(texts: list[str], places: Places, outputs: NDArray[np.float64]) -> Tried:
    """Return the words of texts whose presence goes with the outputs (k, outputs) most, those first."""
    found = [set(_WORD.findall(one.lower())) for one in texts]
    counts = Counter(word for one in found for word in one)
    n = len(texts)
    candidates = [word for word, count in counts.most_common() if max(3, n // 500) <= count <= 0.9 * n]
    centred = outputs - outputs.mean(axis=0)
    ranked: list[tuple[float, str, NDArray[np.bool_]]] = []
    seen: set[bytes] = set()
    for word in sorted(candidates[:_CANDIDATES], key=lambda one: (-len(one), one)):
        has = np.array([word in one for one in found])
        if has.tobytes() in seen:  # words that are always together: the longest stands for them
            continue
        seen.add(has.tobytes())
        m = int(has.sum())
        gap = centred[has].sum(axis=0) / m - centred[~has].sum(axis=0) / (n - m)
        ranked.append((float((gap**2).sum()) * m * (n - m), word, has))
    ranked.sort(key=lambda one: (-one[0], one[1]))
    top = ranked[:GRID]
    return Tried("words", [], [word for _, word, _ in top], [places[has] for _, _, has in top])


def _of_dates(cells: NDArray[Any], places: Places) -> Iterator[Tried]:
    """Yield the parts of dates that differ: the time itself, the month, the weekday and the hour."""
    present = np.flatnonzero(~np.isnat(cells))
    times = cells[present].astype("datetime64[us]")
    order = np.argsort(times, kind="stable")
    present, times = present[order], times[order]
    for part, codes, at, words in calendar(times):
        own = [places[present[codes == k]] for k in range(len(words))]
        yield Tried("date" if part == "time" else "cycle", at, words, own, part=part)
