"""Columns made of others: days between dates, numbers as names, words of free text and pieces of own values."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from thresher.estimators.data.grams import Grams, learn_grams, restore_grams
from thresher.tables.frame import CellFormat, Column
from thresher.tables.kinds import (
    ColumnKind,
    Dates,
    Dropped,
    Levels,
    Numbers,
    OneHot,
    Words,
    describe_kind,
    restore_kind,
    time_parts,
)
from thresher.tables.learning import Targets, learn

__all__ = [
    "DIFFERENCE", "NAMES", "OWN", "PIECES", "Known", "MadeColumn", "Recipe", "find_names", "make_column", "possible",
    "restore_made",
]  # fmt: skip

Matrix = NDArray[np.float64]
DIFFERENCE, NAMES, TEXT, OWN, PIECES = "difference", "names", "text", "own", "pieces"
_OF_TEXT = TEXT, OWN, PIECES  # made of one column of text
_PAIRED = 6  # of columns of dates
_PIECED = 4  # columns of own values that are tried
_FEWEST, _ROWS = 20, 3  # values of names at least, above which they are tried, and rows for each on average
# Of numbers that may be codes: digits at least; shares of those in between that come, and of round ones, at most.
_DIGITS, _GAPS, _ROUND = 4, 0.5, 0.5
_YEARS = (1900, 2100)
_HINTS = re.compile(
    r"(^|[^a-z])(zip|plz|post(al)? ?code|code|id|ids|key|nr|no|sku|store|shop|branch|port|region|station|sensor|"
    r"device|machine|agent|dealer|vendor|supplier|customer|client|user|account|article|product|item)\W*$"
)


class Known(NamedTuple):
    """A column of training or new rows, and what was learnt of it."""

    column: Column
    kind: ColumnKind


class Recipe(NamedTuple):
    """What a column is made by, and the names of those it is made of."""

    what: str
    of: tuple[str, ...]


@dataclass(frozen=True)
class MadeColumn:
    """A column made of others, and what was learnt of it."""

    recipe: Recipe
    kind: Numbers | OneHot | Levels | Grams

    @property
    def name(self) -> str:
        """What it is called."""
        what, of = self.recipe
        if what == NAMES:
            return f"{of[0]} as names"
        if what in _OF_TEXT:
            return f"{'words' if what == TEXT else 'pieces'} of {of[0]}"
        return f"{of[0]} - {of[1]}, days"

    def encode(self, known: Mapping[str, Known]) -> Matrix:
        """Return the column of rows as numbers (n, outputs)."""
        return self.kind.encode(_column(self.recipe, known))

    def describe(self) -> list[Any]:
        """Return it as JSON knows it."""
        about = self.kind.describe() if isinstance(self.kind, Grams) else describe_kind(self.kind)
        return [self.recipe.what, list(self.recipe.of), about]


def restore_made(stored: Any, kinds: Mapping[str, ColumnKind]) -> MadeColumn:
    """Return what :meth:`MadeColumn.describe` described; ValueError, TypeError or KeyError if that cannot be."""
    what, of, kind = stored
    restored: Any = restore_grams(kind) if what in _OF_TEXT else restore_kind(kind)
    made = MadeColumn(Recipe(str(what), tuple(map(str, of))), restored)
    sources = [kinds[name] for name in made.recipe.of]
    if what == TEXT:
        fits = len(sources) == 1 and isinstance(sources[0], Words)
    elif what == OWN:
        fits = len(sources) == 1 and isinstance(sources[0], Dropped) and sources[0].own
    elif what == PIECES:
        fits = len(sources) == 1 and isinstance(sources[0], OneHot | Levels)
    elif what == NAMES:
        fits = len(sources) == 1 and isinstance(sources[0], Numbers) and isinstance(made.kind, OneHot | Levels)
    else:
        dates = len(sources) == 2 and all(isinstance(one, Dates) for one in sources)
        fits = what == DIFFERENCE and dates and isinstance(made.kind, Numbers) and not made.kind.indicator
    if not fits:
        raise ValueError("a column cannot be made like that")
    return made


def possible(known: Mapping[str, Known], names: Mapping[str, str]) -> dict[str, list[Recipe]]:
    """Return the columns that may be made of training rows, in groups that are tried together. Cost: O(n) per column.

    ``names`` are columns of numbers that may be names, see :func:`find_names`.
    Differences are those of the later of two dates from the other. Text with a value of its own in nearly every row,
    such as addresses, which is left out otherwise, is tried in pieces, column by column.
    """
    dates = [name for name, one in known.items() if isinstance(one.kind, Dates) and "day" in one.kind.parts]
    found = [_later_first(pair, known) for pair in [*combinations(dates, 2)][:_PAIRED]]
    groups = {DIFFERENCE: [Recipe(DIFFERENCE, pair) for pair in found]}
    groups[NAMES] = [Recipe(NAMES, (name,)) for name, why in names.items() if why]
    groups[TEXT] = [Recipe(TEXT, (name,)) for name, one in known.items() if isinstance(one.kind, Words)]
    own = [name for name, one in known.items() if isinstance(one.kind, Dropped) and one.kind.own]
    groups |= {f"{OWN} {name}": [Recipe(OWN, (name,))] for name in own[:_PIECED]}
    return {name: recipes for name, recipes in groups.items() if recipes}


def find_names(known: Mapping[str, Known]) -> dict[str, str]:
    """Return the columns of numbers that may be names, and why; "" for those with another number in each row."""
    found: dict[str, str] = {}
    for name, (column, kind) in known.items():
        if isinstance(kind, Numbers) and not (kind.unit or kind.quantity or kind.percent):
            said = _why_names(name, column, kind)
            found |= {} if said is None else {name: said}
    return found


def _why_names(name: str, column: Column, kind: Numbers) -> str | None:
    values = kind.read(column).values
    there = values[~np.isnan(values)]
    if len(there) < _FEWEST or (there != np.rint(there)).any() or there.min() < 0:
        return None
    different, hint = np.unique(there), _HINTS.search(name.lower().replace("_", " ")) is not None
    if len(different) == len(there):
        runs = bool((np.abs(np.diff(there)) == 1).all())
        return "" if hint or runs else None
    if len(different) <= _FEWEST or _ROWS * len(different) > len(there):
        return None
    zeros = column.is_text and any(len(cell) > 1 and cell[0] == "0" and cell.isdigit() for cell in column.values)
    if zeros:
        return "leading zeros"
    low, high = int(different[0]), int(different[-1])
    if hint:
        return "by what the column is called"
    fixed = len(str(low)) == len(str(high)) >= _DIGITS and len(different) < _GAPS * (high - low + 1)
    dated = _YEARS[0] <= low and high <= _YEARS[1]
    if fixed and not dated and (different % 10 == 0).mean() < _ROUND:
        return f"{len(str(low))} digits each"
    return None


def make_column(
    recipe: Recipe, known: Mapping[str, Known], targets: Targets | None
) -> tuple[MadeColumn, Matrix] | None:
    """Return a column of training rows, and these as numbers (n, outputs); None if it tells nothing."""
    column = _column(recipe, known)
    if recipe.what == NAMES:
        kind, rows = learn(column, targets=targets)
        return None if not isinstance(kind, OneHot | Levels) else (MadeColumn(recipe, kind), rows)
    if recipe.what in _OF_TEXT:
        grams = learn_grams(column)
        return None if grams is None else (MadeColumn(recipe, grams), grams.encode(column))
    there = column.values[~np.isnan(column.values)]
    if not len(there) or (there == there[0]).all():
        return None
    made = Numbers(float(np.quantile(there, 0.5, method="lower")), indicator=False, unit="d", quantity="time")
    return MadeColumn(recipe, made), made.encode(column)


def _column(recipe: Recipe, known: Mapping[str, Known]) -> Column:
    """Return the cells of a column that is made."""
    if recipe.what in _OF_TEXT:
        return known[recipe.of[0]].column
    if recipe.what == NAMES:
        column, _ = known[recipe.of[0]]
        return Column(column.name, column.as_text(), category=True)
    first, second = (_days(known[name]) for name in recipe.of)
    return Column("", first - second, cell_format=CellFormat("number", ".", unit="d", quantity="time"))


def _days(one: Known) -> Matrix:
    """Return the cells (n,) of a column of dates as days since 1970; NaN where they are missing."""
    column, kind = one
    assert isinstance(kind, Dates)
    return time_parts(kind.read(column).values)["day"]


def _later_first(pair: Sequence[str], known: Mapping[str, Known]) -> tuple[str, str]:
    first, second = pair
    away = _days(known[first]) - _days(known[second])
    away = away[~np.isnan(away)]
    return (second, first) if len(away) and np.median(away) < 0 else (first, second)
