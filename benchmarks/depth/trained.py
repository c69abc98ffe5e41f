"""What moving inputs cost and what they gain: the prototype of ``moving.py`` on generated and on small tables."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks.depth import features
from benchmarks.depth.layers import BIASES, RIDGES, explained, left_out_errors, lifted
from benchmarks.depth.moving import expected_flips, repeated, train
from benchmarks.depth.tables import Split, Table, friedman
from benchmarks.summary import fit_exponent
from thresher.figures import BLUE, GREEN, ORANGE, PINK, SKY
from thresher.theory import limit_kernel

if TYPE_CHECKING:
    from matplotlib.axes import Axes

ROWS, COLUMNS, BIAS, RIDGE = 200, 10, 0.5, 0.05  # of what is counted: Friedman's function
TRAVELS, STEPS, WIDTH = (0.0, 0.0003, 0.001, 0.003, 0.01, 0.03, 0.1), 10, 2**14
LADDER, LADDER_STEPS = (0.001, 0.01, 0.1), 4
TRAVEL, MOVES, NEURONS, SHIFT = 0.05, 20, 2**12, 1.0  # of what is learnt
MOST_COLUMNS, MOST_ROWS = 64, 1400
WAYS: dict[str, dict[str, Any]] = {
    "inputs fixed": {"travel": 0.0, "steps": 2},
    "V trained": {"travel": TRAVEL, "steps": MOVES},
    "rotations kept": {"travel": TRAVEL, "steps": MOVES, "rotations": True},
    "two directions": {"travel": TRAVEL, "steps": MOVES, "rank": 2},
}


def _counted(rows: int) -> tuple[Split, np.ndarray, np.ndarray]:
    inputs, targets = friedman(columns=COLUMNS, rows=rows + 1000)
    split = Split(inputs[:rows], targets[:rows], inputs[rows:], targets[rows:])
    return split, *lifted(split, BIAS)


def by_travel(*, tiny: bool) -> list[dict[str, Any]]:
    """Return what iterations look at, for how far inputs move in each."""
    split, rows, new = _counted(30 if tiny else ROWS)
    width, found = 2**9 if tiny else WIDTH, []
    centre, spread = split.targets.mean(), split.targets.std()
    for travel in TRAVELS[::3] if tiny else TRAVELS:
        network, records, predicted = train(
            rows, (split.targets - centre) / spread, width=width, ridge=RIDGE, travel=travel, steps=STEPS, new=new
        )
        mean = {name: float(np.mean([one[name] for one in records[1:]])) for name in records[0]}
        found.append(
            {
                "travel": travel,
                "pairs": width * len(rows),
                "wide": mean["wide looks"],
                "first": records[0]["looks"],
                "theory": records[0]["expected looks"],
                "mean": mean["looks"],
                "later theory": records[0]["expected looks"] * repeated(STEPS),
                "flips": mean["flips"],
                "flips in theory": expected_flips(network.shift, travel),
                "firing": mean["firing"],
                "residual": records[-1]["residual"],
                "score": explained(predicted * spread + centre, split.answers),
                "width": width,
                "shift": network.shift,
                "inputs": len(rows),
                "dimension": rows.shape[1],
            }
        )
        print({name: round(value, 6) for name, value in found[-1].items()}, flush=True)
    return found


def by_width(*, tiny: bool) -> list[dict[str, Any]]:
    """Return pairs looked at per iteration, for several widths and travels."""
    split, rows, _ = _counted(30 if tiny else ROWS)
    targets = (split.targets - split.targets.mean()) / split.targets.std()
    found = []
    for power in range(8, 11) if tiny else range(10, 17):
        for travel in (0.0, *LADDER):
            _, records, _ = train(rows, targets, width=2**power, ridge=RIDGE, travel=travel, steps=LADDER_STEPS)
            later, pairs = records[1:], 2**power * len(rows)
            names = ("wide looks", "looks", "flips", "firing")
            counts = {name: pairs * float(np.mean([one[name] for one in later])) for name in names}
            found.append({"width": 2**power, "travel": travel, "pairs": pairs, **counts})
            print({name: round(value, 6) for name, value in found[-1].items()}, flush=True)
    return found


def exponents(found: list[dict[str, Any]], travel: float, name: str) -> tuple[float, float]:
    """Return the exponent of the width in a count, and its standard error."""
    rows = [one for one in found if one["travel"] == travel]
    return fit_exponent([one["width"] for one in rows], [max(one[name], 1.0) for one in rows])


def on_tables(tables: Sequence[Table], *, tiny: bool) -> list[dict[str, Any]]:
    """Return R² or accuracy with inputs that stay and that move, and with the estimator's metric, of small tables."""
    found = []
    for table in tables:
        two = table.labelled and len(np.unique(table.targets)) == 2
        if table.size > MOST_ROWS or table.inputs.shape[1] > MOST_COLUMNS or (table.labelled and not two):
            continue
        scores: dict[str, list[float]] = {name: [] for name in WAYS}
        looks: dict[str, list[float]] = {name: [] for name in WAYS}
        for split in table.splits():
            for name, options in WAYS.items():
                score, looked = _learn(split, labelled=table.labelled, tiny=tiny, **options)
                scores[name].append(score)
                looks[name].append(looked)
        row = {"table": table.name, "rows": table.size, "labelled": table.labelled}
        means = {name: float(np.mean(values)) for name, values in scores.items()}
        means["estimator, metric"] = features.measure_one(table, "metric")
        looked_at = {name: float(np.mean(values)) for name, values in looks.items()}
        found.append({**row, "scores": means, "looks": looked_at})
        print(table.name, {name: round(value, 4) for name, value in means.items()}, looked_at, flush=True)
    return found


