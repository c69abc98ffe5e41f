"""The kind of a column of training rows, and how it becomes numbers."""

from __future__ import annotations

import re
from collections import Counter
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from thresher.tables.cells import (
    FEW,
    Read,
    coded,
    find_decimal,
    find_percent,
    read_numbers,
    read_plain,
)
from thresher.tables.dates import find_date_order, read_dates
from thresher.tables.frame import CellFormat, Column
from thresher.tables.kinds import (
    ColumnKind,
    Dates,
    Dropped,
    Levels,
    Numbers,
    OneHot,
    Tokens,
    Words,
    numbers_of,
    time_parts,
    times_of,
    token_sets,
    truth_only,
)
from thresher.tables.units.amounts import Amounts, find_amounts, read_amounts

__all__ = ["MOST_VALUES", "Targets", "learn", "learn_means", "look", "read_column"]

Matrix = NDArray[np.float64]
MOST_VALUES = 30  # of a category that becomes zeros and ones
_NEARLY_ALL = 0.9  # share of different values from which on they are names of rows
_SENTENCE = 4  # words of a cell from which on it is free text, on average
_NUMBER = r"[+-]?\d[\d.,]*"
_UNIT = re.compile(rf"(?P<code>[A-Z]{{3}}) ?{_NUMBER}|{_NUMBER}\s*(?P<unit>[^\d\s.,][^\d]{{0,9}})")
_COMMON = (0.01, 0.9, 5)  # shares of the rows between which a word is of use, and the fewest rows
_FOLDS, _PRIOR = 5, 10.0  # of means of targets: parts of the rows, and rows that the mean of all counts as


class Targets(NamedTuple):
    """Targets (n, k) for means by category, and what they are called."""

    values: Matrix
    names: tuple[str, ...]


def look(column: Column, *, most: int = MOST_VALUES) -> CellFormat:
    """Return what a column looks like; InvalidInput if a number is infinite.

    Text is numbers, or dates, if all cells are, or all but less than a tenth: these count as missing then. Numbers
    with such words must have more than ``most`` different values.

    Cost: O(n) for the cells, and a closer look at each different one.
    """
    if column.category:
        return CellFormat("text")
    if column.cell_format is not None:
        return column.cell_format
    if column.values.dtype.kind == "M":
        return CellFormat("date", "ymd")
    if not column.is_text:
        numbers_of(column, decimal=".")
        return CellFormat("number", ".")
    if column.decimal != "," and (plain := read_plain(column.values)) is not None:
        if np.isinf(plain).any():
            numbers_of(column, decimal=".")  # refuses them as they are written
        return CellFormat("number", ".")
    order = find_date_order(column.values)
    if order is not None:
        times, strange = read_dates(column.values, order=order)
        if strange.sum() < FEW * (~np.isnat(times) | strange).sum():
            return CellFormat("date", order)
    if truth_only(column):
        return CellFormat("number", ".")
    sign = column.decimal or find_decimal(column.values) or "."
    percent = find_percent(column.values, decimal=sign)
    values, strange = read_numbers(column.values, decimal=sign, percent=percent)
    amounts = Amounts() if percent else find_amounts(column.values, decimal=sign)
    if amounts.doubt:
        return CellFormat("text", doubt=amounts.doubt)
    if amounts.found:
        other = read_amounts(column.values, decimal=sign, unit=amounts.unit, quantity=amounts.quantity)
        if other.strange.sum() <= strange.sum():
            values, strange = other
        else:
            amounts = Amounts()
    there = ~np.isnan(values)
    few = strange.sum() < FEW * (there | strange).sum() and len(np.unique(values[there])) > most
    if strange.any() and not few:
        return CellFormat("text")
    numbers_of(column, decimal=sign, percent=percent, unit=amounts.unit, quantity=amounts.quantity)
    return CellFormat("number", sign, percent, amounts.unit, amounts.quantity)


def read_column(column: Column) -> NDArray[Any]:
    """Return the values (n,) of a column as what it looks like: numbers, times (datetime64) or text.

    Words for true and false stay text. Cost: that of :func:`look`.
    """
    form = look(column)
    if form.kind == "text" or not column.is_text or truth_only(column):
        return column.values
    if form.kind == "date":
        return times_of(column, order=form.how).values
    return _numbers_in(column, form).values


def _numbers_in(column: Column, form: CellFormat) -> Read:
    """Return the numbers of a column that looks like this."""
    return numbers_of(column, decimal=form.how, percent=form.percent, unit=form.unit, quantity=form.quantity)


def learn(column: Column, *, most: int = MOST_VALUES, targets: Targets | None) -> tuple[ColumnKind, Matrix]:
    """Return what is learnt of a column of training rows, and what these rows become (n, outputs).

    The two differ for means of targets alone: those of a training row leave out its fold.
    """
    form = look(column, most=most)
    kind: ColumnKind
    if form.kind == "number":
        kind = _learn_numbers(column, form)
    elif form.kind == "date":
        times, strange = times_of(column, order=form.how)
        kind = _learn_dates(times, form.how, _words(column, strange))
        column = column._replace(values=times)
    else:
        return _learn_text(column, most, targets)
    return kind, kind.encode(column)


