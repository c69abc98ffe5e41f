"""Effects as values: of many rows by term, and of single rows by column, with a picture; and the names of both."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from thresher.checks import check_whole
from thresher.errors import InvalidInput
from thresher.figures import BLUE, INK, ORANGE, as_written, notebook_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = [
    "OTHER_PAIRS", "REST", "Effects", "Explanation", "column_names", "others_name", "pair_names", "rest_name",
    "unit_columns",
]  # fmt: skip

Matrix = NDArray[np.float64]
Numbers = NDArray[np.int64]
OTHER_PAIRS, REST = "other pairs", "rest"  # names of terms
_LONGEST = 32  # letters of a name in a picture


class Effects(NamedTuple):
    """What some rows have in each term of a model: ``intercept + values.sum(axis=1)`` is the prediction.

    Of a regressor that learns logarithms it is that of the logarithm of the distance from ``floor_``, of a classifier
    the score of :meth:`decision_function`.
    """

    intercept: Matrix  # (outputs,)
    names: tuple[str, ...]  # of terms: columns, "one & another" for pairs, "other pairs" if there are more, "rest"
    values: Matrix  # (k, terms), or (k, terms, outputs) if there are several outputs
    std: Matrix | None = None  # standard errors, of the shape of ``values``, if they were asked for


def column_names(model: Any) -> list[str]:
    """Return the names of the columns of X, x0, x1, ... if they have none; then those of columns made of others."""
    names = getattr(model, "feature_names_in_", None)
    own = [f"x{k}" for k in range(model.n_features_in_)] if names is None else [str(one) for one in names]
    return own if model.encoder_ is None else [*own, *(one.name for one in model.encoder_.made_)]


def unit_columns(model: Any) -> Numbers:
    """Return for each unit (u,) that the kernel of a model sees alone the column of X that it comes from."""
    lift = model.model_.lift
    if lift.angles_ is None:
        return np.zeros(0, np.int64)
    places = np.array(lift.angles_.sources, np.int64)
    places = places if lift.indicators_ is None else lift.indicators_.sources[places]
    return places if model.encoder_ is None else model.encoder_.sources_[places]


def rest_name(names: Sequence[str]) -> str:
    """Return what the rest is called beside columns with these names."""
    return _free(REST, names)


def others_name(names: Sequence[str]) -> str:
    """Return what all other pairs are called beside columns with these names."""
    return _free(OTHER_PAIRS, names)


def _free(name: str, names: Sequence[str]) -> str:
    while name in names:
        name = f"({name})"
    return name


def pair_names(names: Sequence[str], pairs: Iterable[tuple[int, int]]) -> list[str]:
    """Return what the effects of pairs of columns are called: "one & another", unless a column has such a name."""
    between = "&"
    while any(f" {between} " in name for name in names):
        between += "&"
    return [f"{names[a]} {between} {names[b]}" for a, b in pairs]


@dataclass(frozen=True)
class Explanation:
    """Predictions of some rows, as a base value and one value for each column, and for the rest.

    Names and shapes are those of ``shap.Explanation``, which takes them: ``shap.Explanation(one.values,
    one.base_values, one.data, feature_names=one.feature_names)``. An index gives some of the rows, or a single one,
    without its axis.

    Attributes
    ----------
    values : (k, columns + 1) or (k, columns + 1, outputs): of each column its main effect and half of the effects of
        its pairs, then the rest
    base_values : (k,) or (k, outputs): the intercept
    data : (k, columns + 1), cells of the rows; of the rest NaN
    feature_names : of columns, and ``"rest"``
    output_names : of classes, or ``"output 0"`` and so on
    """

    values: Matrix
    base_values: Matrix
    data: NDArray[Any]
    feature_names: list[str]
    output_names: list[str]

    @property
    def prediction(self) -> Matrix:
        """The sum of base value and values, (k,) or (k, outputs): what the model has learnt to predict."""
        return np.asarray(self.base_values + self.values.sum(axis=0 if self._single else 1))

    @property
    def _single(self) -> bool:
        return self.data.ndim == 1

    def __len__(self) -> int:
        return len(self.values)

    def __getitem__(self, rows: Any) -> Explanation:
        """Return some rows, or one of them."""
        return replace(self, values=self.values[rows], base_values=self.base_values[rows], data=self.data[rows])

    def waterfall(
        self, row: int = 0, *, output: int | str | None = None, most: int = 10, axes: Axes | None = None
    ) -> Axes:
        """Draw how the prediction of a row comes about, from the base value up, the largest values on top.

        Parameters
        ----------
        row : its place
        output : place or name of the output, if there are several; by default the one with the largest prediction
        most : values that are shown one by one; the others are one bar
        axes : to draw into; None for a new figure

        Raises NotAvailable if matplotlib is not installed.
        """
        check_whole(most, "most", least=1)
        if not self._single and not -len(self) <= row < len(self):
            raise InvalidInput(f"row must be a place among {len(self):,} rows; got {row}.")
        one = self if self._single else self[row]
        values, base = one.values, one.base_values
        said = ""
        if values.ndim == 2:
            place = self._output(output, one)
            values, base, said = values[:, place], base[place], f" of {self.output_names[place]}"
        order = np.argsort(-np.abs(values), kind="stable")
        order = order[values[order] != 0]
        shown, hidden = (order, order[:0]) if len(order) <= most else (order[: most - 1], order[most - 1 :])
        bars = [(_say(one.feature_names[k], one.data[k], rest=k == len(values) - 1), float(values[k])) for k in shown]
        bars += [(f"{len(hidden)} others", float(values[hidden].sum()))] if len(hidden) else []
        return _waterfall(notebook_axes(axes), bars, float(base), f"prediction{as_written(said)}")

    def _output(self, asked: int | str | None, one: Explanation) -> int:
        if asked is None:
            return int(np.argmax(one.base_values + one.values.sum(axis=0)))
        if isinstance(asked, str):
            if asked not in self.output_names:
                raise InvalidInput(f"output must be one of {', '.join(self.output_names[:10])}; got {asked[:40]!r}.")
            return self.output_names.index(asked)
        count = len(self.output_names)
        if not -count <= asked < count:
            raise InvalidInput(f"output must be a place among {count} outputs, or a name; got {asked}.")
        return int(asked)


def _waterfall(axes: Axes, bars: Sequence[tuple[str, float]], base: float, what: str) -> Axes:
    """Draw bars that begin where the one below ends, from the base value to the prediction."""
    at, places = base, range(len(bars))
    for place, (_, value) in zip(places, reversed(bars), strict=True):
        axes.barh(place, value, left=at, height=0.7, color=BLUE if value >= 0 else ORANGE)
        axes.annotate(f"{value:+.3g}", (at + max(value, 0.0), place), (3, 0), textcoords="offset points", fontsize=8,
                      va="center", color=INK)  # fmt: skip
        at += value
        axes.plot([at, at], [place - 0.35, place + 1.35], color=INK, linewidth=0.6)
    axes.axvline(base, color=INK, linewidth=0.8, linestyle=":")
    axes.set_yticks(places, [name for name, _ in reversed(bars)])
    low, high = axes.get_xlim()
    axes.set_xlim(low - 0.03 * (high - low), high + 0.12 * (high - low))
    axes.set(xlabel=f"from the base value {base:.4g} to the {what}, {at:.4g}", ylim=(-0.6, len(bars) - 0.2))
    axes.grid(visible=False, axis="y")
    return axes


def _say(name: str, cell: Any, *, rest: bool) -> str:
    """Return the name of a term, with its cell if it is not the rest, for a picture."""
    short = as_written(name if len(name) <= _LONGEST else f"{name[: _LONGEST - 1]}…")
    if rest:
        return short
    number = isinstance(cell, float | np.floating)
    if cell is None or (number and np.isnan(cell)):
        return f"{short} missing"
    said = f"{cell:.4g}" if number else str(cell).removesuffix(" 00:00:00")[:_LONGEST]  # a date without a time
    return f"{short} = {as_written(said)}"
