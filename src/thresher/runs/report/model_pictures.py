"""Draw: what a model does on rows it has never seen."""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from thresher.figures import BLUE, GREEN, INK, ORANGE, PINK, SKY, Picture, as_written
from thresher.pages import say_like
from thresher.runs.evaluation import Evaluation
from thresher.runs.influence import Effect
from thresher.runs.report.words import Measure

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["date_ticks", "effect_pictures", "model_pictures", "plain_ticks", "short"]

_CURVES = (BLUE, ORANGE, GREEN, PINK)
_LONGEST = 44  # letters of a label


def model_pictures(evaluation: Evaluation) -> dict[str, Picture]:
    """Return the pictures of an evaluation, in the order in which they are shown."""
    if evaluation.task == "classification":
        return {
            "calibration": Picture(
                _calibration,
                "Answers by the probability that the model gave them, and the share that is right. On the diagonal, "
                "90 % sure means right 9 times out of 10. Bars: 95 % intervals of that share.",
            )
        }
    sample = (
        ""
        if len(evaluation.points) == evaluation.rows
        else f" {len(evaluation.points):,} rows of {evaluation.rows:,} are drawn."
    )
    bars = " Thin lines: 95 % error bars." if evaluation.coverage and len(evaluation.points) <= _FEW else ""
    return {
        "actual": Picture(_actual, f"Each point is a row; on the line, the prediction is right.{bars}{sample}"),
        "residuals": Picture(_residuals, "How far off predictions are: actual less predicted."),
        "against": Picture(_against, "The same errors against what was predicted: are large predictions off by more?"),
        "coverage": Picture(
            _coverage,
            "Share of the rows within error bars of each size. On the diagonal the bars are honest; below it they are "
            "too short, above it too long.",
        ),
    }


_FEW = 150  # points that have error bars


def effect_pictures(evaluation: Evaluation) -> dict[str, Picture]:
    """Return one picture for each number or date whose effect was found; categories are shown as bars of the page."""
    curves = [one for one in evaluation.effects if one.kind != "category"]
    return {
        f"effect {place}": Picture(partial(_effect, effect=one), f"{one.column}: {_ends(evaluation, one)}.")
        for place, one in enumerate(curves, start=1)
    }


def _ends(evaluation: Evaluation, effect: Effect) -> str:
    """Return between which values the first output of an effect lies."""
    measure, values = Measure.of(evaluation), effect.values[0]
    if evaluation.task == "classification":
        low, high = (say_like(100 * side(values), 10.0, "%") for side in (min, max))
        return f"the probability of {effect.names[0]} is between {low} and {high}"
    low, high = (measure.say(side(values)) for side in (min, max))
    return f"between {low} and {high}"


def _actual(axes: Axes, evaluation: Evaluation) -> str:
    actual = np.array([one.actual for one in evaluation.points])
    predicted = np.array([one.predicted for one in evaluation.points])
    low, high = (float(side(np.concatenate([actual, predicted]))) for side in (np.min, np.max))
    room = 0.04 * (high - low) or abs(high) * 0.1 or 1.0
    ends = (low - room, high + room)
    axes.plot(ends, ends, "--", color=PINK, linewidth=1.2, label="predicted = actual", zorder=1)
    if evaluation.coverage and len(actual) <= _FEW:
        lower, upper = ([getattr(one, name) for one in evaluation.points] for name in ("lower", "upper"))
        axes.vlines(actual, lower, upper, color=SKY, linewidth=0.8, alpha=0.6, zorder=2)
    axes.plot(actual, predicted, "o", color=BLUE, markersize=3.5, alpha=_alpha(len(actual)), markeredgewidth=0)
    axes.set(xlim=ends, ylim=ends, xlabel=f"actual {short(evaluation.target)}", ylabel="predicted")
    plain_ticks(axes)
    return (
        f"Predicted against actual {evaluation.target} of {len(actual):,} rows: the correlation is "
        f"{_correlation(actual, predicted)}."
    )


def _residuals(axes: Axes, evaluation: Evaluation) -> str:
    axes.stairs(evaluation.counts, evaluation.edges, fill=True, color=SKY)
    axes.axvline(0, color=INK, linewidth=1)
    axes.set(xlabel=f"actual less predicted {short(evaluation.target)}", ylabel="rows")
    axes.locator_params(axis="y", integer=True)
    plain_ticks(axes)
    top = int(np.argmax(evaluation.counts))
    low, high = evaluation.edges[top : top + 2]
    return f"Histogram of actual less predicted: most often between {low:.3g} and {high:.3g}."


def _against(axes: Axes, evaluation: Evaluation) -> str | None:
    if len(evaluation.points) < 2:
        return None
    predicted = np.array([one.predicted for one in evaluation.points])
    errors = np.array([one.actual for one in evaluation.points]) - predicted
    axes.axhline(0, color=PINK, linestyle="--", linewidth=1.2)
    axes.plot(predicted, errors, "o", color=BLUE, markersize=3.5, alpha=_alpha(len(errors)), markeredgewidth=0)
    axes.set(xlabel=f"predicted {short(evaluation.target)}", ylabel="actual less predicted")
    plain_ticks(axes)
    return f"Errors of {len(errors):,} rows against their predictions: the largest is {np.abs(errors).max():.3g}."


