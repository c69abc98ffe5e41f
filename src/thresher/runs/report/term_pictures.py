"""Draw: what a model with a kernel of parts is made of, term by term."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from thresher.checks import check_whole
from thresher.errors import InvalidInput
from thresher.figures import BLUE, GREEN, INK, ORANGE, PINK, SKY, Picture, figure_grid, number_ticks, set_axis
from thresher.pages import say_between
from thresher.runs.report.effect_pictures import show_cycle
from thresher.runs.report.model_pictures import short
from thresher.runs.report.words import heading_of
from thresher.runs.terms import Term, terms_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["plot_effects", "term_pictures"]

_CURVES = (BLUE, ORANGE, GREEN, PINK)
_LEAST = 0.005  # share of a term that a page draws
_BELOW = 0.2  # share of a picture that the histogram has


def plot_effects(model: Any, *, terms: int = 12, std: bool = True, columns: int = 3) -> Figure:
    """Draw the terms of a fitted model, the largest share first, and return the figure.

    A number is a curve with a band of two standard errors, and a histogram of the training rows below. A date is one
    for each part that it depends on: the time, the month, the weekday, the hour. A category is a bar for each value,
    the commonest on top. A pair is a map of what its two columns do beyond their main effects. All are in units of what
    is learnt: logarithms where ``target_`` is ``"log"``, scores of a classifier.

    Parameters
    ----------
    model : a fitted :class:`ThresherRegressor` or :class:`ThresherClassifier` with parts
    terms : that are drawn at most
    std : whether curves have bands, which take the time of error bars
    columns : pictures in a row

    Raises NotAvailable if matplotlib is not installed.
    """
    check_whole(terms, "terms", least=1)
    across = check_whole(columns, "columns", least=1)
    if not hasattr(model, "effects"):
        raise InvalidInput(f"a {type(model).__name__} has no effects; expected a fitted estimator of thresher.")
    model._decomposition()  # refuses what has no effects
    if model.lift_.angles_ is None:
        raise InvalidInput(
            "this model sees all columns at once, so there is nothing to draw. Fit with parts='columns', 'pairs' or "
            "'mixed'."
        )
    found = terms_of(model, most=terms, std=std)
    if not found:
        raise InvalidInput("no term of this model has a share: it predicts a constant, or all of it is in the rest.")
    figure, places = figure_grid(len(found), columns=min(across, len(found)))
    for axes, one in zip(places, found, strict=True):
        draw_term(axes, one)
        if len(one.outputs) > 1:
            axes.legend(frameon=False, fontsize=7)
        axes.set_title(f"{short(_heading(one), 30)}: {one.share:.1%}", fontsize=9, loc="left")
    return figure


def term_pictures(terms: Sequence[Term], *, unit: str = "") -> dict[str, Picture]:
    """Return one picture for each term of a model, or for each part of a date."""
    shown = [one for one in terms if one.share >= _LEAST] or terms[:1]
    return {
        f"term {place}": Picture(
            partial(_picture, one=one, unit=unit), f"{_heading(one)}: {one.share:.1%} of what varies."
        )
        for place, one in enumerate(shown, start=1)
    }


def _heading(one: Term) -> str:
    return heading_of(one) if one.kind != "pair" else one.name


def _picture(axes: Axes, _: Any, *, one: Term, unit: str) -> str:
    draw_term(axes, one, unit=unit)
    values = np.array(one.values)
    return (
        f"Effect of {_heading(one)}, {one.share:.1%} of what varies: "
        f"{say_between(values.min(), values.max(), np.abs(values).max())}."
    )


def draw_term(axes: Axes, one: Term, *, unit: str = "") -> None:
    """Draw a term into axes."""
    if one.kind == "pair":
        _map(axes, one)
    elif one.kind == "category":
        _bars(axes, one, unit)
    else:
        _curve(axes, one, unit)


def _curve(axes: Axes, one: Term, unit: str) -> None:
    at, values = (
        np.arange(len(one.words), dtype=np.float64) if one.kind == "cycle" else np.array(one.at),
        np.array(one.values),
    )
    band = 2 * np.array(one.deviations) if one.deviations else np.zeros_like(values)
    several, dots = len(values) > 1, "o-" if one.part else "-"
    for curve, half, name, colour in zip(values, band, one.outputs, _CURVES, strict=False):
        if half.any():
            axes.fill_between(at, curve - half, curve + half, color=SKY if not several else colour, alpha=0.3, lw=0)
        axes.plot(
            at, curve, dots, color=colour, linewidth=1.6, markersize=3.5, label=short(name, 14) if several else None
        )
    low, high = float((values - band).min()), float((values + band).max())
    room = 0.06 * (high - low) or 1.0
    axes.set_ylim(low - room - _BELOW / (1 - _BELOW) * (high - low + 2 * room), high + room)
    edges, counts = np.array(one.edges), np.array(one.counts)
    if len(edges):
        axes.stairs(
            0.9 * _BELOW * counts / counts.max(), edges, fill=True, color=INK, alpha=0.3,
            transform=axes.get_xaxis_transform(),
        )  # fmt: skip
    elif len(counts) == len(at) > 1:
        axes.bar(
            at, 0.9 * _BELOW * counts / counts.max(), width=0.6 * np.diff(at).min(), color=INK, alpha=0.3,
            transform=axes.get_xaxis_transform(),
        )  # fmt: skip
    axes.axhline(0, color=INK, linewidth=0.8)
    axes.set(xlabel=short(heading_of(one), 30), ylabel=f"effect{f' [{unit}]' if unit else ''}")
    set_axis(axes, "y")
    if one.kind == "cycle":
        show_cycle(axes, one.words)
    else:
        set_axis(axes, "x", scale=one.scale, at=at, dates=one.kind == "date")


def _bars(axes: Axes, one: Term, unit: str) -> None:
    values = np.array(one.values)
    places, height = np.arange(values.shape[1]), 0.8 / len(values)
    for k, (name, colour) in enumerate(zip(one.outputs, _CURVES, strict=False)):
        half = 2 * np.array(one.deviations[k]) if one.deviations else None
        axes.barh(
            places + (k - (len(values) - 1) / 2) * height, values[k], height, color=colour, xerr=half, ecolor=INK,
            error_kw={"linewidth": 0.8}, label=short(name, 14) if len(values) > 1 else None,
        )  # fmt: skip
    shares = [f" ({share:.0%})" for share in one.counts] or [""] * len(one.words)
    named = [f"{short(word, 18)}{share}" for word, share in zip(one.words, shares, strict=True)]
    axes.set_yticks(places, named, fontsize=8 if len(named) <= 12 else 6)
    axes.invert_yaxis()
    axes.axvline(0, color=INK, linewidth=0.8)
    axes.set_xlabel(f"effect of {short(one.name, 24)}{f' [{unit}]' if unit else ''}")
    set_axis(axes, "x", most=4)


def _map(axes: Axes, one: Term) -> None:
    values = np.array(one.values)
    most = float(np.abs(values).max()) or 1.0
    sides = []
    for at, words in ((one.at, one.words), (one.second, one.second_words)):
        places = np.arange(len(at)) + 0.0 if words else np.array(at)
        middles = (places[1:] + places[:-1]) / 2
        before, after = (middles[0] - places[0], places[-1] - middles[-1]) if len(middles) else (0.5, 0.5)
        sides.append(np.concatenate([[places[0] - before], middles, [places[-1] + after]]))  # values are in the middle
    drawn = axes.pcolormesh(*sides, values.T, cmap="RdBu_r", vmin=-most, vmax=most, rasterized=True)
    axes.grid(visible=False)
    axes.set(xlabel=short(one.columns[0], 30), ylabel=short(one.columns[1], 30))
    for words, kind, axis in ((one.words, one.kinds[0], axes.xaxis), (one.second_words, one.kinds[1], axes.yaxis)):
        if words:
            turned: dict[str, Any] = (
                {"rotation": 45, "ha": "right"} if axis is axes.xaxis and len("".join(words)) > 24 else {}
            )
            axis.set_ticks(range(len(words)), [short(word, 12) for word in words], fontsize=8, **turned)
        else:
            set_axis(axes, "x" if axis is axes.xaxis else "y", dates=kind == "date", most=4)
    made = axes.figure.colorbar(drawn, ax=axes, pad=0.02)
    ticks = number_ticks(-most, most)
    made.set_ticks(ticks.places, labels=ticks.words)
    made.ax.tick_params(labelsize=7)
