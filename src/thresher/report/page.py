"""Self-contained HTML pages: one frame, one style. The one file that imports Jinja2, when a page is made."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from thresher.errors import not_installed
from thresher.figures import COLOURS, Drawn, themed
from thresher.report.words import say_number
from thresher.theory import Statement

__all__ = ["find_jinja", "render_page", "sides"]


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


def _inline(figure: Drawn) -> Any:
    """Return the SVG as a part of a page."""
    from markupsafe import Markup

    return Markup(themed(figure.svg))


def _kind(one: Statement) -> str:
    return "bad" if one.broken else "good" if one.promised else "open"
