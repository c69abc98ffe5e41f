"""The figures: loss against time, cost of an iteration and memory against width. The one file that needs matplotlib."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks.methods import OURS, load_method, method_names
from benchmarks.summary import exponent_of, value_of
from thresher import NotAvailable
from thresher.figures import NO_FIGURES, follow

try:
    import matplotlib
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
except ModuleNotFoundError as error:
    raise NotAvailable(NO_FIGURES) from error

Row = dict[str, Any]
# Okabe and Ito's colours, which colour-blind people tell apart, and two more; ours are alone in theirs.
COLOURS = ("#0072B2", "#009E73", "#56B4E9", "#CC79A7", "#000000", "#E69F00", "#7F7F7F", "#882255")
OWN = dict(zip(OURS, ("#D55E00", "#8C3A00"), strict=True))
STYLES = {"second": "-", "first": "--", "none": ":"}
_FLOOR = 1e-8  # relative residuals below this are rounding


class Line(NamedTuple):
    """A curve and the words that stand at its end."""

    label: str
    method: str
    order: str
    x: Sequence[float]
    y: Sequence[float]


def draw(results: dict[str, Any], folder: Path) -> list[Path]:
    """Write the figures of those cases that have results: ``{case: result}``."""
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for name, make in FIGURES.items():
        case = name if name in ("race", "cross_entropy") else "width"
        if case in results:
            path = folder / f"{name}.svg"
            with matplotlib.rc_context({"svg.hashsalt": name, "font.size": 9, "svg.fonttype": "path"}):
                make(results[case]).savefig(path, metadata={"Date": None})  # equal results give equal files
            path.write_text(follow(path.read_text(encoding="utf-8")), encoding="utf-8")
            written.append(path)
    return written


def race_figure(result: dict[str, Any]) -> Figure:
    lines = []
    for row in result["rows"]:
        points = [(seconds, max(relative, _FLOOR)) for seconds, relative, _ in row.get("history", []) if seconds > 0]
        if points:
            lines.append(Line(row["label"], row["method"], row["order"], *zip(*points, strict=True)))
    size = result["rows"][0]
    title = f"n = {size['inputs']}, d = {size['dimension']}, {size['width']:,} neurons"
    squares = size.get("loss", "squared_error") == "squared_error"
    y = "residual, relative to the first" if squares else "mean cross-entropy"
    return _figure(lines, title=title, x="seconds, from nothing", y=y)


def cost_figure(result: dict[str, Any]) -> Figure:
    lines = _against_width(result, "seconds_per_iteration", 1.0)
    return _figure(lines, title=_sizes(result), x="width", y="seconds per iteration")


def memory_figure(result: dict[str, Any]) -> Figure:
    lines = _against_width(result, "memory", 2.0**20)
    return _figure(lines, title=_sizes(result), x="width", y="peak memory beyond an idle process, MiB")


FIGURES = {"race": race_figure, "cross_entropy": race_figure, "cost": cost_figure, "memory": memory_figure}


def _sizes(result: dict[str, Any]) -> str:
    size = result["rows"][0]
    return f"n = {size['inputs']}, d = {size['dimension']}; exponents of the width beside the names"


def _against_width(result: dict[str, Any], read: str, unit: float) -> list[Line]:
    lines = []
    for name in dict.fromkeys(row["method"] for row in result["rows"]):
        rows = [row for row in result["rows"] if row["method"] == name and value_of(row, read)]
        if rows:
            fitted = exponent_of(rows, name, read)
            label = rows[0]["label"] + ("" if fitted is None else f", {fitted[0]:.2f} ± {fitted[1]:.2f}")
            values = [(value_of(row, read) or 0.0) / unit for row in rows]
            lines.append(Line(label, name, rows[0]["order"], [row["width"] for row in rows], values))
    return lines


def _figure(lines: Sequence[Line], *, title: str, x: str, y: str) -> Figure:
    figure = Figure(figsize=(9, 4.8), layout="constrained")
    axes = figure.add_subplot()
    axes.set(xscale="log", yscale="log", xlabel=x, ylabel=y)
    axes.set_title(title, loc="left")
    if x == "width":
        axes.set_xscale("log", base=2)
    axes.grid(alpha=0.25)
    axes.spines[["top", "right"]].set_visible(False)
    colours = _colours()
    for line in sorted(lines, key=lambda one: one.method in OURS):  # ours on top
        width, marker = (2.8, "o") if line.method in OURS else (1.3, ".")
        marker = marker if len(line.x) <= 40 else ""
        axes.plot(line.x, line.y, STYLES[line.order], color=colours[line.method], linewidth=width, marker=marker)
    if y.startswith("residual"):
        axes.set_ylim(top=min(axes.get_ylim()[1], 5.0))  # what goes up comes down again
    _label_ends(axes, lines, colours)
    return figure


def _colours() -> dict[str, str]:
    """Return a colour for each method, the same in all figures; two with one style do not share it."""
    orders = {name: load_method(name).ORDER for name in method_names()}
    colours: dict[str, str] = {}
    for style in STYLES:
        names = [name for name, order in orders.items() if order == style and name not in OURS]
        colours |= {name: COLOURS[place % len(COLOURS)] for place, name in enumerate(names)}
    return colours | OWN


def _label_ends(axes: Axes, lines: Sequence[Line], colours: dict[str, str]) -> None:
    """Write each name beside the axes, in the order of where its line ends, with a thin thread to that end."""
    low, high = np.log(axes.get_ylim())
    ends = sorted((float((np.log(line.y[-1]) - low) / (high - low)), line.x[-1], line) for line in lines)
    heights = _spread([height for height, *_ in ends], gap=min(0.065, 1.0 / max(len(lines) - 1, 1)))
    for (*_, line), height in zip(ends, heights, strict=True):
        axes.annotate(
            line.label,
            xy=(line.x[-1], line.y[-1]),
            xytext=(1.04, height),
            textcoords="axes fraction",
            color=colours[line.method],
            va="center",
            fontweight="bold" if line.method in OURS else "normal",
            annotation_clip=False,
            arrowprops={
                "arrowstyle": "-",
                "color": colours[line.method],
                "linewidth": 0.5,
                "alpha": 0.6,
                "relpos": (0, 0.5),
            },
        )


def _spread(heights: Sequence[float], *, gap: float) -> list[float]:
    """Return ascending heights moved apart by at least ``gap``, and kept within 0 and 1 if they fit."""
    spread: list[float] = []
    for height in heights:
        spread.append(max(height, spread[-1] + gap if spread else 0.0))
    most = 1.0
    for place in reversed(range(len(spread))):
        spread[place] = min(spread[place], most)
        most = spread[place] - gap
    return spread
