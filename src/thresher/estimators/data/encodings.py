"""Which encoding a category of many values has, and which columns are made of others, as rows left out prefer.

Rows are left out of a ridge regression on all columns, each beside its parts above its quartiles: exact leave-one-out
in closed form, on some thousand rows at most. What is not surely better is not taken.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from thresher.estimators.data.grams import Grams
from thresher.estimators.data.made import (
    DIFFERENCE,
    NAMES,
    PIECES,
    Known,
    MadeColumn,
    Recipe,
    find_names,
    make_column,
    possible,
)
from thresher.estimators.data.scaling import Scaling
from thresher.tables.frame import Column
from thresher.tables.kinds import ColumnKind, Levels, OneHot
from thresher.tables.learning import Targets

__all__ = ["FEWEST", "Encoded", "Made", "choose_encodings"]

Matrix = NDArray[np.float64]
Made = tuple[MadeColumn, Matrix]  # a column that is made, and training rows (n, outputs) of it
FEWEST, _ROWS = 50, 4096  # below which nothing is chosen, and on which it is at most
_SHARE, _MOST = 0.25, 300  # values with zeros and ones, as a share of the rows, and at most
_MADE = 400  # columns of numbers that are made at most
_COLUMNS = 128  # of numbers at most, of which the parts above quartiles are looked at; four times as many, and no more
_OUTPUTS = 64  # at most
_FEW = 4  # values of a column without such parts
_RIDGES = np.geomspace(0.03, 3e5, 15)  # rows that the mean of all counts as in that of a category
_FAR = 5.0  # deviations beyond which a target counts as one there
_ROUNDING = 1e-10  # share of the largest eigenvalue
_SURE = 3.0  # standard errors by which columns must be better


class Encoded(NamedTuple):
    """Columns of a table: what was learnt of each, training rows (n, outputs) of each, those made, and what to say."""

    kinds: list[ColumnKind]
    parts: list[Matrix]
    made: list[Made]
    notes: list[str]


def choose_encodings(
    columns: Sequence[Column],
    kinds: Sequence[ColumnKind],
    parts: Sequence[Matrix],
    targets: Matrix,
    *,
    means: Targets | None,
    names: bool,
) -> Encoded:
    """Return the columns of training rows, with what predicts rows left out better; tried one after the other.

    Parameters
    ----------
    columns, kinds, parts : of the table, what was learnt of each, and what training rows (n, outputs) become
    targets : (n, k), numbers, or zeros and ones for classes
    means : targets for means by category; None for counts
    names : whether numbers may be names

    Cost: O(r p²) for each encoding that is tried, of p columns of numbers on r rows, 4,096 at most.
    """
    found = Encoded(list(kinds), list(parts), [], [])
    known = {column.name: Known(column, kind) for column, kind in zip(columns, kinds, strict=True)}
    suspects = find_names(known) if names else {}
    levels = [place for place, kind in enumerate(kinds) if isinstance(kind, Levels)]
    groups = possible(known, suspects)
    (n, outputs), width = targets.shape, sum(part.shape[1] for part in parts)
    if n >= FEWEST and width <= 4 * _COLUMNS and outputs <= _OUTPUTS and (levels or groups):
        trial = _Trial(parts, targets, bends=width <= _COLUMNS)
        for place in levels:
            _choose_encoding(found, place, columns[place], trial)
        left = _MADE
        for recipes in groups.values():
            made = [one for one in (make_column(recipe, known, means) for recipe in recipes) if one is not None]
            made = [one for one in made if one[0].name not in known]
            left -= sum(rows.shape[1] for _, rows in made)
            if left < 0 or not made:
                continue
            if recipes[0].what == DIFFERENCE:  # a regression has differences of two columns of its own
                later = [list(known).index(one.recipe.of[0]) for one, _ in made]
                parted = zip(made, later, strict=True)
                found.made.extend([one for one, place in parted if trial.takes_for(trial.seen_of(*one), place)])
            elif trial.takes(np.hstack([trial.seen_of(*one) for one in made])):
                found.made.extend(made)
    found.notes.extend(_say_names(suspects, {one.recipe for one, _ in found.made}))
    return found


class _Trial:
    """The columns that are there, on some rows, and the errors of rows left out of a ridge regression on them."""

    def __init__(self, parts: Sequence[Matrix], targets: Matrix, *, bends: bool) -> None:
        self.some = np.sort(np.random.default_rng(0).permutation(len(targets))[:_ROWS])
        scaled = Scaling.of(targets[self.some], scale="robust").apply(targets[self.some])
        self._wanted, self._bends = np.clip(scaled, -_FAR, _FAR), bends
        self.seen = [_bent(part[self.some], bends=bends) for part in parts]
        self._error: Matrix | None = None

    def seen_of(self, made: MadeColumn, rows: Matrix) -> Matrix:
        """Return what is seen of a column that is made, from training rows (n, outputs) of it."""
        rows = rows[self.some]
        if isinstance(made.kind, Grams):
            return Scaling.of(rows, scale="standardise").apply(rows)
        return rows if isinstance(made.kind, OneHot) else _bent(rows, bends=self._bends)

    def takes(self, more: Matrix, *, place: int | None = None, instead: bool = False) -> bool:
        """Return whether columns (r, p) surely help, and keep them if so, ``instead`` of those of a place."""
        if self._error is None:
            self._error = _left_out(self.seen, self._wanted)
        error = _left_out([*(self._without(place) if instead else self.seen), more], self._wanted)
        if not _surely(self._error, error):
            return False
        self.seen, self._error = [*self.seen, more], error
        if instead and place is not None:
            self.seen[place] = self.seen[place][:, :0]
        return True

    def takes_for(self, more: Matrix, place: int) -> bool:
        """Return whether columns (r, p) would surely help if those of a place were not there, and keep both if so."""
        others = self._without(place)
        if not _surely(_left_out(others, self._wanted), _left_out([*others, more], self._wanted)):
            return False
        self.seen, self._error = [*self.seen, more], None
        return True

    def _without(self, place: int | None) -> list[Matrix]:
        return [one for number, one in enumerate(self.seen) if number != place]


def _surely(before: Matrix, after: Matrix) -> bool:
    """Return whether squared errors (r,) are smaller by more than so many standard errors of the difference."""
    gain = before - after
    return bool(gain.mean() > _SURE * gain.std() / np.sqrt(len(gain)))


def _choose_encoding(found: Encoded, place: int, column: Column, trial: _Trial) -> None:
    """Replace means of the values of a category by zeros and ones, and add pieces of its words, where these help."""
    kind = found.kinds[place]
    assert isinstance(kind, Levels)
    if len(kind.values) <= min(_SHARE * len(found.parts[place]), _MOST):
        ones = OneHot(tuple(sorted(kind.values)))
        rows = ones.encode(column)
        if trial.takes(rows[trial.some], place=place, instead=True):
            found.kinds[place], found.parts[place] = ones, rows
    pieces = make_column(Recipe(PIECES, (column.name,)), {column.name: Known(column, kind)}, None)
    # Beside means they would tell the category of a row, and its mean then the targets of its own fold.
    if pieces is not None and trial.takes(trial.seen_of(*pieces), place=place, instead=found.kinds[place] is kind):
        found.made.append(pieces)


def _bent(rows: Matrix, *, bends: bool) -> Matrix:
    """Return columns (r, d) with mean 0 and variance 1; with ``bends`` also the parts above their quartiles."""
    if not rows.shape[1]:
        return rows
    rows = Scaling.of(rows, scale="robust").apply(rows)
    many = [bends and len(np.unique(column)) > _FEW for column in rows.T]
    if not any(many):
        return rows
    above = [np.maximum(rows[:, many] - np.quantile(rows[:, many], share, axis=0), 0) for share in (0.25, 0.5, 0.75)]
    bent = np.hstack(above)
    return np.hstack([rows, Scaling.of(bent, scale="standardise").apply(bent)])


def _left_out(parts: Sequence[Matrix], targets: Matrix) -> Matrix:
    """Return the squared error (r,) of each row when it is left out of the best ridge regression on columns (r, p)."""
    columns, targets = np.hstack(parts), targets - targets.mean(axis=0)
    columns, rows = columns - columns.mean(axis=0), len(columns)
    wide = columns.shape[1] > rows
    values, vectors = np.linalg.eigh(columns @ columns.T if wide else columns.T @ columns)
    kept = values > _ROUNDING * values[-1]
    values, vectors = values[kept], vectors[:, kept]
    basis = vectors if wide else columns @ (vectors / np.sqrt(values))  # left singular vectors (r, rank)
    along, squares = basis.T @ targets, basis**2
    errors = []
    for ridge in _RIDGES:
        share = values / (values + ridge)
        leverage = 1 / rows + squares @ share
        errors.append((((targets - basis @ (share[:, None] * along)) / (1 - leverage)[:, None]) ** 2).sum(axis=1))
    return np.asarray(min(errors, key=np.mean))


def _say_names(suspects: dict[str, str], taken: set[Recipe]) -> list[str]:
    """Return what is to be said of columns of numbers that may be names."""
    said = []
    for name, why in suspects.items():
        option = f"categorical_features=[{name!r}], or --categorical {name}, makes it names alone"
        if not why:
            said.append(
                f"Column {name!r} has another number in each row. Leave it out, with --drop, if that is a name."
            )
        elif Recipe(NAMES, (name,)) in taken:
            said.append(f"Column {name!r} may hold names ({why}), and is taken as names too: {option}.")
        else:
            said.append(f"Column {name!r} may hold names ({why}), which predict no better: {option}.")
    return said
