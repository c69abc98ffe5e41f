"""Figures as SVG, in one style. The one file of the package that imports matplotlib, when a figure is drawn."""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Mapping
from textwrap import fill
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from thresher.errors import NotAvailable, not_installed

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["BLUE", "COLOURS", "GREEN", "INK", "NO_FIGURES", "ORANGE", "PAPER", "PINK", "SIZE", "SKY", "Drawn",
           "Picture", "as_written", "draw", "figure_grid", "figure_style", "follow", "make_figure", "notebook_axes",
           "scale_of", "set_axis", "themed"]  # fmt: skip

NO_FIGURES = str(not_installed("Figures need matplotlib", extra="plot"))

# Okabe and Ito's colours, which colour-blind people tell apart.
ORANGE, BLUE, GREEN, PINK, SKY = "#D55E00", "#0072B2", "#009E73", "#CC79A7", "#56B4E9"
INK, PAPER = "#4d4d4d", "#ffffff"  # lines and letters, and what they stand on
SIZE = (4.3, 2.8)  # inches: letters of 9 points are legible when this is as wide as a phone
# By name, in light and in dark surroundings; black and grey are what some figures have for ink.
COLOURS = {
    "ink": ((INK, "#000000", "#1d1d1f", "#7f7f7f"), "#d6d6da"),
    "paper": ((PAPER,), "#16171a"),
    "orange": ((ORANGE,), "#ff8a3d"),
    "blue": ((BLUE,), "#4aa8e0"),
    "green": ((GREEN,), "#35c79a"),
    "pink": ((PINK,), "#e39cc4"),
    "sky": ((SKY,), "#7cc8f5"),
    "yellow": (("#E69F00",), "#ffc04d"),
}
_HEAVY = 20.0  # times the median: the largest of numbers that need a logarithmic axis
_CUT = 0.5  # of that, where the ends of the tails are cut off
_DECADES = 1.7  # up to which a logarithmic axis has ticks at 1, 2 and 5 times the powers of ten


class Picture(NamedTuple):
    """How a figure is drawn, and what it shows in a sentence.

    ``make`` draws a subject into axes; it may return the sentence in words of its own, with the numbers to be seen.
    """

    make: Callable[[Axes, Any], str | None]
    caption: str


class Drawn(NamedTuple):
    """A figure: its name, what it shows in a sentence, what there is to see, and its SVG."""

    name: str
    caption: str
    seen: str
    svg: str


def draw(
    pictures: Mapping[str, Picture],
    subject: object,
    *,
    background: str | None = None,
    size: tuple[float, float] = SIZE,
) -> list[Drawn]:
    """Return the figures of a subject, less those that it has no data for; equal subjects give equal figures.

    Raises NotAvailable if matplotlib is not installed.
    """
    drawn = []
    for name, picture in pictures.items():
        with figure_style(name):
            made = make_figure(picture, subject, size=size)
            if made is None:
                continue  # this was not measured
            figure, seen = made
            written = io.StringIO()
            paper: Any = {"transparent": True} if background is None else {"facecolor": background}
            figure.savefig(written, format="svg", metadata={"Date": None}, **paper)
        drawn.append(Drawn(name, picture.caption, seen, follow(written.getvalue())))
    return drawn


