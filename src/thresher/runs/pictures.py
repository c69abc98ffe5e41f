"""Draw: the figures of a run."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from thresher.figures import BLUE, GREEN, INK, ORANGE, PINK, SKY, Picture
from thresher.pages import say_number
from thresher.runs.run import Run, Training

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["FIGURES"]

_PARTS = {"start": BLUE, "solve": ORANGE, "move": GREEN}
_FLOOR = 1e-30  # for logarithms


def _loss(axes: Axes, run: Run) -> str:
    axes.set(yscale="log", xlabel="iteration", ylabel="loss, ½‖f - y‖²")
    for one in run.trainings[1:]:
        axes.plot(*_series(one, "loss"), color=ORANGE, alpha=0.35)
    first = run.trainings[0]
    iterations, losses = _series(first, "loss")
    axes.plot(iterations, np.maximum(losses, _FLOOR), "o-", color=ORANGE, label=_label(run, "measured"))
    line = [losses[0] * 0.25**t for t in iterations]
    axes.plot(iterations, line, "--", color=PINK, label="the theorem's line: a quarter per iteration")
    _whole_iterations(axes, len(iterations))
    return (
        f"Loss by iteration, logarithmic: from {losses[0]:.3g} at the start to {losses[-1]:.3g} after "
        f"{len(iterations) - 1} iterations, where the theorem's line is at {line[-1]:.3g}."
    )


def _seconds(axes: Axes, run: Run) -> str:
    iterations = _longest(run)
    names = ["start" if t == 0 else str(t) for t in iterations]
    left, total = np.zeros(len(names)), 0.0
    parts = dict.fromkeys([*_PARTS, *(name for one in run.trainings for r in one.history for name in r.seconds)])
    said = []
    for name, colour in zip(parts, [*_PARTS.values(), SKY, PINK, INK], strict=False):
        spent = np.array([_spent(run, t, name) for t in iterations])
        if spent.any():
            axes.barh(names, spent, left=left, color=colour, label=f"{name}, {spent.sum():.2g} s")
            said.append(f"{name} {spent.sum():.2g} s")
        left, total = left + spent, total + float(spent.sum())
    axes.invert_yaxis()
    axes.set(xlabel="seconds", ylabel="iteration")
    return f"Seconds by iteration: {total:.2g} s in all; {', '.join(said)}."


def _looks(axes: Axes, run: Run) -> str:
    iterations = _longest(run)
    # Of several outputs the mean: each would be scanned by a dense method of its own.
    looks = [float(np.mean([one.history[t].looks for one in run.trainings if t < len(one.history)]))
             for t in iterations]  # fmt: skip
    axes.set_yscale("symlog", linthresh=1)
    axes.bar(iterations, looks, color=ORANGE, label="looks")
    axes.axhline(run.pairs, linestyle="--", color=PINK, label="a dense step: every pair")
    for t, value in zip(iterations, looks, strict=True):
        axes.annotate(f"{value / run.pairs:.2g}", (t, max(value, 1)), ha="center", va="bottom", fontsize=7, color=INK)
    axes.set(xlabel="iteration", ylabel="pre-activations computed", ylim=(0, run.pairs * 30))
    _whole_iterations(axes, len(iterations))
    later = [value / run.pairs for value in looks[2:]]
    return (
        f"Looks by iteration, logarithmic, against {run.pairs:,} pairs of a dense step; the start scan needs "
        f"{looks[0] / run.pairs:.2g} of them" + (f", the last iteration {later[-1]:.2g}." if later else ".")
    )


def _firing(axes: Axes, run: Run) -> str:
    first = run.trainings[0]
    iterations, firing = _series(first, "firing")
    _, flips = _series(first, "flips")
    axes.set_yscale("symlog", linthresh=1)
    axes.plot(iterations, firing, "o-", color=BLUE, label="pairs that fire")
    axes.plot(iterations[1:], flips[1:], "s-", color=ORANGE, label="pairs that flip in the step")
    axes.axhline(run.pairs, linestyle="--", color=PINK, label="all pairs")
    axes.set(xlabel="iteration", ylabel="pairs of a neuron and an input", ylim=(0, run.pairs * 4))
    _whole_iterations(axes, len(iterations))
    return (
        f"Pairs by iteration, logarithmic: {say_number(firing[-1])} of {run.pairs:,} fire at the end; "
        f"{' then '.join(say_number(one) for one in flips[1:5])} flip in the first steps."
    )


def _distance(axes: Axes, run: Run) -> str | None:
    found = run.trainings[0].histograms.get("distance")
    if found is None or not found.counts.sum():
        return None
    edges = np.append(found.edges[1] / 2, found.edges[1:])  # the first bin begins at 0
    axes.stairs(found.counts, edges, fill=True, color=SKY, label="neurons that moved")
    axes.set(xscale="log", xlabel="distance from the start", ylabel="neurons")
    largest = float(found.edges[1:][found.counts > 0][-1])
    bounds = [s.bound for r in run.trainings[0].history for s in r.statements if s.name == "drift"]
    if bounds and np.isfinite(bounds[-1]):
        axes.axvline(bounds[-1], linestyle="--", color=PINK, label="R₀/√m, the paper's bound")
    return (
        f"Histogram of how far {found.counts.sum():,} neurons have moved from their start: {largest:.2g} at the most."
    )


def _band(axes: Axes, run: Run) -> str | None:
    found = run.trainings[0].histograms.get("band")
    if found is None or not found.counts.sum():
        return None
    axes.set_yscale("symlog", linthresh=1)
    axes.stairs(found.counts, found.edges, fill=True, color=SKY, label="neurons that have fired")
    axes.axvspan(0, 1, color=GREEN, alpha=0.1, label="certified: unwatched pairs cannot have flipped")
    axes.axvline(1, linestyle="--", color=GREEN)
    axes.set(
        xlabel="drift since the start scan, at the last visit, as a share of the band",
        ylabel="neurons",
        ylim=(0, 100 * found.counts.max()),
    )
    still = found.counts[0] / found.counts.sum()
    rescans = sum(record.rescans for record in run.trainings[0].history)
    return (
        f"Histogram of drift as a share of the certified band, for {found.counts.sum():,} neurons: {still:.1%} are in "
        f"the lowest bin, {rescans:,} left their band and were scanned again."
    )


FIGURES: dict[str, Picture] = {
    "loss": Picture(
        _loss,
        "The loss after each iteration. The theorem, about training to zero loss, promises a quarter of it per step.",
    ),
    "time": Picture(_seconds, "Where the time went, iteration by iteration; the start passes over all neurons."),
    "looks": Picture(
        _looks,
        "Pre-activations computed in each iteration; the numbers are shares of a dense step. Without a ridge the first "
        "step is taken inside the start scan.",
    ),
    "firing": Picture(_firing, "Pairs that fire, and those that flip in a step: only flips keep it from being linear."),
    "distance": Picture(_distance, "How far neurons end from where they started."),
    "band": Picture(
        _band,
        "Drift against the certified band. Within it nothing unwatched can have flipped; a neuron that leaves it is "
        "scanned again.",
    ),
}


def _series(one: Training, name: str) -> tuple[list[int], list[float]]:
    return [record.iteration for record in one.history], [getattr(record, name) for record in one.history]


def _longest(run: Run) -> list[int]:
    """Return the iterations of the longest training."""
    return list(range(max(len(one.history) for one in run.trainings)))


def _spent(run: Run, t: int, name: str) -> float:
    return sum(one.history[t].seconds.get(name, 0.0) for one in run.trainings if t < len(one.history))


def _label(run: Run, words: str) -> str:
    return words if len(run.trainings) == 1 else f"{words}, {run.trainings[0].name} (others lighter)"


def _whole_iterations(axes: Axes, count: int) -> None:
    axes.locator_params(axis="x", integer=True, nbins=min(max(count, 2), 12))
