"""Draw: the figures of a verification."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from thresher.figures import BLUE, INK, ORANGE, PINK, SKY, Picture
from thresher.theory import Statement
from verification.ladder import Report, Rung

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["FIGURES"]


def _firing(axes: Axes, report: Report) -> None:
    widths, n = _widths(report), report.problem.size
    _against_width(axes, report, y="neurons that fire on an input")
    axes.plot(widths, _measured(report, "firing, at most", start=True), "o", color=ORANGE, label="most, measured")
    means = [rung.history[0].firing / n for rung in report.rungs]
    axes.plot(widths, means, "s", color=BLUE, label="mean, measured")
    axes.plot(widths, [rung.width * rung.facts.firing for rung in report.rungs], color=BLUE, label="m P(Z ≥ b), exact")
    axes.plot(widths, [width**0.76 for width in widths], "--", color=PINK, label="m^0.76, the paper's bound")


def _contraction(axes: Axes, report: Report) -> None:
    axes.set(yscale="log", xlabel="iteration", ylabel="residual over that of the iteration before")
    shades = np.linspace(0.3, 1.0, len(report.rungs))
    for shade, rung in zip(shades, report.rungs, strict=True):
        steps = rung.history[1:]
        label = f"{rung.width:,} neurons" if rung in (report.rungs[0], report.rungs[-1]) else None
        values = [max(record.contraction, 1e-4) for record in steps]  # below this only rounding counts
        axes.plot([record.iteration for record in steps], values, "o-", color=ORANGE, alpha=shade, label=label)
    axes.axhline(0.5, linestyle="--", color=PINK, label="½, the paper's bound")
    axes.locator_params(axis="x", integer=True)


def _drift(axes: Axes, report: Report) -> None:
    _against_width(axes, report, y="largest distance of a neuron from its start")
    axes.plot(_widths(report), _measured(report, "drift"), "o-", color=ORANGE, label="measured")
    bounds = [_worst(rung, "drift").bound for rung in report.rungs]
    axes.plot(_widths(report), bounds, "--", color=PINK, label="R₀/√m, the paper's bound")


def _eigenvalue(axes: Axes, report: Report) -> None:
    _against_width(axes, report, y="smallest eigenvalue")
    widths = _widths(report)
    low, high = ([_worst(rung, f"λ from {side}").bound for rung in report.rungs] for side in ("below", "above"))
    axes.fill_between(widths, low, high, color=PINK, alpha=0.15, label="the paper's sandwich")
    axes.plot(widths, [rung.facts.smallest for rung in report.rungs], color=BLUE, label="λ, of the limit kernel")
    axes.plot(widths, _measured(report, "λ at the start"), "o", color=SKY, label="of the Gram matrix at the start")
    axes.plot(widths, _measured(report, "λ in training"), "v", color=ORANGE, label="least in training")


def _queries(axes: Axes, report: Report) -> None:
    _against_width(axes, report, y="tree nodes examined, all inputs")
    widths = sorted(report.visits)
    visits, answers = zip(*(report.visits[width] for width in widths), strict=True)
    n = report.problem.size
    axes.plot(widths, visits, "o-", color=ORANGE, label="measured")
    bounds = [n + 2 * count * math.ceil(math.log2(m)) for m, count in zip(widths, answers, strict=True)]
    axes.plot(widths, bounds, "--", color=PINK, label="n + 2K log₂ m, the bound")
    axes.plot(widths, [width * n for width in widths], ":", color=INK, label="a scan of all pairs")


def _cost(axes: Axes, report: Report) -> None:
    _against_width(axes, report, y="mean of an iteration")
    curves = (("moved", "neurons moved: what the trees pay for", BLUE), ("looks", "looks, certified search", ORANGE))
    for name, label, colour in curves:
        cost = report.costs(name)
        power = "" if cost.why_none else f", m^{cost.exponent:.2f}"
        axes.plot(cost.widths, cost.values, "o-", color=colour, label=label + power)
    pairs = [width * report.problem.size for width in _widths(report)]
    axes.plot(_widths(report), pairs, ":", color=INK, label="all pairs: a dense step")


def _gram(axes: Axes, report: Report) -> None:
    _against_width(axes, report, y="change of the Gram matrix, Frobenius norm")
    widths = _widths(report)
    axes.plot(widths, _measured(report, "Gram change"), "o-", color=ORANGE, label="measured")
    bounds = [_worst(rung, "Gram change by drift").bound for rung in report.rungs]
    axes.plot(widths, bounds, "-.", color=SKY, label="3nR, R the largest drift")
    axes.plot(
        widths, [rung.facts.smallest / 2 for rung in report.rungs], "--", color=PINK, label="λ/2, the lemma's bound"
    )


def _limit(axes: Axes, report: Report) -> None:
    widths, errors = report.limit
    if not widths:
        return
    _against_width(axes, report, y="relative distance from the limit's predictions")
    axes.plot(widths, errors, "o", color=ORANGE, label="measured, unseen inputs")
    if report.limit.why_none:
        return
    slope = report.limit.exponent
    middle = float(np.exp(np.mean(np.log(errors) - slope * np.log(widths))))
    axes.plot(widths, [middle * width**slope for width in widths], color=BLUE, label=f"fitted, m^{slope:.2f}")


FIGURES: dict[str, Picture] = {
    "firing": Picture(_firing, "How many neurons fire on an input: counted, expected, and the paper's bound."),
    "contraction": Picture(_contraction, "The residual over that of the iteration before, darker for wider networks."),
    "drift": Picture(_drift, "The furthest that any neuron travels, and the radius that the proof allows."),
    "eigenvalue": Picture(
        _eigenvalue, "The smallest eigenvalue: of the limit kernel, its sandwich, and of the Gram matrix."
    ),
    "queries": Picture(_queries, "Nodes that the paper's trees examine, the bound, and what a scan looks at."),
    "cost": Picture(_cost, "What an iteration costs as the width grows, with the exponents of the width."),
    "gram": Picture(_gram, "How far training moves the Gram matrix, what the drift allows, and what the proof needs."),
    "limit": Picture(_limit, "How far predictions on unseen inputs are from those of the limit kernel."),
}


def _against_width(axes: Axes, report: Report, *, y: str) -> None:
    axes.set(yscale="log", xlabel="neurons", ylabel=y)
    axes.set_xscale("log", base=2)


def _widths(report: Report) -> list[int]:
    return [rung.width for rung in report.rungs]


def _worst(rung: Rung, name: str) -> Statement:
    """Return the statement of that name whose measured side is the most extreme of a training."""
    found = [one for record in rung.history for one in record.statements if one.name == name]
    return (max if found[0].upper else min)(found, key=lambda one: one.measured)


def _measured(report: Report, name: str, *, start: bool = False) -> list[float]:
    if start:
        return [next(s.measured for s in rung.history[0].statements if s.name == name) for rung in report.rungs]
    return [_worst(rung, name).measured for rung in report.rungs]
