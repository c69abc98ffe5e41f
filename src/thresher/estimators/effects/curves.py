"""Terms of a model as what can be drawn: a curve for a number or a date, bars for a category, a map for a pair."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from thresher.estimators.effects.calendar import calendar
from thresher.estimators.effects.values import column_names, pair_names
from thresher.figures import scale_of
from thresher.tables.kinds import Dates, Levels, Numbers, OneHot, time_parts
from thresher.theory.parts import APART

__all__ = ["curves_of"]

Matrix = NDArray[np.float64]
_GRID, _MAP = 60, 24  # values of a curve, and on each side of a map
_BINS = 30
_TAIL = 0.005  # share of the rows beyond either end of a curve
_NAMES, _RANKED = 20, 12  # values of a category that are shown; of whole numbers up to which they are in order
_SENTENCE = 3  # words
_OUTPUTS = 4  # curves in one picture
_DATES, _DOUBTED = 2000, 240  # dates that are looked at, and those of them with standard errors
_OF_PERIOD = 5  # dates of each period on a map
_LEAST_PART = 0.05  # of what varies with a date: a part with less, or within standard errors, has no picture


class _Column(NamedTuple):
    """A column as it is drawn: values to look at, their names, the rows of the lift there, and training values."""

    kind: str
    at: Matrix  # (g,)
    words: list[str]
    rows: Matrix  # (g, numbers): what the lift takes; other columns are zero
    places: Matrix  # (n,): of the training rows: values, or places of categories; (0,) if they are not known
    numbers: list[int]  # columns of numbers that belong to it
    times: NDArray[Any] | None = None  # of the rows, if these are dates that occur
    scale: str = "linear"


def curves_of(effects: Any, *, most: int, deviations: bool) -> list[dict[str, Any]]:
    """Return the most important terms of a fitted model with parts, the largest share first, as fields of a picture.

    ``kind`` is "number", "date", "cycle" (a part of a date that recurs), "category" or "pair"; ``at`` (g,) are values,
    or days since 1970, and ``words`` names of categories and of parts of dates; ``values`` (outputs, g) is the effect
    there and ``deviations`` its standard errors, if asked for; ``edges`` and ``counts`` are a histogram of the training
    rows, or their shares in each category. Of a pair
    ``values`` (g, h) is of one output, and ``second`` (h,) and ``second_words`` are of its second column.

    Columns of free text or sentences, and those that became several means of targets, have a share and no picture.

    Cost: that of effects with standard errors at 60 rows per column.
    """
    shares, names = effects.shares, column_names(effects.estimator)
    made = effects.decomposition
    columns = {names[place]: int(place) for place in made.columns}
    both = list(combinations(made.columns.tolist(), 2))
    pairs = dict(zip(pair_names(names, both), both, strict=True))
    known = effects.knowledge() if deviations else None
    seen = {place: _column(effects, place) for place in columns.values()}
    found: list[dict[str, Any]] = []
    for name, share in shares.items():
        if len(found) == most or share <= 0:
            break
        if name in columns and (one := seen[columns[name]]) is not None:
            found += _curves(effects, name, share, columns[name], one, known)
        elif name in pairs:
            left, right = (seen[place] for place in pairs[name])
            if left is not None and right is not None:
                found.append(_map(effects, name, share, pairs[name], (left, right)))
    return found


def _curves(effects: Any, name: str, share: float, place: int, column: _Column, known: Any) -> Iterator[dict[str, Any]]:
    """Yield the pictures of a column: one, or one for each part of dates that the effect depends on."""
    values, spread = _main(effects, place, column, known)
    keep, outputs = _keep(values), effects.output_names()
    told = {"name": name, "share": share, "outputs": [outputs[k] for k in keep], "scale": column.scale}
    values, spread = values[:, keep], spread[:, keep] if spread.size else spread
    if column.times is not None:
        yield from _parts_of_dates(told, column.times, values, spread)
        return
    weights = effects.row_weights
    if column.kind == "category":
        edges = np.zeros(0)
        counts: Any = np.zeros(0)
        if len(column.places):
            counts = np.bincount(column.places.astype(int), weights, minlength=len(column.at))[: len(column.at)]
    else:
        inside = np.clip(column.places, column.at[0], column.at[-1])
        edges = np.linspace(column.at[0], column.at[-1], _BINS + 1)
        if column.scale == "log":
            edges = np.geomspace(column.at[0], column.at[-1], _BINS + 1)
            edges[[0, -1]] = column.at[[0, -1]]
        counts, edges = np.histogram(inside, edges, weights=weights)
    yield told | {
        "kind": column.kind, "at": column.at.tolist(), "words": column.words, "values": values.T.tolist(),
        "deviations": spread.T.tolist() if len(spread) else [], "edges": edges.tolist(), "counts": counts.tolist(),
    }  # fmt: skip


def _main(effects: Any, place: int, column: _Column, known: Any) -> tuple[Matrix, Matrix]:
    """Return the main effect (g, outputs) of the rows of a column and its standard errors, (0, outputs) without.

    Of many dates a part has standard errors, and the others those of the next.
    """
    made, inputs = effects.decomposition, effects.model.lift.transform(column.rows)
    where, unit = int(np.searchsorted(made.columns, place)), effects.estimator._target_frame()[1]
    values = effects.terms(inputs, [], others=False).mains[:, where] * unit
    if known is None:
        return values, values[:0]
    against, taken = known
    some = np.unique(np.linspace(0, len(inputs) - 1, min(len(inputs), _DOUBTED)).round().astype(int))
    variance = made.main_variance(inputs[some], where, against=against, known=taken)
    spread = np.sqrt(variance[:, None] * effects.amplitude) * unit
    if not np.isfinite(spread).all():
        return values, values[:0]
    nearest = np.minimum(np.searchsorted(some, np.arange(len(inputs))), len(some) - 1)
    return values, spread[nearest]


def _parts_of_dates(
    told: dict[str, Any], times: NDArray[Any], values: Matrix, spread: Matrix
) -> Iterator[dict[str, Any]]:
    """Yield the parts of dates over which an effect (g, outputs) varies: its means over the dates in each.

    A mean of standard errors is at least the standard error of the mean.
    """
    total = float(values.var(axis=0).sum()) or 1.0
    for part, codes, at, words in calendar(times):
        counts = np.bincount(codes)
        means, doubts = (
            np.column_stack([np.bincount(codes, one) / counts for one in of.T]) if of.size else of
            for of in (values, spread)
        )
        varies = float((counts[:, None] * (means - values.mean(axis=0)) ** 2).sum()) / len(codes)
        beyond = not len(doubts) or bool((np.abs(means - values.mean(axis=0)) > doubts).any())
        if part == "time" or (beyond and varies >= _LEAST_PART * total):
            yield told | {
                "kind": "date" if part == "time" else "cycle", "part": part, "at": at, "words": words,
                "values": means.T.tolist(), "deviations": doubts.T.tolist() if len(doubts) else [],
                "counts": (counts / len(codes)).tolist(),
            }  # fmt: skip


def _map(
    effects: Any, name: str, share: float, places: tuple[int, int], columns: tuple[_Column, _Column]
) -> dict[str, Any]:
    made = effects.decomposition
    picked = [_points(one) for one in columns]
    left, right = (one.ravel() for one in np.meshgrid(*(rows for rows, *_ in picked), indexing="ij"))
    rows = columns[0].rows[left].copy()
    own = columns[1].numbers
    rows[:, own] = columns[1].rows[right][:, own]
    a, b = (int(np.searchsorted(made.columns, place)) for place in places)
    values = (
        effects.terms(effects.model.lift.transform(rows), [(a, b)], others=False).pairs[:, 0]
        * effects.estimator._target_frame()[1]
    )
    output = _keep(values)[0]
    (_, codes, *_), (_, second, *_) = picked
    table = values[:, output].reshape(len(codes), len(second))
    for k, groups in enumerate((codes, second)):  # means over the dates of a period
        table = np.array([table.take(np.flatnonzero(groups == one), axis=k).mean(axis=k) for one in np.unique(groups)])
        table = table if k == 0 else table.T
    at, words = [points for _, _, points, _ in picked], [named for *_, named in picked]
    return {
        "name": name, "kind": "pair", "share": share, "at": at[0], "words": words[0],
        "outputs": [effects.output_names()[output]], "values": table.tolist(),
        "second": at[1], "second_words": words[1], "kinds": [one.kind for one in columns],
        "columns": [column_names(effects.estimator)[place] for place in places],
    }  # fmt: skip


def _points(column: _Column) -> tuple[NDArray[np.int64], NDArray[np.int64], list[float], list[str]]:
    """Return the rows of a side of a map, the point that each belongs to, where points are and what they are called."""
    if column.times is None:
        some = np.unique(np.linspace(0, len(column.at) - 1, min(_MAP, len(column.at))).round().astype(int))
        words = [column.words[k] for k in some] if column.words else []
        return some, np.arange(len(some)), column.at[some].tolist(), words
    _, codes, at, _ = next(calendar(column.times))
    own = [np.flatnonzero(codes == k) for k in range(len(at))]
    some = np.concatenate([one[np.linspace(0, len(one) - 1, min(_OF_PERIOD, len(one))).astype(int)] for one in own])
    return some, codes[some], at, []


def _keep(values: Matrix) -> list[int]:
    """Return the outputs of values (g, o) that vary most, those first."""
    return np.argsort(-np.ptp(values, axis=0), kind="stable")[:_OUTPUTS].tolist()


def _column(effects: Any, place: int) -> _Column | None:
    """Return a column of X as it is drawn; None if it cannot be."""
    encoder, indicators = effects.estimator.encoder_, effects.model.lift.indicators_
    numbers = [place] if encoder is None else np.flatnonzero(encoder.sources_ == place).tolist()
    kind = None if encoder is None else encoder.all_kinds_[place]
    if isinstance(kind, OneHot):
        return _named(effects, numbers, kind)
    if isinstance(kind, Dates):
        return _dated(effects, numbers, kind)
    if isinstance(kind, Levels):
        return _levelled(effects, numbers, kind)
    if kind is not None and not isinstance(kind, Numbers):
        return None
    if indicators is not None and numbers[0] in indicators.columns:
        return _whole(effects, numbers, indicators)
    values = _training_values(effects, numbers[0])
    if values is None:
        return None
    whole = np.rint(values)
    different = np.unique(whole)
    if len(different) <= _RANKED and np.allclose(values, whole, rtol=1e-6, atol=1e-6):
        places = np.searchsorted(different, whole).astype(np.float64)
        words, at = [f"{level:.15g}" for level in different], np.arange(len(different), dtype=np.float64)
        return _Column("category", at, words, _rows(effects, numbers, different[:, None]), places, numbers)
    at = _grid(values)
    return _Column("number", at, [], _rows(effects, numbers, at[:, None]), values, numbers, scale=_scale(at, values))


def _whole(effects: Any, numbers: list[int], indicators: Any) -> _Column:
    """Return whole numbers that are taken as names, in their order; of many the commonest, those first."""
    own = indicators.columns == numbers[0]
    at = indicators.values[own]
    codes = _category(effects, len(indicators.kept) + int(np.flatnonzero(own)[0]), lifted=True)
    order = np.arange(len(at))
    if len(at) > _RANKED:
        order = np.argsort(-np.bincount(codes, effects.row_weights, minlength=len(at) + 1)[: len(at)], kind="stable")
    order = order[:_NAMES]
    ranked = np.full(len(at) + 1, float(len(order)))
    ranked[order] = np.arange(len(order))
    words = [f"{level:.15g}" for level in at[order]]
    rows = _rows(effects, numbers, at[order][:, None])
    return _Column("category", np.arange(len(order), dtype=np.float64), words, rows, ranked[codes], numbers)


def _levelled(effects: Any, numbers: list[int], kind: Levels) -> _Column | None:
    """Return the names with the lowest and the highest of the numbers that stand for them; None of sentences.

    Training rows have means without their own targets, so that it is not known which name each had.
    """
    if len(kind.what) != 1 or sum(len(one.split()) for one in kind.values) >= _SENTENCE * len(kind.values):
        return None
    levels = np.array(kind.levels)[:, 0]
    order = np.argsort(levels, kind="stable")
    if len(order) > _NAMES:
        order = np.concatenate([order[: _NAMES // 2], order[-(_NAMES - _NAMES // 2) :]])
    words = [kind.values[k] or "missing" for k in order]
    rows = _rows(effects, numbers, levels[order][:, None])
    return _Column("category", np.arange(len(order), dtype=np.float64), words, rows, np.zeros(0), numbers)


def _named(effects: Any, numbers: list[int], kind: OneHot) -> _Column:
    """Return a category, its commonest values first."""
    codes, count = _category(effects, numbers[0]), len(kind.values)
    common = np.bincount(codes, effects.row_weights, minlength=count + 1)[:count]
    order = np.argsort(-common, kind="stable")[:_NAMES]
    ranked = np.full(count + 1, float(len(order)))
    ranked[order] = np.arange(len(order))
    words = [kind.values[k] or "missing" for k in order]
    rows = _rows(effects, numbers, np.eye(count)[order])
    return _Column("category", np.arange(len(order), dtype=np.float64), words, rows, ranked[codes], numbers)


def _dated(effects: Any, numbers: list[int], kind: Dates) -> _Column | None:
    """Return dates; None if all are of one day."""
    if "day" not in kind.parts:
        return None
    days = _training_values(effects, numbers[kind.parts.index("day")])
    if days is None:
        return None
    some = np.sort(days)[np.unique(np.linspace(0, len(days) - 1, min(len(days), _DATES)).astype(int))]
    times = (np.rint(some * 1440) * 60_000_000).astype(np.int64).astype("datetime64[us]")  # whole minutes
    parts = time_parts(times)
    cells = np.column_stack([parts[one] for one in kind.parts])
    return _Column("date", some, [], _rows(effects, numbers, cells), days, numbers, times)


def _rows(effects: Any, numbers: list[int], cells: Matrix) -> Matrix:
    """Return rows (g, numbers of a row) for the lift, with cells (g, c) in the first c of these columns, else zeros."""
    rows = np.zeros((len(cells), effects.model.lift.n_features_in_))
    rows[:, numbers[: cells.shape[1]]] = cells
    return rows


def _grid(values: Matrix) -> Matrix:
    """Return values to look at, between the ends of all but a few of the training values."""
    different = np.unique(values)
    if len(different) <= _GRID:
        return different
    low, high = np.quantile(values, [_TAIL, 1 - _TAIL])
    inside = values[(values >= low) & (values <= high)]
    spaced = np.geomspace if scale_of(inside, cut=True) == "log" else np.linspace
    even, ranked = spaced(low, high, _GRID // 2), np.quantile(values, np.linspace(_TAIL, 1 - _TAIL, _GRID // 2))
    return np.unique(np.concatenate([even, ranked]))


def _scale(at: Matrix, values: Matrix) -> str:
    """Return the scale of a picture of values between the ends of ``at``."""
    return scale_of(values[(values >= at[0]) & (values <= at[-1])], cut=True)


def _training_values(effects: Any, number: int) -> Matrix | None:
    """Return the values (n,) of a column of numbers in the training rows, from their angles; None if it is not seen."""
    lift, angles = effects.model.lift, effects.model.lift.angles_
    if lift.indicators_ is not None:
        kept = np.flatnonzero(lift.indicators_.kept == number)
        number = int(kept[0]) if len(kept) else -1
    unit = np.flatnonzero(angles.numbers == number)
    if not len(unit):
        return None
    (k,) = unit
    scaling, angle = (
        angles.scaling,
        np.asarray(effects.model.inputs[:, effects.model.inputs.shape[1] - len(angles) + k], np.float64),
    )
    level = np.tan(np.pi / 2 - angle) * scaling.unit[k] + scaling.mean[k]
    knots, levels = scaling.knots[:, :, k]
    last = int(np.searchsorted(knots, knots[-1]))
    return np.interp(level, levels[: last + 1], knots[: last + 1])


def _category(effects: Any, column: int, *, lifted: bool = False) -> NDArray[np.int64]:
    """Return the place (n,) of each training row's category in its group; one after the last if it has none."""
    lift, angles = effects.model.lift, effects.model.lift.angles_
    if lift.indicators_ is not None and not lifted:
        column = int(np.flatnonzero(lift.indicators_.kept == column)[0])
    place, group = next((k, group) for k, group in enumerate(angles.groups) if column in group)
    code = effects.model.inputs[:, effects.model.inputs.shape[1] - len(angles.groups) + place]
    codes = np.rint(np.asarray(code, np.float64) / APART).astype(np.int64) - 1
    return np.where(codes < 0, len(group), codes)
