"""Figures as SVG, in one style, and where their axes have ticks."""

from thresher.figures.calendar import calendar
from thresher.figures.drawing import (
    BLUE,
    COLOURS,
    GREEN,
    INK,
    NO_FIGURES,
    ORANGE,
    PAPER,
    PINK,
    SIZE,
    SKY,
    Drawn,
    Picture,
    as_written,
    draw,
    figure_grid,
    figure_style,
    follow,
    make_figure,
    notebook_axes,
    themed,
)
from thresher.figures.ticks import Ticks, date_ticks, log_ticks, number_ticks, scale_of, set_axis

__all__ = ["BLUE", "COLOURS", "GREEN", "INK", "NO_FIGURES", "ORANGE", "PAPER", "PINK", "SIZE", "SKY", "Drawn",
           "Picture", "Ticks", "as_written", "calendar", "date_ticks", "draw", "figure_grid", "figure_style", "follow",
           "log_ticks", "make_figure", "notebook_axes", "number_ticks", "scale_of", "set_axis", "themed"]  # fmt: skip
