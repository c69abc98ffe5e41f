"""Terms of a model as what can be drawn: a curve for a number or a date, bars for a category, a map for a pair."""

from __future__ import annotations

from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from thresher.estimators.effects.names import column_names
from thresher.estimators.effects.values import pair_names
from thresher.tables.kinds import Dates, Levels, Numbers, OneHot, time_parts
from thresher.theory.parts import APART

__all__ = ["curves_of"]

Matrix = NDArray[np.float64]
_GRID, _MAP = 60, 24  # values of a curve, and on each side of a map
_BINS = 30
_TAIL = 0.005  # share of the rows beyond either end of a curve
_NAMES = 20  # values of a category that are shown
_OUTPUTS = 4  # curves in one picture


class _Column(NamedTuple):
    """A column as it is drawn: values to look at, their names, the rows of the lift there, and training values."""

    kind: str
    at: Matrix  # (g,)
    words: list[str]
    rows: Matrix  # (g, numbers): what the lift takes; other columns are zero
    places: Matrix  # (n,): of the training rows: values, or places of categories
    numbers: list[int]  # columns of numbers that belong to it


def curves_of(model: Any, *, most: int, deviations: bool) -> list[dict[str, Any]]:
    """Return the most important terms of a fitted model with parts, the largest share first, as fields of a picture.

    ``kind`` is "number", "date", "category" or "pair"; ``at`` (g,) are values, or days since 1970, and ``words`` names
    of categories; ``values`` (outputs, g) is the effect there and ``deviations`` its standard errors, if asked for;
    ``edges`` and ``counts`` are a histogram of the training rows, or their shares in each category. Of a pair
    ``values`` (g, h) is of one output, and ``second`` (h,) and ``second_words`` are of its second column.

    Columns of free text, and those that became several means of targets, have a share and no picture.

    Cost: that of effects with standard errors at 60 rows per column.
    """
    shares, names = model.effect_shares_, column_names(model)
    made = model._decomposition()
    columns = {names[place]: int(place) for place in made.columns}
    both = list(combinations(made.columns.tolist(), 2))
    pairs = dict(zip(pair_names(names, both), both, strict=True))
    known = model._knowledge() if deviations and model.ridge_ else None
    seen = {place: _column(model, place) for place in columns.values()}
    found: list[dict[str, Any]] = []
    for name, share in shares.items():
        if len(found) == most or share <= 0:
            break
        if name in columns and (one := seen[columns[name]]) is not None:
            found.append(_curve(model, name, share, columns[name], one, known))
        elif name in pairs:
            left, right = (seen[place] for place in pairs[name])
            if left is not None and right is not None:
                found.append(_map(model, name, share, pairs[name], (left, right)))
    return found


def _curve(model: Any, name: str, share: float, place: int, column: _Column, known: Any) -> dict[str, Any]:
    made, inputs = model._decomposition(), model.lift_.transform(column.rows)
    where, unit = int(np.searchsorted(made.columns, place)), model._target_frame()[1]
    values = model._terms(inputs, [], others=False).mains[:, where] * unit  # (g, o)
    keep = _keep(values)
    spread = np.zeros((0, len(column.at)))
    if known is not None:
        against, taken = known
        variance = made.main_variance(inputs, where, against=against, known=taken)
        spread = np.sqrt(variance[:, None] * model._kept("amplitude", model._amplitude))[:, keep].T * unit[keep, None]
        spread = spread if np.isfinite(spread).all() else spread[:0]
    weights = model._row_weights()
    if column.kind == "category":
        counts = np.bincount(column.places.astype(int), weights, minlength=len(column.at))[: len(column.at)]
        edges = np.zeros(0)
    else:
        inside = np.clip(column.places, column.at[0], column.at[-1])
        counts, edges = np.histogram(inside, _BINS, weights=weights)
    outputs = model._output_names()
    return {
        "name": name, "kind": column.kind, "share": share, "at": column.at.tolist(), "words": column.words,
        "outputs": [outputs[k] for k in keep], "values": values[:, keep].T.tolist(), "deviations": spread.tolist(),
        "edges": edges.tolist(), "counts": counts.tolist(),
    }  # fmt: skip


def _map(
    model: Any, name: str, share: float, places: tuple[int, int], columns: tuple[_Column, _Column]
) -> dict[str, Any]:
    made = model._decomposition()
    picked = [np.unique(np.linspace(0, len(one.at) - 1, min(_MAP, len(one.at))).round().astype(int)) for one in columns]
    left, right = (one.ravel() for one in np.meshgrid(*picked, indexing="ij"))
    rows = columns[0].rows[left].copy()
    own = columns[1].numbers
    rows[:, own] = columns[1].rows[right][:, own]
    a, b = (int(np.searchsorted(made.columns, place)) for place in places)
    values = model._terms(model.lift_.transform(rows), [(a, b)], others=False).pairs[:, 0] * model._target_frame()[1]
    output = _keep(values)[0]
    shape = len(picked[0]), len(picked[1])
    at = [one.at[some].tolist() for one, some in zip(columns, picked, strict=True)]
    words = [[one.words[k] for k in some] if one.words else [] for one, some in zip(columns, picked, strict=True)]
    return {
        "name": name, "kind": "pair", "share": share, "at": at[0], "words": words[0],
        "outputs": [model._output_names()[output]], "values": values[:, output].reshape(shape).tolist(),
        "second": at[1], "second_words": words[1], "kinds": [one.kind for one in columns],
        "columns": [column_names(model)[place] for place in places],
    }  # fmt: skip


