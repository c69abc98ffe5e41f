"""Self-contained HTML pages: one frame, one style. The one file that imports Jinja2, when a page is made."""

from __future__ import annotations

import math
import re
from typing import Any

from thresher.figures import INK, Drawn
from thresher.theory import Statement

__all__ = ["render_page", "say_number", "sides"]


def render_page(template: str, **values: Any) -> str:
    """Return the page made by a template of ``thresher/templates`` with these values.

    It needs no network and no other file. Text is escaped; figures become part of the page, with its colour of ink.
    """
    from jinja2 import Environment, PackageLoader, StrictUndefined

    rooms = Environment(
        loader=PackageLoader("thresher"), autoescape=True, undefined=StrictUndefined, trim_blocks=True,
        lstrip_blocks=True,
    )  # fmt: skip
    rooms.filters.update(inline=_inline, kind=_kind, sides=sides)
    return rooms.get_template(template).render(**values) + "\n"


def sides(one: Statement) -> tuple[str, str]:
    """Return the measured side of a statement and its bound, as text."""
    return say_number(one.measured), f"{'≤' if one.upper else '≥'} {say_number(one.bound)}"


def say_number(value: float) -> str:
    """Return a number as people write it: three figures, or thousands with commas."""
    if math.isinf(value):
        return "∞" if value > 0 else "-∞"
    if math.isnan(value):
        return "none"
    if abs(value) >= 1000 or value == round(value):
        return f"{value:,.0f}" if abs(value) < 1e7 else f"{value:.1e}"
    return f"{value:.3g}"


def _inline(figure: Drawn) -> Any:
    """Return the SVG as a part of a page: without a prologue, without names that other figures have as well."""
    from markupsafe import Markup

    svg = figure.svg[figure.svg.index("<svg") :].replace(INK, "currentColor")
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    svg = re.sub(r'<g id="[^"]*"', "<g", svg)
    return Markup(svg.replace("<svg ", '<svg aria-hidden="true" ', 1))  # the figure around it has the words


def _kind(one: Statement) -> str:
    return "bad" if one.broken else "good" if one.promised else "open"
