"""Draw: how the mean answer of a model changes with the values of a column."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from thresher.figures import BLUE, GREEN, ORANGE, PINK, Picture, set_axis
from thresher.pages import say_between
from thresher.runs.evaluation import Evaluation
from thresher.runs.influence import Effect
from thresher.runs.report.model_pictures import short
from thresher.runs.report.words import Measure, heading_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["effect_pictures", "show_cycle"]

_CURVES = (BLUE, ORANGE, GREEN, PINK)
_AS_BARS = ("category", "words")
_LEAST = 0.25  # of the largest span of an effect: what an axis shows at least, so that flat ones look flat


def effect_pictures(evaluation: Evaluation) -> dict[str, Picture]:
    """Return one picture for each number, or part of a date, whose effect was found.

    Categories and words are shown as bars of the page.
    """
    curves = [one for one in evaluation.effects if one.kind not in _AS_BARS]
    least = _LEAST * max((float(np.ptp(one.values)) for one in evaluation.effects), default=0.0)
    return {
        f"effect {place}": Picture(
            partial(_effect, effect=one, least=least), f"{heading_of(one)}: {_ends(evaluation, one)}."
        )
        for place, one in enumerate(curves, start=1)
    }


def _ends(evaluation: Evaluation, effect: Effect) -> str:
    """Return between which values the first output of an effect lies."""
    measure, values = Measure.of(evaluation), effect.values[0]
    if evaluation.task == "classification":
        return f"the probability of {effect.names[0]} is {say_between(100 * min(values), 100 * max(values), 10.0, '%')}"
    return say_between(min(values), max(values), measure.error, measure.unit)


def _effect(axes: Axes, evaluation: Evaluation, *, effect: Effect, least: float) -> str:
    scale = 100.0 if evaluation.task == "classification" else 1.0
    at = np.arange(len(effect.words), dtype=np.float64) if effect.kind == "cycle" else np.array(effect.at)
    for name, values, colour in zip(effect.names, effect.values, _CURVES, strict=False):
        label = short(name) if len(effect.names) > 1 else None
        axes.plot(at, scale * np.array(values), "o-", color=colour, markersize=3.5, label=label)
    means = scale * np.array(effect.values)
    low, high = float(means.min()), float(means.max())
    more = max(0.0, scale * least - (high - low)) / 2
    room = more + 0.08 * (high - low) or 0.1 * abs(high) or 1.0
    bottom = max(low - room, -0.02 * (high + room)) if scale > 1 else low - room
    axes.set(xlabel=short(heading_of(effect)), ylim=(bottom, high + room))
    of_class = f"probability of {short(effect.names[0], 14)}, %" if len(effect.names) == 1 else "probability, %"
    axes.set_ylabel(of_class if evaluation.task == "classification" else f"predicted {short(evaluation.target, 30)}")
    set_axis(axes, "y")
    if effect.kind == "cycle":
        show_cycle(axes, effect.words)
    else:
        set_axis(axes, "x", scale=effect.scale, at=at, dates=effect.kind == "date")
    first, last = means[0, 0], means[0, -1]
    return (
        f"Mean answer by {heading_of(effect)}: from {first:.3g} at {effect.words[0]} to {last:.3g} at "
        f"{effect.words[-1]}, {say_between(low, high, abs(high) or 1.0)}."
    )


def show_cycle(axes: Axes, words: Sequence[str]) -> None:
    """Name months, weekdays or hours, as many as there is room for."""
    apart = -(-len(words) // 8)
    axes.set_xticks(range(0, len(words), apart), list(words)[::apart])
