"""Draw: what a model does on rows it has never seen."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from thresher.figures import BLUE, INK, PINK, SKY, Picture, as_written, scale_of, set_axis
from thresher.pages import say_between
from thresher.runs.evaluation import Evaluation

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["model_pictures", "short"]

_SIDES: tuple[Literal["x", "y"], ...] = ("x", "y")
_NEAR_NONE = 0.2  # a probability: below it are nearly all of a rare class
_MOST_BELOW = 0.05  # share of predictions that may be drawn at the end of a logarithmic axis
_LONGEST = 44  # letters of a label


def model_pictures(evaluation: Evaluation) -> dict[str, Picture]:
    """Return the pictures of an evaluation, in the order in which they are shown."""
    if evaluation.task == "classification":
        return _of_chances(evaluation)
    sample = (
        ""
        if len(evaluation.points) == evaluation.rows
        else f" {len(evaluation.points):,} rows of {evaluation.rows:,} are drawn."
    )
    bars = " Thin lines: 95 % error bars." if evaluation.coverage and len(evaluation.points) <= _FEW else ""
    return {
        "actual": Picture(_actual, f"Each point is a row; on the line, the prediction is right.{bars}{sample}"),
        "residuals": Picture(
            _residuals, f"How far off predictions are: actual less predicted.{_say_beyond(evaluation)}"
        ),
        "against": Picture(
            _against,
            "The same errors against what was predicted: are large predictions off by more? Triangles: off by more "
            "than the axis shows.",
        ),
        "coverage": Picture(
            _coverage,
            "Share of the rows within error bars of each size. On the diagonal the bars are honest; below it they are "
            "too short, above it too long.",
        ),
    }


def _of_chances(evaluation: Evaluation) -> dict[str, Picture]:
    """Return the calibration, and its part near 0 where nearly all probabilities are."""
    of = f"of {evaluation.rarer}" if evaluation.rarer else "of every class"
    how = "On the diagonal, 30 % means 30 rows of 100. Bars: 95 % intervals of that share; grey: where the rows are."
    pictures = {
        "calibration": Picture(
            partial(_calibration, most=100.0),
            f"The probability {of} that the model gave, and the share of these rows that had it. {how}",
        )
    }
    rows = sum(one.rows for one in evaluation.calibration)
    common = [one for one in evaluation.calibration if one.confidence <= _NEAR_NONE]
    if len(common) > 2 and sum(one.rows for one in common) >= 0.8 * rows:
        pictures["calibration near 0"] = Picture(
            partial(_calibration, most=100 * _NEAR_NONE),
            f"The same from 0 to {100 * _NEAR_NONE:.0f} %, where most rows are.",
        )
    return pictures


def _say_beyond(evaluation: Evaluation) -> str:
    """Return how many rows a histogram does not show."""
    below, above = evaluation.beyond or (0, 0)
    if not below + above:
        return ""
    both = [f"{count:,} {word}" for count, word in ((below, "below"), (above, "above")) if count]
    return f" The middle is shown; {' and '.join(both)} its ends."


_FEW = 150  # points that have error bars


def _actual(axes: Axes, evaluation: Evaluation) -> str:
    actual = np.array([one.actual for one in evaluation.points])
    predicted = np.array([one.predicted for one in evaluation.points])
    log = scale_of(actual) == "log" and np.mean(predicted <= 0) < _MOST_BELOW
    shown = np.maximum(predicted, actual.min()) if log else predicted
    low, high = (float(side(np.concatenate([actual, shown]))) for side in (np.min, np.max))
    room = 0.04 * (high - low) or abs(high) * 0.1 or 1.0
    ends = (low / 1.2, high * 1.2) if log else (low - room, high + room)
    axes.plot(ends, ends, "--", color=PINK, linewidth=1.2, label="predicted = actual", zorder=1)
    if evaluation.coverage and len(actual) <= _FEW:
        lower, upper = (
            np.clip([getattr(one, name) for one in evaluation.points], *ends) for name in ("lower", "upper")
        )
        axes.vlines(actual, lower, upper, color=SKY, linewidth=0.8, alpha=0.6, zorder=2)
    axes.plot(actual, shown, "o", color=BLUE, markersize=3.5, alpha=_alpha(len(actual)), markeredgewidth=0)
    axes.set(xlim=ends, ylim=ends, xlabel=f"actual {short(evaluation.target)}", ylabel="predicted")
    for side in _SIDES:
        set_axis(axes, side, scale="log" if log else "linear")
    return (
        f"Predicted against actual {evaluation.target} of {len(actual):,} rows: the correlation is "
        f"{_correlation(actual, predicted)}."
    )


def _residuals(axes: Axes, evaluation: Evaluation) -> str:
    axes.stairs(evaluation.counts, evaluation.edges, fill=True, color=SKY)
    axes.axvline(0, color=INK, linewidth=1)
    axes.set(xlabel=f"actual less predicted {short(evaluation.target)}", ylabel="rows")
    axes.set_xlim(evaluation.edges[0], evaluation.edges[-1])
    axes.locator_params(axis="y", integer=True, nbins=5)
    set_axis(axes, "x")
    top = int(np.argmax(evaluation.counts))
    low, high = evaluation.edges[top : top + 2]
    return f"Histogram of actual less predicted: most often {say_between(low, high, high - low)}."


def _against(axes: Axes, evaluation: Evaluation) -> str | None:
    if len(evaluation.points) < 2:
        return None
    predicted = np.array([one.predicted for one in evaluation.points])
    errors = np.array([one.actual for one in evaluation.points]) - predicted
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
    axes.set(
        xlabel=f"predicted {short(evaluation.target)}", ylabel="actual less predicted", ylim=(-1.08 * far, 1.08 * far)
    )
    set_axis(axes, "x", scale="log" if scale_of(predicted) == "log" else "linear")
    set_axis(axes, "y")
    return f"Errors of {len(errors):,} rows against their predictions: the largest is {np.abs(errors).max():.3g}."


def _coverage(axes: Axes, evaluation: Evaluation) -> str | None:
    if not evaluation.coverage:
        return None
    nominal, observed = ([100 * getattr(one, name) for one in evaluation.coverage] for name in ("nominal", "observed"))
    axes.plot([0, 100], [0, 100], "--", color=PINK, linewidth=1.2, label="honest error bars")
    axes.plot(nominal, observed, "o-", color=BLUE, label="measured")
    axes.set(xlim=(-2, 102), ylim=(-2, 102), xlabel="should be within the error bars, %", ylabel="are within, %")
    told = ", ".join(f"{o:.0f} % of {n:.0f} %" for n, o in zip(nominal, observed, strict=True))
    return f"Rows within error bars, observed of promised: {told}."


def _calibration(axes: Axes, evaluation: Evaluation, *, most: float) -> str | None:
    shown = [one for one in evaluation.calibration if 100 * one.confidence <= most]
    if not shown:
        return None
    said, right, rows = (
        np.array([getattr(one, name) for one in shown], np.float64) for name in ("confidence", "right", "rows")
    )
    low, high = _wilson(right, rows)
    top = 100.0 if most == 100.0 else min(100.0, max(most, 105 * float(right.max())))
    axes.bar(100 * said, 0.22 * top * rows / rows.max(), width=0.012 * most, color=INK, alpha=0.3)
    axes.plot([0, most], [0, most], "--", color=PINK, linewidth=1.2, label="as it should be")
    axes.vlines(100 * said, 100 * low, 100 * high, color=SKY, linewidth=2)
    axes.plot(100 * said, 100 * right, "o-", color=BLUE, markersize=4.5, linewidth=1.2, label="measured")
    of_class = f"probability of {short(evaluation.rarer, 20)}" if evaluation.rarer else "probability of a class"
    axes.set(xlabel=f"{of_class}, %", ylabel="rows that have it, %")
    axes.set(xlim=(-0.02 * most, 1.02 * most), ylim=(-0.02 * top, 1.02 * top))
    set_axis(axes, "x")
    set_axis(axes, "y")
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