def _keep(values: Matrix) -> list[int]:
    """Return the outputs of values (g, o) that vary most, those first."""
    return np.argsort(-np.ptp(values, axis=0), kind="stable")[:_OUTPUTS].tolist()


def _column(model: Any, place: int) -> _Column | None:
    """Return a column of X as it is drawn; None if it cannot be."""
    encoder, indicators = model.encoder_, model.lift_.indicators_
    numbers = [place] if encoder is None else np.flatnonzero(encoder.sources_ == place).tolist()
    kind = None if encoder is None else list(encoder.kinds_.values())[place]
    if isinstance(kind, OneHot):
        return _named(model, numbers, kind)
    if isinstance(kind, Dates):
        return _dated(model, numbers, kind)
    if kind is not None and not isinstance(kind, Numbers) and not (isinstance(kind, Levels) and len(kind.what) == 1):
        return None
    if indicators is not None and numbers[0] in indicators.columns:
        own = indicators.columns == numbers[0]
        at = indicators.values[own]
        places = _category(model, len(indicators.kept) + int(np.flatnonzero(own)[0]), lifted=True).astype(np.float64)
        words = [f"{level:g}" for level in at]
        return _Column(
            "category", np.arange(len(at), dtype=np.float64), words, _rows(model, numbers, at[:, None]), places, numbers
        )
    values = _training_values(model, numbers[0])
    if values is None:
        return None
    at = _grid(values)
    return _Column("number", at, [], _rows(model, numbers, at[:, None]), values, numbers)


def _named(model: Any, numbers: list[int], kind: OneHot) -> _Column:
    """Return a category, its commonest values first."""
    codes, count = _category(model, numbers[0]), len(kind.values)
    common = np.bincount(codes, model._row_weights(), minlength=count + 1)[:count]
    order = np.argsort(-common, kind="stable")[:_NAMES]
    ranked = np.full(count + 1, float(len(order)))
    ranked[order] = np.arange(len(order))
    words = [kind.values[k] or "missing" for k in order]
    rows = _rows(model, numbers, np.eye(count)[order])
    return _Column("category", np.arange(len(order), dtype=np.float64), words, rows, ranked[codes], numbers)


def _dated(model: Any, numbers: list[int], kind: Dates) -> _Column | None:
    """Return dates; None if all are of one day."""
    if "day" not in kind.parts:
        return None
    days = _training_values(model, numbers[kind.parts.index("day")])
    if days is None:
        return None
    at = _grid(days)
    parts = time_parts((at * 86_400_000_000).astype("datetime64[us]"))
    return _Column(
        "date", at, [], _rows(model, numbers, np.column_stack([parts[one] for one in kind.parts])), days, numbers
    )


def _rows(model: Any, numbers: list[int], cells: Matrix) -> Matrix:
    """Return rows (g, numbers of a row) for the lift, with cells (g, c) in the first c of these columns, else zeros."""
    rows = np.zeros((len(cells), model.lift_.n_features_in_))
    rows[:, numbers[: cells.shape[1]]] = cells
    return rows


def _grid(values: Matrix) -> Matrix:
    """Return values to look at, between the ends of all but a few of the training values."""
    different = np.unique(values)
    if len(different) <= _GRID:
        return different
    low, high = np.quantile(values, [_TAIL, 1 - _TAIL])
    even, ranked = np.linspace(low, high, _GRID // 2), np.quantile(values, np.linspace(_TAIL, 1 - _TAIL, _GRID // 2))
    return np.unique(np.concatenate([even, ranked]))


def _training_values(model: Any, number: int) -> Matrix | None:
    """Return the values (n,) of a column of numbers in the training rows, from their angles; None if it is not seen."""
    lift, angles = model.lift_, model.lift_.angles_
    if lift.indicators_ is not None:
        kept = np.flatnonzero(lift.indicators_.kept == number)
        number = int(kept[0]) if len(kept) else -1
    unit = np.flatnonzero(angles.numbers == number)
    if not len(unit):
        return None
    (k,) = unit
    scaling, angle = angles.scaling, np.asarray(model.inputs_[:, model.inputs_.shape[1] - len(angles) + k], np.float64)
    level = np.tan(np.pi / 2 - angle) * scaling.unit[k] + scaling.mean[k]
    knots, levels = scaling.knots[:, :, k]
    last = int(np.searchsorted(knots, knots[-1]))
    return np.interp(level, levels[: last + 1], knots[: last + 1])


def _category(model: Any, column: int, *, lifted: bool = False) -> NDArray[np.int64]:
    """Return the place (n,) of each training row's category in its group; one after the last if it has none."""
    lift, angles = model.lift_, model.lift_.angles_
    if lift.indicators_ is not None and not lifted:
        column = int(np.flatnonzero(lift.indicators_.kept == column)[0])
    place, group = next((k, group) for k, group in enumerate(angles.groups) if column in group)
    code = model.inputs_[:, model.inputs_.shape[1] - len(angles.groups) + place]
    codes = np.rint(np.asarray(code, np.float64) / APART).astype(np.int64) - 1
    return np.where(codes < 0, len(group), codes)
