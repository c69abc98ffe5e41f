"""The page of a run: its sentences, tables and figures."""

from thresher.runs.report.page import write_report

__all__ = ["write_report"]