def _learn(split: Split, *, labelled: bool, tiny: bool, **options: Any) -> tuple[float, float]:
    """Return the score on rows to judge, and the share of pairs that an iteration looks at."""
    codes = np.where(split.targets == split.targets.max(), 1.0, -1.0) if labelled else split.targets.astype(float)
    centre, spread = codes.mean(), codes.std()
    targets, best = (codes - centre) / spread, (np.inf, 0.0, 0.0)
    for bias in BIASES:
        rows = lifted(split, bias)[0]
        kernel = limit_kernel(np.clip(rows @ rows.T, -1.0, 1.0), SHIFT)
        errors = left_out_errors(kernel / kernel[0, 0], targets[:, None], RIDGES)
        best = min(best, (min(errors), bias, float(RIDGES[int(np.argmin(errors))])))
    rows, new = lifted(split, best[1])
    ridge = max(best[2], 1e-3)  # with less, a narrow network is far from its limit
    if tiny:
        options["steps"] = 2
    _, records, predicted = train(
        rows, targets, width=2**9 if tiny else NEURONS, ridge=ridge, shift=SHIFT, new=new, **options
    )
    looked = float(np.mean([one["looks"] + one["wide looks"] for one in records]))
    values = predicted * spread + centre
    if labelled:
        return float(np.mean((values > 0) == (split.answers == split.targets.max()))), looked
    return explained(values, split.answers), looked


def draw_looks(axes: Axes, found: list[dict[str, Any]]) -> None:
    """Draw pairs looked at per iteration against the width, one line for each travel."""
    axes.set_xscale("log", base=2)
    axes.set(yscale="log", xlabel="neurons", ylabel="pairs per iteration")
    widths = sorted({one["width"] for one in found})
    fixed = [one for one in found if one["travel"] == 0]
    axes.plot(widths, [one["pairs"] for one in fixed], "s--", color=PINK, markersize=4, label="all pairs")
    axes.plot(widths, [one["firing"] for one in fixed], "--", color=SKY, label="pairs that fire")
    for travel, colour in zip(sorted(LADDER, reverse=True), ("#E69F00", GREEN, BLUE), strict=True):
        rows = [one["looks"] for one in found if one["travel"] == travel]
        slope, _ = exponents(found, travel, "looks")
        axes.plot(
            widths, rows, "o-", color=colour, markersize=4, label=f"looks, inputs move by {travel:g}: m^{slope:.2f}"
        )
    slope, _ = exponents(found, 0.0, "wide looks")
    rows = [one["wide looks"] for one in fixed]
    axes.plot(
        widths, rows, "o-", color=ORANGE, linewidth=2.4, markersize=4, label=f"looks, inputs fixed: m^{slope:.2f}"
    )
