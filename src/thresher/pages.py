"""Self-contained HTML pages: one frame, one style. The one file that imports Jinja2, when a page is made."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from thresher.errors import not_installed
from thresher.figures import COLOURS, Drawn, themed
from thresher.theory import Statement

__all__ = ["find_jinja", "render_page", "say_between", "say_like", "say_number", "sides"]


def find_jinja() -> Any:
    """Return Jinja2, which writes pages; to be called before the work that a page is to show.

    Raises NotAvailable, with how to get it, where it is not installed.
    """
    try:
        import jinja2
    except ModuleNotFoundError as error:
        raise not_installed("Pages need Jinja2", extra="plot") from error
    return jinja2


def render_page(template: str | Path, **values: Any) -> str:
    """Return the page made by a template of ``thresher/templates``, or by another file, with these values.

    It needs no network and no other file. Text is escaped; figures become part of the page, with its colours.
    """
    jinja, own = find_jinja(), Path(template)
    loaders = jinja.ChoiceLoader([jinja.PackageLoader("thresher"), jinja.FileSystemLoader(own.parent)])
    rooms = jinja.Environment(
        loader=loaders, autoescape=True, undefined=jinja.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    rooms.filters.update(inline=_inline, kind=_kind, sides=sides)
    light = {name: known[0] for name, (known, _) in COLOURS.items()}
    dark = {name: colour for name, (_, colour) in COLOURS.items()}
    return rooms.get_template(own.name).render(light=light, dark=dark, **values) + "\n"


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


def say_like(value: float, size: float, unit: str = "") -> str:
    """Return a number with as many digits as two of ``size`` leave it, such as its error, and its unit."""
    after = f"\u202f{unit}" if unit == "%" else f" {unit}" if unit else ""
    if not (math.isfinite(value) and 0 < size < math.inf):
        return say_number(value) + after
    place = math.floor(math.log10(size)) - 1
    top = math.floor(math.log10(abs(value))) if value else place
    if top >= 9 or place < -6:
        digits, power = f"{value:.{min(max(top - place, 0), 15)}e}".split("e")
        said = f"{digits} × 10{str(int(power)).translate(_RAISED)}"
    else:
        said = f"{round(value, -place) + 0.0:,.{max(-place, 0)}f}"
    return said + after


def say_between(low: float, high: float, size: float, unit: str = "") -> str:
    """Return "between low and high" with digits enough to tell them apart; one number where they hardly differ.

    They hardly differ if a hundredth of ``size`` is more than their difference.
    """
    gap = high - low
    if not gap > max(0.01 * size, 1e-6 * max(abs(low), abs(high))):
        return f"about {say_like((low + high) / 2, size, unit)}"
    ends = [say_like(one, min(size, gap), unit) for one in (low, high)]
    return f"between {ends[0]} and {ends[1]}"


_RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def _inline(figure: Drawn) -> Any:
    """Return the SVG as a part of a page."""
    from markupsafe import Markup

    return Markup(themed(figure.svg))


def _kind(one: Statement) -> str:
    return "bad" if one.broken else "good" if one.promised else "open"
