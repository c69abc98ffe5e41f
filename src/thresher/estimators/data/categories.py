"""Categories of many values: means of the targets, zeros and ones, or pieces of words too, as rows left out prefer.

Rows are left out of a ridge regression on all columns, each beside its parts above its quartiles: exact leave-one-out
in closed form, on some thousand rows at most. What is not surely better than means of the targets is not taken. Means
of a training row are made without the fold of rows that it is in.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from thresher.estimators.data.made import PIECES, Known, MadeColumn, Recipe, make_column
from thresher.estimators.data.scaling import Scaling
from thresher.tables.frame import Column
from thresher.tables.kinds import ColumnKind, Levels, OneHot

__all__ = ["Encoded", "choose_encodings"]

Matrix = NDArray[np.float64]
_SHARE, _MOST = 0.25, 300  # values with zeros and ones, as a share of the rows, and at most
_ROWS = 4096  # that encodings are compared on at most
_COLUMNS = 128  # of numbers at most, of which the parts above quartiles are looked at; four times as many, and no more
_OUTPUTS = 64  # at most
_FEW = 4  # values of a column without such parts
_RIDGES = np.geomspace(0.03, 3e5, 15)  # rows that the mean of all counts as in that of a category
_FAR = 5.0  # deviations beyond which a target counts as one there
_ROUNDING = 1e-10  # share of the largest eigenvalue
_SURE = 3.0  # standard errors by which an encoding must be better


class Encoded(NamedTuple):
    """Columns of a table: what was learnt of each, training rows (n, outputs) of each, and those made beside them."""

    kinds: list[ColumnKind]
    parts: list[Matrix]
    made: list[tuple[MadeColumn, Matrix]]


def choose_encodings(
    columns: Sequence[Column], kinds: Sequence[ColumnKind], parts: Sequence[Matrix], targets: Matrix
) -> Encoded:
    """Return the columns of training rows with the best encoding of each category of many values, one after the other.

    Parameters
    ----------
    columns, kinds, parts : of the table, what was learnt of each, and what training rows (n, outputs) become
    targets : (n, k), numbers, or zeros and ones for classes

    Cost: O(r p²) for each encoding that is tried, of p columns of numbers on r rows, 4,096 at most.
    """
    found = Encoded(list(kinds), list(parts), [])
    (n, outputs), width = targets.shape, sum(part.shape[1] for part in parts)
    places = [place for place, kind in enumerate(kinds) if isinstance(kind, Levels)]
    if not places or width > 4 * _COLUMNS or outputs > _OUTPUTS:
        return found
    some = np.sort(np.random.default_rng(0).permutation(n)[:_ROWS])
    wanted = np.clip(Scaling.of(targets[some], scale="robust").apply(targets[some]), -_FAR, _FAR)
    seen = [_bent(part[some], bends=width <= _COLUMNS) for part in parts]
    for place in places:
        column, kind = columns[place], kinds[place]
        assert isinstance(kind, Levels)
        others = np.hstack([np.empty((len(some), 0)), *seen[:place], *seen[place + 1 :]])
        error = _left_out([others, seen[place]], wanted)
        if len(kind.values) <= min(_SHARE * n, _MOST):
            ones = OneHot(tuple(sorted(kind.values)))
            rows = ones.encode(column)
            other = _left_out([others, rows[some]], wanted)
            if _surely(error, other):
                found.kinds[place], found.parts[place], seen[place], error = ones, rows, rows[some], other
        pieces = make_column(Recipe(PIECES, (column.name,)), {column.name: Known(column, kind)}, None)
        if pieces is not None:
            scaled = Scaling.of(pieces[1][some], scale="standardise").apply(pieces[1][some])
            # Beside means they would tell the category of a row, and its mean then the targets of its own fold.
            beside = seen[place] if found.kinds[place] is not kind else scaled[:, :0]
            if _surely(error, _left_out([others, beside, scaled], wanted)):
                found.made.append(pieces)
                seen[place] = np.hstack([seen[place], scaled])
    return found


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


def _surely(before: Matrix, after: Matrix) -> bool:
    """Return whether squared errors (r,) are smaller by more than so many standard errors of the difference."""
    gain = before - after
    return bool(gain.mean() > _SURE * gain.std() / np.sqrt(len(gain)))
