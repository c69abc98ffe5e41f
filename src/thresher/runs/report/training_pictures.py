"""Draw: the figures of a run."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from thresher.figures import BLUE, GREEN, INK, ORANGE, PINK, SKY, Picture
from thresher.pages import say_number
from thresher.runs.record import Record, Training

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["FIGURES"]

_PARTS = {"start": BLUE, "solve": ORANGE, "move": GREEN}
_FLOOR = 1e-30  # for logarithms
_FEW = 40  # iterations that are marked one by one


def _loss(axes: Axes, run: Record) -> str:
    axes.set(yscale="log", xlabel="iteration", ylabel="loss, ½‖f - y‖²")
    for one in run.trainings[1:]:
        iterations, losses = _series(one, "loss")
        axes.plot(iterations, np.maximum(losses, _FLOOR), color=ORANGE, alpha=0.35)
    first = run.trainings[0]
    iterations, losses = _series(first, "loss")
    marker = "o-" if len(iterations) <= _FEW else "-"
    axes.plot(iterations, np.maximum(losses, _FLOOR), marker, color=ORANGE, label=_label(run, "measured"))
    line = [losses[0] * 0.25**t for t in iterations]
    least = max(min(losses) / 10, _FLOOR)
    if run.options:  # the theorem is about training to zero loss
        seen = [value for t, value in enumerate(line) if value >= least or t < 2]
        axes.plot(iterations[: len(seen)], seen, "--", color=PINK, label="the theorem: a quarter per iteration")
    _whole_iterations(axes, len(iterations))
    promised = f", where the theorem's line is at {line[-1]:.3g}" if run.options else ""
    return (
        f"Loss by iteration, logarithmic: from {losses[0]:.3g} at the start to {losses[-1]:.3g} after "
        f"{len(iterations) - 1} iterations{promised}."
    )


def _seconds(axes: Axes, run: Record) -> str:
    iterations = _longest(run)
    below, total = np.zeros(len(iterations)), 0.0
    parts = dict.fromkeys([*_PARTS, *(name for one in run.trainings for r in one.history for name in r.seconds)])
    said = []
    for name, colour in zip(parts, [*_PARTS.values(), SKY, PINK, INK], strict=False):
        spent = np.array([_spent(run, t, name) for t in iterations])
        if spent.any():
            axes.bar(
                iterations, spent, _wide(iterations), bottom=below, color=colour, label=f"{name}, {spent.sum():.3g} s"
            )
            said.append(f"{name} {spent.sum():.3g} s")
        below, total = below + spent, total + float(spent.sum())
    axes.set(xlabel="iteration (0 is the start)", ylabel="seconds")
    _whole_iterations(axes, len(iterations))
    return f"Seconds by iteration: {total:.2g} s in all; {', '.join(said)}."


def _looks(axes: Axes, run: Record) -> str:
    iterations = _longest(run)
    # Of several outputs the mean: each would be scanned by a dense method of its own.
    looks = [float(np.mean([one.history[t].looks for one in run.trainings if t < len(one.history)]))
             for t in iterations]  # fmt: skip
    _counts(axes, run.pairs)
    axes.bar(iterations, looks, _wide(iterations), color=ORANGE, label="pre-activations computed")
    axes.axhline(run.pairs, linestyle="--", color=PINK, label="a dense step: all of them")
    axes.set(xlabel="iteration (0 is the start)", ylabel="pairs (neuron, input)")
    _whole_iterations(axes, len(iterations))
    later = [value / run.pairs for value in looks[2:]]
    return (
        f"Looks by iteration, logarithmic, against {run.pairs:,} pairs of a dense step; the start scan needs "
        f"{looks[0] / run.pairs:.2g} of them" + (f", the last iteration {later[-1]:.2g}." if later else ".")
    )


def _firing(axes: Axes, run: Record) -> str:
    first = run.trainings[0]
    iterations, firing = _series(first, "firing")
    _, flips = _series(first, "flips")
    _counts(axes, run.pairs)
    few = len(iterations) <= _FEW
    axes.plot(iterations, firing, "o-" if few else "-", color=BLUE, label="pairs that fire")
    axes.plot(iterations[1:], flips[1:], "s-" if few else "-", color=ORANGE, label="pairs that flip in the step")
    axes.axhline(run.pairs, linestyle="--", color=PINK, label="all pairs")
    axes.set(xlabel="iteration (0 is the start)", ylabel="pairs (neuron, input)")
    _whole_iterations(axes, len(iterations))
    return (
        f"Pairs by iteration, logarithmic: {say_number(firing[-1])} of {run.pairs:,} fire at the end; "
        f"{' then '.join(say_number(one) for one in flips[1:5])} flip in the first steps."
    )


def _distance(axes: Axes, run: Record) -> str | None:
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


def _band(axes: Axes, run: Record) -> str | None:
    found = run.trainings[0].histograms.get("band")
    if found is None or not found.counts.sum():
        return None
    _counts(axes, int(found.counts.max()))
    axes.stairs(found.counts, found.edges, fill=True, color=SKY, label="neurons that have fired")
    axes.axvspan(0, 1, color=GREEN, alpha=0.1, label="certified: unwatched pairs cannot have flipped")
    axes.axvline(1, linestyle="--", color=GREEN)
    axes.set(xlabel="drift since the start scan, as a share of the band", ylabel="neurons")
    still = found.counts[0] / found.counts.sum()
    rescans = sum(record.rescans for record in run.trainings[0].history)
    return (
        f"Histogram of drift as a share of the certified band, for {found.counts.sum():,} neurons: {still:.1%} are in "
        f"the lowest bin, {rescans:,} left their band and were scanned again."
    )


FIGURES: dict[str, Picture] = {
    "loss": Picture(
        _loss,
        "The loss after each iteration. When training to zero loss, the theorem promises a quarter of it per step.",
    ),
    "time": Picture(_seconds, "Where the time went, iteration by iteration; the start passes over all neurons."),
    "looks": Picture(
        _looks,
        "Pre-activations computed in each iteration, against those of a dense step. Without a ridge the first step is "
        "taken inside the start scan.",
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


def _longest(run: Record) -> list[int]:
    """Return the iterations of the longest training."""
    return list(range(max(len(one.history) for one in run.trainings)))


def _spent(run: Record, t: int, name: str) -> float:
    return sum(one.history[t].seconds.get(name, 0.0) for one in run.trainings if t < len(one.history))


def _label(run: Record, words: str) -> str:
    return words if len(run.trainings) == 1 else f"{words}, {run.trainings[0].name} (others lighter)"


def _wide(iterations: list[int]) -> float:
    return 0.8 if len(iterations) <= _FEW else 1.0


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
