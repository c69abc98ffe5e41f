"""Figures as SVG, in one style. The one file of the package that imports matplotlib, when a figure is drawn."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from thresher.errors import NotAvailable

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["BLUE", "GREEN", "INK", "ORANGE", "PINK", "REMEDY", "SKY", "Drawn", "Picture", "draw", "notebook_axes"]

REMEDY = "Figures need matplotlib: pip install -e '.[plot]'"

# Okabe and Ito's colours, which colour-blind people tell apart.
ORANGE, BLUE, GREEN, PINK, SKY = "#D55E00", "#0072B2", "#009E73", "#CC79A7", "#56B4E9"
INK = "#4d4d4d"  # lines and letters; a page may replace it by its own


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


def draw(pictures: Mapping[str, Picture], subject: object, *, background: str | None = None) -> list[Drawn]:
    """Return the figures of a subject, less those that it has no data for; equal subjects give equal figures.

    Raises NotAvailable if matplotlib is not installed.
    """
    try:
        import matplotlib
        from matplotlib.figure import Figure
    except ModuleNotFoundError as error:
        raise NotAvailable(REMEDY) from error

    drawn = []
    for name, (make, caption) in pictures.items():
        colours = dict.fromkeys(("text.color", "axes.labelcolor", "axes.edgecolor", "xtick.color", "ytick.color"), INK)
        style: Any = {"svg.hashsalt": name, "font.size": 9, "svg.fonttype": "path", **colours}
        with matplotlib.rc_context(style):
            figure = Figure(figsize=(6.4, 3.8), layout="constrained")
            axes = figure.add_subplot()
            _dress(axes)
            seen = make(axes, subject)
            if not axes.has_data():
                continue  # this was not measured
            if axes.get_legend_handles_labels()[0] and axes.get_legend() is None:
                axes.legend(frameon=False, fontsize=8)
            written = io.StringIO()
            paper: Any = {"transparent": True} if background is None else {"facecolor": background}
            figure.savefig(written, format="svg", metadata={"Date": None}, **paper)
        drawn.append(Drawn(name, caption, seen or caption, written.getvalue()))
    return drawn


def notebook_axes(axes: Axes | None) -> Axes:
    """Return the axes given, or those of a new figure that a notebook shows by itself."""
    if axes is not None:
        return axes
    try:
        from matplotlib import pyplot
    except ModuleNotFoundError as error:
        raise NotAvailable(REMEDY) from error
    made: Axes = pyplot.subplots(figsize=(6.4, 3.8), layout="constrained")[1]
    _dress(made)
    return made


def _dress(axes: Axes) -> None:
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(alpha=0.25)
    axes.set_axisbelow(True)
