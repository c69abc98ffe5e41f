"""The figures of a page: what a model does on rows it has never seen, its terms, and how its networks were trained."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from thresher.checks import check_whole
from thresher.errors import InvalidInput
from thresher.figures import (
    BLUE,
    GREEN,
    INK,
    ORANGE,
    PINK,
    SKY,
    Picture,
    as_written,
    figure_grid,
    scale_of,
    set_axis,
)
from thresher.report.details import Details, Term, terms_of
from thresher.report.words import heading_of, say_between
from thresher.training import Iteration

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["TRAINING", "Course", "model_pictures", "plot_effects", "short", "term_pictures"]

_SIDES: tuple[Literal["x", "y"], ...] = ("x", "y")
_MOST_BELOW = 0.05  # share of predictions that may be drawn at the end of a logarithmic axis
_LONGEST = 44  # letters of a label
_FEW = 150  # points that have error bars
_CURVES = (BLUE, ORANGE, GREEN, PINK)
_LEAST = 0.005  # share of a term that a page draws
_BELOW = 0.2  # share of a picture that the histogram has
_FLOOR = 1e-30  # for logarithms
_MARKED = 40  # iterations that are marked one by one


def model_pictures(found: Details) -> dict[str, Picture]:
    """Return the pictures of details, in the order in which they are shown."""
    if found.task == "classification":
        of = f"of {found.rarer}" if found.rarer else "of every class"
        return {
            "calibration": Picture(
                _calibration,
                f"The probability {of} that the model gave, and the share of these rows that had it. On the diagonal, "
                "30 % means 30 rows of 100. Bars: 95 % intervals of that share; grey: where the rows are.",
            )
        }
    sample = "" if len(found.points) == found.rows else f" {len(found.points):,} rows of {found.rows:,} are drawn."
    bars = " Thin lines: 95 % error bars." if found.coverage and len(found.points) <= _FEW else ""
    return {
        "actual": Picture(_actual, f"Each point is a row; on the line, the prediction is right.{bars}{sample}"),
        "against": Picture(
            _against,
            "How far off predictions are, against what was predicted: are large ones off by more? Triangles: off by "
            "more than the axis shows.",
        ),
        "coverage": Picture(
            _coverage,
            "Share of the rows within error bars of each size. On the diagonal the bars are honest; below it they are "
            "too short, above it too long.",
        ),
    }


def _actual(axes: Axes, found: Details) -> str:
    actual = np.array([one.actual for one in found.points])
    predicted = np.array([one.predicted for one in found.points])
    log = scale_of(actual) == "log" and np.mean(predicted <= 0) < _MOST_BELOW
    shown = np.maximum(predicted, actual.min()) if log else predicted
    low, high = (float(side(np.concatenate([actual, shown]))) for side in (np.min, np.max))
    room = 0.04 * (high - low) or abs(high) * 0.1 or 1.0
    ends = (low / 1.2, high * 1.2) if log else (low - room, high + room)
    axes.plot(ends, ends, "--", color=PINK, linewidth=1.2, label="predicted = actual", zorder=1)
    if found.coverage and len(actual) <= _FEW:
        lower, upper = (np.clip([getattr(one, name) for one in found.points], *ends) for name in ("lower", "upper"))
        axes.vlines(actual, lower, upper, color=SKY, linewidth=0.8, alpha=0.6, zorder=2)
    axes.plot(actual, shown, "o", color=BLUE, markersize=3.5, alpha=_alpha(len(actual)), markeredgewidth=0)
    axes.set(xlim=ends, ylim=ends, xlabel=f"actual {short(found.target)}", ylabel="predicted")
    for side in _SIDES:
        set_axis(axes, side, scale="log" if log else "linear")
    return (
        f"Predicted against actual {found.target} of {len(actual):,} rows: the correlation is "
        f"{_correlation(actual, predicted)}."
    )


def _against(axes: Axes, found: Details) -> str | None:
    if len(found.points) < 2:
        return None
    predicted = np.array([one.predicted for one in found.points])
    errors = np.array([one.actual for one in found.points]) - predicted
    far = float(np.abs(errors).max())
    middle = 1.5 * float(np.quantile(np.abs(errors), 0.98))
    far = middle if 0 < 1.5 * middle < far else far or 1.0
    within = np.abs(errors) <= far
    colour: dict[str, Any] = {"color": BLUE, "markeredgewidth": 0, "alpha": _alpha(len(errors))}
    axes.axhline(0, color=PINK, linestyle="--", linewidth=1.2)
    axes.plot(predicted[within], errors[within], "o", markersize=3.5, **colour)
    for sign, mark in ((1, "^"), (-1, "v")):
        out = sign * errors > far
        axes.plot(predicted[out], np.full(int(out.sum()), sign * far), mark, markersize=4.5, **colour)
    axes.set(xlabel=f"predicted {short(found.target)}", ylabel="actual less predicted", ylim=(-1.08 * far, 1.08 * far))
    set_axis(axes, "x", scale="log" if scale_of(predicted) == "log" else "linear")
    set_axis(axes, "y")
    return f"Errors of {len(errors):,} rows against their predictions: the largest is {np.abs(errors).max():.3g}."


def _coverage(axes: Axes, found: Details) -> str | None:
    if not found.coverage:
        return None
    nominal, observed = ([100 * getattr(one, name) for one in found.coverage] for name in ("nominal", "observed"))
    axes.plot([0, 100], [0, 100], "--", color=PINK, linewidth=1.2, label="honest error bars")
    axes.plot(nominal, observed, "o-", color=BLUE, label="measured")
    axes.set(xlim=(-2, 102), ylim=(-2, 102), xlabel="should be within the error bars, %", ylabel="are within, %")
    told = ", ".join(f"{o:.0f} % of {n:.0f} %" for n, o in zip(nominal, observed, strict=True))
    return f"Rows within error bars, observed of promised: {told}."


def _calibration(axes: Axes, found: Details) -> str | None:
    if not found.calibration:
        return None
    said, right, rows = (
        np.array([getattr(one, name) for one in found.calibration], np.float64)
        for name in ("confidence", "right", "rows")
    )
    low, high = _wilson(right, rows)
    axes.bar(100 * said, 22 * rows / rows.max(), width=1.2, color=INK, alpha=0.3)
    axes.plot([0, 100], [0, 100], "--", color=PINK, linewidth=1.2, label="as it should be")
    axes.vlines(100 * said, 100 * low, 100 * high, color=SKY, linewidth=2)
    axes.plot(100 * said, 100 * right, "o-", color=BLUE, markersize=4.5, linewidth=1.2, label="measured")
    of_class = f"probability of {short(found.rarer, 20)}" if found.rarer else "probability of a class"
    axes.set(xlim=(-2, 102), ylim=(-2, 102), xlabel=f"{of_class}, %", ylabel="rows that have it, %")
    told = ", ".join(f"{100 * r:.0f} % where it says {100 * s:.0f} %" for s, r in zip(said, right, strict=True))
    return f"Calibration: {told}."


def _wilson(share: Any, rows: Any) -> tuple[Any, Any]:
    """Return the ends of Wilson's 95 % interval of shares (k,) of rows (k,)."""
    z = 1.96
    middle = (share + z**2 / (2 * rows)) / (1 + z**2 / rows)
    half = z / (1 + z**2 / rows) * np.sqrt(share * (1 - share) / rows + (z / (2 * rows)) ** 2)
    return np.clip(middle - half, 0, share), np.clip(middle + half, share, 1)