def make_figure(picture: Picture, subject: object, *, size: tuple[float, float] = SIZE) -> tuple[Figure, str] | None:
    """Return the figure and what there is to see; None if there is no data. Its legend is above the axes."""
    from matplotlib.figure import Figure
    from matplotlib.ticker import NullFormatter

    figure = Figure(figsize=size, layout="constrained")
    axes = figure.add_subplot()
    _dress(axes)
    seen = picture.make(axes, subject)
    if not axes.has_data():
        return None
    axes.set_ylabel(fill(axes.get_ylabel(), int(9 * size[1])))  # never longer than the axis
    for axis, (low, high) in ((axes.xaxis, axes.get_xlim()), (axes.yaxis, axes.get_ylim())):
        if axis.get_scale() == "log" and high >= 10 * low:
            axis.set_minor_formatter(NullFormatter())  # powers of ten are enough
    handles, labels = axes.get_legend_handles_labels()
    if handles:
        longest = max(len(one) for one in labels) + 8
        columns = max(1, min(len(labels), int(size[0] * 16) // longest))
        figure.legend(handles, labels, loc="outside upper left", frameon=False, fontsize=8, ncols=columns)
    return figure, seen or picture.caption


def follow(svg: str) -> str:
    """Return an SVG file whose colours follow the reader's choice of light or dark; viewers without it show light."""
    rules = []
    for known, dark in COLOURS.values():
        for colour in known:
            for what in ("fill", "stroke"):
                rules.append(f'[style*="{what}: {colour.lower()}"]{{{what}:{dark}!important}}')
    ink = COLOURS["ink"][1]
    style = f"<style>@media (prefers-color-scheme:dark){{svg{{fill:{ink}}}{''.join(rules)}}}</style>"
    return re.sub(r"(<svg [^>]*>)", lambda found: f"{found[1]}\n {style}", svg, count=1)


def themed(svg: str) -> str:
    """Return an SVG as a part of a page: its colours are the page's variables --ink, --paper, --blue, and so on.

    It has no prologue, no style of its own, and no names that other figures have as well.
    """
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>|<style>@media.*?</style>", "", svg, flags=re.DOTALL)
    svg = re.sub(r'<g id="[^"]*"', "<g", svg)
    for name, (known, _) in COLOURS.items():
        for colour in known:
            svg = re.sub(rf"{colour}\b", f"var(--{name})", svg, flags=re.IGNORECASE)
    # A figure around it has the words; letters without a colour of their own are the page's.
    return svg.replace("<svg ", '<svg aria-hidden="true" fill="var(--ink)" ', 1)


def as_written(words: str) -> str:
    """Return words of a table for a figure, where what stands between two dollars would else become a formula."""
    return words.replace("$", r"\$")


def notebook_axes(axes: Axes | None) -> Axes:
    """Return the axes given, or those of a new figure that a notebook shows by itself."""
    if axes is not None:
        return axes
    try:
        from matplotlib import pyplot
    except ModuleNotFoundError as error:
        raise NotAvailable(NO_FIGURES) from error
    made: Axes = pyplot.subplots(figsize=(6.4, 3.8), layout="constrained")[1]
    _dress(made)
    return made


def figure_grid(count: int, *, columns: int, size: tuple[float, float] = (3.6, 2.7)) -> tuple[Figure, list[Axes]]:
    """Return a new figure with so many axes, in rows of ``columns``, that a notebook shows by itself."""
    try:
        from matplotlib import pyplot
    except ModuleNotFoundError as error:
        raise NotAvailable(NO_FIGURES) from error
    rows = -(-count // columns)
    figure = pyplot.figure(figsize=(columns * size[0], rows * size[1]), layout="constrained")
    made: list[Axes] = [figure.add_subplot(rows, columns, place + 1) for place in range(count)]
    for axes in made:
        _dress(axes)
    return figure, made


def figure_style(name: str) -> Any:
    """Return the style of figures, as a context."""
    try:
        import matplotlib
    except ModuleNotFoundError as error:
        raise NotAvailable(NO_FIGURES) from error
    colours = dict.fromkeys(("text.color", "axes.labelcolor", "axes.edgecolor", "xtick.color", "ytick.color"), INK)
    style: Any = {"svg.hashsalt": name, "font.size": 9, "svg.fonttype": "path", **colours}
    return matplotlib.rc_context(style)


def _dress(axes: Axes) -> None:
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(alpha=0.25)
    axes.set_axisbelow(True)


def scale_of(values: Any, *, cut: bool = False) -> str:
    """Return the scale that shows values best: "log" for a heavy tail, "zero log" if 0 is among them, or "linear".

    ``cut`` says that the largest values are left out.
    """
    found = np.asarray(values, np.float64)
    found = found[np.isfinite(found)]
    if not len(found) or found.min() < 0 or found.max() <= 0:
        return "linear"
    above = found[found > 0]
    middle = float(np.median(above))
    heavy = _HEAVY * _CUT if cut else _HEAVY
    if found.max() < heavy * middle or found.max() < 10 * heavy * above.min():
        return "linear"
    return "log" if len(above) == len(found) else "zero log"


def set_axis(
    axes: Axes, side: Literal["x", "y"], *, scale: str = "linear", at: Any = (), dates: bool = False, most: int = 5
) -> None:
    """Give an axis that has its data a scale, and at about ``most`` round places ticks with whole labels.

    "zero log" is linear up to the least ``at`` above 0. Dates are days since 1970.
    """
    from matplotlib.dates import AutoDateLocator, ConciseDateFormatter
    from matplotlib.ticker import FixedLocator, LogLocator, MaxNLocator, NullLocator

    axis = axes.xaxis if side == "x" else axes.yaxis
    set_scale, set_limits = (axes.set_xscale, axes.set_xlim) if side == "x" else (axes.set_yscale, axes.set_ylim)
    locator: Any = MaxNLocator(most, steps=[1, 2, 5, 10])
    if scale == "log":
        set_scale("log")
        low, high = sorted(map(float, axis.get_view_interval()))
        locator = LogLocator(subs=(1, 2, 5) if high < 10**_DECADES * low else (1,), numticks=most)
    elif scale == "zero log":
        found = np.asarray(at, np.float64)
        least = float(found[found > 0].min())
        set_scale("symlog", linthresh=least, linscale=0.4)
        high = max(map(float, axis.get_view_interval()))
        powers = 10.0 ** np.arange(np.ceil(np.log10(least)), np.floor(np.log10(high)) + 1)
        locator = FixedLocator([0.0, *powers[:: -(-len(powers) // (most - 1)) or 1]])
    if dates:
        locator = AutoDateLocator(minticks=2, maxticks=most)  # type: ignore[no-untyped-call]
    limits = sorted(map(float, axis.get_view_interval()))
    axis.set_minor_locator(NullLocator())
    if dates:
        axis.set_major_locator(locator)
        axis.set_major_formatter(ConciseDateFormatter(locator))  # type: ignore[no-untyped-call]
    else:
        places = [one for one in locator.tick_values(*limits) if limits[0] <= one <= limits[1]]
        axis.set_ticks(places, [_say_tick(one) for one in places])
    set_limits(*limits)


def _say_tick(value: float) -> str:
    """Return a number as a label, whole: never a multiple of one that stands elsewhere; years have no comma."""
    return f"{value:,.10g}" if 1e4 <= abs(value) < 1e10 else f"{value:.10g}"