def _words(column: Column, strange: NDArray[np.bool_]) -> tuple[str, ...]:
    """Return the first different cells that could not be read."""
    return tuple(dict.fromkeys(column.values[strange].tolist()))[:MOST_VALUES]


def _learn_numbers(column: Column, form: CellFormat) -> ColumnKind:
    values, strange = _numbers_in(column, form)
    missing = np.isnan(values)
    there = values[~missing]
    if not len(there):
        return Dropped("it has no value")
    if not missing.any() and (there == there[0]).all():
        return Dropped("it is the same in every row")
    low, high = there.min(), there.max()
    share = float((there == high).mean())
    two = bool(((there == low) | (there == high)).all())
    fill = low * (1 - share) + high * share if two else np.quantile(there, 0.5, method="lower")
    words = _words(column, strange)
    return Numbers(float(fill), bool(missing.any()), form.how, form.percent, words, form.unit, form.quantity)


def _learn_dates(times: NDArray[Any], order: str, words: tuple[str, ...]) -> ColumnKind:
    missing = np.isnat(times)
    if missing.all():
        return Dropped("it has no value")
    found = {name: part[~missing] for name, part in time_parts(times).items()}
    parts = tuple(name for name, part in found.items() if np.ptp(part) > 1e-9)
    if not parts and not missing.any():
        return Dropped("it is the same in every row")
    fill = tuple(float(found[name].mean()) for name in parts)
    return Dates(order, parts, fill, bool(missing.any()), words)


def _learn_text(column: Column, most: int, targets: Targets | None) -> tuple[ColumnKind, Matrix]:
    values, codes = coded(column.as_text())
    different, rows = len(values) - ("" in values), int((~column.missing).sum())
    kind: ColumnKind
    if different == 0:
        kind = Dropped("it has no value")
    elif len(values) == 1:
        kind = Dropped("it is the same in every row")
    elif different <= most:
        kind = OneHot(tuple(sorted(values)))
    elif (
        not column.category
        and different >= rows / 2
        and _mean_words(tokens := token_sets(column), column.missing) >= _SENTENCE
    ):
        words = _learn_words(tokens, most)
        return words, words.count(tokens)
    elif different >= _NEARLY_ALL * rows:
        unit = _unit_of(values)
        why = "nearly every row has a value of its own" + (f"; without {unit!r} these are numbers" if unit else "")
        kind = Dropped(why, own=not column.category)
    else:
        return _learn_levels(values, codes, targets)
    return kind, kind.encode(column)


def learn_means(kind: Levels, column: Column, targets: Targets) -> tuple[ColumnKind, Matrix]:
    """Return the means of other targets for the values of a column, and what training rows become (n, outputs)."""
    return _learn_levels(list(kind.values), kind.places(column), targets)


def _unit_of(cells: list[Any]) -> str:
    """Return what all cells have after a number, or the code of a currency before it; "" if that differs."""
    found = [_UNIT.fullmatch(cell) for cell in cells if cell]
    units = {one["code"] or one["unit"] for one in found if one is not None}
    return str(next(iter(units))) if len(units) == 1 and all(found) else ""


def _mean_words(tokens: Tokens, missing: NDArray[np.bool_]) -> float:
    counts = np.array([count for count, _ in tokens.found])[tokens.codes]
    return float(counts[~missing].mean())


def _learn_words(tokens: Tokens, most: int) -> Words:
    found, codes = tokens
    often = np.bincount(codes, minlength=len(found))
    rows: Counter[str] = Counter()
    for (_, words), count in zip(found, often.tolist(), strict=True):
        rows.update(dict.fromkeys(words, count))
    share, largest, fewest = _COMMON
    n = len(codes)
    common = [word for word, count in rows.items() if max(fewest, share * n) <= count <= largest * n]
    return Words(tuple(sorted(sorted(common, key=lambda word: (-rows[word], word))[:most])))


def _learn_levels(values: list[Any], codes: NDArray[np.int64], targets: Targets | None) -> tuple[ColumnKind, Matrix]:
    n = len(codes)
    if targets is None:
        counts = np.log1p(np.bincount(codes, minlength=len(values)))[:, None]
        kind = Levels(tuple(values), ("count",), _as_tuples(counts), (0.0,))
        return kind, counts[codes]
    folds = np.random.default_rng(0).permutation(n) % min(_FOLDS, n)
    own = np.empty_like(targets.values)
    for fold in range(folds.max() + 1):
        others, inside = folds != fold, folds == fold
        levels, prior = _means(codes[others], targets.values[others], len(values))
        own[inside] = levels[codes[inside]]
    levels, prior = _means(codes, targets.values, len(values))
    kind = Levels(tuple(values), targets.names, _as_tuples(levels), tuple(prior.tolist()))
    return kind, own


def _means(codes: NDArray[np.int64], targets: Matrix, count: int) -> tuple[Matrix, Matrix]:
    """Return the means (count, k) of targets by code, drawn to the mean (k,) of all where rows are few."""
    rows, prior = np.bincount(codes, minlength=count), targets.mean(axis=0)
    sums = np.stack([np.bincount(codes, one, minlength=count) for one in targets.T], axis=1)
    return (sums + _PRIOR * prior) / (rows[:, None] + _PRIOR), prior


def _as_tuples(levels: Matrix) -> tuple[tuple[float, ...], ...]:
    return tuple(map(tuple, levels.tolist()))
