"""Columns made of others, such as the days between two dates: kept where rows left out are predicted better."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from thresher.estimators.data.encoder import TableEncoder
from thresher.estimators.data.made import NAMES, MadeColumn, Recipe, find_names, possible
from thresher.estimators.data.observations import Observations
from thresher.estimators.data.rows import names_categories
from thresher.estimators.data.single_columns import Groups
from thresher.estimators.options import Options
from thresher.estimators.pipeline.parts import judge_rows, surely
from thresher.parallel import blas_for_size
from thresher.tables.frame import is_frame

__all__ = ["MakesColumns"]

Matrix = NDArray[np.float64]
_PARTS, _PART = 8, 512  # of the rows on which columns are tried, at most, and rows of each
_SURE = 2.0  # standard errors by which they must be better
_MADE = 400  # columns of numbers that may be made at most


Made = list[tuple[MadeColumn, Matrix]]  # columns, and training rows (n, outputs) of each


class _Tried(NamedTuple):
    """An encoder with columns that it makes, and what training rows (n, d) become."""

    encoder: TableEncoder
    rows: Matrix

    def more(self, made: Made) -> _Tried:
        """Return the same with these columns too."""
        encoder = self.encoder.with_made([one for one, _ in made])
        return _Tried(encoder, np.hstack([self.rows, *(rows for _, rows in made)]))


class MakesColumns:
    """What estimators need to make columns of others."""

    encoder_: TableEncoder | None

    def _encoded_columns(self) -> tuple[Groups, tuple[int, ...] | None]:
        """Return which columns of the encoder are the indicators of one category, and which are measured numbers."""
        encoder = getattr(self, "encoder_", None)
        return ((), None) if encoder is None else (encoder.groups_, encoder.measured_)

    def _by_column(self, shares: Matrix) -> Matrix:
        """Return shares (n_features_in_,) of the columns of X from those (d,) of the columns of numbers they became."""
        return shares if self.encoder_ is None else self.encoder_.by_column(shares)

    def _with_made(self: Any, X: Any, rows: Any, y: ArrayLike, learnt: Matrix, weights: Matrix | None) -> Any:
        """Return rows (n, d) with the columns that are made of others, if there are any; ``encoder_`` makes them too.

        Groups of columns are tried one after the other on some rows: days between dates, numbers as names, then
        components of free text, then those of columns with a value of its own in nearly every row. ``learnt`` (n, k)
        are the targets as they are learnt; means by name are of ``y``.

        Cost: O(n) per column, and O(r³) for each ridge that is tried, on r rows.
        """
        own = self.encoder_
        if self._interpolates or len(rows) < self._sizes.for_scales:
            return rows
        if own is None and (not is_frame(X) or names_categories(self) or X.shape[1] > self._sizes.columns):
            return rows
        encoder = TableEncoder(task=self._task).fit(X, y) if own is None else own
        known = encoder.known(X)
        names = {} if names_categories(self) else find_names(known)
        groups = possible(known, names)
        made = {group: encoder.make(known, recipes, y) for group, recipes in groups.items()}
        before = _Tried(encoder, rows if own is not None else encoder.transform(X))
        best = self._best_of(before, made, learnt, weights)
        if own is not None or len(best.encoder.made_):
            notes = _say(names, {one.recipe for one in best.encoder.made_})
            self.encoder_ = best.encoder.with_made([], notes)
            return best.rows
        return rows

    def _best_of(self: Any, before: _Tried, made: dict[str, Made], learnt: Matrix, weights: Matrix | None) -> _Tried:
        """Return the rows with those groups of columns that predict rows left out better, tried one after the other.

        Rows are left out of several parts: what columns add to noisy targets shows on many rows alone. Columns must be
        better than the same in another order, too: longer rows alone may help where there is nothing to learn.
        """
        tried, columns = dict[str, Made](), 0
        for name, many in made.items():
            columns += sum(rows.shape[1] for _, rows in many)
            if many and columns <= _MADE:
                tried[name] = many
        if not tried:
            return before
        whole = before.more([one for many in tried.values() for one in many])
        names = whole.encoder.get_feature_names_out().tolist()
        order = np.random.default_rng(0).permutation(len(before.rows))
        data = []
        for some in np.array_split(order[: _PARTS * _PART], max(1, min(_PARTS, len(order) // _PART))):
            weighed = None if weights is None else weights[some]
            data.append(Observations.merged(whole.rows[some], learnt[some], weights=weighed))
        options = self._options(data[0])
        weight = np.concatenate([one.weight for one in data])
        kept, known = before, _left_out(before, names, data, options)
        for group, many in tried.items():
            other = kept.more(many)
            if known is None or (group == NAMES and not options.guesses_categories):
                continue
            same = options._replace(ridge=known[0])
            found = _left_out(other, names, data, same)
            if found is None or not surely(known[1], found[1], weight, sure=_SURE):
                continue
            added = [names.index(name) for one, _ in many for name in one.kind.outputs(one.name)]
            without = _left_out(other, names, [_mixed(one, added) for one in data], same)
            if without is not None and surely(without[1], found[1], weight, sure=_SURE):
                kept, known = other, (known[0], found[1])
        return kept


def _left_out(
    tried: _Tried, names: list[str], data: list[Observations], options: Options
) -> tuple[float, Matrix] | None:
    """Return the ridge, that of the first part, and the squared errors (c,) of observations left out of all parts."""
    places, errors, ridge = [names.index(one) for one in tried.encoder.get_feature_names_out()], list[Matrix](), 0.0
    for part in data:
        with blas_for_size(len(part)):
            found = judge_rows(part.with_rows(part.X[:, places]), tried.encoder.groups_, options, None)
        if found is None:
            return None
        ridge = found[0]
        options = options._replace(ridge=ridge)
        errors.append(found[1])
    return ridge, np.concatenate(errors)


def _mixed(data: Observations, columns: list[int]) -> Observations:
    """Return observations with some columns in another order of the rows."""
    X = data.X.copy()
    X[:, columns] = X[np.random.default_rng(0).permutation(len(X))][:, columns]
    return data.with_rows(X)


def _say(names: dict[str, str], taken: set[Recipe]) -> list[str]:
    """Return what is to be said of columns of numbers that may be names."""
    said = []
    for name, why in names.items():
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