def _coverage(axes: Axes, evaluation: Evaluation) -> str | None:
    if not evaluation.coverage:
        return None
    nominal, observed = ([100 * getattr(one, name) for one in evaluation.coverage] for name in ("nominal", "observed"))
    axes.plot([0, 100], [0, 100], "--", color=PINK, linewidth=1.2, label="honest error bars")
    axes.plot(nominal, observed, "o-", color=BLUE, label="measured")
    axes.set(xlim=(0, 103), ylim=(0, 103), xlabel="should be within the error bars, %", ylabel="are within, %")
    told = ", ".join(f"{o:.0f} % of {n:.0f} %" for n, o in zip(nominal, observed, strict=True))
    return f"Rows within error bars, observed of promised: {told}."


def _calibration(axes: Axes, evaluation: Evaluation) -> str | None:
    if not evaluation.calibration:
        return None
    said, right, rows = (np.array([getattr(one, name) for one in evaluation.calibration], np.float64)
                         for name in ("confidence", "right", "rows"))  # fmt: skip
    low, high = _wilson(right, rows)
    axes.plot([0, 100], [0, 100], "--", color=PINK, linewidth=1.2, label="as sure as it should be")
    axes.vlines(100 * said, 100 * low, 100 * high, color=SKY, linewidth=2)
    axes.plot(100 * said, 100 * right, "o-", color=BLUE, label="measured")
    least = math.floor(10 * min(said.min(), low.min())) * 10 - 3
    axes.set(xlim=(least, 103), ylim=(least, 103), xlabel="probability of the answer, %", ylabel="right, %")
    told = ", ".join(f"{100 * r:.0f} % right where it says {100 * s:.0f} %" for s, r in zip(said, right, strict=True))
    return f"Calibration: {told}."


def _effect(axes: Axes, evaluation: Evaluation, *, effect: Effect) -> str:
    at, scale = np.array(effect.at), 100.0 if evaluation.task == "classification" else 1.0
    for name, values, colour in zip(effect.names, effect.values, _CURVES, strict=False):
        label = short(name) if len(effect.names) > 1 else None
        axes.plot(at, scale * np.array(values), "o-", color=colour, markersize=3.5, label=label)
    means = scale * np.array(effect.values)
    low, high = float(means.min()), float(means.max())
    room = 0.08 * (high - low) or 0.1 * abs(high) or 1.0
    axes.set(xlabel=short(effect.column), ylim=(low - room, high + room))
    of_class = f"probability of {short(effect.names[0], 14)}, %" if len(effect.names) == 1 else "probability, %"
    axes.set_ylabel(of_class if evaluation.task == "classification" else f"predicted {short(evaluation.target, 30)}")
    if effect.kind == "date":
        plain_ticks(axes, x=False)
        date_ticks(axes, at)
    else:
        plain_ticks(axes)
    first, last = means[0, 0], means[0, -1]
    return (
        f"Mean answer by {effect.column}: from {first:.3g} at {effect.words[0]} to {last:.3g} at {effect.words[-1]}, "
        f"between {low:.3g} and {high:.3g}."
    )


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


def plain_ticks(axes: Axes, *, x: bool = True) -> None:
    """Write numbers with commas, or all of an axis as multiples of a power of ten where they are huge or tiny."""
    sides: list[Literal["x", "y"]] = ["x", "y"] if x else ["y"]
    for side in sides:
        axis = axes.xaxis if side == "x" else axes.yaxis
        axes.locator_params(axis=side, nbins=5)
        low, high = axis.get_view_interval()
        largest = max(abs(low), abs(high))
        if high - low >= 1e-3 and 1e-2 <= largest < 1e7:
            axis.set_major_formatter(_with_commas if largest >= 1e4 else _without)  # years have none
        else:
            axes.ticklabel_format(axis=side, style="sci", scilimits=(0, 0), useMathText=True)


def _with_commas(value: float, _: Any) -> str:
    return f"{round(value, 12):,.10g}"


def _without(value: float, _: Any) -> str:
    return f"{round(value, 12):.10g}"


def date_ticks(axes: Axes, days: Any, *, axis: Any = None, number: int = 4) -> None:
    """Name some days, at even distances, as years, months or days, on the x axis or another."""
    first, last = float(days.min()), float(days.max())
    places = np.linspace(first, last, number if last > first else 1)
    long = "Y" if last - first > 4 * 365 else "M" if last - first > 120 else "D"
    labels = [str(np.datetime64(round(day), "D").astype(f"datetime64[{long}]")) for day in places]
    (axes.xaxis if axis is None else axis).set_ticks(places, labels, fontsize=8)