def _correlation(one: Any, two: Any) -> str:
    if len(one) < 2 or not np.ptp(one) or not np.ptp(two):
        return "not defined"
    a, b = ((x - x.mean()) / np.abs(x - x.mean()).max() for x in (one, two))
    return f"{float(a @ b / np.sqrt((a @ a) * (b @ b))):.3f}"


def _alpha(count: int) -> float:
    return 0.85 if count <= 100 else 0.6 if count <= 400 else 0.4


def short(words: str, longest: int = _LONGEST) -> str:
    """Return words for a figure, or the first of their letters."""
    return as_written(words if len(words) <= longest else f"{words[: longest - 1].rstrip()}…")


def plot_effects(model: Any, *, terms: int = 12, std: bool = True, columns: int = 3) -> Figure:
    """Draw the terms of a fitted model, the largest share first, and return the figure.

    A number is a curve with a band of two standard errors, and a histogram of the training rows below. A date is one
    for each part that it depends on: the time, the month, the weekday, the hour. A category is a bar for each value,
    the commonest on top. A pair is a map of what its two columns do beyond their main effects. All are in units of what
    is learnt: logarithms where these are learnt, scores of a classifier.

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
    _ = model._model_effects.decomposition  # refuses what has no effects
    if model.model_.lift.angles_ is None:
        raise InvalidInput(
            "this model sees all columns at once, so there is nothing to draw. Fit with parts='columns' or 'pairs'."
        )
    found = terms_of(model, most=terms, std=std)
    if not found:
        raise InvalidInput("no term of this model has a share: it predicts a constant, or all of it is in the rest.")
    figure, places = figure_grid(len(found), columns=min(across, len(found)))
    for axes, one in zip(places, found, strict=True):
        draw_term(axes, one)
        if len(one.outputs) > 1:
            axes.legend(frameon=False, fontsize=7)
        axes.set_title(f"{short(heading_of(one), 30)}: {one.share:.1%}", fontsize=9, loc="left")
    return figure


def term_pictures(terms: Sequence[Term], *, unit: str = "") -> dict[str, Picture]:
    """Return one picture for each term of a model, or for each part of a date."""
    shown = [one for one in terms if one.share >= _LEAST] or terms[:1]
    return {
        f"term {place}": Picture(
            partial(_picture, one=one, unit=unit), f"{heading_of(one)}: {one.share:.1%} of what varies."
        )
        for place, one in enumerate(shown, start=1)
    }


def _picture(axes: Axes, _: Any, *, one: Term, unit: str) -> str:
    draw_term(axes, one, unit=unit)
    values = np.array(one.values)
    return (
        f"Effect of {heading_of(one)}, {one.share:.1%} of what varies: "
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
        _show_cycle(axes, one.words)
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
    set_axis(made.ax, "y")
    made.ax.tick_params(labelsize=7)


def _show_cycle(axes: Axes, words: Sequence[str]) -> None:
    """Name months, weekdays or hours, as many as there is room for."""
    apart = -(-len(words) // 8)
    axes.set_xticks(range(0, len(words), apart), list(words)[::apart])


class Course(NamedTuple):
    """How trainings went, one for each output: their iterations and names, and the pairs of a neuron and an input."""

    histories: Sequence[Sequence[Iteration]]
    names: Sequence[str]
    pairs: int
    exact: bool  # to zero loss, which the theorem is about

    def longest(self) -> list[int]:
        """Return the iterations of the longest training."""
        return list(range(max(map(len, self.histories))))


def _loss(axes: Axes, course: Course) -> str:
    axes.set(yscale="log", xlabel="iteration", ylabel="loss, ½‖f - y‖²")
    first, *others = course.histories
    for one in others:
        axes.plot(range(len(one)), [max(record.loss, _FLOOR) for record in one], color=ORANGE, alpha=0.35)
    losses = [record.loss for record in first]
    label = "measured" if not others else f"measured, {course.names[0]} (others lighter)"
    marker = "o-" if len(losses) <= _MARKED else "-"
    axes.plot(range(len(losses)), np.maximum(losses, _FLOOR), marker, color=ORANGE, label=label)
    line = [losses[0] * 0.25**t for t in range(len(losses))]
    least = max(min(losses) / 10, _FLOOR)
    if course.exact:
        seen = [value for t, value in enumerate(line) if value >= least or t < 2]
        axes.plot(range(len(seen)), seen, "--", color=PINK, label="the theorem: a quarter per iteration")
    _whole_iterations(axes, len(losses))
    promised = f", where the theorem's line is at {line[-1]:.3g}" if course.exact else ""
    return (
        f"Loss by iteration, logarithmic: from {losses[0]:.3g} at the start to {losses[-1]:.3g} after "
        f"{len(losses) - 1} iterations{promised}."
    )


def _looks(axes: Axes, course: Course) -> str:
    # Of several outputs the mean: each would be scanned by a dense method of its own.
    looks = [float(np.mean([one[t].looks for one in course.histories if t < len(one)])) for t in course.longest()]
    _counts(axes, course.pairs)
    axes.bar(range(len(looks)), looks, color=ORANGE, label="pre-activations computed")
    axes.axhline(course.pairs, linestyle="--", color=PINK, label="a dense step: all of them")
    axes.set(xlabel="iteration (0 is the start)", ylabel="pairs (neuron, input)")
    _whole_iterations(axes, len(looks))
    later = [value / course.pairs for value in looks[2:]]
    return (
        f"Looks by iteration, logarithmic, against {course.pairs:,} pairs of a dense step; the start scan needs "
        f"{looks[0] / course.pairs:.2g} of them" + (f", the last iteration {later[-1]:.2g}." if later else ".")
    )


TRAINING: dict[str, Picture] = {
    "loss": Picture(
        _loss,
        "The loss after each iteration. When training to zero loss, the theorem promises a quarter of it per step.",
    ),
    "looks": Picture(
        _looks,
        "Pre-activations computed in each iteration, against those of a dense step. Without a ridge the first step is "
        "taken inside the start scan.",
    ),
}


def _whole_iterations(axes: Axes, count: int) -> None:
    axes.set_xlim(-0.6, max(count - 0.4, 0.6))
    axes.locator_params(axis="x", integer=True, nbins=min(max(count, 2), 9))


def _counts(axes: Axes, most: int) -> None:
    """Make the y axis one of counts from 0 to ``most``, logarithmic from 1 on, with few labels."""
    axes.set_yscale("symlog", linthresh=1)
    axes.set_ylim(0, 3 * max(most, 1))
    powers = range(int(np.log10(max(most, 1))) + 1)
    apart = max(1, math.ceil(len(powers) / 6))
    axes.set_yticks([0, *(10.0**power for power in powers[::apart])])
