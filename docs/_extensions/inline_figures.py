"""Figures as a part of the page: their lines and letters take its colours, light or dark, as the reader has chosen."""

from __future__ import annotations

from html import escape
from pathlib import Path
from typing import Any

from docutils import nodes

from thresher.figures import themed


def visit_image(translator: Any, node: nodes.Element) -> None:
    place = Path(translator.builder.srcdir) / node["uri"]
    if place.suffix != ".svg" or not place.is_file():
        translator.__class__.visit_image(translator, node)
        return
    words = escape(node.get("alt", ""), quote=True)
    drawn = themed(place.read_text(encoding="utf-8"))
    translator.body.append(f'<div class="figure" role="img" aria-label="{words}">{drawn}</div>')
    raise nodes.SkipNode


def depart_image(translator: Any, node: nodes.Element) -> None:
    translator.__class__.depart_image(translator, node)


def setup(app: Any) -> dict[str, bool]:
    app.add_node(nodes.image, override=True, html=(visit_image, depart_image))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
