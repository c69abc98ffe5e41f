"""What notebooks show: small HTML tables, in the notebook's own colours."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

__all__ = ["show_facts", "show_table"]


def show_table(caption: str, head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Return a table with a caption; the first column is aligned to the left, numbers to the right."""
    top = "".join(f"<th>{escape(one)}</th>" for one in head)
    body = "".join(f"<tr>{''.join(f'<td>{escape(str(cell))}</td>' for cell in row)}</tr>" for row in rows)
    return (
        f'<table><caption style="text-align:left">{escape(caption)}</caption>'
        f"<thead><tr>{top}</tr></thead><tbody>{body}</tbody></table>"
    )


def show_facts(title: str, facts: Iterable[tuple[str, object]]) -> str:
    """Return a title and a table of two columns: what, and its value."""
    rows = "".join(
        f'<tr><th style="text-align:left">{escape(name)}</th><td style="text-align:left">{escape(str(value))}</td></tr>'
        for name, value in facts
    )
    return f"<p><b>{escape(title)}</b></p><table><tbody>{rows}</tbody></table>"
