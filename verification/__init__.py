"""The paper's statements on a ladder of widths: measured, told in a table and on a page."""

from verification.ladder import Report, Row, practical_width, verify
from verification.page import describe, explain, write_page

__all__ = ["Report", "Row", "describe", "explain", "practical_width", "verify", "write_page"]
